package redact

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// marked are secrets of all kinds, none of which holds another.
var marked = map[string]string{
	"plain": "canary-7gQ2p", "quotes": `can"ary\'7"\\gQ2p\`, "slashes": "can/ary+7g&Q%2p=?", "spaces": "can ary  7g Q2p", "html": "<canary>&amp;'7g'",
	"four": "qZ7w", "unicode": "kanárek-日本-🐤-7g", "lines": "canary-first-line-7gQ2p\nsecond-line-of-the-canary\n", "long": strings.Repeat("canary-7gQ2p.", 300),
	"percent": "%25canary%41", "backslashes": `\\canary\u0041\n`, "control": "canary\x01\t\x7f7gQ2p",
}

// disguises are what programs make of a text.
var disguises = map[string]func(string) string{
	"itself":     func(s string) string { return s },
	"JSON":       func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"JSON twice": func(s string) string { b, _ := json.Marshal(s); b, _ = json.Marshal(string(b)); return string(b) },
	"JSON, plain HTML": func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.Encode(s)
		return b.String()
	},
	"JSON of PHP": func(s string) string {
		b, _ := json.Marshal(s)
		return strings.ReplaceAll(string(b), "/", `\/`)
	},
	"JSON in ASCII":     func(s string) string { return escapeAll(s, false) },
	"JSON, all escaped": func(s string) string { return escapeAll(s, true) },
	"Go":                strconv.Quote,
	"Go in ASCII":       strconv.QuoteToASCII,
	"Go twice":          func(s string) string { return strconv.Quote(strconv.Quote(s)) },
	"Go in JSON":        func(s string) string { b, _ := json.Marshal(strconv.Quote(s)); return string(b) },
	"form":              url.QueryEscape,
	"path":              url.PathEscape,
	"path, lower case":  func(s string) string { return strings.ToLower(percent(s)) },
	"URL, all escaped":  percent,
	"form twice":        func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"URL":               func(s string) string { return (&url.URL{Scheme: "https", Host: "h", Path: "/x/" + s}).String() },
	"userinfo": func(s string) string {
		return (&url.URL{Scheme: "ftp", Host: "h", User: url.UserPassword("us", s)}).String()
	},
	"HTML":                 html.EscapeString,
	"HTML in JSON":         func(s string) string { b, _ := json.Marshal(html.EscapeString(s)); return string(b) },
	"hex":                  func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":                  func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex with spaces":      func(s string) string { return fmt.Sprintf("% x", s) },
	"base64":               func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 raw":           func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64 of URLs":       func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64, one before":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(":" + s + "after")) },
	"base64, two before":   func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("u:" + s + "?")) },
	"basic authentication": func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)) },
	"base64 in a form":     func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("user:" + s))) },
	"base64 in JSON of PHP": func(s string) string {
		return strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte("??>"+s)), "/", `\/`)
	},
	"base64 in lines": func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s))) },
	"base64 in lines in JSON": func(s string) string {
		b, _ := json.Marshal(lines(base64.StdEncoding.EncodeToString([]byte(s))))
		return string(b)
	},
	"UTF-16":             func(s string) string { return strconv.Quote(utf16Of(s, binary.LittleEndian)) },
	"UTF-16, big":        func(s string) string { return strconv.Quote(utf16Of(s, binary.BigEndian)) },
	"hex of UTF-16":      func(s string) string { return hex.EncodeToString([]byte(utf16Of(s, binary.LittleEndian))) },
	"HEX of UTF-16, big": func(s string) string { return fmt.Sprintf("%X", utf16Of(s, binary.BigEndian)) },
	"base64 of UTF-16": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(utf16Of(s, binary.LittleEndian)))
	},
	"base64 of UTF-16, big": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(utf16Of(s, binary.BigEndian))) },
	"base64 of UTF-16, user": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(utf16Of("us:"+s, binary.LittleEndian)))
	},
	"base64 of UTF-16, mark": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(utf16Of("\uFEFF"+s+"?", binary.BigEndian)))
	},
	"octal of C": func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, `\%03o`, s[i])
		}
		return b.String()
	},
}

func utf16Of(s string, order binary.AppendByteOrder) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

func escapeAll(s string, all bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case all || r > 0x7e || r < 0x20 || r == '"' || r == '\\':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func lines(s string) string {
	var b strings.Builder
	for len(s) > 7 {
		b.WriteString(s[:7] + "\r\n")
		s = s[7:]
	}
	return b.String() + s
}

// readable is a text in which all forms of a secret show as it is.
func inside(text, secret string) bool {
	for _, d := range disguises {
		form := strings.Trim(d(strings.TrimSpace(secret)), "\"\n")
		if len(form) > 8 {
			form = form[len(form)/3 : len(form)*2/3]
		}
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// TestRedactor looks for secrets of all kinds in all disguises, also cut short.
func TestRedactor(t *testing.T) {
	for what, secret := range marked {
		var r Redactor
		r.Add(what, secret)
		for form, disguise := range disguises {
			text := "before " + disguise(secret) + " after"
			if form == "path, lower case" && strings.ToLower(secret) != secret {
				continue
			}
			got := r.Redact(text)
			if !strings.Contains(got, "[secret "+what+"]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || len(secret) > 8 && inside(got, secret) {
				t.Errorf("%s as %s: %.300q becomes %.300q", what, form, text, got)
			}
			if name := r.Find(text); name != what && (len(secret) >= 6 || !strings.HasPrefix(strings.ToLower(form), "hex") && !strings.Contains(form, "base64") && !strings.Contains(form, "basic")) {
				t.Errorf("%s as %s: it is not found in %.300q", what, form, text)
			}
		}
	}
}

// TestRedactorCut cuts a quoted text at every byte of a secret.
func TestRedactorCut(t *testing.T) {
	for what, secret := range marked {
		if len(secret) > 100 || what == "four" {
			continue
		}
		secret = strings.TrimSpace(secret)
		var r Redactor
		r.Add(what, secret)
		for n := minSecret; n < len(secret); n++ {
			for form, text := range map[string]string{
				"Go": strconv.Quote(secret[:n]) + "...", "JSON": `{"error":` + string(must(json.Marshal(strconv.Quote(secret[:n])+"..."))) + "}",
				"bare": secret[:n] + "... (cut)", "valid": strings.ToValidUTF8(secret[:n], "\uFFFD") + "…",
			} {
				if form == "valid" && len(strings.ToValidUTF8(secret[:n], "")) < minSecret {
					continue
				}
				if got := r.Redact("x " + text); !strings.Contains(got, "[secret "+what+"]") || strings.Contains(got, secret[:minSecret]) {
					t.Errorf("%s, %d bytes, %s: %q becomes %q", what, n, form, text, got)
				}
			}
		}
		if got := r.Redact(secret[:minSecret] + " is no secret"); got != secret[:minSecret]+" is no secret" {
			t.Errorf("%s: a beginning that is not cut becomes %q", what, got)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestRedactorLines has a line of base64 end at every place within a secret, and
// hexadecimal with what programs put between bytes.
func TestRedactorLines(t *testing.T) {
	const secret = "canary-7gQ2p"
	var r Redactor
	r.Add("it", secret)
	for n := range 80 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", n) + secret + "after"))
		for _, width := range []int{1, 2, 3, 76} {
			for _, end := range []string{"\n", "\r\n"} {
				var b strings.Builder
				for i := 0; i < len(text); i += width {
					b.WriteString(text[i:min(i+width, len(text))] + end)
				}
				if got := r.Redact(b.String()); !strings.Contains(got, "[secret it]") {
					t.Errorf("%d bytes before, lines of %d: %q", n, width, got)
				}
			}
		}
	}
	for _, text := range []string{fmt.Sprintf("% x", secret), fmt.Sprintf("% X", secret), strings.ReplaceAll(fmt.Sprintf("% x", secret), " ", ":")} {
		if got := r.Redact(text); got != "[secret it]" {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestRedactorOverlaps has secrets in secrets, and such that overlap.
func TestRedactorOverlaps(t *testing.T) {
	var r Redactor
	for name, value := range map[string]string{"inner": "cdef", "outer": "abcdefgh", "next": "ghijklmn", "again": "abcdefgh"} {
		r.Add(name, value)
	}
	for text, want := range map[string]string{
		"abcdef": "ab[secret inner]", "xghijklmnx": "x[secret next]x", "": "", "a": "a", "abc": "abc", "no secret": "no secret",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"abcdefghijklmn", "1abcdefgh2cdef3ghijklmn4"} {
		if got := r.Redact(text); strings.ContainsAny(strings.NewReplacer("[secret inner]", "", "[secret outer]", "", "[secret next]", "", "[secret again]", "").Replace(got), "abcdefghijklmn") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestRedactorParts finds what gives a URL or a key away.
func TestRedactorParts(t *testing.T) {
	var r Redactor
	r.Add("hook", "https://us:pass-7gQ2p@Hooks.example.com/services/T0000/B0000/Vb7kyyyyZZZZ1234?code=abcDEF12345&v=1#x")
	r.Add("sas", "https://acme.blob.example.com/in?sv=2024-11-04&sig=aBcD%2BeF%2F0123456789%3D")
	r.Add("key", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n")
	for _, text := range []string{
		`Post "https://hooks.example.com/services/T0000/B0000/Vb7kyyyyZZZZ1234": refused`, "/services/T0000/B0000/Vb7kyyyyZZZZ1234?code=abcDEF12345", "login us:pass-7gQ2p",
		"no such function for abcDEF12345", "Vb7kyyyyZZZZ1234 is unknown", "Signature did not match: aBcD+eF/0123456789=", "sv=2024-11-04&sig=aBcD%2beF%2f0123456789%3d",
		"invalid line BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj in key", "services/T0000/B0000/Vb...",
	} {
		got := r.Redact(text)
		for _, part := range []string{"T0000", "Vb7k", "abcDEF", "pass-7", "aBcD", "BKcw"} {
			if strings.Contains(got, part) || got == text {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
	for _, text := range []string{"https://hooks.example.com/", "-----BEGIN KEY-----", "the services", "v=1"} {
		if got := r.Redact(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestRedactorChance leaves alone what only looks like a secret.
func TestRedactorChance(t *testing.T) {
	var r Redactor
	r.Add("short", "abc")
	if !r.Empty() || r.Redact("abc") != "abc" {
		t.Error("three bytes are looked for")
	}
	r.Add("four", "qZ7w")
	sum := "cVo3dw== 715a3777"
	if got := r.Find(sum); got != "" {
		t.Errorf("the encoded form of four bytes is found in an output as %s", got)
	}
	if got := r.Find("the qZ7w"); got != "four" {
		t.Errorf("four bytes are found as %q", got)
	}
}

// TestRedactorCredentials looks for a secret in base64 behind names of all lengths.
func TestRedactorCredentials(t *testing.T) {
	for what, secret := range marked {
		var r Redactor
		r.Add(what, secret)
		for before := range 9 {
			for _, after := range []string{"", "\n", "@h"} {
				text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) + ":" + secret + after))
				if got := r.Redact(text); !strings.Contains(got, "[secret "+what+"]") || len(secret) > 8 && inside(got, secret) {
					t.Errorf("%s behind %d bytes: %.200q becomes %.200q", what, before, text, got)
				}
			}
		}
	}
}

// A text made to be ambiguous does not take long.
func TestRedactorAmbiguous(t *testing.T) {
	var r Redactor
	r.Add("a", strings.Repeat(`%25\\&amp;`, 20)+"x")
	r.Add("b", strings.Repeat(`\"`, 40)+"x")
	for _, part := range []string{`\`, `%25`, `&amp;`, `%25\\&amp;`, `\"`, `\\\"`, "%", "&"} {
		text := strings.Repeat(part, 8<<10/len(part))
		if got := r.Redact(text); got != text {
			t.Errorf("%.20q becomes %.100q", text, got)
		}
	}
}

func FuzzRedactor(f *testing.F) {
	for _, secret := range marked {
		f.Add(secret, "text", "before", "after")
	}
	f.Fuzz(func(t *testing.T, secret, text, before, after string) {
		var r Redactor
		r.Add("it", secret)
		_ = r.Redact(text)
		if secret = strings.TrimSpace(secret); len(secret) < minSecret || strings.ContainsAny(secret, "[]") {
			return
		}
		if got := r.Redact(before + secret + after); strings.Contains(got, secret) {
			t.Errorf("%q is in %q", secret, got)
		}
		if !utf8.ValidString(secret) {
			return
		}
		for form, disguise := range disguises {
			if form != "path, lower case" && !strings.Contains(r.Redact("> "+disguise(secret)+" <"), "[secret it]") && len(secret) < 1000 {
				t.Errorf("%q is not found as %s: %q", secret, form, disguise(secret))
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	ordinary, escaped := ordinaryText(), new(strings.Builder)
	for i := 0; escaped.Len() < 8<<10; i++ {
		fmt.Fprintf(escaped, `{"path":"\/in\/invoice %d.csv","sha256":"%x","url":"https%%3A%%2F%%2Fpartner.example.com","note":"it's \"here\""},`, i, i*7919)
	}
	for _, c := range []struct {
		name, text string
		secrets    int
	}{{"none", ordinary, 0}, {"1", ordinary, 1}, {"20", ordinary, 20}, {"20, many escapes", escaped.String(), 20}} {
		text := c.text[:8<<10]
		b.Run(c.name, func(b *testing.B) {
			var r Redactor
			for i := range c.secrets {
				r.Add(fmt.Sprint(i), fmt.Sprintf("%c%x-secret-%d", 'a'+i, i*104729, i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if len(r.Redact(text)) != len(text) {
					b.Fatal("something was found")
				}
			}
		})
	}
}

// ordinaryText is 8 KiB of log lines and messages, which have an escape now and
// then.
func ordinaryText() string {
	var text strings.Builder
	for i := 0; text.Len() < 8<<10; i++ {
		fmt.Fprintf(&text, "2026-03-%02dT04:05:%02d.%06dZ INFO job=invoices-of-partner-%d step=fetch attempt=%d took=%dms path=/in/2026/invoice %d.csv\n", i%28+1, i%60, i*7919, i%7, i%3, i*13, i)
		fmt.Fprintf(&text, "sftp.download %q: dial tcp 192.0.2.%d:22: connect: connection refused; the next attempt is in %d s (%x)\n", "/in/größe\t"+fmt.Sprint(i), i%250, i, i*104729)
	}
	return text.String()[:8<<10]
}
