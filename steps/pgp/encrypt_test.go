package pgp_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

func TestRoundTrip(t *testing.T) {
	b := newBench(t)
	us, them := b.key("us"), b.key("them")
	for _, size := range []int{0, 1, 511, 512, 513, 8191, 65536, 300_001} {
		for _, format := range []string{"binary", "armored"} {
			for _, compression := range []string{"none", "zip", "zlib"} {
				for _, signer := range []string{"", "us"} {
					t.Run(fmt.Sprintf("%d %s %s %s", size, format, compression, signer), func(t *testing.T) {
						data := pgptest.Noise(size)
						copy(data[size/2:], bytes.Repeat([]byte("same "), size/10))
						b.write("in/report.csv", data)
						sealed, err := b.encrypt(map[string]any{
							"source_path": "in/report.csv", "output_path": "out/", "recipient_key_ids": []string{"them"},
							"signing_key_id": signer, "output_format": format, "compression": compression,
						})
						if err != nil {
							t.Fatal(err)
						}
						message := b.read("out/report.csv.pgp")
						if sealed.EncryptedFile != "out/report.csv.pgp" || sealed.Size != int64(len(message)) || fmt.Sprint(sealed.Recipients) != "["+pgptest.Fingerprint(them)+"]" {
							t.Errorf("output = %+v", sealed)
						}
						if text := strings.HasPrefix(string(message), "-----BEGIN PGP MESSAGE-----\n\n"); text != (format == "armored") {
							t.Errorf("the message begins with %q", message[:min(30, len(message))])
						}
						if compression != "none" && size == 300_001 && len(message) > 250_000*4/3 {
							t.Errorf("%d bytes made %d: nothing was compressed", size, len(message))
						}
						out, err := b.decrypt(map[string]any{"source_path": sealed.EncryptedFile})
						if err != nil {
							t.Fatal(err)
						}
						if out.DecryptedFile != "2/1/report.csv" || out.Size != int64(size) || !bytes.Equal(b.read(out.DecryptedFile), data) {
							t.Errorf("output = %+v, or the content differs", out)
						}
						if signer == "" && (out.VerifyStatus != pgp.StatusUnsigned || out.SignedAt != nil || out.SignerFingerprint != "") {
							t.Errorf("output = %+v, want unsigned", out)
						}
						if signer != "" && (out.VerifyStatus != pgp.StatusValid || out.SignerFingerprint != pgptest.Fingerprint(us) || time.Since(*out.SignedAt) > time.Minute || sealed.SignerFingerprint != pgptest.Fingerprint(us)) {
							t.Errorf("output = %+v, want a valid signature by %s", out, pgptest.Fingerprint(us))
						}
					})
				}
			}
		}
	}
	b.wantFiles("2/1/report.csv", "in/report.csv", "out/report.csv.pgp")
}

