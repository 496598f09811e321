package pgp

import (
	"context"
	"errors"
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

// A Keyring is [Keys] in memory. The zero value is empty and ready to use. It is safe for
// concurrent use, and must not be copied after first use.
type Keyring struct {
	mu     sync.RWMutex
	names  map[string]*entry   // of the host's choice
	prints map[string]*entry   // by fingerprint
	ids    map[string][]*entry // by key id, and by fingerprint of a subkey

	// Of the files of a directory:
	files      map[string][]*pgpstream.Key // what they hold
	unreadable []error                     // each names a file; nobody changes it
}

// An entry is one key. Its public and private forms may have been added one after the other.
type entry struct {
	print string
	key   Key
}

var _ Keys = (*Keyring)(nil)

// Add adds a key under a name, or without a name if name is empty. The key can always be found by
// its fingerprints and key ids. A name must not look like a fingerprint or a key id. If the key
// already exists, Add adds the name and the new parts of k to it: its private part, later expiry
// times, revocations. The error of a name that belongs to another key matches
// [courier.ErrConflict].
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

// merge joins two forms of the same key; parsed is the second one. If both have a private part,
// the private part of the second one is kept. After an error it returns old.
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
	return Key{Data: merged.Bytes(), Passphrase: passphrase}, merged, nil
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
	hint := ""
	if n := len(r.unreadable); n > 0 {
		hint = fmt.Sprintf("; files that can't be read: %d, the first is %v", n, r.unreadable[0])
	}
	return Key{}, courier.Errorf(courier.ErrNotFound, "there is no key %q; %s%s", pgpstream.Printable(id, 100), nearest.DidYouMean(id, r.known()), hint)
}

// Unreadable returns an error for each file of a directory that could not be read. Each error
// names its file. Empty means that all files were read.
func (r *Keyring) Unreadable() []error { return slices.Clone(r.unreadable) }

// known lists the names of the keys, then their fingerprints.
func (r *Keyring) known() []string {
	names := slices.Sorted(maps.Keys(r.names))
	return append(names, r.fingerprints()...)
}

// Fingerprints lists the fingerprints of the keys, sorted.
func (r *Keyring) Fingerprints() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.fingerprints()
}

func (r *Keyring) fingerprints() []string { return slices.Sorted(maps.Keys(r.prints)) }

// keyFiles are the extensions of the files that ReadKeyring reads in a directory.
var keyFiles = []string{".asc", ".gpg", ".pgp", ".key", ".pub", ".sec"}

// ReadKeyring reads keys from a file, armored or binary, or from the files in a directory that
// end in .asc, .gpg, .pgp, .key, .pub or .sec. If a file has only one key, the file name without
// the extension is also a name of the key. The files are read once; see [OpenKeyring] for files
// that change.
//
// If a file of a directory cannot be read, the other files are still used, provided that there is
// a key in one of them. [Keyring.Unreadable] names the unreadable file.
//
// The passphrases map ids of locked keys (names, fingerprints, key ids) to the names of the
// secrets that unlock them. It is nil if no key is locked. An id without a key is an error,
// unless a file could not be read.
func ReadKeyring(path string, passphrases map[string]string) (*Keyring, error) {
	return readKeyring(path, passphrases, nil)
}

// readKeyring is ReadKeyring. For a file of a directory that cannot be read, it uses the file's
// keys in former, which may be nil.
func readKeyring(path string, passphrases map[string]string, former *Keyring) (*Keyring, error) {
	files := []string{path}
	info, err := os.Stat(path)
	isDir := err == nil && info.IsDir()
	if isDir {
		files, err = filesIn(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read keyring: %w", err)
	}
	r := &Keyring{files: make(map[string][]*pgpstream.Key)}
	for _, file := range files {
		keys, err := readFile(file)
		if err != nil {
			err = fmt.Errorf("read keyring: %s: %w", file, err)
			if !isDir {
				return nil, err
			}
			r.unreadable = append(r.unreadable, err)
			if former != nil {
				keys = former.files[file]
			}
		}
		if err := r.addFile(file, keys); err != nil {
			return nil, fmt.Errorf("read keyring: %s: %w", file, err)
		}
	}
	if len(r.prints) == 0 {
		if len(r.unreadable) > 0 {
			return nil, errors.Join(r.unreadable...)
		}
		return nil, fmt.Errorf("read keyring: %s: no file in it ends in %s", path, strings.Join(keyFiles, ", "))
	}
	for _, id := range slices.Sorted(maps.Keys(passphrases)) {
		err := r.setPassphrase(id, passphrases[id])
		if errors.Is(err, courier.ErrNotFound) && len(r.unreadable) > 0 {
			continue // it may be in a file that is named
		}
		if err != nil {
			return nil, fmt.Errorf("read keyring: passphrases: %w", err)
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

func readFile(file string) ([]*pgpstream.Key, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return pgpstream.ParseKeys(data)
}

// addFile adds the keys of a file. If there is only one, the name of the file is also its name.
func (r *Keyring) addFile(file string, keys []*pgpstream.Key) error {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if len(keys) > 1 || pgpstream.NormalizeID(name) != "" {
		name = ""
	}
	for _, k := range keys {
		if err := r.Add(name, Key{Data: k.Bytes()}); err != nil {
			return err
		}
	}
	r.files[file] = keys
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
