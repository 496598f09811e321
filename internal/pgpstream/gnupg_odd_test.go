package pgpstream_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// An oddMessage is one that GnuPG is made to write.
type oddMessage struct {
	args   []string                                    // of gpg, which reads the content
	again  []string                                    // of gpg, which reads the message that comes of it; nil means none
	edit   func(message []byte) []byte                 // of the message; nil means none
	status pgpstream.Status                            // if it can be decrypted
	want   string                                      // in the error; "" means that it can
	check  func(t *testing.T, out pgpstream.Decrypted) // of what was found; nil means nothing
}

// TestGnuPGOddities is a table of what GnuPG can be made to send. What is legal
// is decrypted; the error for what is not says why.
func TestGnuPGOddities(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	g.Generate("rsa", "rsa2048", "rsa2048")
	g.Generate("curve", "ed25519", "cv25519")
	g.Run(nil, "--faked-system-time", "20150101T000000", "--quick-generate-key", "aged", "ed25519", "sign", "never")
	g.Passphrase = "tunnel" // of messages
	b := newBench(t)
	for _, name := range []string{"rsa", "curve", "aged"} {
		b.keys[name] = testKey{data: g.Run(nil, "--export-secret-keys", name)}
	}
	data := append(pgptest.Noise(20_000), bytes.Repeat([]byte("line\n"), 10_000)...)
	for name, c := range oddMessages() {
		t.Run(name, func(t *testing.T) {
			message, said, err := g.Try(data, c.args...)
			if err == nil && c.again != nil {
				message, said, err = g.Try(message, c.again...)
			}
			if err != nil {
				t.Fatalf("gpg: %v\n%s", err, said)
			}
			if c.edit != nil {
				message = c.edit(message)
			}
			got, out, err := b.decrypt(message, pgpstream.DecryptOptions{PrivateKeys: []string{"curve"}})
			if err == nil && out.Signature.Status == pgpstream.StatusInvalid {
				err = errors.New(out.Signature.Problem)
			}
			if c.want != "" {
				wantError(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))) {
				t.Errorf("the content has %d bytes, and differs", len(got))
			}
			if out.Signature.Status != c.status {
				t.Errorf("%+v, want %s", out, c.status)
			}
			if c.check != nil {
				c.check(t, out)
			}
		})
	}
}

