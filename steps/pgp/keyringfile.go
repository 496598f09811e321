package pgp

import (
	"context"
	"log/slog"
	"maps"

	"github.com/courierhq/courier/internal/reload"
)

// A KeyringFile is [Keys] in a file or directory, in the form that [ReadKeyring]
// reads. A change takes effect within a second, for executions that ask for the
// key later. While a changed file has mistakes, the keys that were read before
// stay in use, and a warning is logged.
type KeyringFile struct{ source *reload.Source[*Keyring] }

var _ Keys = (*KeyringFile)(nil)

// OpenKeyring reads the keys in a file or directory and returns them as a
// KeyringFile. The passphrases are those of [ReadKeyring], which also has the
// errors. Log gets the warnings; nil means none.
func OpenKeyring(path string, passphrases map[string]string, log *slog.Logger) (*KeyringFile, error) {
	passphrases = maps.Clone(passphrases)
	source, err := reload.New(path, log, func(path string) (*Keyring, error) { return ReadKeyring(path, passphrases) })
	if err != nil {
		return nil, err
	}
	return &KeyringFile{source}, nil
}

// Key returns the key that goes by id.
func (f *KeyringFile) Key(ctx context.Context, id string) (Key, error) {
	return f.source.Get().Key(ctx, id)
}

// Reload reads the files at once. After an error, which is that of
// [ReadKeyring], the former keys stay in use.
func (f *KeyringFile) Reload() error { return f.source.Reload() }