func TestManyRecipients(t *testing.T) {
	b := newBench(t)
	data := pgptest.Noise(10_000)
	b.write("a.txt", data)
	var ids, prints []string
	for i := range 5 {
		e := b.key(fmt.Sprintf("partner-%d", i))
		ids = append(ids, fmt.Sprintf("partner-%d", i), pgptest.Fingerprint(e)) // each under two of its ids
		prints = append(prints, pgptest.Fingerprint(e))
	}
	out, err := b.encrypt(map[string]any{"source_path": "a.txt", "recipient_key_ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(out.Recipients, " "), strings.Join(prints, " "); got != want {
		t.Errorf("recipients = %s, want %s", got, want)
	}
	for i := range 5 {
		got, err := b.decrypt(map[string]any{"source_path": out.EncryptedFile, "private_key_ids": []string{fmt.Sprintf("partner-%d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.read(got.DecryptedFile), data) {
			t.Errorf("partner-%d: the content differs", i)
		}
	}
}

// TestUnfitRecipients expects one error that names every key that can't be
// used and tells why.
func TestUnfitRecipients(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", []byte("a"))
	good := b.key("good")
	expired := b.add("expired", pgptest.NewEntity(t, "expired", func(c *packet.Config) {
		c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600
	}))
	revoked := pgptest.NewEntity(t, "revoked", nil)
	if err := revoked.Revoke(packet.KeyCompromised, "lost", nil); err != nil {
		t.Fatal(err)
	}
	b.add("revoked", revoked)
	weak := b.add("weak", pgptest.SHA1Key(t))
	signOnly := pgptest.NewEntity(t, "sign-only", nil)
	signOnly.Subkeys = nil
	b.add("sign-only", signOnly)
	sub := pgptest.NewEntity(t, "sub", nil)
	if err := sub.Subkeys[0].Revoke(packet.KeyRetired, "", nil); err != nil {
		t.Fatal(err)
	}
	b.add("sub", sub)
	small := pgptest.NewEntity(t, "small", nil)
	small.Subkeys = nil
	if err := small.AddEncryptionSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 1024}); err != nil {
		t.Fatal(err)
	}
	b.add("small", small)
	ahead := b.add("ahead", pgptest.NewEntity(t, "ahead", func(c *packet.Config) { c.Time = pgptest.Past(-48 * time.Hour) }))

	cfg := map[string]any{"source_path": "a.txt", "recipient_key_ids": []string{
		"good", "expired", "revoked", "weak", "sign-only", "sub", "small", "ahead", "godo",
	}}
	for name, err := range map[string]error{
		"execute":  second(b.encrypt(cfg)),
		"validate": b.validate("pgp.encrypt", cfg),
	} {
		t.Run(name, func(t *testing.T) {
			wantFailure(t, err,
				`key "expired" (`+pgptest.Fingerprint(expired)+`) expired on `,
				`key "revoked" (`+pgptest.Fingerprint(revoked)+`) is revoked`,
				`key "weak" (`+pgptest.Fingerprint(weak)+`) is held together by SHA-1`,
				`key "sign-only" (`+pgptest.Fingerprint(signOnly)+`) has no subkey for encryption`,
				`key "sub" (`+pgptest.Fingerprint(sub)+`) has no usable subkey for encryption: its subkey `,
				`key "small" (`+pgptest.Fingerprint(small)+`) has a key for encryption of a kind or size that is not safe any more: RSA 1024 bits`,
				`key "ahead" (`+pgptest.Fingerprint(ahead)+`) was made on `,
				`did you mean "good"?`)
			if strings.Contains(err.Error(), pgptest.Fingerprint(good)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %q", err)
			}
		})
	}
	b.wantFiles("a.txt")
}

// second drops the output of a step.
func second[O any](_ O, err error) error { return err }

func TestEncryptPlaces(t *testing.T) {
	b := newBench(t)
	b.key("us")
	b.write("in/a.txt", []byte("a"))
	b.write("there/x", nil)
	for output, want := range map[string]string{
		"":           "2/1/a.txt.pgp",
		"b.gpg":      "b.gpg",
		"new/dir/":   "new/dir/a.txt.pgp",
		"there":      "there/a.txt.pgp",
		"new/file":   "new/file",
		"in/./b.pgp": "in/b.pgp",
	} {
		out, err := b.encrypt(map[string]any{"source_path": "in/a.txt", "output_path": output, "recipient_key_ids": []string{"us"}})
		if err != nil || out.EncryptedFile != want {
			t.Errorf("output_path %q: %q, %v, want %q", output, out.EncryptedFile, err, want)
		}
		if got := b.last.Reports().Files; len(got) != 1 || got[0].Path != want || got[0].Size != out.Size {
			t.Errorf("reported files = %+v, want %s", got, want)
		}
	}
	for output, want := range map[string]string{
		"in/a.txt":       "is the input itself",
		"in/../in/a.txt": "is the input itself",
		"../a":           "leads out of the workspace",
		"/etc/a":         "outside the workspace",
	} {
		_, err := b.encrypt(map[string]any{"source_path": "in/a.txt", "output_path": output, "recipient_key_ids": []string{"us"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("output_path %q: %v, want %q", output, err, want)
		}
	}
}

// TestInputByAnotherName refuses to replace the input through a link to it.
func TestInputByAnotherName(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	b.write("a.txt", []byte("a"))
	b.write("m.pgp", pgptest.Seal(t, []byte("x"), us, nil))
	for link, to := range map[string]string{"link.txt": "a.txt", "link.pgp": "m.pgp"} {
		if err := os.Symlink(to, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.encrypt(map[string]any{"source_path": "link.txt", "output_path": "a.txt", "recipient_key_ids": []string{"us"}})
	wantFailure(t, err, `output "a.txt": is the input itself`)
	_, err = b.decrypt(map[string]any{"source_path": "link.pgp", "output_path": "m.pgp"})
	wantFailure(t, err, `output "m.pgp": is the input itself`)
	if _, err := b.encrypt(map[string]any{"source_path": "link.txt", "recipient_key_ids": []string{"us"}}); err != nil {
		t.Error(err)
	}
}

// TestForm looks at what stands in messages for keys that ask for other things:
// an integrity check, which is the one that GnuPG knows unless the key offers
// AEAD, and the best cipher allowed.
func TestForm(t *testing.T) {
	b := newBench(t)
	data := bytes.Repeat([]byte("content "), 1000)
	b.write("a.txt", data)
	for name, c := range map[string]struct {
		change func(*packet.Config)
		cipher packet.CipherFunction
	}{
		"aes256": {nil, packet.CipherAES256},
		"aes128": {func(c *packet.Config) { c.DefaultCipher = packet.CipherAES128 }, packet.CipherAES128},
		"aead":   {func(c *packet.Config) { c.AEADConfig = &packet.AEADConfig{} }, packet.CipherAES256},
		"rsa":    {func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 }, packet.CipherAES256},
		"p256":   {func(c *packet.Config) { c.Algorithm, c.Curve = packet.PubKeyAlgoECDSA, packet.CurveNistP256 }, packet.CipherAES256},
		"v6":     {func(c *packet.Config) { c.V6Keys, c.Algorithm = true, packet.PubKeyAlgoEd25519 }, packet.CipherAES256},
	} {
		t.Run(name, func(t *testing.T) {
			e := b.add(name, pgptest.NewEntity(t, name, c.change))
			for i, compression := range []string{"none", "zip", "none", "zip"} {
				aead, version := "auto", 1
				if i >= 2 {
					aead = "off"
				} else if name == "aead" {
					version = 2
				}
				out, err := b.encrypt(map[string]any{"source_path": "a.txt", "output_path": "a.pgp", "recipient_key_ids": []string{name}, "signing_key_id": name, "compression": compression, "aead": aead})
				if err != nil {
					t.Fatal(err)
				}
				if small := out.Size < int64(len(data)); small != (compression == "zip") {
					t.Errorf("compression %s: %d bytes of %d", compression, out.Size, len(data))
				}
				message := b.read("a.pgp")
				md, err := openpgp.ReadMessage(bytes.NewReader(message), openpgp.EntityList{e}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if md.DecryptedWithAlgorithm != c.cipher {
					t.Errorf("cipher = %d, want %d", md.DecryptedWithAlgorithm, c.cipher)
				}
				packets := packet.NewReader(bytes.NewReader(message))
				for {
					p, err := packets.Next()
					if err != nil {
						t.Fatal(err)
					}
					if se, ok := p.(*packet.SymmetricallyEncrypted); ok {
						if !se.IntegrityProtected || se.Version != version {
							t.Errorf("integrity %v, version %d, want %d", se.IntegrityProtected, se.Version, version)
						}
						break
					}
				}
				got, err := b.decrypt(map[string]any{"source_path": "a.pgp", "output_path": "b.txt", "signer_key_ids": []string{name}})
				if err != nil || !bytes.Equal(b.read("b.txt"), data) {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
}

func TestEncryptRefuses(t *testing.T) {
	b := newBench(t)
	b.key("us")
	pub := pgptest.NewEntity(t, "pub", nil)
	if err := b.keys.Add("pub", pgp.Key{Data: pgptest.Public(t, pub)}); err != nil {
		t.Fatal(err)
	}
	b.write("a.txt", []byte("a"))
	for _, c := range []struct {
		name string
		cfg  map[string]any
		want string
	}{
		{"no recipient", map[string]any{"recipient_key_ids": []string{}}, "recipient_key_ids: is required"},
		{"format", map[string]any{"output_format": "ascii"}, `output_format: "ascii" is not one of the possible values`},
		{"compression", map[string]any{"compression": "gzip"}, `compression: "gzip" is not one of the possible values`},
		{"public key signs", map[string]any{"signing_key_id": "pub"}, "signing key: key \"pub\" (" + pgptest.Fingerprint(pub) + ") is a public key"},
		{"unknown signer", map[string]any{"signing_key_id": "su"}, `did you mean "us"?`},
		{"unknown field", map[string]any{"recipients": "x"}, `unknown field "recipients"`},
		{"directory", map[string]any{"source_path": "."}, "is a directory"},
	} {
		cfg := map[string]any{"source_path": "a.txt", "recipient_key_ids": []string{"us"}}
		for k, v := range c.cfg {
			cfg[k] = v
		}
		_, err := b.encrypt(cfg)
		t.Run(c.name, func(t *testing.T) { wantFailure(t, err, c.want) })
	}
	b.wantFiles("a.txt")
}

func TestEncryptMissingInput(t *testing.T) {
	b := newBench(t)
	b.key("us")
	_, err := b.encrypt(map[string]any{"source_path": "gone", "recipient_key_ids": []string{"us"}})
	if err == nil || !strings.Contains(err.Error(), "input: ") {
		t.Errorf("error = %v, want one about the input", err)
	}
}

// TestValidateUnresolved leaves alone what is known only at run time.
func TestValidateUnresolved(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Workspace: t.TempDir(), Unresolved: []string{
		"source_path", "output_path", "recipient_key_ids", "signing_key_id", "private_key_ids", "signer_key_ids",
	}})
	defer job.Close()
	keys := new(pgp.Keyring)
	ids := []string{"nobody"}
	if err := (&pgp.Encrypt{Keys: keys}).Validate(t.Context(), job, pgp.EncryptConfig{
		SourcePath: "/nowhere", OutputPath: "/nowhere", RecipientKeyIDs: ids, SigningKeyID: "nobody",
	}); err != nil {
		t.Error(err)
	}
	if err := (&pgp.Decrypt{Keys: keys}).Validate(t.Context(), job, pgp.DecryptConfig{
		SourcePath: "/nowhere", OutputPath: "/nowhere", PrivateKeyIDs: ids, SignerKeyIDs: ids,
	}); err != nil {
		t.Error(err)
	}
	job = courier.NewContext(courier.ContextConfig{Workspace: t.TempDir()})
	defer job.Close()
	err := (&pgp.Encrypt{Keys: keys}).Validate(t.Context(), job, pgp.EncryptConfig{
		SourcePath: "/nowhere", OutputPath: "/nowhere", RecipientKeyIDs: ids, SigningKeyID: "nobody",
	})
	wantFailure(t, err, `path "/nowhere": lies outside`, `recipients: there is no key "nobody"`, `signing key: there is no key "nobody"`)
}
