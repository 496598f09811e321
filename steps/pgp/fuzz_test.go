package pgp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// FuzzArmor writes anything in armor, in pieces of any size, and reads it back
// by this package and by the library.
func FuzzArmor(f *testing.F) {
	f.Add([]byte(""), uint16(1))
	f.Add([]byte("hello"), uint16(2))
	f.Add(bytes.Repeat([]byte("much of the same "), 50), uint16(49))
	f.Fuzz(func(t *testing.T, content []byte, piece uint16) {
		var text bytes.Buffer
		w := newArmorWriter(&text, armorMessage)
		for rest := content; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		src, err := newSource(bytes.NewReader(text.Bytes()), armorMessage)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(src); err != nil || !bytes.Equal(got, content) || src.n != int64(len(content)) {
			t.Errorf("%q is read back as %q, %v", content, got, err)
		}
		block, err := armor.Decode(&text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(block.Body); err != nil || !bytes.Equal(got, content) {
			t.Errorf("the library reads %q as %q, %v", content, got, err)
		}
	})
}

// isPlain reports whether the text of an error shows nothing that could act on
// a terminal, and is short.
func isPlain(err error) bool { return plain(err.Error(), 2000) == err.Error() }

// FuzzKeys reads anything as keys. What is read is written again without a
// loss, and found in a keyring; no error or formatting shows what it was.
func FuzzKeys(f *testing.F) {
	for _, file := range []string{"fuzz.asc", "sha1.asc"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(bytes.Clone(data), data...))
		list, err := parseKeys(data)
		if err != nil {
			f.Fatal(err)
		}
		for _, private := range []bool{false, true} {
			var buf bytes.Buffer
			if err := serialize(&buf, list[0], private); err != nil {
				f.Fatal(err)
			}
			f.Add(buf.Bytes())
			f.Add(buf.Bytes()[:buf.Len()/2])
		}
	}
	for _, s := range []string{"", "\uFEFF", "key", "12345678KBXf....", "\x99", "\xc6\x00", "-----BEGIN PGP \x1b[2J-----\n\n=abcd\n-----END PGP \x1b[2J-----"} {
		f.Add([]byte(s))
	}
	print := regexp.MustCompile(`^([0-9A-F]{32}|[0-9A-F]{40}|[0-9A-F]{64})$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseKeys(data)
		if err != nil {
			if !isPlain(err) {
				t.Errorf("the error is %q", err)
			}
			return
		}
		var ring Keyring
		for _, e := range list {
			fp := fingerprint(e.PrimaryKey)
			if !print.MatchString(fp) {
				t.Errorf("fingerprint %q", fp)
			}
			var buf bytes.Buffer
			if err := serialize(&buf, e, hasPrivate(e)); err != nil {
				continue // of a kind that can be read but not written
			}
			k := Key{Data: buf.Bytes()}
			back, err := parseKey(k.Data)
			if err != nil {
				t.Fatalf("the key %s can't be read again: %v", fp, err)
			}
			if fingerprint(back.PrimaryKey) != fp || len(back.Subkeys) != len(e.Subkeys) || len(back.Identities) != len(e.Identities) ||
				hasPrivate(back) != hasPrivate(e) || locked(back) != locked(e) || signatures(back) != signatures(e) {
				t.Errorf("the key %s has changed", fp)
			}
			if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Count(text, "pgp.Key("+fp+")") != 4 {
				t.Errorf("a key is shown as %q", text)
			}
			for range 2 { // the second time it joins with itself
				if err := ring.Add("", k); err != nil {
					t.Fatalf("the key %s can't be added: %v", fp, err)
				}
			}
			got, err := ring.Key(t.Context(), fp)
			if len(fp) == 32 {
				continue // of version 3, which no id means
			}
			if shown, _ := got.Fingerprint(); err != nil || shown != fp {
				t.Errorf("the key %s is not found by its fingerprint: %v, %v", fp, got, err)
			}
		}
	})
}

// signatures counts those that hold a key together.
func signatures(e *openpgp.Entity) int {
	n := len(e.Revocations) + len(e.DirectSignatures)
	for _, id := range e.Identities {
		n += len(id.SelfCertifications) + len(id.Revocations)
	}
	for _, sub := range e.Subkeys {
		n += len(sub.Bindings) + len(sub.Revocations)
	}
	return n
}

// FuzzEnvelope reads anything as the beginning of a message. Errors are those
// of a message, and what is said of it is bounded.
func FuzzEnvelope(f *testing.F) {
	data, err := os.ReadFile("testdata/fuzz.asc")
	if err != nil {
		f.Fatal(err)
	}
	key, err := parseKey(data)
	if err != nil {
		f.Fatal(err)
	}
	for _, private := range []bool{false, true} {
		var buf bytes.Buffer
		if err := serialize(&buf, key, private); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	for _, s := range []string{"", "\xc1\x03abc", "\xcb\x08b\x00\x00\x00\x00\x00hi", "\xd2\x02\x01x", "\xd4\x04\x01\x09\x02\x10", "\xc9\x01x", "\xc3\x04\x04\x09\x00\x08\xd2\x02\x01x",
		"\xc1\x0c\x03\x01\x02\x03\x04\x05\x06\x07\x08\x01\x00\x00\xd2\x02\x01x", "\x99\x00\x01\x04", "-----BEGIN PGP MESSAGE-----\n\n0gIBeA==\n-----END PGP MESSAGE-----\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := newSource(bytes.NewReader(data), armorMessage)
		var env *envelope
		if err == nil {
			env, err = readEnvelope(src)
		}
		if err != nil {
			if _, ok := errors.AsType[messageError](err); !ok || !isPlain(err) {
				t.Errorf("the error is a %T: %q", err, err)
			}
			return
		}
		if len(env.ids) > maxRecipients || env.start < 0 || env.start > int64(len(data)) || len(env.wants()) > 2000 {
			t.Errorf("%d recipients, start %d, %s", len(env.ids), env.start, env.wants())
		}
		for _, id := range env.ids {
			if normalID(id) != id {
				t.Errorf("recipient %q", id)
			}
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
		if n := normalID(id); n != "" && (normalID(n) != n || !idForm.MatchString(n) || normalID("0x"+strings.ToLower(n)) != n) {
			t.Errorf("%q is %q, and that is %q", id, n, normalID(n))
		}
		_, err := ring.Key(t.Context(), id)
		if !errors.Is(err, courier.ErrNotFound) || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
			t.Errorf("Key(%q) = %v", id, err)
		}
	})
}

// FuzzNames checks the names that come out of messages and their files: each is
// one name in its directory.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "a/b", `a\b`, "_CONSOLE", "nul.txt", "x.pgp", ".pgp", "/", ".", "..", "a.GPG", "a\u202eb", "a\x00", "\xff", "a ", "x/.asc", "x/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := harmless(name); got != "" && (got != name || safename.Check(got) != nil) {
			t.Errorf("harmless(%q) = %q", name, got)
		}
		got := decryptedName(name)
		if got == "" || got == "." || got == ".." || got == baseName(name) || strings.Contains(strings.TrimPrefix(got, "/"), "/") {
			t.Errorf("decryptedName(%q) = %q", name, got)
		}
	})
}
