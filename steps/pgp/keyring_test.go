package pgp_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

func ExampleGenerateKey() {
	var keys pgp.Keyring
	key, err := pgp.GenerateKey("Example Ltd", "files@example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := keys.Add("example", key); err != nil {
		fmt.Println(err)
		return
	}
	public, err := key.Public()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.SplitN(string(public.Data), "\n", 2)[0])

	var reg courier.Registry
	pgp.Register(&reg, &keys)
	fmt.Println(reg.Keys())
	// Output:
	// -----BEGIN PGP PUBLIC KEY BLOCK-----
	// [pgp.decrypt pgp.encrypt pgp.sign pgp.verify]
}

func TestKeyringFindsKeys(t *testing.T) {
	var r pgp.Keyring
	e := pgptest.NewEntity(t, "acme", nil)
	if err := r.Add("acme-prod", pgp.Key{Data: pgptest.Private(t, e)}); err != nil {
		t.Fatal(err)
	}
	fp := pgptest.Fingerprint(e)
	spaced := ""
	for i := 0; i < len(fp); i += 4 {
		spaced += fp[i:i+4] + " "
	}
	for _, id := range []string{
		"acme-prod", fp, strings.ToLower(fp), "0x" + fp, spaced, fp[24:], "0x" + strings.ToLower(fp[24:]),
		hex.EncodeToString(e.Subkeys[0].PublicKey.Fingerprint), fmt.Sprintf("%016X", e.Subkeys[0].PublicKey.KeyId),
	} {
		k, err := r.Key(t.Context(), id)
		if err != nil {
			t.Errorf("Key(%q): %v", id, err)
			continue
		}
		if got, err := k.Fingerprint(); err != nil || got != fp {
			t.Errorf("Key(%q) = %s, %v", id, got, err)
		}
	}
	for id, want := range map[string]string{
		"acme-prd":              `there is no key "acme-prd"; did you mean "acme-prod"?`,
		"ACME":                  `known are acme-prod, ` + fp,
		fp[32:]:                 "easily forged",
		"":                      "there is no key",
		strings.Repeat("F", 16): "there is no key",
		"a\x1b[31mb":            `key "a?[31mb"`,
	} {
		_, err := r.Key(t.Context(), id)
		if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("Key(%q): %v, want %q", id, err, want)
		}
	}
}

