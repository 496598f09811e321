package pgp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/steps/pgp"
)

// armored puts a message into armor, with the checksum that old programs write.
func armored(t testing.TB, message []byte) []byte {
	t.Helper()
	return armoredAs(t, "PGP MESSAGE", message)
}

func armoredAs(t testing.TB, kind string, message []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := armor.Encode(&buf, kind, map[string]string{"Comment": "made by hand", "Version": "1"})
	if err == nil {
		_, err = w.Write(message)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(buf.Bytes(), '\n')
}

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
	lw, err := packet.SerializeLiteral(keepOpen{&literal}, true, "", 0)
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
	pub, err := pgp.Key{Data: private(t, us)}.Public()
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, []byte("x"), us, nil)
	text := string(armored(t, sealed))
	for _, c := range []struct {
		name, want string
		data       string
	}{
		{"empty", "is empty", ""},
		{"text", "is not an OpenPGP message, neither binary nor armored", "Dear Sir or Madam"},
		{"long text", "is not an OpenPGP message, neither binary nor armored", strings.Repeat("Dear Sir or Madam\n", 20_000)},
		{"binary", "holds no encrypted data", "\xff\xfe\xfd\xfc\xfb"},
		{"half a packet", "is not an OpenPGP message, or a damaged one", "\xc1\x20\x03abcdefgh\x01"},
		{"signed", "is not encrypted", signed.String()},
		{"literal", "is not encrypted", literal.String()},
		{"key", "is a key, not a message", string(private(t, us))},
		{"armored key", "is a PGP PUBLIC KEY BLOCK, not an OpenPGP message", string(pub.Data)},
		{"password", "with a password, which pgp.decrypt does not take", password.String()},
		{"no MDC", "is not protected against changes", string(withoutMDC(t, us, []byte("hello")))},
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
			b.write("in.pgp", []byte(c.data))
			_, err := b.decrypt(map[string]any{"source_path": "in.pgp"})
			wantFailure(t, err, c.want, `input "in.pgp": `)
			b.wantFiles("in.pgp")
		})
	}
}

type keepOpen struct{ *bytes.Buffer }

func (keepOpen) Close() error { return nil }

// withoutMDC makes what PGP made before 1999: encrypted data without an
// integrity check.
func withoutMDC(t testing.TB, to *openpgp.Entity, data []byte) []byte {
	t.Helper()
	key := noise(32)
	sub, ok := to.EncryptionKey(to.PrimaryKey.CreationTime, nil)
	if !ok {
		t.Fatal("no key")
	}
	var inner, out bytes.Buffer
	lw, err := packet.SerializeLiteral(keepOpen{&inner}, true, "", 0)
	if err == nil {
		lw.Write(data)
		err = lw.Close()
	}
	if err == nil {
		err = packet.SerializeEncryptedKey(&out, sub.PublicKey, packet.CipherAES256, key, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	stream, prefix := packet.NewOCFBEncrypter(aesBlock(t, key), noise(16), packet.OCFBResync)
	body := bytes.Clone(inner.Bytes())
	stream.XORKeyStream(body, body)
	out.Write([]byte{0xC0 | 9, 255, 0, 0, 0, byte(len(prefix) + len(body))})
	out.Write(prefix)
	out.Write(body)
	return out.Bytes()
}

// TestArmorForms reads armor as people and programs send it.
func TestArmorForms(t *testing.T) {
	b := newBench(t)
	data := noise(100_000)
	message := seal(t, data, b.key("us"), nil)
	text := string(armored(t, message))
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
			b.write("in.asc", []byte(form))
			out, err := b.decrypt(map[string]any{"source_path": "in.asc"})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.read(out.DecryptedFile), data) {
				t.Error("the content differs")
			}
		})
	}
}