func oddMessages() map[string]oddMessage {
	to := func(args ...string) []string { return append(args, "-r", "curve", "-e") }
	plain := func(args ...string) oddMessage {
		return oddMessage{args: to(args...), status: pgpstream.StatusUnsigned}
	}
	signed := func(args ...string) oddMessage {
		return oddMessage{args: to(append(args, "-u", "rsa", "-s")...), status: pgpstream.StatusValid}
	}
	named := func(name, want string) oddMessage {
		c := plain("--set-filename", name)
		c.check = func(t *testing.T, out pgpstream.Decrypted) {
			if out.Name != want {
				t.Errorf("the name is %q, want %q", out.Name, want)
			}
		}
		return c
	}
	header := func(lines string) func([]byte) []byte {
		return func(m []byte) []byte { return bytes.Replace(m, []byte("\n\n"), []byte("\n"+lines+"\n\n"), 1) }
	}
	inArmor := func(edit func([]byte) []byte) oddMessage {
		return oddMessage{args: to("-a"), edit: edit, status: pgpstream.StatusUnsigned}
	}
	return map[string]oddMessage{
		"bzip2, most":          plain("--compress-algo", "bzip2", "--bzip2-compress-level", "9"),
		"zip, none":            plain("--compress-algo", "zip", "-z", "1"),
		"no ids":               plain("--throw-keyids"),
		"for the eyes only":    plain("--for-your-eyes-only"),
		"comment":              plain("-a", "--comment", strings.Repeat("c", 60_000)),
		"comments":             plain("-a", "--comment", "Version: x", "--comment", "-----END PGP MESSAGE-----"),
		"version":              plain("-a", "--emit-version", "--emit-version"),
		"a password too":       plain("-c"),
		"many recipients":      plain("-r", "rsa", "-R", "rsa", "-R", "curve"),
		"RFC 4880":             signed("--rfc4880"),
		"OpenPGP":              signed("--openpgp"),
		"RFC 2440":             {args: to("--rfc2440"), want: "not protected against changes"},
		"no MDC":               plain("--disable-mdc"),
		"notations":            signed("--sig-notation", "note@example.com="+strings.Repeat("n", 5000)),
		"critical notation":    {args: to("--sig-notation", "!critical@example.com=x", "-u", "rsa", "-s"), want: "knows a notation in it"},
		"policy, keyserver":    signed("--sig-policy-url", "!http://example.com/%k", "--sig-keyserver-url", "http://example.com"),
		"signed in the future": {args: to("--faked-system-time", "20990101T000000!", "-u", "rsa", "-s"), want: "no longer or not yet valid"},
		"signed long ago":      {args: []string{"--faked-system-time", "20160101T000000!", "-u", "aged", "-s"}, again: to("--no-literal"), status: pgpstream.StatusValid},
		"expires":              signed("--default-sig-expire", "1y"),
		"expired":              {args: []string{"--faked-system-time", "20200101T000000!", "--default-sig-expire", "1d", "-u", "aged", "-s"}, again: to("--no-literal"), want: "no longer or not yet valid"},
		"signed often":         signed("-u", "curve", "-u", "rsa"),
		"textmode":             signed("--textmode"),
		"RFC 2440 text":        signed("--textmode", "--rfc2440-text"),
		"SHA-224":              signed("--digest-algo", "SHA224"),
		"RIPEMD":               {args: to("--digest-algo", "RIPEMD160", "-u", "rsa", "-s"), status: pgpstream.StatusUnsafe}, // nobody checks such
		"CAST5":                plain("--personal-cipher-preferences", "CAST5", "--cipher-algo", "CAST5"),
		"Blowfish":             {args: to("--cipher-algo", "BLOWFISH"), want: "another cipher than AES"},
		"IDEA":                 {args: to("--cipher-algo", "IDEA"), want: "another cipher than AES"},
		"Twofish":              {args: to("--cipher-algo", "TWOFISH"), want: "another cipher than AES"},
		"Camellia":             {args: to("--cipher-algo", "CAMELLIA256"), want: "another cipher than AES"},
		"known length":         plain("--set-filesize", "70000"),
		"no literal":           {args: to("--no-literal"), want: "not one complete message"},
		"encrypted twice":      {args: to(), again: to("--no-literal"), want: "one complete message"},
		"signed in literal":    {args: []string{"-u", "rsa", "-s"}, again: to("--no-literal"), status: pgpstream.StatusValid},
		"compressed twice":     {args: []string{"--store"}, again: to("--no-literal"), status: pgpstream.StatusUnsigned},
		"store":                {args: []string{"--store", "-z", "9"}, again: to("--no-literal", "-z", "0"), status: pgpstream.StatusUnsigned},
		"with a password only": {args: []string{"-c"}, want: "with a password"},
		"for somebody else":    {args: []string{"-r", "rsa", "-e"}, want: "no private key"},
		"signed only":          {args: []string{"-u", "rsa", "-s"}, want: "is not encrypted"},
		"a key":                {args: []string{"--export", "rsa"}, want: "is a key"},
		"clear text":           {args: []string{"-u", "rsa", "--clearsign"}, want: "is a PGP SIGNED MESSAGE"},
		"a signature":          {args: []string{"-u", "rsa", "-a", "-b"}, want: "is a PGP SIGNATURE"},
		"odd headers":          inArmor(header("Hash: SHA1\nCharset: \xff\xfe\nX-\u202e: y")),
		"header without colon": inArmor(header("nothing")),
		"spaces at the ends":   inArmor(func(m []byte) []byte { return bytes.ReplaceAll(m, []byte("\n"), []byte(" \t\r\n")) }),
		"text before":          inArmor(func(m []byte) []byte { return append([]byte("Dear all,\n\n"), m...) }),
		"text behind":          {args: to("-a"), edit: func(m []byte) []byte { return append(m, "\n-- \nBest\n"...) }, want: "after the end of the message"},
		"no checksum":          inArmor(func(m []byte) []byte { i := bytes.LastIndex(m, []byte("\n=")); return append(m[:i:i], m[i+6:]...) }),
		"two messages":         {args: to("-a"), edit: func(m []byte) []byte { return append(bytes.Clone(m), m...) }, want: "after the end of the message"},
		"name with a path":     named("../../etc/cron.d/x", "x"), // gpg itself takes the rest away
		"name of a device":     named("CON", ""),
		"name for the eyes":    named("_CONSOLE", ""),
		"name with controls":   named("a\x1b[2J\nb", ""),
		"long name":            named(strings.Repeat("n", 255), ""), // another name than this may be made of it
		"hidden name":          named(".bashrc", ""),
		"name of an option":    named("-rf", "-rf"),
		"name that turns":      named("a\u202etxt.exe", ""),
	}
}