func TestKeyringRefuses(t *testing.T) {
	var r pgp.Keyring
	one, two := pgptest.NewEntity(t, "one", nil), pgptest.NewEntity(t, "two", nil)
	key := func(e *openpgp.Entity) pgp.Key { return pgp.Key{Data: pgptest.Private(t, e)} }
	if err := r.Add("partner", key(one)); err != nil {
		t.Fatal(err)
	}
	if err := r.Add("partner", key(one)); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := r.Add("partner", key(two)); !errors.Is(err, courier.ErrConflict) {
		t.Errorf("another key under the name: %v", err)
	}
	pub, _ := key(one).Public()
	for name, c := range map[string]struct{ data, want string }{
		"deadbeef":         {string(pgptest.Private(t, two)), "looks like a key id"},
		"0123456789abcdef": {string(pgptest.Private(t, two)), "looks like a key id"},
		"empty":            {"", "the key is empty"},
		"text":             {"hello", "not an OpenPGP key"},
		"junk":             {"\x99\x01\x0d\x04abc", "not a readable OpenPGP key"},
		"two":              {string(pgptest.Private(t, one)) + string(pgptest.Private(t, two)), "holds 2 keys"},
		"twoArmored":       {string(pub.Data) + "\n" + string(pub.Data), "holds 2 keys"},
		"message":          {string(pgptest.Armor(t, pgptest.Seal(t, nil, one, nil))), "the armor is of a PGP MESSAGE, not of a key"},
	} {
		if err := r.Add(name, pgp.Key{Data: []byte(c.data)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAmbiguousID has a key whose subkey is somebody else's, as a forger would
// publish it.
func TestAmbiguousID(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	thief := pgptest.NewEntity(t, "thief", nil)
	stolen := us.Subkeys[0]
	thief.Subkeys = append(thief.Subkeys, openpgp.Subkey{Primary: thief, PublicKey: stolen.PublicKey, Bindings: thief.Subkeys[0].Bindings})
	if err := b.keys.Add("thief", pgp.Key{Data: pgptest.Public(t, thief)}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{fmt.Sprintf("%016X", stolen.PublicKey.KeyId), hex.EncodeToString(stolen.PublicKey.Fingerprint)} {
		_, err := b.keys.Key(t.Context(), id)
		wantFailure(t, err, "2 keys fit this id; give the fingerprint", pgptest.Fingerprint(us), pgptest.Fingerprint(thief))
	}
	b.write("in.pgp", pgptest.Seal(t, []byte("x"), us, nil))
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp"})
	wantFailure(t, err, "2 keys fit this id")
	if _, err := b.decrypt(map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}}); err != nil {
		t.Error(err)
	}
}

// TestKeyringJoins adds the public and the private form of a key, in both
// orders; the public one is newer and revoked.
func TestKeyringJoins(t *testing.T) {
	e := pgptest.NewEntity(t, "us", nil)
	if err := e.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	e.Subkeys, e.Subkeys[1].Primary = e.Subkeys[:1], e
	secret := pgp.Key{Data: pgptest.Private(t, e), Passphrase: "vault"}
	more := e.Subkeys[:2][1]
	e.Subkeys = append(e.Subkeys, more)
	if err := e.Revoke(packet.KeySuperseded, "", nil); err != nil {
		t.Fatal(err)
	}
	fresh := pgp.Key{Data: pgptest.Public(t, e)}
	for _, order := range [][]pgp.Key{{secret, fresh}, {fresh, secret}, {fresh, secret, fresh}} {
		var r pgp.Keyring
		for _, k := range order {
			if err := r.Add("us", k); err != nil {
				t.Fatal(err)
			}
		}
		k, err := r.Key(t.Context(), "us")
		if err != nil || k.Passphrase != "vault" {
			t.Fatalf("%v, %v", k, err)
		}
		list, err := openpgp.ReadKeyRing(bytes.NewReader(k.Data))
		if err != nil {
			t.Fatal(err)
		}
		got := list[0]
		if got.PrivateKey == nil || !got.Revoked(time.Now()) || len(got.Subkeys) != 2 || got.Subkeys[0].PrivateKey == nil {
			t.Errorf("joined: private %v, revoked %v, %d subkeys", got.PrivateKey != nil, got.Revoked(time.Now()), len(got.Subkeys))
		}
		if _, err := r.Key(t.Context(), hex.EncodeToString(more.PublicKey.Fingerprint)); err != nil {
			t.Errorf("the further subkey: %v", err)
		}
		if got := r.Fingerprints(); !slices.Equal(got, []string{pgptest.Fingerprint(e)}) {
			t.Errorf("fingerprints = %q", got)
		}
	}
}

func TestReadKeyring(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	us, them, other := pgptest.NewEntity(t, "us", nil), pgptest.NewEntity(t, "them", nil), pgptest.NewEntity(t, "other", nil)
	if err := us.EncryptPrivateKeys([]byte("secret"), nil); err != nil {
		t.Fatal(err)
	}
	armor, err := pgp.Key{Data: pgptest.Public(t, them)}.Public()
	if err != nil {
		t.Fatal(err)
	}
	save("us.sec", pgptest.Private(t, us))
	save("them.asc", append([]byte("\uFEFFThis is our key:\r\n\r\n"), bytes.ReplaceAll(armor.Data, []byte("\n"), []byte("\r\n"))...))
	save("all.GPG", append(pgptest.Public(t, other), pgptest.Public(t, them)...))
	save(pgptest.Fingerprint(other)+".asc", pgptest.Public(t, other))
	save("notes.txt", []byte("not a key"))
	save(".asc", []byte("not a key"))
	if err := os.Mkdir(filepath.Join(dir, "old.asc"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := pgp.ReadKeyring(dir, map[string]string{"us": "vault/us"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Fingerprints(); len(got) != 3 {
		t.Errorf("fingerprints = %q", got)
	}
	for id, want := range map[string]*openpgp.Entity{"us": us, "them": them, pgptest.Fingerprint(other): other} {
		k, err := r.Key(t.Context(), id)
		if got, _ := k.Fingerprint(); err != nil || got != pgptest.Fingerprint(want) {
			t.Errorf("%s: %s, %v", id, got, err)
		}
		if secret := map[bool]string{true: "vault/us"}[id == "us"]; k.Passphrase != secret {
			t.Errorf("%s: passphrase = %q, want %q", id, k.Passphrase, secret)
		}
	}
	if _, err := pgp.ReadKeyring(filepath.Join(dir, "them.asc"), nil); err != nil {
		t.Error(err)
	}
	for want, c := range map[string]struct {
		path string
		ids  map[string]string
	}{
		"no such file": {filepath.Join(dir, "gone"), nil},
		`read keyring: passphrases: there is no key "uss"; did you mean "us"?`: {dir, map[string]string{"uss": "x"}},
		"is not locked":  {dir, map[string]string{"them": "x"}},
		"no file in it":  {t.TempDir(), nil},
		"not an OpenPGP": {filepath.Join(dir, "notes.txt"), nil},
	} {
		if _, err := pgp.ReadKeyring(c.path, c.ids); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestLongLengths has a key with lengths of subpackets in five octets, which the library
// writes in another form: it is read from a directory, and in two forms one after the
// other, locked, and used.
func TestLongLengths(t *testing.T) {
	b := newBench(t)
	e := pgptest.NewEntity(t, "long", func(c *packet.Config) { c.Algorithm, c.RSABits = packet.PubKeyAlgoRSA, 2048 })
	open := pgp.Key{Data: pgptest.LongLengths(t, e)}
	if err := e.EncryptPrivateKeys([]byte("secret"), nil); err != nil {
		t.Fatal(err)
	}
	b.secrets["vault/long"] = "secret"
	secret := pgp.Key{Data: withLocked(t, open.Data, e), Passphrase: "vault/long"}
	public, err := secret.Public()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"long.asc": public.Data, "long.sec": secret.Data} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read, err := pgp.ReadKeyring(dir, map[string]string{"long": "vault/long"})
	if err != nil {
		t.Fatal(err)
	}
	var added pgp.Keyring
	for _, k := range []pgp.Key{public, secret} {
		if err := added.Add("long", k); err != nil {
			t.Fatal(err)
		}
	}
	b.write("a.txt", []byte("content"))
	for name, r := range map[string]*pgp.Keyring{"read": read, "added": &added} {
		k, err := r.Key(t.Context(), "long")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := b.keys.Add("long", k); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := b.encrypt(map[string]any{"source_path": "a.txt", "output_path": "a.pgp", "recipient_key_ids": []string{"long"}, "signing_key_id": "long"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, err := b.decrypt(map[string]any{"source_path": "a.pgp", "output_path": "b.txt", "signer_key_ids": []string{"long"}})
		if err != nil || string(b.read("b.txt")) != "content" || out.SignerFingerprint != pgptest.Fingerprint(e) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

// withLocked replaces the private keys in the binary form of e by those of e.
func withLocked(t *testing.T, data []byte, e *openpgp.Entity) []byte {
	t.Helper()
	private := []*packet.PrivateKey{e.PrivateKey, e.Subkeys[0].PrivateKey}
	var out bytes.Buffer
	for r := packet.NewOpaqueReader(bytes.NewReader(data)); ; {
		p, err := r.Next()
		if err == io.EOF {
			return out.Bytes()
		}
		if err == nil && (p.Tag == 5 || p.Tag == 7) {
			err = private[0].Serialize(&out)
			private = private[1:]
		} else if err == nil {
			err = p.Serialize(&out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadableKeyFile has a directory in which one file is damaged: it is named, the
// keys of the others are used, and after a change those that were read from it before.
func TestUnreadableKeyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	us, them, new := pgptest.NewEntity(t, "us", nil), pgptest.NewEntity(t, "them", nil), pgptest.NewEntity(t, "new", nil)
	write("us.gpg", pgptest.Private(t, us))
	write("bad.gpg", pgptest.Public(t, them)[:20])
	r, err := pgp.ReadKeyring(dir, map[string]string{"them": "vault/them"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Key(t.Context(), "us"); err != nil {
		t.Error(err)
	}
	if bad := r.Unreadable(); len(bad) != 1 || !strings.Contains(bad[0].Error(), "bad.gpg: not a readable OpenPGP key") {
		t.Errorf("unreadable: %v", bad)
	}
	if _, err := r.Key(t.Context(), "them"); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), "bad.gpg") {
		t.Errorf("a key that may be in the file: %v", err)
	}

	var log bytes.Buffer
	f, err := pgp.OpenKeyring(dir, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || !strings.Contains(log.String(), "bad.gpg") {
		t.Fatalf("%v; log: %s", err, &log)
	}
	write("bad.gpg", pgptest.Public(t, them))
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	write("bad.gpg", pgptest.Public(t, them)[:20])
	write("new.gpg", pgptest.Public(t, new))
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "bad.gpg") {
		t.Errorf("reload: %v", err)
	}
	for name, want := range map[string]*openpgp.Entity{"us": us, "bad": them, "new": new} {
		k, err := f.Key(t.Context(), name)
		if got, _ := k.Fingerprint(); err != nil || got != pgptest.Fingerprint(want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"us.gpg", "new.gpg"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgp.ReadKeyring(dir, nil); err == nil || !strings.Contains(err.Error(), "bad.gpg") {
		t.Errorf("no readable file: %v", err)
	}
}

// TestKeyIsNotShown formats a key in every way.
func TestKeyIsNotShown(t *testing.T) {
	k, err := pgp.GenerateKey("n", "n@example.com")
	if err != nil {
		t.Fatal(err)
	}
	fp, err := k.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	want := "pgp.Key(" + fp + ")"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != want {
			t.Errorf("%s: %s", verb, got)
		}
		if got := fmt.Sprintf(verb, []any{&k}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", verb, got)
		}
	}
	if raw, err := json.Marshal(k); err != nil || string(raw) != `{"Passphrase":""}` {
		t.Errorf("%s, %v", raw, err)
	}
	if got := fmt.Sprint(pgp.Key{}); got != "pgp.Key(invalid)" {
		t.Error(got)
	}
	if _, err := pgp.GenerateKey("a<b", ""); err == nil {
		t.Error("a name with < was accepted")
	}
}

// TestGenerateKeyInBubble makes keys at the time that holds there.
func TestGenerateKeyInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		k, err := pgp.GenerateKey("Bubble", "b@example.com")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.keys.Add("b", k); err != nil {
			t.Fatal(err)
		}
		b.write("a.txt", []byte("a"))
		if _, err := b.encrypt(map[string]any{"source_path": "a.txt", "output_path": "a.pgp", "recipient_key_ids": []string{"b"}, "signing_key_id": "b"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		out, err := b.decrypt(map[string]any{"source_path": "a.pgp", "signer_key_ids": []string{"b"}})
		if err != nil || out.SignedAt.Year() != 2000 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
