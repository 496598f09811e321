package pgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
)

// A loader finds the keys of one step, and unlocks them with the secrets of the engine.
type loader struct {
	job  *courier.Context
	keys Keys
}

var _ pgpstream.KeySource = (*loader)(nil)

// A material holds the data of a key that the steps of an execution share, so that a loop over
// thousands of files asks for the key and unlocks it once.
type material struct {
	data []byte
	from Key
}

// Close wipes the key.
func (m *material) Close() error {
	clear(m.data)
	return nil
}

// material returns the key called id as the host provides it.
func (l *loader) material(ctx context.Context, id string) (*material, error) {
	return courier.Keep(ctx, l.job, "pgp.key "+id, func(ctx context.Context) (*material, error) {
		if l.keys == nil {
			return nil, permanentf("key %q: no keys are configured; pass them to pgp.Register", id)
		}
		k, err := l.keys.Key(ctx, id)
		if err != nil {
			return nil, err
		}
		return &material{data: bytes.Clone(k.Data), from: k}, nil
	})
}

// An unknownKey is the host's error for a key that does not exist.
type unknownKey struct{ error }

func (e unknownKey) Is(target error) bool { return target == pgpstream.ErrUnknownKey }
func (e unknownKey) Unwrap() error        { return e.error }

// Key implements [pgpstream.KeySource].
func (l *loader) Key(ctx context.Context, id string) (*pgpstream.Key, error) {
	m, err := l.material(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		err = unknownKey{err}
	}
	if err != nil {
		return nil, err
	}
	return m.parse(id)
}

// Unlock implements [pgpstream.KeySource].
func (l *loader) Unlock(ctx context.Context, key *pgpstream.Key) (*pgpstream.Key, error) {
	from, err := l.material(ctx, key.Name())
	if err != nil {
		return nil, err
	}
	m, err := courier.Keep(ctx, l.job, "pgp.unlocked "+key.Name(), func(ctx context.Context) (*material, error) {
		reference := from.from.Passphrase
		if reference == "" {
			return nil, permanentf("%v: is locked with a passphrase, and Key.Passphrase names no secret for it", key)
		}
		passphrase, err := l.job.Secret(ctx, reference)
		if err != nil {
			return nil, fmt.Errorf("%v: passphrase: %w", key, err)
		}
		unlocked, err := key.Unlock([]byte(passphrase))
		if errors.Is(err, pgpstream.ErrPassphrase) {
			return nil, permanentf("%v: the secret %q is not its passphrase", key, reference)
		}
		if err != nil {
			return nil, permanentf("%v: %w", key, err)
		}
		return &material{data: unlocked.Bytes(), from: from.from}, nil
	})
	if err != nil {
		return nil, err
	}
	return m.parse(key.Name())
}

func (m *material) parse(id string) (*pgpstream.Key, error) {
	key, err := pgpstream.ParseKey(id, m.data)
	if err != nil {
		return nil, permanentf("key %q: %w", id, err)
	}
	return key, nil
}

// loadAll finds the keys with the given ids for a use, each key once. It unlocks the keys for
// signing. The error lists all missing and unsuitable keys. It is permanent unless the host
// failed to look up one of them.
func (l *loader) loadAll(ctx context.Context, ids []string, use pgpstream.Use) ([]*pgpstream.Key, error) {
	var all []*pgpstream.Key
	var bad []error
	seen := make(map[string]bool)
	for _, id := range ids {
		key, err := l.Key(ctx, id)
		if err == nil && use == pgpstream.ForSigning && key.Locked() && key.CheckUse(use, time.Now()) == nil {
			key, err = l.Unlock(ctx, key)
		}
		switch {
		case err != nil && (courier.IsPermanent(err) || errors.Is(err, courier.ErrNotFound)):
			bad = append(bad, err)
			continue
		case err != nil:
			return nil, err
		}
		if err := key.CheckUse(use, time.Now()); err != nil {
			bad = append(bad, err)
			continue
		}
		if fp := key.Fingerprint(); !seen[fp] {
			seen[fp] = true
			all = append(all, key)
		}
	}
	if len(bad) > 0 {
		return nil, courier.Permanent(joined(bad))
	}
	return all, nil
}

// joined is errors.Join in one line.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return &listError{text: strings.Join(texts, "; "), errs: errs}
}

type listError struct {
	text string
	errs []error
}

func (e *listError) Error() string   { return e.text }
func (e *listError) Unwrap() []error { return e.errs }
