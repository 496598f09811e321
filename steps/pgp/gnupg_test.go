package pgp_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier/steps/pgp"
)

// A gnupg is GnuPG with a home of its own.
type gnupg struct {
	testing.TB
	home       string
	passphrase string
}

func newGnuPG(t testing.TB) *gnupg {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Fatal("gpg is not installed; on Debian and Ubuntu: apt-get install gnupg")
	}
	// The agent's socket has a short name or none.
	home, err := os.MkdirTemp(os.TempDir(), "g")
	if err != nil {
		t.Fatal(err)
	}
	g := &gnupg{TB: t, home: home}
	// As many rounds as usual would make every use of a passphrase take half a
	// second.
	if err := os.WriteFile(filepath.Join(home, "gpg-agent.conf"), []byte("s2k-count 65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd := exec.Command("gpgconf", "--kill", "all")
		cmd.Env = g.env()
		cmd.Run()
		os.RemoveAll(home)
	})
	return g
}

func (g *gnupg) env() []string {
	return append(os.Environ(), "GNUPGHOME="+g.home, "LC_ALL=C")
}

// try runs gpg and returns what it writes and says.
func (g *gnupg) try(input []byte, args ...string) (out []byte, said string, err error) {
	base := []string{"--batch", "--no-tty", "--yes", "--pinentry-mode", "loopback", "--passphrase", g.passphrase, "--trust-model", "always", "--status-fd", "2"}
	cmd := exec.CommandContext(g.Context(), "gpg", append(base, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.env(), bytes.NewReader(input), &stdout, &stderr
	err = cmd.Run()
	return stdout.Bytes(), stderr.String(), err
}

func (g *gnupg) run(input []byte, args ...string) []byte {
	g.Helper()
	out, said, err := g.try(input, args...)
	if err != nil {
		g.Fatalf("gpg %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return out
}

// generate makes a key for signatures and encryption.
func (g *gnupg) generate(name, primary, sub string) {
	g.Helper()
	g.run(nil, "--quick-generate-key", name, primary, "sign", "never")
	if sub != "" {
		g.run(nil, "--quick-add-key", g.fingerprint(name), sub, "encr", "never")
	}
}

func (g *gnupg) fingerprint(name string) string {
	g.Helper()
	for line := range strings.Lines(string(g.run(nil, "--with-colons", "--list-keys", name))) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			return f[9]
		}
	}
	g.Fatalf("no key %s", name)
	return ""
}

// addFrom adds a key that GnuPG exports, locked as it is.
func (b *bench) addFrom(g *gnupg, name string, secret bool) {
	b.Helper()
	k := pgp.Key{Data: g.run(nil, "--armor", "--export", name)}
	if secret {
		k = pgp.Key{Data: g.run(nil, "--export-secret-keys", name)}
		if g.passphrase != "" {
			k.Passphrase, b.secrets["vault/"+name] = "vault/"+name, g.passphrase
		}
	}
	if err := b.keys.Add(name, k); err != nil {
		b.Fatal(err)
	}
}

// TestFromGnuPG decrypts what GnuPG encrypts, with its keys.
func TestFromGnuPG(t *testing.T) {
	g := newGnuPG(t)
	g.generate("rsa", "rsa2048", "rsa2048")
	g.generate("curve", "ed25519", "cv25519")
	g.generate("old", "dsa1024", "")
	b := newBench(t)
	b.addFrom(g, "rsa", true)
	b.addFrom(g, "curve", true)
	b.addFrom(g, "old", false)
	g.passphrase = "tunnel"
	g.generate("locked rsa", "rsa2048", "rsa2048")
	g.generate("locked curve", "ed25519", "cv25519")
	b.addFrom(g, "locked rsa", true)
	b.addFrom(g, "locked curve", true)
	data := append(noise(50_000), bytes.Repeat([]byte("line\n"), 40_000)...)
	b.write("a.txt", data)
	for _, c := range []struct {
		name   string
		args   []string
		ids    []string
		status pgp.VerifyStatus
		signer string
	}{
		{"default", []string{"-r", "rsa"}, nil, pgp.StatusUnsigned, ""},
		{"curve", []string{"-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"both", []string{"-r", "curve", "-r", "rsa"}, nil, pgp.StatusUnsigned, ""},
		{"locked", []string{"-r", "locked rsa", "-r", "locked curve"}, nil, pgp.StatusUnsigned, ""},
		{"armored", []string{"-a", "-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"signed", []string{"-s", "-u", "rsa", "-r", "curve"}, nil, pgp.StatusValid, "rsa"},
		{"signed by curve, armored", []string{"-a", "-s", "-u", "curve", "-r", "rsa"}, nil, pgp.StatusValid, "curve"},
		{"signed twice", []string{"-s", "-u", "rsa", "-u", "curve", "-r", "rsa"}, nil, pgp.StatusValid, "rsa"},
		{"text mode", []string{"-s", "-t", "-u", "curve", "-r", "rsa"}, nil, pgp.StatusValid, "curve"},
		{"bzip2", []string{"--compress-algo", "bzip2", "-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"zip", []string{"--compress-algo", "zip", "-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"not compressed", []string{"-z", "0", "-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"3DES", []string{"--cipher-algo", "3DES", "-r", "curve"}, nil, pgp.StatusUnsigned, ""},
		{"hidden", []string{"-R", "curve", "-R", "rsa"}, []string{"rsa"}, pgp.StatusUnsigned, ""},
		{"SHA-512", []string{"--digest-algo", "SHA512", "-s", "-u", "rsa", "-r", "curve"}, nil, pgp.StatusValid, "rsa"},
		{"SHA-1", []string{"--digest-algo", "SHA1", "--weak-digest", "MD5", "-s", "-u", "rsa", "-r", "curve"}, nil, pgp.StatusUnsafe, ""},
		{"DSA", []string{"-s", "-u", "old", "-r", "curve"}, nil, pgp.StatusUnsafe, ""},
		{"empty", []string{"-s", "-u", "curve", "-r", "curve"}, nil, pgp.StatusValid, "curve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := data
			if c.name == "empty" {
				data = nil
			}
			b.write("in.pgp", g.run(data, append(c.args, "-e")...))
			out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "private_key_ids": c.ids})
			if err != nil {
				t.Fatal(err)
			}
			got := b.read(out.DecryptedFile)
			if c.name == "text mode" { // GnuPG wrote the line ends of text on the wire
				got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
				data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
			}
			if !bytes.Equal(got, data) {
				t.Error("the content differs")
			}
			signer := ""
			if c.signer != "" {
				signer = g.fingerprint(c.signer)
			}
			if out.VerifyStatus != c.status || out.SignerFingerprint != signer {
				t.Errorf("%+v, want %s by %s", out, c.status, signer)
			}
		})
	}
}

// TestToGnuPG has GnuPG decrypt and verify what the step writes.
func TestToGnuPG(t *testing.T) {
	g := newGnuPG(t)
	g.generate("rsa", "rsa2048", "rsa2048")
	g.generate("curve", "ed25519", "cv25519")
	b := newBench(t)
	b.addFrom(g, "rsa", true)
	b.addFrom(g, "curve", false)
	ours, err := pgp.GenerateKey("Ours", "ours@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Add("ours", ours); err != nil {
		t.Fatal(err)
	}
	pub, err := ours.Public()
	if err != nil {
		t.Fatal(err)
	}
	g.run(pub.Data, "--import")
	few := 0
	for _, size := range []int{0, 1, 300_000} {
		for _, format := range []string{"binary", "armored"} {
			for _, compression := range []string{"none", "zip", "zlib"} {
				for _, to := range [][]string{{"rsa"}, {"curve"}, {"ours", "curve", "rsa"}} {
					for _, signer := range []string{"", "ours", "rsa"} {
						if few++; few%5 != 0 { // GnuPG is slow to start
							continue
						}
						t.Run(fmt.Sprint(size, format, compression, to, signer), func(t *testing.T) {
							data := noise(size)
							b.write("a.txt", data)
							out, err := b.encrypt(map[string]any{
								"source_path": "a.txt", "output_path": "a.pgp", "recipient_key_ids": to,
								"signing_key_id": signer, "output_format": format, "compression": compression,
							})
							if err != nil {
								t.Fatal(err)
							}
							got, said, err := g.try(nil, "--decrypt", filepath.Join(b.dir, "a.pgp"))
							if err != nil || !bytes.Equal(got, data) {
								t.Fatalf("gpg: %v, equal %v\n%s", err, bytes.Equal(got, data), said)
							}
							for what, want := range map[string]bool{
								"DECRYPTION_OKAY": true, "GOODMDC": true, "DECRYPTION_INFO 2 9": true, // MDC and AES-256
								"GOODSIG": signer != "", "VALIDSIG " + out.SignerFingerprint: signer != "",
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

// TestKeysOfGnuPG reads keyrings that GnuPG writes and hands ours to it.
func TestKeysOfGnuPG(t *testing.T) {
	g := newGnuPG(t)
	g.passphrase = "tunnel"
	g.generate("rsa", "rsa2048", "rsa2048")
	g.generate("curve", "ed25519", "cv25519")
	dir := t.TempDir()
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("all.gpg", g.run(nil, "--export"))
	save("curve.sec", g.run(nil, "--armor", "--export-secret-keys", "curve"))
	keys, err := pgp.ReadKeyring(dir, map[string]string{"curve": "vault/curve"})
	if err != nil {
		t.Fatal(err)
	}
	if got := keys.Fingerprints(); len(got) != 2 {
		t.Errorf("fingerprints = %q", got)
	}
	k, err := keys.Key(t.Context(), g.fingerprint("curve"))
	if err != nil || k.Passphrase != "vault/curve" {
		t.Errorf("%v, %v", k, err)
	}
	g.run(k.Data, "--import") // what was joined is still a key
	box, err := os.ReadFile(filepath.Join(g.home, "pubring.kbx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Add("box", pgp.Key{Data: box}); err == nil || !strings.Contains(err.Error(), "keybox") {
		t.Errorf("error = %v", err)
	}
}

// TestSignaturesOfGnuPG verifies what GnuPG signs, and has it verify ours.
func TestSignaturesOfGnuPG(t *testing.T) {
	g := newGnuPG(t)
	b := newBench(t)
	for name, algo := range map[string]string{"rsa": "rsa2048", "curve": "ed25519", "p384": "nistp384"} {
		g.generate(name, algo, "")
		b.addFrom(g, name, true)
	}
	us := b.key("us")
	b.keys.Add("curve", pgp.Key{Data: g.run(nil, "--export-secret-keys", "curve")})
	g.run(private(t, us), "--import")
	content := []byte("first line\n- dash\nFrom here \t\n\n-----BEGIN PGP SIGNATURE-----\nlast\n")
	b.write("a.txt", content)
	file := filepath.Join(b.dir, "a.txt")
	for _, who := range []string{"rsa", "curve", "p384"} {
		for _, args := range [][]string{{"--detach-sign"}, {"-a", "--detach-sign"}, {"-t", "--detach-sign"}, {"--sign"}, {"-a", "--sign"}, {"-z", "0", "--sign"}, {"--textmode", "--sign"}, {"--clearsign"}} {
			b.write("signed", g.run(content, append([]string{"-u", who}, args...)...))
			cfg := map[string]any{"source_path": "signed", "output_path": "content"}
			if args[len(args)-1] == "--detach-sign" {
				cfg = map[string]any{"source_path": "a.txt", "detached_signature_path": "signed"}
			}
			out, err := b.verify(cfg)
			if err != nil || !out.Valid || out.SignerFingerprint != g.fingerprint(who) {
				t.Errorf("%s, %q: %+v, %v", who, args, out, err)
				continue
			}
			want := content
			if args[0] == "--clearsign" {
				want = bytes.Replace(content, []byte(" \t\n"), []byte("\n"), 1)
			}
			if out.VerifiedFile != "" && !bytes.Equal(bytes.ReplaceAll(b.read("content"), []byte("\r\n"), []byte("\n")), want) {
				t.Errorf("%s, %q: the content is %q", who, args, b.read("content"))
			}
			b.write("a.txt", append(bytes.Clone(content), '!'))
			if out, err := b.verify(cfg); out.VerifiedFile == "" && (err != nil || out.VerifyStatus != pgp.StatusInvalid) {
				t.Errorf("%s, %q, content changed: %+v, %v", who, args, out, err)
			}
			b.write("a.txt", content)
		}
	}
	for _, who := range []string{"us", "rsa", "p384"} {
		for text, want := range map[string]string{string(content): string(content), "no end": "no end", "": "", "\n": "\n", "two\n\n": "two\n\n"} {
			b.write("a.txt", []byte(text))
			for _, f := range signForms {
				inline := f.mode == "inline" || f.mode == "clearsign"
				b.signed("a.txt", who, f.mode, f.format)
				signed := filepath.Join(b.dir, "signed")
				if !inline {
					if _, said, err := g.try(nil, "--verify", signed, file); err != nil || !strings.Contains(said, "VALIDSIG") {
						t.Errorf("%s, %+v, %q: %v, %s", who, f, text, err, said)
					}
					continue
				}
				got, said, err := g.try(nil, "--decrypt", signed)
				if err != nil || !strings.Contains(said, "VALIDSIG") {
					t.Errorf("%s, %+v, %q: %v, %s", who, f, text, err, said)
				}
				if f.mode == "clearsign" {
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
	g := newGnuPG(t)
	b := newBench(t)
	kinds := []string{"cv25519", "nistp256", "nistp384", "nistp521", "rsa2048"}
	for i, kind := range kinds {
		g.generate(kind, []string{"ed25519", kind}[min(1, i)], kind)
		b.addFrom(g, kind, true)
	}
	const block = 256 << 10 // of the layer that encrypts
	for i, size := range []int{0, 1, 8171, 8192, 1<<16 - 6, 1<<16 + 1, block - 18 - 8, block - 7, block + 1, 2*block - 40, 3 * block} {
		data := noise(size)
		to := kinds[i%len(kinds)]
		b.write("a.bin", data)
		format, compression, args := "binary", "none", []string{"-z", "0"}
		switch i % 3 {
		case 1:
			format, args = "armored", []string{"-a", "-z", "0"}
		case 2:
			compression, args = "zlib", nil
		}
		if _, err := b.encrypt(map[string]any{"source_path": "a.bin", "output_path": "a.pgp", "recipient_key_ids": []string{to}, "output_format": format, "compression": compression}); err != nil {
			t.Fatal(err)
		}
		if got := g.run(b.read("a.pgp"), "--decrypt"); !bytes.Equal(got, data) {
			t.Errorf("GnuPG reads %d bytes of %d", len(got), size)
		}
		for _, from := range []struct {
			how   string
			input []byte
			file  []string
		}{{"a pipe", data, nil}, {"a file", nil, []string{filepath.Join(b.dir, "a.bin")}}} {
			b.write("g.pgp", g.run(from.input, append(append(args, "-r", to, "--output", "-", "--encrypt"), from.file...)...))
			if _, err := b.decrypt(map[string]any{"source_path": "g.pgp", "output_path": "b.bin"}); err != nil || !bytes.Equal(b.read("b.bin"), data) {
				t.Errorf("%d bytes from %s of GnuPG: %v", size, from.how, err)
			}
		}
	}
}
