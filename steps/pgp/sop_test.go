package pgp_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/pgp"
)

var morePrograms = flag.String("sop", "", "OpenPGP programs to test beside those that .ci/test installs, with commas between them, such as pgpainless-cli,rsop")

// A sopBench has the keys of a program, and ours.
type sopBench struct {
	*bench
	sop                    *pgptest.SOP
	theirs, locked         string // files with private keys of the program; locked is empty if it locks none
	theirCert, lockedCert  string
	ours, ourCerts         []string // names of our keys, and files with their public parts
	ourKeys                []string // files with their private parts
	password               string   // a file with the password of locked keys
	ourLocked, ourLockedIn string   // a key of ours that is locked: its name, and the file with its private part
	lockedOfOurs           string   // the file with its public part
}

const sopPassword = "correct horse"

func newSOPBench(t *testing.T, program, pkg string) *sopBench {
	b := &sopBench{bench: newBench(t), sop: pgptest.NewSOP(t, program, pkg)}
	b.secrets["vault"] = sopPassword
	b.password = b.sop.File([]byte(sopPassword))
	add := func(name string, key pgp.Key) {
		t.Helper()
		if err := b.keys.Add(name, key); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	key := b.sop.Run(nil, "generate-key", "Theirs <theirs@example.com>")
	cert := b.sop.Run(key, "extract-cert")
	b.theirs, b.theirCert = b.sop.File(key), b.sop.File(cert)
	add("theirs", pgp.Key{Data: key}) // the private one too: it must serve us
	if b.sop.Offers("generate-key", "--with-key-password") {
		key := b.sop.Run(nil, "generate-key", "--with-key-password="+b.password, "--no-armor", "Locked <locked@example.com>")
		b.locked, b.lockedCert = b.sop.File(key), b.sop.File(b.sop.Run(key, "extract-cert", "--no-armor"))
		add("locked", pgp.Key{Data: key, Passphrase: "vault"})
	}
	for name, change := range map[string]func(*packet.Config){
		"curve25519": nil,
		"rsa":        func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 },
		"p256":       func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP256 },
		"p521":       func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP521 },
	} {
		e := b.add(name, pgptest.NewEntity(t, name, change))
		b.ours = append(b.ours, name)
		b.ourCerts = append(b.ourCerts, b.sop.File(pgptest.Public(t, e)))
		b.ourKeys = append(b.ourKeys, b.sop.File(pgptest.Private(t, e)))
	}
	e := pgptest.NewEntity(t, "ours, locked", nil)
	b.lockedOfOurs = b.sop.File(pgptest.Public(t, e))
	if err := e.EncryptPrivateKeys([]byte(sopPassword), nil); err != nil {
		t.Fatal(err)
	}
	b.ourLocked, b.ourLockedIn = "ours, locked", b.sop.File(pgptest.Private(t, e))
	add(b.ourLocked, pgp.Key{Data: pgptest.Private(t, e), Passphrase: "vault"})
	return b
}

// TestSOP exchanges messages, signatures and keys with programs that have the
// stateless interface, both ways.
func TestSOP(t *testing.T) {
	programs := []struct{ name, pkg string }{{"sqop", "sqop"}, {"gosop", "gosop"}}
	if *morePrograms != "" {
		for name := range strings.SplitSeq(*morePrograms, ",") {
			programs = append(programs, struct{ name, pkg string }{name, name})
		}
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := newSOPBench(t, p.name, p.pkg)
			b.encryptedByThem()
			b.encryptedByUs()
			b.signedByThem()
			b.signedByUs()
			b.lockedKeys()
			t.Logf("%d calls of %s", b.sop.Calls, p.name)
		})
	}
}

// sopTexts are contents that programs may treat differently. With the race detector
// only one is sent.
var sopTexts = raced.Or([]string{oneLine}, []string{"", oneLine, "trailing \t\n-dash\r\nFrom grüße\n\n", strings.Repeat("much of the same\n", 20_000)})

const oneLine = "one line\n"

// encryptedByThem has messages of the program decrypted by us.
func (b *sopBench) encryptedByThem() {
	b.Helper()
	for i, text := range sopTexts {
		for _, args := range [][]string{
			nil, {"--no-armor"}, {"--sign-with=" + b.theirs}, {"--no-armor", "--sign-with=" + b.theirs}, {"--as=text", "--sign-with=" + b.theirs},
		} {
			for k, name := range b.ours {
				if len(text) > 1000 && k > 1 {
					break // it takes long
				}
				what := fmt.Sprintf("text %d, %q, to %s", i, args, name)
				certs := []string{b.ourCerts[k]}
				if k%2 == 1 {
					certs = append([]string{b.theirCert}, b.ourCerts...)
				}
				message := b.sop.Run([]byte(text), append(append([]string{"encrypt"}, args...), certs...)...)
				b.write("in.pgp", message)
				cfg := map[string]any{"source_path": "in.pgp", "output_path": "plain", "private_key_ids": []string{name}}
				status := pgp.StatusUnsigned
				if len(args) > 0 && strings.HasPrefix(args[len(args)-1], "--sign-with") {
					cfg["signer_key_ids"], status = []string{"theirs"}, pgp.StatusValid
				}
				out, err := b.decrypt(cfg)
				if err != nil {
					b.Errorf("%s: %v", what, err)
					continue
				}
				got := string(b.read("plain"))
				if slices.Contains(args, "--as=text") && sameLines(got, text) {
					got = text // such a message may have the line ends of the network
				}
				if got != text || out.VerifyStatus != status {
					b.Errorf("%s: %d bytes, %s; want %d, %s", what, len(got), out.VerifyStatus, len(text), status)
				}
				if text == oneLine && !bytes.HasPrefix(message, []byte("-----")) {
					b.remove("plain")
					b.write("in.pgp", flipped(message))
					if _, err := b.decrypt(cfg); err == nil {
						b.Errorf("%s: a damaged message is decrypted", what)
					}
				}
			}
		}
	}
}

// sameLines reports whether texts differ in their line ends at most. Version 0 of gosop
// writes LF for CRLF.
func sameLines(a, b string) bool {
	return strings.ReplaceAll(a, "\r\n", "\n") == strings.ReplaceAll(b, "\r\n", "\n")
}

// flipped changes a byte near the end, which belongs to the content or its check.
func flipped(data []byte) []byte {
	data = bytes.Clone(data)
	data[len(data)-10] ^= 1
	return data
}

// encryptedByUs has messages of ours decrypted by the program.
func (b *sopBench) encryptedByUs() {
	b.Helper()
	out := "--verifications-out="
	if !b.sop.Offers("decrypt", out[:len(out)-1]) {
		out = "--verify-out="
	}
	for i, text := range sopTexts {
		b.write("a.txt", []byte(text))
		for _, format := range []string{"binary", "armored"} {
			for c, compression := range []string{"none", "zip", "zlib"} {
				k := (i + c) % len(b.ours)
				for _, signer := range []string{"", b.ours[k]} {
					what := fmt.Sprintf("text %d, %s, %s, signed by %q", i, format, compression, signer)
					sealed, err := b.encrypt(map[string]any{
						"source_path": "a.txt", "output_path": "out.pgp", "recipient_key_ids": []string{"theirs", b.ours[k]},
						"signing_key_id": signer, "output_format": format, "compression": compression,
					})
					if err != nil {
						b.Errorf("%s: %v", what, err)
						continue
					}
					message := b.read(sealed.EncryptedFile)
					for _, key := range []string{b.theirs, b.ourKeys[k]} {
						args, verifications := []string{"decrypt"}, b.sop.Out()
						if signer != "" {
							args = append(args, "--verify-with="+b.ourCerts[k], out+verifications)
						}
						args = append(args, key)
						got, err := b.sop.Try(message, args...)
						if err != nil || string(got) != text && !(b.sop.Program == "gosop" && sameLines(string(got), text)) {
							b.Errorf("%s: %d bytes, %v, want %d", what, len(got), err, len(text))
						}
						if found, err := os.ReadFile(verifications); signer != "" && (err != nil || !bytes.Contains(found, []byte(sealed.SignerFingerprint))) {
							b.Errorf("%s: it finds the signatures %q, %v", what, found, err)
						}
					}
					if format == "binary" {
						if _, err := b.sop.Try(flipped(message), "decrypt", b.theirs); err == nil {
							b.Errorf("%s: a damaged message is decrypted", what)
						}
					}
				}
			}
		}
	}
}

// signedByThem has signatures of the program verified by us.
func (b *sopBench) signedByThem() {
	b.Helper()
	for i, text := range sopTexts {
		b.write("a.txt", []byte(text))
		b.write("b.txt", []byte(text+"x"))
		for _, args := range [][]string{nil, {"--no-armor"}, {"--as=text"}} {
			what := fmt.Sprintf("text %d, sign %q", i, args)
			b.write("a.sig", b.sop.Run([]byte(text), append(append([]string{"sign"}, args...), b.theirs)...))
			b.verified(what, "a.txt", "a.sig", "", pgp.StatusValid)
			b.verified(what+", of another text", "b.txt", "a.sig", "", pgp.StatusInvalid)
		}
		if !b.sop.Offers("inline-sign", "--as") {
			continue
		}
		for _, args := range [][]string{nil, {"--no-armor"}, {"--as=text"}, {"--as=clearsigned"}} {
			if len(args) > 0 && strings.HasPrefix(args[0], "--as") && (strings.Contains(text, "\r") || text == "") {
				continue // the line ends may change
			}
			b.write("a.signed", b.sop.Run([]byte(text), append(append([]string{"inline-sign"}, args...), b.theirs)...))
			b.verified(fmt.Sprintf("text %d, inline-sign %q", i, args), "a.signed", "", text, pgp.StatusValid)
		}
	}
}

// verified verifies a signature of the program's key.
func (b *sopBench) verified(what, source, signature, content string, want pgp.VerifyStatus) {
	b.Helper()
	cfg := map[string]any{"source_path": source, "signer_key_ids": []string{"theirs"}}
	if signature != "" {
		cfg["detached_signature_path"] = signature
	} else {
		cfg["output_path"] = "content"
	}
	out, err := b.verify(cfg)
	if err != nil || out.VerifyStatus != want {
		b.Errorf("%s: %q, %s, %v, want %s", what, out.VerifyStatus, out.Reason, err, want)
		return
	}
	if signature != "" {
		return
	}
	got := string(b.read("content"))
	if strings.HasPrefix(b.sop.Program, "pgpainless") && strings.HasSuffix(got, "\n\n") {
		got = strings.TrimSuffix(got, "\n") // it puts an empty line below clearsigned text, for all who read it
	}
	if got != content {
		b.Errorf("%s: the content is %.80q, want %.80q", what, got, content)
	}
}

// signedByUs has signatures of ours verified by the program.
func (b *sopBench) signedByUs() {
	b.Helper()
	for i, text := range sopTexts {
		b.write("a.txt", []byte(text))
		for k, name := range b.ours {
			for _, f := range signForms[1:] {
				what := fmt.Sprintf("text %d, %s, %s, by %s", i, f.mode, f.format, name)
				b.signed("a.txt", name, f.mode, f.format)
				signature := b.read("signed")
				if f.mode == "detached" {
					args := []string{"verify", b.sop.File(signature), b.ourCerts[k]}
					if _, err := b.sop.Try([]byte(text), args...); err != nil {
						b.Errorf("%s: %v", what, err)
					}
					if _, err := b.sop.Try([]byte(text+"x"), args...); err == nil {
						b.Errorf("%s: the signature is good for another text", what)
					}
					continue
				}
				if !b.sop.Offers("inline-verify", "--not-after") {
					continue
				}
				got, err := b.sop.Try(signature, "inline-verify", b.ourCerts[k])
				if err != nil || f.mode == "inline" && string(got) != text {
					b.Errorf("%s: %.80q, %v", what, got, err)
				}
			}
		}
	}
}

// lockedKeys uses keys with passphrases, of the program and of ours.
func (b *sopBench) lockedKeys() {
	b.Helper()
	if b.locked == "" {
		return
	}
	unlock := "--with-key-password=" + b.password
	const text = "for our eyes\n"
	b.write("a.txt", []byte(text))
	b.write("in.pgp", b.sop.Run([]byte(text), "encrypt", "--sign-with="+b.locked, unlock, b.lockedCert, b.lockedOfOurs))
	for _, name := range []string{"locked", b.ourLocked} {
		out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "plain", "private_key_ids": []string{name}, "signer_key_ids": []string{"locked"}})
		if err != nil || out.VerifyStatus != pgp.StatusValid || string(b.read("plain")) != text {
			b.Errorf("a message to %s: %+v, %v", name, out, err)
		}
		sealed, err := b.encrypt(map[string]any{"source_path": "a.txt", "output_path": "out.pgp", "recipient_key_ids": []string{"locked", b.ourLocked}, "signing_key_id": name})
		if err != nil {
			b.Errorf("signed by %s: %v", name, err)
			continue
		}
		for _, key := range []string{b.locked, b.ourLockedIn} {
			if got, err := b.sop.Try(b.read(sealed.EncryptedFile), "decrypt", unlock, key); err != nil || string(got) != text {
				b.Errorf("signed by %s: %q, %v", name, got, err)
			}
		}
		if _, err := b.sop.Try(b.read(sealed.EncryptedFile), "decrypt", b.locked); err == nil {
			b.Errorf("it decrypts without the password")
		}
	}
}
