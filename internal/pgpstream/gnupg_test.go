package pgpstream_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// TestFromGnuPG decrypts what GnuPG encrypts, with its keys.
func TestFromGnuPG(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	g.Generate("rsa", "rsa2048", "rsa2048")
	g.Generate("curve", "ed25519", "cv25519")
	g.Generate("old", "dsa1024", "")
	b := newBench(t)
	b.addFrom(g, "rsa", true)
	b.addFrom(g, "curve", true)
	b.addFrom(g, "old", false)
	g.Passphrase = "tunnel"
	g.Generate("locked rsa", "rsa2048", "rsa2048")
	g.Generate("locked curve", "ed25519", "cv25519")
	b.addFrom(g, "locked rsa", true)
	b.addFrom(g, "locked curve", true)
	data := append(pgptest.Noise(50_000), bytes.Repeat([]byte("line\n"), 40_000)...)
	for _, c := range []struct {
		name   string
		args   []string
		ids    []string
		status pgpstream.Status
		signer string
	}{
		{"default", []string{"-r", "rsa"}, nil, pgpstream.StatusUnsigned, ""},
		{"curve", []string{"-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"both", []string{"-r", "curve", "-r", "rsa"}, nil, pgpstream.StatusUnsigned, ""},
		{"locked", []string{"-r", "locked rsa", "-r", "locked curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"armored", []string{"-a", "-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"signed", []string{"-s", "-u", "rsa", "-r", "curve"}, nil, pgpstream.StatusValid, "rsa"},
		{"signed by curve, armored", []string{"-a", "-s", "-u", "curve", "-r", "rsa"}, nil, pgpstream.StatusValid, "curve"},
		{"signed twice", []string{"-s", "-u", "rsa", "-u", "curve", "-r", "rsa"}, nil, pgpstream.StatusValid, "rsa"},
		{"text mode", []string{"-s", "-t", "-u", "curve", "-r", "rsa"}, nil, pgpstream.StatusValid, "curve"},
		{"bzip2", []string{"--compress-algo", "bzip2", "-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"zip", []string{"--compress-algo", "zip", "-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"not compressed", []string{"-z", "0", "-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"3DES", []string{"--cipher-algo", "3DES", "-r", "curve"}, nil, pgpstream.StatusUnsigned, ""},
		{"hidden", []string{"-R", "curve", "-R", "rsa"}, []string{"rsa"}, pgpstream.StatusUnsigned, ""},
		{"SHA-512", []string{"--digest-algo", "SHA512", "-s", "-u", "rsa", "-r", "curve"}, nil, pgpstream.StatusValid, "rsa"},
		{"SHA-1", []string{"--digest-algo", "SHA1", "--weak-digest", "MD5", "-s", "-u", "rsa", "-r", "curve"}, nil, pgpstream.StatusUnsafe, ""},
		{"DSA", []string{"-s", "-u", "old", "-r", "curve"}, nil, pgpstream.StatusUnsafe, ""},
		{"empty", []string{"-s", "-u", "curve", "-r", "curve"}, nil, pgpstream.StatusValid, "curve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := data
			if c.name == "empty" {
				data = nil
			}
			got, out, err := b.decrypt(g.Run(data, append(c.args, "-e")...), pgpstream.DecryptOptions{PrivateKeys: c.ids})
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "text mode" { // GnuPG wrote the line ends of text on the wire
				got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
				data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
			}
			if !bytes.Equal(got, data) {
				t.Error("the content differs")
			}
			var signer string // the first one
			if len(out.Signature.Signers) > 0 {
				signer = out.Signature.Signers[0]
			}
			if out.Signature.Status != c.status || c.signer == "" && signer != "" || c.signer != "" && signer != g.Fingerprint(c.signer) {
				t.Errorf("%+v, want %s by %s", out, c.status, c.signer)
			}
		})
	}
}

// TestToGnuPG has GnuPG decrypt and verify what Encrypt writes.
func TestToGnuPG(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	g.Generate("rsa", "rsa2048", "rsa2048")
	g.Generate("curve", "ed25519", "cv25519")
	b := newBench(t)
	b.addFrom(g, "rsa", true)
	b.addFrom(g, "curve", false)
	ours, err := pgpstream.GenerateKey("Ours", "ours@example.com")
	if err != nil {
		t.Fatal(err)
	}
	b.keys["ours"] = testKey{data: ours.Bytes()}
	public, err := ours.Armor(false)
	if err != nil {
		t.Fatal(err)
	}
	g.Run(public, "--import")
	fingerprints := map[string]string{"": "", "ours": ours.Fingerprint(), "rsa": g.Fingerprint("rsa")}
	few := 0
	for _, size := range []int{0, 1, 300_000} {
		for _, armor := range []bool{false, true} {
			for _, compression := range []pgpstream.Compression{pgpstream.Uncompressed, pgpstream.ZIP, pgpstream.ZLIB} {
				for _, to := range [][]string{{"rsa"}, {"curve"}, {"ours", "curve", "rsa"}} {
					for _, signer := range []string{"", "ours", "rsa"} {
						if few++; few%5 != 0 { // GnuPG is slow to start
							continue
						}
						t.Run(fmt.Sprint(size, armor, compression, to, signer), func(t *testing.T) {
							data := pgptest.Noise(size)
							message := b.encrypt(data, to, signer, pgpstream.EncryptOptions{Armor: armor, Compression: compression})
							got, said, err := g.Try(message, "--decrypt")
							if err != nil || !bytes.Equal(got, data) {
								t.Fatalf("gpg: %v, equal %v\n%s", err, bytes.Equal(got, data), said)
							}
							for what, want := range map[string]bool{
								"DECRYPTION_OKAY": true, "GOODMDC": true, "DECRYPTION_INFO 2 9": true, // MDC and AES-256
								"GOODSIG": signer != "", "VALIDSIG " + fingerprints[signer]: signer != "",
							} {
								if strings.Contains(said, what) != want {
									t.Errorf("gpg says %q: %v, want %v\n%s", what, !want, want, said)
								}
							}
						})
					}
				}
			}
		}
	}
}

// TestSignaturesOfGnuPG verifies what GnuPG signs, and has it verify ours.
func TestSignaturesOfGnuPG(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	b := newBench(t)
	for name, algo := range map[string]string{"rsa": "rsa2048", "curve": "ed25519", "p384": "nistp384"} {
		g.Generate(name, algo, "")
		b.addFrom(g, name, true)
	}
	us := b.key("us")
	g.Run(pgptest.Private(t, us), "--import")
	content := []byte("first line\n- dash\nFrom here \t\n\n-----BEGIN PGP SIGNATURE-----\nlast\n")
	for _, who := range []string{"rsa", "curve", "p384"} {
		for _, args := range [][]string{{"--detach-sign"}, {"-a", "--detach-sign"}, {"-t", "--detach-sign"}, {"--sign"}, {"-a", "--sign"}, {"-z", "0", "--sign"}, {"--textmode", "--sign"}, {"--clearsign"}} {
			signed, signature := g.Run(content, append([]string{"-u", who}, args...)...), []byte(nil)
			detached := args[len(args)-1] == "--detach-sign"
			if detached {
				signed, signature = content, signed
			}
			got, found, err := b.verify(signed, signature)
			if err != nil || found.Status != pgpstream.StatusValid || found.Signers[0] != g.Fingerprint(who) {
				t.Errorf("%s, %q: %+v, %v", who, args, found, err)
				continue
			}
			want := content
			if args[0] == "--clearsign" {
				want = bytes.Replace(content, []byte(" \t\n"), []byte("\n"), 1)
			}
			if !bytes.Equal(bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")), want) {
				t.Errorf("%s, %q: the content is %q", who, args, got)
			}
			if !detached {
				continue
			}
			if _, found, err := b.verify(append(bytes.Clone(content), '!'), signature); err != nil || found.Status != pgpstream.StatusInvalid {
				t.Errorf("%s, %q, content changed: %+v, %v", who, args, found, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	for _, who := range []string{"us", "rsa", "p384"} {
		for text, want := range map[string]string{string(content): string(content), "no end": "no end", "": "", "\n": "\n", "two\n\n": "two\n\n"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, f := range signForms {
				signed := b.sign([]byte(text), who, f)
				if f.form == pgpstream.Detached {
					if _, said, err := g.Try(signed, "--verify", "-", file); err != nil || !strings.Contains(said, "VALIDSIG") {
						t.Errorf("%s, %+v, %q: %v, %s", who, f, text, err, said)
					}
					continue
				}
				got, said, err := g.Try(signed, "--decrypt")
				if err != nil || !strings.Contains(said, "VALIDSIG") {
					t.Errorf("%s, %+v, %q: %v, %s", who, f, text, err, said)
				}
				if f.form == pgpstream.Clearsign {
					want = strings.Replace(strings.TrimSuffix(want, "\n"), " \t\n", "\n", 1)
					got = bytes.TrimSuffix(got, []byte("\n"))
				}
				if string(got) != want {
					t.Errorf("%s, %+v, %q: GnuPG reads %q", who, f, text, got)
				}
			}
		}
	}
}

// TestSizesWithGnuPG exchanges messages of the sizes at which something changes.
func TestSizesWithGnuPG(t *testing.T) {
	g := pgptest.NewGnuPG(t)
	b := newBench(t)
	kinds := []string{"cv25519", "nistp256", "nistp384", "nistp521", "rsa2048"}
	for i, kind := range kinds {
		g.Generate(kind, []string{"ed25519", kind}[min(1, i)], kind)
		b.addFrom(g, kind, true)
	}
	const block = 256 << 10 // of the layer that encrypts
	file := filepath.Join(t.TempDir(), "a.bin")
	for i, size := range []int{0, 1, 8171, 8192, 1<<16 - 6, 1<<16 + 1, block - 18 - 8, block - 7, block + 1, 2*block - 40, 3 * block} {
		data := pgptest.Noise(size)
		to := kinds[i%len(kinds)]
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var o pgpstream.EncryptOptions
		args := []string{"-z", "0"}
		switch i % 3 {
		case 1:
			o.Armor, args = true, []string{"-a", "-z", "0"}
		case 2:
			o.Compression, args = pgpstream.ZLIB, nil
		}
		if got := g.Run(b.encrypt(data, []string{to}, "", o), "--decrypt"); !bytes.Equal(got, data) {
			t.Errorf("GnuPG reads %d bytes of %d", len(got), size)
		}
		for _, from := range []struct {
			how   string
			input []byte
			file  []string
		}{{"a pipe", data, nil}, {"a file", nil, []string{file}}} {
			message := g.Run(from.input, append(append(args, "-r", to, "--output", "-", "--encrypt"), from.file...)...)
			if got, _, err := b.decrypt(message, pgpstream.DecryptOptions{}); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes from %s of GnuPG: %v", size, from.how, err)
			}
		}
	}
}
