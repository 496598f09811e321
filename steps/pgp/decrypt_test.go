package pgp_test

import (
	"bytes"
	"crypto"
	"encoding/hex"
	"errors"
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

// TestDamage changes and cuts messages everywhere. What comes out under the
// final name is the right content or nothing.
func TestDamage(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	data := pgptest.Noise(40_000)
	copy(data[20_000:], bytes.Repeat([]byte("compressible "), 1000))
	params := func(algo packet.CompressionAlgo, signers ...*openpgp.Entity) *openpgp.EncryptParams {
		return &openpgp.EncryptParams{Signers: signers, Config: &packet.Config{DefaultCipher: packet.CipherAES256, DefaultCompressionAlgo: algo}}
	}
	zlib := pgptest.NewEntity(t, "zlib", func(c *packet.Config) { c.DefaultCompressionAlgo = packet.CompressionZLIB })
	b.add("zlib", zlib)
	for name, message := range map[string][]byte{
		"plain":      pgptest.Seal(t, data, us, nil),
		"signed":     pgptest.Seal(t, data, us, params(0, us)),
		"compressed": pgptest.Seal(t, data, zlib, params(packet.CompressionZLIB, us)),
		"armored":    pgptest.Armor(t, pgptest.Seal(t, data, us, params(0, us))),
	} {
		t.Run(name, func(t *testing.T) {
			defer os.Remove(filepath.Join(b.dir, "final"))
			harmless := 0
			try := func(what string, changed []byte) {
				t.Helper()
				b.write("in.pgp", changed)
				_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "final"})
				if err == nil && bytes.Equal(b.read("final"), data) {
					os.Remove(filepath.Join(b.dir, "final"))
					harmless++
					return
				}
				if err == nil {
					t.Fatalf("%s: accepted", what)
				}
				if !courier.IsPermanent(err) || len(err.Error()) < 40 || strings.Contains(err.Error(), "openpgp:") {
					t.Errorf("%s: error = %v", what, err)
				}
				if got := b.files(); len(got) != 1 {
					t.Fatalf("%s: files = %q", what, got)
				}
			}
			for _, mask := range []byte{0x01, 0x80} {
				for i := 0; i < len(message); i += step(i) {
					changed := bytes.Clone(message)
					changed[i] ^= mask
					try(fmt.Sprintf("byte %d ^ %#x", i, mask), changed)
				}
			}
			for i := 0; i < len(message)-1; i += step(i) {
				try(fmt.Sprintf("cut to %d bytes", i), message[:i])
			}
			for i := len(message) - 60; i < len(message)-2; i += 3 {
				try(fmt.Sprintf("cut to %d bytes", i), message[:i])
			}
			// The length of a number in bits and the lines of an armor's header
			// can be changed without any effect.
			if harmless > 15 || harmless > 3 && name != "armored" {
				t.Errorf("%d changes had no effect", harmless)
			}
			harmless = -10
			try("followed by a byte", append(bytes.Clone(message), 'x'))
			try("followed by a zero", append(bytes.Clone(message), 0))
			try("followed by itself", append(bytes.Clone(message), message...))
			if harmless != -10 {
				t.Error("what follows had no effect")
			}
		})
	}
}

// step is how far to go on from a place in a message: the packets before the
// data are looked at more closely.
func step(i int) int {
	if i < 300 {
		return 11
	}
	return 1000
}

func TestDamageKeepsWhatWasThere(t *testing.T) {
	b := newBench(t)
	message := pgptest.Seal(t, pgptest.Noise(5000), b.key("us"), nil)
	message[len(message)-1]++
	b.write("in.pgp", message)
	b.write("final", []byte("before"))
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "final"})
	wantFailure(t, err, `input "in.pgp": is damaged, cut short or was changed`, "nothing was written under the output's name")
	if got := string(b.read("final")); got != "before" {
		t.Errorf("final = %q", got)
	}
	b.wantFiles("final", "in.pgp")
}

