package pgpstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// FuzzArmorWriter writes anything in armor, in pieces of any size, and reads it back
// by this package and by the library.
func FuzzArmorWriter(f *testing.F) {
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
		src, err := newMessageReader(bytes.NewReader(text.Bytes()), armorMessage)
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
func isPlain(err error) bool { return Printable(err.Error(), 2000) == err.Error() }

// FuzzKeys reads anything as keys. What is read is written again without a
// loss; no error or formatting shows what it was.
func FuzzKeys(f *testing.F) {
	for _, data := range [][]byte{pgptest.ArmoredKey, pgptest.ArmoredSHA1Key} {
		f.Add(data)
		f.Add(append(bytes.Clone(data), data...))
		key, err := ParseKey("", data)
		if err != nil {
			f.Fatal(err)
		}
		for _, private := range []bool{false, true} {
			text, err := key.Armor(private)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
			f.Add(text[:len(text)/2])
		}
		f.Add(key.data)
		f.Add(key.data[:len(key.data)/2])
	}
	for _, s := range []string{"", "\uFEFF", "key", "12345678KBXf....", "\x99", "\xc6\x00", "-----BEGIN PGP \x1b[2J-----\n\n=abcd\n-----END PGP \x1b[2J-----"} {
		f.Add([]byte(s))
	}
	print := regexp.MustCompile(`^([0-9A-F]{32}|[0-9A-F]{40}|[0-9A-F]{64})$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ParseKeys(data)
		if err != nil {
			if !isPlain(err) {
				t.Errorf("the error is %q", err)
			}
			return
		}
		for _, one := range list {
			e, fp := one.entity, one.Fingerprint()
			if !print.MatchString(fp) {
				t.Errorf("fingerprint %q", fp)
			}
			k, err := ParseKey("", one.Bytes())
			if err != nil {
				t.Fatalf("the key %s can't be read again: %v", fp, err)
			}
			back := k.entity
			if k.Fingerprint() != fp || len(back.Subkeys) != len(e.Subkeys) || len(back.Identities) != len(e.Identities) ||
				k.HasPrivate() != hasPrivate(e) || k.Locked() != locked(e) || signatures(back) != signatures(e) {
				t.Errorf("the key %s has changed", fp)
			}
			if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Count(text, "key "+fp) != 4 || len(text) != 4*len("key "+fp)+3 {
				t.Errorf("a key is shown as %q", text)
			}
			again, err := ParseKey("", k.data)
			if err == nil {
				k, err = k.Merge(again)
			}
			if err != nil || k.Fingerprint() != fp {
				t.Fatalf("the key %s can't be merged with itself: %v", fp, err)
			}
			for _, id := range k.IDs() {
				if len(id) != 32 && NormalizeID(id) != id { // version 3, which no id means
					t.Errorf("the key %s has the id %q", fp, id)
				}
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

// FuzzMessageHeader reads anything as the beginning of a message. Errors are those
// of a message, and what is said of it is bounded.
func FuzzMessageHeader(f *testing.F) {
	key, err := ParseKey("", pgptest.ArmoredKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key.data)
	for _, s := range []string{"", "\xc1\x03abc", "\xcb\x08b\x00\x00\x00\x00\x00hi", "\xd2\x02\x01x", "\xd4\x04\x01\x09\x02\x10", "\xc9\x01x", "\xc3\x04\x04\x09\x00\x08\xd2\x02\x01x",
		"\xc1\x0c\x03\x01\x02\x03\x04\x05\x06\x07\x08\x01\x00\x00\xd2\x02\x01x", "\x99\x00\x01\x04", "-----BEGIN PGP MESSAGE-----\n\n0gIBeA==\n-----END PGP MESSAGE-----\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := newMessageReader(bytes.NewReader(data), armorMessage)
		var h *messageHeader
		if err == nil {
			h, err = readHeader(src)
		}
		if err != nil {
			if _, ok := errors.AsType[MessageError](err); !ok || !isPlain(err) {
				t.Errorf("the error is a %T: %q", err, err)
			}
			return
		}
		if len(h.ids) > maxRecipients || h.start < 0 || h.start > int64(len(data)) || len(h.recipients()) > 2000 {
			t.Errorf("%d recipients, start %d, %s", len(h.ids), h.start, h.recipients())
		}
		for _, id := range h.ids {
			if NormalizeID(id) != id {
				t.Errorf("recipient %q", id)
			}
		}
	})
}

// FuzzHarmlessName checks the names that come out of messages: each is one name in its
// directory.
func FuzzHarmlessName(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "a/b", `a\b`, "_CONSOLE", "nul.txt", "/", ".", "..", "a\u202eb", "a\x00", "\xff", "a ", "x/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := harmlessName(name); got != "" && (got != name || safename.Check(got) != nil) {
			t.Errorf("harmlessName(%q) = %q", name, got)
		}
	})
}
