package pgp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// FuzzKeyring adds anything as a key. What can be added is found by its fingerprint, and
// formatting shows nothing of it.
func FuzzKeyring(f *testing.F) {
	for _, data := range [][]byte{pgptest.ArmoredKey, pgptest.ArmoredSHA1Key, []byte("key"), []byte("\x99")} {
		f.Add(data)
		f.Add(append(bytes.Clone(data), data...))
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ring Keyring
		k := Key{Data: data}
		if err := ring.Add("", k); err != nil {
			return
		}
		fp, err := k.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Count(text, "pgp.Key("+fp+")") != 4 {
			t.Errorf("a key is shown as %q", text)
		}
		if err := ring.Add("", k); err != nil { // it is merged with itself
			t.Fatalf("the key %s can't be added again: %v", fp, err)
		}
		if len(fp) == 32 {
			return // of version 3, which no id means
		}
		got, err := ring.Key(t.Context(), fp)
		if shown, _ := got.Fingerprint(); err != nil || shown != fp {
			t.Errorf("the key %s is not found by its fingerprint: %v, %v", fp, got, err)
		}
	})
}

// FuzzKeyID asks for a key by anything. Ids have one form, and the errors of
// those that are not there say so without repeating what could do harm.
func FuzzKeyID(f *testing.F) {
	for _, s := range []string{"", "0x0123456789abcdef", "0123 4567 89AB CDEF 0123  4567 89AB CDEF 0123 4567", "01:23:45:67", "0X0x12345678", "acme", "\x1b[2J", "\xff", "ｆｆｆｆｆｆｆｆ"} {
		f.Add(s)
	}
	ring := new(Keyring)
	f.Fuzz(func(t *testing.T, id string) {
		if n := pgpstream.NormalizeID(id); n != "" && (pgpstream.NormalizeID(n) != n || pgpstream.NormalizeID("0x"+strings.ToLower(n)) != n) {
			t.Errorf("%q is %q, and that is %q", id, n, pgpstream.NormalizeID(n))
		}
		_, err := ring.Key(t.Context(), id)
		if !errors.Is(err, courier.ErrNotFound) || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
			t.Errorf("Key(%q) = %v", id, err)
		}
	})
}

// FuzzDecryptedName checks the default names of outputs: each is one name in its
// directory, and not that of the input.
func FuzzDecryptedName(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "a/b", `a\b`, "nul.txt", "x.pgp", ".pgp", "/", ".", "..", "a.GPG", "a\u202eb", "a\x00", "\xff", "a ", "x/.asc", "x/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := decryptedName(name)
		if got == "" || got == "." || got == ".." || got == baseName(name) || strings.Contains(strings.TrimPrefix(got, "/"), "/") {
			t.Errorf("decryptedName(%q) = %q", name, got)
		}
	})
}

// TestVerifyStatusValues expects the statuses of package pgpstream among those of outputs.
func TestVerifyStatusValues(t *testing.T) {
	for status, of := range map[VerifyStatus]pgpstream.Status{
		StatusInvalid: pgpstream.StatusInvalid, StatusValid: pgpstream.StatusValid, StatusUnsigned: pgpstream.StatusUnsigned,
		StatusUnknownSigner: pgpstream.StatusUnknownSigner, StatusExpiredKey: pgpstream.StatusExpiredKey,
		StatusRevokedKey: pgpstream.StatusRevokedKey, StatusUnsafe: pgpstream.StatusUnsafe, StatusNotChecked: pgpstream.StatusNotChecked,
	} {
		if VerifyStatus(of) != status {
			t.Errorf("%q is %q in package pgpstream", status, of)
		}
	}
}
