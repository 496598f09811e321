package pgp

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/pgpstream"
)

// A Keyring is [Keys] in memory. The zero value is empty and ready to use. It
// may be used by several goroutines, and must not be copied after first use.
type Keyring struct {
	mu     sync.RWMutex
	names  map[string]*entry   // of the host's choice
	prints map[string]*entry   // by fingerprint
	ids    map[string][]*entry // by key id, and by fingerprint of a subkey
}

// An entry is one key, whose public and private forms may have been added one
// after the other.
type entry struct {
	print string
	key   Key
}

var _ Keys = (*Keyring)(nil)

// Add adds a key under a name, or without one if name is empty; its
// fingerprints and key ids always lead to it. A name must not look like a
// fingerprint or a key id. A key that is already there gets the further name
// and what is new in k: its private part, later ends, revocations. The error
// of a name that belongs to another key matches [courier.ErrConflict].
func (r *Keyring) Add(name string, k Key) error {
	parsed, err := pgpstream.ParseKey(name, k.Data)
	if err != nil {
		return fmt.Errorf("add key %q: %w", name, err)
	}
	if pgpstream.NormalizeID(name) != "" {
		return fmt.Errorf("add key %q: the name looks like a key id; fingerprints and key ids need no name", name)
	}
	print := parsed.Fingerprint()
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.names[name]; other != nil && other.print != print {
		return fmt.Errorf("add key %q: %w: the name belongs to the key %s", name, courier.ErrConflict, other.print)
	}
	if r.names == nil {
		r.names, r.prints, r.ids = make(map[string]*entry), make(map[string]*entry), make(map[string][]*entry)
	}
	ent := r.prints[print]
	if ent == nil {
		ent = &entry{print: print, key: k}
		r.prints[print] = ent
	} else if ent.key, parsed, err = merge(ent.key, k, parsed); err != nil {
		return fmt.Errorf("add key %q: %w", name, err)
	}
	for _, id := range parsed.IDs() {
		if !slices.Contains(r.ids[id], ent) {
			r.ids[id] = append(r.ids[id], ent)
		}
	}
	if name != "" {
		r.names[name] = ent
	}
	return nil
}

// merge joins two forms of the same key; parsed is the second one. Where both have a
// private part the second one's counts. After an error it returns old.
func merge(old, k Key, parsed *pgpstream.Key) (Key, *pgpstream.Key, error) {
	was, err := pgpstream.ParseKey(parsed.Name(), old.Data)
	if err != nil {
		return old, nil, err
	}
	first, second, passphrase := parsed, was, k.Passphrase
	if !parsed.HasPrivate() && was.HasPrivate() {
		first, second, passphrase = was, parsed, old.Passphrase
	}
	merged, err := first.Merge(second)
	if err != nil {
		return old, nil, err
	}
	data, err := merged.Serialize()
	if err != nil {
		return old, nil, err
	}
	return Key{Data: data, Passphrase: passphrase}, merged, nil
}

// Key implements [Keys].
func (r *Keyring) Key(_ context.Context, id string) (Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if ent := r.names[id]; ent != nil {
		return ent.key, nil
	}
	n := pgpstream.NormalizeID(id)
	if ent := r.prints[n]; ent != nil {
		return ent.key, nil
	}
	const shortID = 8
	switch fits := r.ids[n]; {
	case len(fits) == 1:
		return fits[0].key, nil
	case len(fits) > 1:
		prints := make([]string, len(fits))
		for i, ent := range fits {
			prints[i] = ent.print
		}
		return Key{}, permanentf("key %q: %d keys fit this id; give the fingerprint: %s", id, len(fits), strings.Join(prints, " or "))
	case len(n) == shortID:
		return Key{}, courier.Permanent(courier.Errorf(courier.ErrNotFound, "key %q: ids of 8 digits are easily forged and not looked for; give the fingerprint", id))
	}
	return Key{}, courier.Errorf(courier.ErrNotFound, "there is no key %q; %s", pgpstream.Printable(id, 100), nearest.DidYouMean(id, r.known()))
}

// known lists what keys are called, names first.
func (r *Keyring) known() []string {
	names := slices.Sorted(maps.Keys(r.names))
	return append(names, r.fingerprints()...)
}

// Fingerprints lists the fingerprints of the keys, in order.
func (r *Keyring) Fingerprints() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.fingerprints()
}

func (r *Keyring) fingerprints() []string { return slices.Sorted(maps.Keys(r.prints)) }

// keyFiles are the endings of the files that ReadKeyring reads in a directory.
var keyFiles = []string{".asc", ".gpg", ".pgp", ".key", ".pub", ".sec"}

// ReadKeyring reads keys from a file, armored or binary, or from the files in a
// directory that end in .asc, .gpg, .pgp, .key, .pub or .sec. A file with one
// key also gives it a name: its own without the ending. The files are read
// once; see [OpenKeyring] for files that change.
//
// The passphrases map ids of locked keys (names, fingerprints, key ids) to the
// names of the secrets that unlock them; nil if no key is locked.
func ReadKeyring(path string, passphrases map[string]string) (*Keyring, error) {
	files := []string{path}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		files, err = filesIn(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read keyring: %w", err)
	}
	r := new(Keyring)
	for _, file := range files {
		if err := r.readFile(file); err != nil {
			return nil, fmt.Errorf("read keyring: %s: %w", file, err)
		}
	}
	if len(r.prints) == 0 {
		return nil, fmt.Errorf("read keyring: %s: no file in it ends in %s", path, strings.Join(keyFiles, ", "))
	}
	for _, id := range slices.Sorted(maps.Keys(passphrases)) {
		if err := r.setPassphrase(id, passphrases[id]); err != nil {
			return nil, fmt.Errorf("read keyring: passphrase of %w", err)
		}
	}
	return r, nil
}

func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		ext := strings.ToLower(filepath.Ext(e.Name()))
		if e.Type()&fs.ModeDir == 0 && slices.Contains(keyFiles, ext) && e.Name() != ext {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

func (r *Keyring) readFile(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	list, err := pgpstream.ParseKeys(data)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if len(list) > 1 || pgpstream.NormalizeID(name) != "" {
		name = ""
	}
	for _, k := range list {
		data, err := k.Serialize()
		if err != nil {
			return err
		}
		if err := r.Add(name, Key{Data: data}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Keyring) setPassphrase(id, secret string) error {
	k, err := r.Key(context.Background(), id)
	if err != nil {
		return err
	}
	parsed, err := pgpstream.ParseKey(id, k.Data)
	if err != nil {
		return err
	}
	if !parsed.Locked() {
		return fmt.Errorf("key %q: the key is not locked", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prints[parsed.Fingerprint()].key.Passphrase = secret
	return nil
}
