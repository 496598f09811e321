package pgpstream_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// TestNotAMessage expects clear words for files of the wrong kind.
func TestNotAMessage(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	var signed, literal bytes.Buffer
	w, err := openpgp.SignWithParams(&signed, []*openpgp.Entity{us}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	w.Close()
	lw, err := packet.SerializeLiteral(nopCloser{&literal}, true, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	lw.Write([]byte("x"))
	lw.Close()
	var password bytes.Buffer
	pw, err := openpgp.SymmetricallyEncrypt(&password, []byte("pass"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pw.Write([]byte("x"))
	pw.Close()
	public := pgptest.ArmorAs(t, "PGP PUBLIC KEY BLOCK", pgptest.Public(t, us))
	sealed := pgptest.Seal(t, []byte("x"), us, nil)
	text := string(pgptest.Armor(t, sealed))
	for _, c := range []struct {
		name, want string
		data       string
	}{
		{"empty", "is empty", ""},
		{"text", "is not an OpenPGP message, neither binary nor armored", "Dear Sir or Madam"},
		{"long text", "is not an OpenPGP message, neither binary nor armored", strings.Repeat("Dear Sir or Madam\n", 20_000)},
		{"binary", "holds no encrypted data", "\xff\xfe\xfd\xfc\xfb"},
		{"half a packet", "is not an OpenPGP message, or is damaged", "\xc1\x20\x03abcdefgh\x01"},
		{"signed", "is not encrypted", signed.String()},
		{"literal", "is not encrypted", literal.String()},
		{"key", "is a key, not a message", string(pgptest.Private(t, us))},
		{"armored key", "is a PGP PUBLIC KEY BLOCK, not an OpenPGP message", string(public)},
		{"password", "with a password, which is not supported", password.String()},
		{"no MDC", "is not protected against changes", string(pgptest.WithoutMDC(t, us, []byte("hello")))},
		{"header without end", "header of its armor does not end", "-----BEGIN PGP MESSAGE-----\nComment: " + strings.Repeat("a", 1<<20)},
		{"only a header", "header of its armor does not end", "-----BEGIN PGP MESSAGE-----\n"},
		{"no last line", "the last line of its armor is missing", text[:strings.Index(text, "-----END")]},
		{"half a last line", "is damaged: text follows where its armor should end", text[:strings.Index(text, "-----END")+7]},
		{"not base64", "characters that are not base64", strings.Replace(text, "\n\n", "\n\nw*==", 1)},
		{"odd base64", "in the middle of a group", strings.Replace(text, "\n=", "A\n=", 1)},
		{"text after armor", "something after the end of the message", text + "and more"},
		{"two armored", "something after the end of the message", text + text},
		{"two messages", "holds something besides one complete message", string(sealed) + string(sealed)},
		{"message and junk", "holds something besides one complete message", string(sealed) + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := b.decrypt([]byte(c.data), pgpstream.DecryptOptions{})
			wantError(t, err, c.want)
			isMessageError(t, err)
		})
	}
}

// TestArmorForms reads armor as people and programs send it.
func TestArmorForms(t *testing.T) {
	b := newBench(t)
	data := pgptest.Noise(100_000)
	message := pgptest.Seal(t, data, b.key("us"), nil)
	text := string(pgptest.Armor(t, message))
	head, body, _ := strings.Cut(text, "\n\n")
	body, _, _ = strings.Cut(body, "\n=")
	joined := strings.ReplaceAll(body, "\n", "")
	const end = "\n-----END PGP MESSAGE-----\n"
	wrapped := func(n int) string {
		var w strings.Builder
		for i := 0; i < len(joined); i += n {
			w.WriteString(joined[i:min(i+n, len(joined))] + "\n")
		}
		return w.String()
	}
	for name, form := range map[string]string{
		"as it is":        text,
		"CRLF":            strings.ReplaceAll(text, "\n", "\r\n"),
		"byte order mark": "\uFEFF" + text,
		"mail before it":  "Dear all,\n\nhere it is:\n" + text,
		"blank lines":     "\n\n" + text + "\n \n\t\n",
		"no checksum":     head + "\n\n" + body + end,
		"no last newline": strings.TrimSpace(text),
		"lines of 1":      head + "\n\n" + wrapped(1)[:2*len(joined)] + end,
		"lines of 76":     head + "\n\n" + wrapped(76) + end,
		"lines of 61":     head + "\n\n" + wrapped(61) + end,
		"one line":        head + "\n\n" + joined + end,
		"trailing blanks": strings.ReplaceAll(text, "\n", " \n"),
		"no headers":      "-----BEGIN PGP MESSAGE-----\n\n" + body + end,
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := b.decrypt([]byte(form), pgpstream.DecryptOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data) {
				t.Error("the content differs")
			}
		})
	}
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }
