package pgp_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

func (b *bench) sign(cfg map[string]any) (pgp.SignOutput, error) {
	b.Helper()
	return run[pgp.SignOutput](b.Context(), b, "pgp.sign", cfg)
}

func (b *bench) verify(cfg map[string]any) (pgp.VerifyOutput, error) {
	b.Helper()
	return run[pgp.VerifyOutput](b.Context(), b, "pgp.verify", cfg)
}

// signForms are all forms of a signed file.
var signForms = []struct{ mode, format string }{
	{"", ""}, {"detached", "binary"}, {"detached", "armored"}, {"inline", "binary"}, {"inline", "armored"}, {"clearsign", ""},
}

// signed signs a file, and returns the configuration that verifies it.
func (b *bench) signed(file, key, mode, format string) map[string]any {
	b.Helper()
	out, err := b.sign(map[string]any{"source_path": file, "output_path": "signed", "signing_key_id": key, "signature_type": mode, "output_format": format})
	if err != nil {
		b.Fatalf("sign %s %s: %v", mode, format, err)
	}
	if mode == "inline" || mode == "clearsign" {
		return map[string]any{"source_path": out.SignatureFile}
	}
	return map[string]any{"source_path": file, "detached_signature_path": out.SignatureFile}
}

// TestSignVerify goes through all forms, sizes and kinds of keys.
func TestSignVerify(t *testing.T) {
	b := newBench(t)
	keys := map[string]*openpgp.Entity{"us": b.key("us")}
	for name, change := range map[string]func(*packet.Config){
		"p256": func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP256 },
		"p384": func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP384 },
		"p521": func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP521 },
		"v6":   func(c *packet.Config) { c.V6Keys, c.Algorithm = true, packet.PubKeyAlgoEd25519 },
	} {
		keys[name] = b.add(name, pgptest.NewEntity(t, name, change))
	}
	texts := map[string]string{
		"empty": "", "one": "a", "newline": "\n", "lines": "one\ntwo\n", "open": "one\ntwo", "dashes": "-\n- a\n-----BEGIN PGP SIGNATURE-----\nFrom us\n",
		"large": strings.Repeat("much of the same\n", 5_000),
	}
	for name, e := range keys {
		for what, text := range texts {
			if name != "us" && what != "dashes" {
				continue // one text will do for them
			}
			b.write("a.txt", []byte(text))
			for _, f := range signForms {
				cfg := b.signed("a.txt", name, f.mode, f.format)
				inline := f.mode == "inline" || f.mode == "clearsign"
				if inline {
					cfg["output_path"] = "content"
				}
				out, err := b.verify(cfg)
				if err != nil || !out.Valid || out.VerifyStatus != pgp.StatusValid || out.SignerFingerprint != pgptest.Fingerprint(e) || out.Reason != "" ||
					out.SignedAt == nil || time.Since(*out.SignedAt) > time.Minute {
					t.Fatalf("%s, %s, %+v: %+v, %v", name, what, f, out, err)
				}
				if inline && out.VerifiedFile != "content" || !inline && out.VerifiedFile != "" {
					t.Errorf("%s, %s, %+v: the content is %q", name, what, f, out.VerifiedFile)
				}
				want := text
				if f.mode == "clearsign" && text != "" {
					want = strings.TrimSuffix(text, "\n") + "\n"
				}
				if inline && string(b.read("content")) != want {
					t.Errorf("%s, %s, %+v: the content is %q", name, what, f, shorten(b.read("content")))
				}
			}
		}
	}
}

func shorten(p []byte) []byte { return p[:min(len(p), 200)] }

// TestSignNames writes where no name is given, and tells what it wrote.
func TestSignNames(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	b.write("a.txt", []byte("a\n"))
	for mode, want := range map[string]string{"detached": "2/1/a.txt.sig", "inline": "2/1/a.txt.signed", "clearsign": "2/1/a.txt.signed"} {
		out, err := b.sign(map[string]any{"source_path": "a.txt", "signing_key_id": pgptest.Fingerprint(us), "signature_type": mode})
		if err != nil || out.SignatureFile != want || out.SignerFingerprint != pgptest.Fingerprint(us) || out.Size != int64(len(b.read(want))) {
			t.Errorf("%s: %+v, %v", mode, out, err)
		}
	}
	out, err := b.verify(map[string]any{"source_path": "2/1/a.txt.signed", "output_path": "content/"})
	if err != nil || out.VerifiedFile != "content/a.txt" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestSignRefuses gives what can't be signed.
func TestSignRefuses(t *testing.T) {
	b := newBench(t)
	b.key("us")
	b.add("weak", pgptest.SHA1Key(t))
	expired := pgptest.NewEntity(t, "expired", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600 })
	b.add("expired", expired)
	if err := b.keys.Add("public", pgp.Key{Data: pgptest.Public(t, pgptest.NewEntity(t, "public", nil))}); err != nil {
		t.Fatal(err)
	}
	b.write("a.txt", []byte("a\n"))
	b.write("binary", []byte("a\x00b\n"))
	b.write("long", []byte("a\n"+strings.Repeat("a", 30_000)))
	before := b.files()
	for _, c := range []struct {
		input, key, mode, want string
	}{
		{"a.txt", "nobody", "", `there is no key "nobody"`},
		{"a.txt", "weak", "", "SHA-1"},
		{"a.txt", "expired", "", "expired on "},
		{"a.txt", "public", "", "signing takes the private one"},
		{"binary", "us", "clearsign", "its line 1 has a NUL byte"},
		{"long", "us", "clearsign", "its line 2 is longer than 19000 bytes"},
		{"a.txt", "us", "opaque", `signature_type: "opaque" is not one of the possible values`},
	} {
		cfg := map[string]any{"source_path": c.input, "output_path": "final", "signing_key_id": c.key, "signature_type": c.mode}
		_, err := b.sign(cfg)
		wantFailure(t, err, c.want)
		if c.input == "a.txt" && c.mode == "" {
			wantFailure(t, b.validate("pgp.sign", cfg), c.want)
		}
		b.wantFiles(before...)
	}
	_, err := b.sign(map[string]any{"source_path": "a.txt", "output_path": "./a.txt", "signing_key_id": "us"})
	wantFailure(t, err, "is the input itself")
}

// TestSignLocked signs with a key that a passphrase unlocks.
func TestSignLocked(t *testing.T) {
	b := newBench(t)
	e := pgptest.NewEntity(t, "us", nil)
	if err := e.EncryptPrivateKeys([]byte("p"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Add("us", pgp.Key{Data: pgptest.Private(t, e), Passphrase: "vault/us"}); err != nil {
		t.Fatal(err)
	}
	b.write("a.txt", []byte("a\n"))
	cfg := map[string]any{"source_path": "a.txt", "output_path": "a.sig", "signing_key_id": "us"}
	if _, err := b.sign(cfg); err == nil || courier.IsPermanent(err) || !strings.Contains(err.Error(), "the vault is shut") {
		t.Errorf("the vault is shut: %v", err)
	}
	b.secrets["vault/us"] = "wrong"
	_, err := b.sign(cfg)
	wantFailure(t, err, `the secret "vault/us" is not its passphrase`)
	b.wantFiles("a.txt")
	b.secrets["vault/us"] = "p"
	if out, err := b.sign(cfg); err != nil || out.SignerFingerprint != pgptest.Fingerprint(e) {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestVerifyStatus asks for all that can be found out about a signature.
func TestVerifyStatus(t *testing.T) {
	b := newBench(t)
	us, partner := b.key("us"), b.key("partner")
	stranger := pgptest.NewEntity(t, "stranger", nil)
	expired := pgptest.NewEntity(t, "expired", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600 })
	b.add("expired", expired)
	revoked := pgptest.NewEntity(t, "revoked", func(c *packet.Config) { c.Time = pgptest.Past(48 * time.Hour) })
	weak := b.add("weak", pgptest.SHA1Key(t))
	content := []byte("signed content\n")
	type form struct{ detached, inline []byte }
	by := func(at func() time.Time, who ...*openpgp.Entity) form {
		d, i := pgptest.Signed(t, content, at, who...)
		return form{d, i}
	}
	byRevoked := by(pgptest.Past(24*time.Hour), revoked)
	if err := revoked.Revoke(packet.KeyRetired, "", nil); err != nil {
		t.Fatal(err)
	}
	b.add("revoked", revoked)
	b.write("content", content)
	for _, c := range []struct {
		name     string
		form     form
		expected []string
		status   pgp.VerifyStatus
		reason   string
		signers  []*openpgp.Entity
	}{
		{"valid", by(nil, partner), nil, pgp.StatusValid, "", []*openpgp.Entity{partner}},
		{"expected", by(nil, partner), []string{"us", pgptest.Fingerprint(partner)}, pgp.StatusValid, "", []*openpgp.Entity{partner}},
		{"two signers", by(nil, partner, us), nil, pgp.StatusValid, "", []*openpgp.Entity{partner, us}},
		{"one of two is expected", by(nil, stranger, partner), []string{"partner"}, pgp.StatusValid, "", []*openpgp.Entity{partner}},
		{"not expected", by(nil, us), []string{"partner"}, pgp.StatusUnknownSigner, "which is not among signer_key_ids (partner)", nil},
		{"stranger", by(nil, stranger), nil, pgp.StatusUnknownSigner, fmt.Sprintf("signed by the key id %016X", stranger.PrimaryKey.KeyId), nil},
		{"expired", by(pgptest.Past(47*time.Hour+30*time.Minute), expired), nil, pgp.StatusExpiredKey, pgptest.Fingerprint(expired) + ") expired on ", nil},
		{"revoked", byRevoked, []string{"revoked"}, pgp.StatusRevokedKey, `key "revoked" (` + pgptest.Fingerprint(revoked) + ") is revoked", nil},
		{"forged", by(nil, pgptest.Forgery(partner)), nil, pgp.StatusInvalid, "does not fit the content", nil},
		{"from tomorrow", by(pgptest.Past(-24*time.Hour), partner), nil, pgp.StatusInvalid, "not yet valid", nil},
		{"SHA-1 key", by(nil, weak), []string{"weak"}, pgp.StatusInvalid, "is held together by SHA-1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.write("sig", c.form.detached)
			b.write("message", c.form.inline)
			b.write("sig.asc", pgptest.ArmorAs(t, "PGP SIGNATURE", c.form.detached))
			for _, cfg := range []map[string]any{
				{"source_path": "content", "detached_signature_path": "sig"},
				{"source_path": "content", "detached_signature_path": "sig.asc"},
				{"source_path": "message", "output_path": "final"},
			} {
				cfg["signer_key_ids"] = c.expected
				out, err := b.verify(cfg)
				if err != nil || out.VerifyStatus != c.status || out.Valid != (c.status == pgp.StatusValid) || !strings.Contains(out.Reason, c.reason) || (out.Reason == "") != out.Valid {
					t.Errorf("%v: %+v, %v; want %s, %s", cfg, out, err, c.status, c.reason)
				}
				var want []string
				for _, e := range c.signers {
					want = append(want, pgptest.Fingerprint(e))
				}
				if len(out.SignerFingerprints) != len(want) || out.Valid && out.SignerFingerprint != out.SignerFingerprints[0] || !out.Valid && (out.SignerFingerprint != "" || out.SignedAt != nil) {
					t.Errorf("%v: signers %v, want %v", cfg, out.SignerFingerprints, want)
				}
				cfg["require"] = "valid"
				if out.Valid {
					if _, err := b.verify(cfg); err != nil {
						t.Errorf("%v: %v", cfg, err)
					}
				} else {
					_, err := b.verify(cfg)
					wantFailure(t, err, "is not accepted ("+string(c.status)+")", c.reason, `require is "valid"`)
				}
				if out.VerifiedFile != "" {
					b.remove("final")
				}
				b.wantFiles("content", "message", "sig", "sig.asc")
			}
		})
	}
}

// TestVerifyDamage changes and cuts signed files anywhere. Nothing that is not
// as it was signed is valid, and nothing of it is written.
func TestVerifyDamage(t *testing.T) {
	b := newBench(t)
	b.key("us")
	text := []byte("one line\n- another\nand the last one\n")
	b.write("a.txt", text)
	for n, f := range signForms[1:] {
		cfg := b.signed("a.txt", "us", f.mode, f.format)
		whole := b.read("signed")
		name := "signed"
		check := func(what string, damaged, content []byte) {
			t.Helper()
			b.write(name, damaged)
			out, err := b.verify(cfg)
			if err != nil {
				t.Errorf("%+v, %s: %v", f, what, err)
			}
			if !out.Valid {
				if out.Reason == "" || out.SignerFingerprint != "" {
					t.Errorf("%+v, %s: %+v", f, what, out)
				}
				return
			}
			// What is changed is not signed: blanks, the checksum, the head.
			if out.VerifiedFile != "" && !bytes.Equal(b.read(out.VerifiedFile), content) {
				t.Errorf("%+v, %s: %q is valid", f, what, b.read(out.VerifiedFile))
			}
			if out.VerifiedFile != "" {
				b.remove(out.VerifiedFile)
			}
		}
		if f.mode != "detached" {
			cfg["output_path"] = "final"
		}
		for i := n % 3; i < len(whole); i += 3 {
			changed := bytes.Clone(whole)
			changed[i] ^= 1
			check(fmt.Sprintf("byte %d changed", i), changed, text)
			if i > 0 && i%2 == 0 {
				check(fmt.Sprintf("cut at %d", i), whole[:i], text)
			}
		}
		b.write(name, whole)
		if f.mode == "detached" {
			for i := 0; i < len(text); i += 5 {
				changed := bytes.Clone(text)
				changed[i] ^= 1
				b.write("a.txt", changed)
				if out, err := b.verify(cfg); err != nil || out.VerifyStatus != pgp.StatusInvalid || !strings.Contains(out.Reason, "does not fit the content") {
					t.Errorf("%+v, content changed at %d: %+v, %v", f, i, out, err)
				}
			}
			b.write("a.txt", text)
		}
		b.wantFiles("a.txt", "signed")
	}
}

// TestVerifyMisleading puts text around what is signed, where nobody expects
// that it is not.
func TestVerifyMisleading(t *testing.T) {
	b := newBench(t)
	b.key("us")
	b.write("a.txt", []byte("pay 1\n"))
	b.signed("a.txt", "us", "clearsign", "")
	clear := string(b.read("signed"))
	b.signed("a.txt", "us", "inline", "")
	inline := string(b.read("signed"))
	b.signed("a.txt", "us", "detached", "")
	detached := string(b.read("signed"))
	const begin = "-----BEGIN PGP SIGNED MESSAGE-----\n"
	for _, c := range []struct{ name, content, want string }{
		{"text before", "pay 2\n" + clear, "holds something before the signed text"},
		{"text after", clear + "pay 2\n", "holds something after the end"},
		{"two texts", clear + clear, "holds something after the end"},
		{"text in the head", begin + "Hash: SHA256\nComment: pay 2\n" + strings.TrimPrefix(clear, begin+"Hash: SHA256\n"), "line in its head that is not allowed there: Comment: pay 2"},
		{"text instead of the head", begin + "pay 2\n\n" + strings.TrimPrefix(clear, begin+"Hash: SHA256\n\n"), "line in its head that is not allowed"},
		{"line added", strings.Replace(clear, "pay 1", "pay 1\npay 2", 1), "does not fit the content"},
		{"dash", strings.Replace(clear, "pay 1", "-----BEGIN", 1), "dash that is not escaped"},
		{"no signature", begin + "\npay 1\n", "its signature is missing"},
		{"signature of nothing", begin + "\npay 1\n-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n", "holds no signature"},
		{"two messages", inline + inline, "holds something besides one complete message"},
		{"rest", inline + "pay 2", "is damaged or cut short"},
		{"signature alone", detached, "holds something besides one complete message, or is cut short"},
		{"key", string(pgptest.Public(t, pgptest.NewEntity(t, "x", nil))), ""},
		{"text", "pay 1\n", "is not an OpenPGP message, neither binary nor armored"},
		{"encrypted", string(pgptest.Seal(t, []byte("pay 1"), pgptest.NewEntity(t, "y", nil), nil)), "is encrypted; pgp.decrypt decrypts it"},
		{"unsigned", "\xcb\x0cb\x00\x00\x00\x00\x00pay 1\n", "it is not signed"},
		{"empty", "", "is empty"},
		{"endless line", begin + "\n" + strings.Repeat("a", 200<<10), "longer than 128 KiB"},
	} {
		b.write("in", []byte(c.content))
		out, err := b.verify(map[string]any{"source_path": "in", "output_path": "final"})
		if err != nil || out.VerifyStatus != pgp.StatusInvalid || !strings.Contains(out.Reason, c.want) {
			t.Errorf("%s: %+v, %v, want %q", c.name, out, err, c.want)
		}
		b.wantFiles("a.txt", "in", "signed")
	}
	for _, c := range []struct{ name, sig, want string }{
		{"message for a signature", inline, "has a signature (\"in\") that is damaged"},
		{"text", "no signature", "is not an OpenPGP message"},
		{"empty", "", "is empty"},
		{"large", "\xca\xff\x00\x20\x00\x00" + strings.Repeat("PGP", 1<<20), "is larger than 1024 KiB"},
	} {
		b.write("in", []byte(c.sig))
		out, err := b.verify(map[string]any{"source_path": "a.txt", "detached_signature_path": "in"})
		if err != nil || out.VerifyStatus != pgp.StatusInvalid || !strings.Contains(out.Reason, c.want) {
			t.Errorf("%s: %+v, %v, want %q", c.name, out, err, c.want)
		}
	}
}

// TestVerifyRefuses asks for what can't be done: that is a failure, not an
// invalid signature.
func TestVerifyRefuses(t *testing.T) {
	b := newBench(t)
	b.key("us")
	b.write("a.txt", []byte("a\n"))
	cfg := b.signed("a.txt", "us", "", "")
	cfg["output_path"] = "final"
	_, err := b.verify(cfg)
	wantFailure(t, err, "give only one of detached_signature_path and output_path")
	wantFailure(t, b.validate("pgp.verify", cfg), "give only one of detached_signature_path and output_path")
	_, err = b.verify(map[string]any{"source_path": "a.txt", "signer_key_ids": []string{"nobody"}})
	wantFailure(t, err, `signer: there is no key "nobody"`)
	_, err = b.verify(map[string]any{"source_path": "a.txt", "max_bytes": -1})
	wantFailure(t, err, "max_bytes: must be at least 0")
	_, err = b.verify(map[string]any{"source_path": "a.txt", "require": "signed"})
	wantFailure(t, err, `require: "signed" is not one of the possible values`)
	for _, missing := range []map[string]any{{"source_path": "none"}, {"source_path": "a.txt", "detached_signature_path": "none"}} {
		if _, err := b.verify(missing); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v: %v", missing, err)
		}
	}
	b.wantFiles("a.txt", "signed")
}