func TestDecryptKeys(t *testing.T) {
	b := newBench(t)
	us, them := b.key("us"), pgptest.NewEntity(t, "them", nil)
	b.key("other")
	b.write("ours.pgp", pgptest.Seal(t, []byte("x"), us, nil))
	b.write("theirs.pgp", pgptest.Seal(t, []byte("x"), them, nil))
	var hidden bytes.Buffer
	w, err := openpgp.EncryptWithParams(&hidden, nil, []*openpgp.Entity{us}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	w.Close()
	b.write("hidden.pgp", hidden.Bytes())
	wants := fmt.Sprintf("%016X", them.Subkeys[0].PublicKey.KeyId)
	usSub := fmt.Sprintf("%016X", us.Subkeys[0].PublicKey.KeyId)

	for _, c := range []struct {
		name, input string
		ids         []string
		want        string
	}{
		{"found by message", "ours.pgp", nil, ""},
		{"by name", "ours.pgp", []string{"us"}, ""},
		{"by fingerprint", "ours.pgp", []string{strings.ToLower(pgptest.Fingerprint(us))}, ""},
		{"by key id", "ours.pgp", []string{fmt.Sprintf("0x%016x", us.PrimaryKey.KeyId)}, ""},
		{"by subkey", "ours.pgp", []string{hex.EncodeToString(us.Subkeys[0].PublicKey.Fingerprint)}, ""},
		{"among others", "ours.pgp", []string{"other", "us", "us"}, ""},
		{"hidden", "hidden.pgp", []string{"other", "us"}, ""},
		{"not there", "theirs.pgp", nil, "no private key opens it: it is encrypted to " + wants + "; none of these keys is there"},
		{"wrong", "theirs.pgp", []string{"us"}, "it is encrypted to " + wants + `; key "us" (` + pgptest.Fingerprint(us) + ") has "},
		{"wrong lists subkeys", "theirs.pgp", []string{"us"}, usSub},
		{"unknown", "ours.pgp", []string{"oter"}, `there is no key "oter"; did you mean "other"?`},
		{"hidden without ids", "hidden.pgp", nil, "to keys that it does not name; give the keys to try in private_key_ids"},
		{"hidden, wrong", "hidden.pgp", []string{"other"}, "its session key can't be opened"},
		{"short id", "ours.pgp", []string{"DEADBEEF"}, "easily forged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := b.decrypt(map[string]any{"source_path": c.input, "output_path": "final", "private_key_ids": c.ids})
			if c.want != "" {
				wantFailure(t, err, c.want)
				return
			}
			if err != nil || string(b.read(out.DecryptedFile)) != "x" {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}

	if err := b.keys.Add("", pgp.Key{Data: pgptest.Public(t, them)}); err != nil {
		t.Fatal(err)
	}
	_, err = b.decrypt(map[string]any{"source_path": "theirs.pgp"})
	wantFailure(t, err, "("+pgptest.Fingerprint(them)+") is there without its private part")
	err = b.validate("pgp.decrypt", map[string]any{"source_path": "theirs.pgp", "private_key_ids": []string{pgptest.Fingerprint(them), "nobody"}})
	wantFailure(t, err, "key "+pgptest.Fingerprint(them)+" is there without its private part", `there is no key "nobody"`)
}

// TestManyTrials is a message that would keep the processor busy.
func TestManyTrials(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	message := pgptest.Seal(t, []byte("x"), us, nil)
	length := 2 + int(message[1]) // of the first packet: the session key
	for n, want := range map[int]string{60: "would take 122 attempts", 1200: "names more than 1000 recipients"} {
		hidden := bytes.Clone(message[:length])
		copy(hidden[3:], make([]byte, 8))
		b.write("in.pgp", append(bytes.Repeat(hidden, n+1), message[length:]...))
		_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}})
		wantFailure(t, err, want)
	}
}

