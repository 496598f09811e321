package pgp

import (
	"context"
	"time"

	"github.com/courierhq/courier/internal/pgpstream"
)

// expiresSoon is how long before its expiry a key causes a warning.
const expiresSoon = 30 * 24 * time.Hour

const dateForm = "2006-01-02 15:04 UTC"

// report logs the properties of usable keys when a configuration is tested.
func (l *loader) report(ctx context.Context, use string, keys ...*pgpstream.Key) {
	for _, key := range keys {
		info := key.Info(time.Now())
		log := l.job.Log().With("key", pgpstream.Printable(key.Name(), 100), "use", use, "fingerprint", key.Fingerprint())
		log.Info("the key works", l.facts(ctx, key, info)...)
		if end := info.FirstExpiry; !end.IsZero() && end.Before(time.Now().Add(expiresSoon)) {
			log.Warn("the key expires soon: its owner must extend it, or another key must replace it", "expires", end.UTC().Format(dateForm))
		}
	}
}

// facts returns the properties of a key, as pairs for a log.
func (l *loader) facts(ctx context.Context, key *pgpstream.Key, info pgpstream.KeyInfo) []any {
	var facts []any
	if info.Problem != "" { // which is no reason not to decrypt
		facts = append(facts, "but", info.Problem)
	}
	facts = append(facts, "algorithm", info.Algorithm, "made", info.Created.UTC().Format(dateForm), "expires", info.Expires)
	if info.UserID != "" {
		facts = append(facts, "user", info.UserID)
	}
	facts = append(facts, "subkeys", info.Subkeys)
	if !key.HasPrivate() {
		return append(facts, "private", false)
	}
	facts = append(facts, "private", true)
	// As the host gives it out, a key may be locked; by now it has been unlocked.
	if given, err := l.Key(ctx, key.Name()); err == nil && given.Locked() && !key.Locked() {
		return append(facts, "passphrase", "right")
	}
	return append(facts, "passphrase", "none")
}
