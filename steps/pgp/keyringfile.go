package pgp

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"github.com/courierhq/courier/internal/reload"
)

// A KeyringFile is [Keys] in a file or directory, in the format that [ReadKeyring] reads. A
// change takes effect within a second, for executions that ask for the key later. While a changed
// file has errors, its previous keys stay in use, and a warning is logged. Changes of the other
// files of a directory still take effect.
type KeyringFile struct{ source *reload.Source[*Keyring] }

var _ Keys = (*KeyringFile)(nil)

// OpenKeyring reads the keys in a file or directory and returns them as a KeyringFile. The
// passphrases and the errors are as in [ReadKeyring]. Warnings, including those about files that
// cannot be read now, are written to log; nil means that they are dropped.
func OpenKeyring(path string, passphrases map[string]string, log *slog.Logger) (*KeyringFile, error) {
	passphrases = maps.Clone(passphrases)
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var former *Keyring // the source reads once at a time
	source, err := reload.New(path, log, func(path string) (*Keyring, error) {
		r, err := readKeyring(path, passphrases, former)
		if err != nil {
			return nil, err
		}
		for _, err := range r.unreadable {
			log.Warn("a file of a keyring can't be used; keys that were read from it before stay in use", "path", path, "error", err)
		}
		former = r
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	return &KeyringFile{source}, nil
}

// Key returns the key called id.
func (f *KeyringFile) Key(ctx context.Context, id string) (Key, error) {
	return f.source.Get().Key(ctx, id)
}

// Reload reads the files at once. After an error of [ReadKeyring] the previous keys stay in use.
// If the error names unreadable files, only their keys are affected.
func (f *KeyringFile) Reload() error {
	if err := f.source.Reload(); err != nil {
		return err
	}
	return errors.Join(f.source.Get().unreadable...)
}