func TestPassphrases(t *testing.T) {
	b := newBench(t)
	e := pgptest.NewEntity(t, "us", nil)
	data := pgptest.Private(t, e)
	b.write("a.txt", []byte("a"))
	b.write("in.pgp", pgptest.Seal(t, []byte("x"), e, nil))
	if err := e.EncryptPrivateKeys([]byte("correct horse"), nil); err != nil {
		t.Fatal(err)
	}
	locked := pgptest.Private(t, e)
	if bytes.Equal(data, locked) {
		t.Fatal("the key is not locked")
	}
	for _, c := range []struct{ name, reference, secret, want string }{
		{"right", "vault/us", "correct horse", ""},
		{"wrong", "vault/us", "battery staple", `the secret "vault/us" is not its passphrase`},
		{"none named", "", "", "Key.Passphrase names no secret"},
		{"vault shut", "vault/gone", "", "passphrase: the vault is shut"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.keys = new(pgp.Keyring)
			if err := b.keys.Add("us", pgp.Key{Data: locked, Passphrase: c.reference}); err != nil {
				t.Fatal(err)
			}
			b.reg = courier.Registry{}
			pgp.Register(&b.reg, b.keys)
			b.secrets = map[string]string{"vault/us": c.secret}
			decrypt := map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}}
			encrypt := map[string]any{"source_path": "a.txt", "recipient_key_ids": []string{"us"}, "signing_key_id": "us"}
			for what, err := range map[string]error{
				"decrypt":          second(b.decrypt(decrypt)),
				"encrypt":          second(b.encrypt(encrypt)),
				"validate decrypt": b.validate("pgp.decrypt", decrypt),
				"validate encrypt": b.validate("pgp.encrypt", encrypt),
			} {
				switch {
				case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s: %v, want %q", what, err, c.want)
				case err != nil && courier.IsPermanent(err) != (c.name != "vault shut"):
					t.Errorf("%s: %v: permanent = %v", what, err, courier.IsPermanent(err))
				}
			}
		})
	}
}

// TestBomb is a small message with much content.
func TestBomb(t *testing.T) {
	b := newBench(t)
	us := pgptest.NewEntity(t, "us", func(c *packet.Config) { c.DefaultCompressionAlgo = packet.CompressionZLIB })
	b.add("us", us)
	conf := &packet.Config{DefaultCipher: packet.CipherAES256, DefaultCompressionAlgo: packet.CompressionZLIB}
	const size = 16 << 20
	message := pgptest.Seal(t, make([]byte, size), us, &openpgp.EncryptParams{Config: conf})
	if len(message) > size/100 {
		t.Fatalf("the message has %d bytes", len(message))
	}
	b.write("in.pgp", message)
	for limit, ok := range map[int64]bool{0: true, size: true, size - 1: false, 1000: false, 1: false} {
		_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "final", "max_bytes": limit})
		if ok {
			if err != nil {
				t.Errorf("limit %d: %v", limit, err)
			}
			os.Remove(filepath.Join(b.dir, "final"))
			continue
		}
		wantFailure(t, err, fmt.Sprintf("holds more than %d bytes; raise max_bytes", limit))
		b.wantFiles("in.pgp")
	}
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "max_bytes": -1})
	wantFailure(t, err, "max_bytes: must be at least 0")
}

// TestManySignatures is a small message that unpacks to so many signatures that
// nobody could keep them in memory.
func TestManySignatures(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	signers := make([]*openpgp.Entity, 33)
	for i := range signers {
		signers[i] = us
	}
	b.write("in.pgp", pgptest.SignedBy(t, us, nil, signers[:32]...))
	if out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "final"}); err != nil || len(out.SignerFingerprints) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	b.remove("final")
	b.write("in.pgp", pgptest.SignedBy(t, us, nil, signers...))
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "verify": "off"})
	wantFailure(t, err, "has more than 32 signatures")

	key := pgptest.Noise(32)
	sub, _ := us.EncryptionKey(time.Now(), nil)
	ops := &packet.OnePassSignature{Version: 3, Hash: crypto.SHA256, PubKeyAlgo: packet.PubKeyAlgoEdDSA, KeyId: us.PrimaryKey.KeyId}
	var one, out bytes.Buffer
	if err := errors.Join(ops.Serialize(&one), packet.SerializeEncryptedKey(&out, sub.PublicKey, packet.CipherAES256, key, nil)); err != nil {
		t.Fatal(err)
	}
	w, err := packet.SerializeSymmetricallyEncrypted(&out, packet.CipherAES256, false, packet.CipherSuite{}, key, nil)
	if err == nil {
		w, err = packet.SerializeCompressed(w, packet.CompressionZLIB, nil)
	}
	if err == nil {
		_, err = w.Write(bytes.Repeat(one.Bytes(), 1_000_000))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	b.write("in.pgp", out.Bytes())
	start := time.Now()
	_, err = b.decrypt(map[string]any{"source_path": "in.pgp"})
	wantFailure(t, err, "has more than 32 signatures")
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	b.wantFiles("in.pgp")
}

func TestDecryptPlaces(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	message := pgptest.Seal(t, []byte("x"), us, nil)
	b.write("there/x", nil)
	for _, c := range []struct{ input, output, want string }{
		{"a.txt.pgp", "", "2/1/a.txt"},
		{"a.txt.GPG", "", "2/1/a.txt"},
		{"in/a.txt.asc", "", "2/1/a.txt"},
		{"a.txt", "", "2/1/a.txt.dec"},
		{".pgp", "", "2/1/.pgp.dec"},
		{"a.tar.pgp", "there", "there/a.tar"},
		{"a.tar.pgp", "new/", "new/a.tar"},
		{"a.tar.pgp", "b", "b"},
	} {
		b.write(c.input, message)
		out, err := b.decrypt(map[string]any{"source_path": c.input, "output_path": c.output})
		if err != nil || out.DecryptedFile != c.want {
			t.Errorf("%q to %q: %q, %v, want %q", c.input, c.output, out.DecryptedFile, err, c.want)
		}
	}
	_, err := b.decrypt(map[string]any{"source_path": "a.tar.pgp", "output_path": "a.tar.pgp"})
	wantFailure(t, err, "is the input itself")
}

// TestOriginalName shows the name inside a message only if it is harmless, and
// never follows it.
func TestOriginalName(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	for name, want := range map[string]string{
		"invoice 7.csv": "invoice 7.csv", "Übersicht.txt": "Übersicht.txt",
		"": "", "../../etc/passwd": "", "/etc/passwd": "", `..\x`: "", "..": "", ".ssh": "", "C:x": "",
		"a\x00b": "", "a\nb": "", "_CONSOLE": "", "nul": "", "LPT1.txt": "", "a\u202Efdp.exe": "", "x\xff": "",
	} {
		b.write("in.pgp", pgptest.Seal(t, []byte("x"), us, &openpgp.EncryptParams{Hints: &openpgp.FileHints{FileName: name}}))
		out, err := b.decrypt(map[string]any{"source_path": "in.pgp"})
		if err != nil || out.OriginalName != want || out.DecryptedFile != "2/1/in" {
			t.Errorf("%q: %+v, %v, want %q", name, out, err, want)
		}
	}
	b.wantFiles("2/1/in", "in.pgp")
}

func TestNoKeys(t *testing.T) {
	b := newBench(t)
	b.reg = courier.Registry{}
	pgp.Register(&b.reg, nil)
	b.write("in.pgp", pgptest.Seal(t, []byte("x"), pgptest.NewEntity(t, "x", nil), nil))
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp"})
	wantFailure(t, err, "no keys are configured")
	_, err = b.encrypt(map[string]any{"source_path": "in.pgp", "recipient_key_ids": []string{"x"}})
	wantFailure(t, err, "no keys are configured")
}

func TestValidateInput(t *testing.T) {
	b := newBench(t)
	b.key("us")
	absent := filepath.Join(b.dir, "absent")
	for input, ok := range map[string]bool{"made/later.pgp": true, absent: false, "/etc/passwd": false} {
		err := b.validate("pgp.decrypt", map[string]any{"source_path": input})
		if (err == nil) != ok {
			t.Errorf("%s: %v", input, err)
		}
		err = b.validate("pgp.encrypt", map[string]any{"source_path": input, "recipient_key_ids": []string{"us"}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", input, err)
		}
	}
	if err := b.validate("pgp.decrypt", map[string]any{"source_path": absent}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want ErrNotExist", err)
	}
}
