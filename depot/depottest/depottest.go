// Package depottest tests an implementation of [depot.Depot] against the contract.
//
//	func TestDepot(t *testing.T) {
//		depottest.Run(t, depottest.Case{Open: func(t testing.TB) depot.Depot {
//			return newDepot(t) // an empty one
//		}})
//	}
package depottest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
)

// A Case is a kind of depot to test. Open is required.
type Case struct {
	// Open returns an empty depot. It is called for each subtest.
	Open func(t testing.TB) depot.Depot
	// Limited returns an empty depot that holds about most bytes and no more. Nil means
	// that the depot has no limit of its own.
	Limited func(t testing.TB, most int64) depot.Depot
	// Large is the size of a large file in bytes; 0 means 5 MiB.
	Large int
	// MayLose says that reading an open file may fail before its end after the file was replaced
	// or removed. A read then returns an error, and never the content of another file.
	MayLose bool
}

const (
	first  = "0198c2f0-0000-7000-8000-000000000001"
	second = "0198c2f0-0000-7000-8000-000000000002"
)

// Run tests a depot against the contract, each rule in a subtest. It waits only for the depot.
func Run(t *testing.T, c Case) {
	t.Helper()
	if c.Large == 0 {
		c.Large = 5 << 20
	}
	for _, rule := range []struct {
		name string
		test func(*trial)
	}{
		{"write, open, list", (*trial).roundTrip},
		{"a pending file is not visible", (*trial).pending},
		{"a file is replaced as a whole", (*trial).replace},
		{"an open file stays what it is", (*trial).stable},
		{"seek", (*trial).seek},
		{"keys", (*trial).keys},
		{"bad keys", (*trial).badKeys},
		{"names", (*trial).names},
		{"what is not there", (*trial).missing},
		{"list by prefix", (*trial).list},
		{"remove by prefix", (*trial).remove},
		{"ended contexts", (*trial).ended},
		{"after commit and close", (*trial).closed},
		{"many at once", (*trial).many},
		{"one key at once", (*trial).race},
		{"remove at once", (*trial).removers},
		{"the mark of retention", (*trial).mark},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.test(&trial{t, c, c.Open(t)}) })
	}
	if c.Limited == nil {
		return
	}
	t.Run("full", func(t *testing.T) { full(t, c) })
	t.Run("full of pending files", func(t *testing.T) { fullOfPending(t, c) })
	t.Run("full at once", func(t *testing.T) { fullAtOnce(t, c) })
}

// A trial tests one rule on a depot of its own.
type trial struct {
	*testing.T
	c Case
	d depot.Depot
}

func in(name string) string  { return depot.InputKey(first, name) }
func out(name string) string { return depot.ResultKey(first, name) }

// noise returns n bytes that depend on their position and the seed.
func noise(seed string, n int) []byte {
	b := make([]byte, 0, n+sha256.Size)
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", seed, i))
		b = append(b, sum[:]...)
	}
	return b[:n]
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// put writes a file.
func (tr *trial) put(key string, content []byte) depot.Info {
	tr.Helper()
	info, err := write(tr.Context(), tr.d, key, content)
	if err != nil {
		tr.Fatalf("write %s: %v", key, err)
	}
	tr.describes(info, key, content)
	return info
}

// write writes a file in pieces.
func write(ctx context.Context, d depot.Depot, key string, content []byte) (depot.Info, error) {
	p, err := d.Create(ctx, key)
	if err != nil {
		return depot.Info{}, err
	}
	defer p.Close()
	for piece := range slices.Chunk(content, 100<<10) {
		if n, err := p.Write(piece); err != nil || n != len(piece) {
			return depot.Info{}, errors.Join(err, p.Close())
		}
	}
	info, err := p.Commit()
	return info, errors.Join(err, p.Close())
}

// describes checks that info describes a file with this content.
func (tr *trial) describes(info depot.Info, key string, content []byte) {
	tr.Helper()
	if info.Key != key || info.Size != int64(len(content)) || info.SHA256 != sum(content) {
		tr.Errorf("the description of %s is %+v, want %d bytes with the hash %s", key, info, len(content), sum(content))
	}
	if info.Time.IsZero() || info.Time.Location() != time.UTC {
		tr.Errorf("the time of %s is %v; want an instant in UTC", key, info.Time)
	}
}

// has checks that a key has this content; nil means that it has no file.
func (tr *trial) has(key string, content []byte) {
	tr.Helper()
	o, err := tr.d.Open(tr.Context(), key)
	if content == nil {
		if err == nil {
			o.Close()
		}
		if !errors.Is(err, courier.ErrNotFound) {
			tr.Errorf("open %s: %v; want an error that matches courier.ErrNotFound", key, err)
		}
		return
	}
	if err != nil {
		tr.Errorf("open %s: %v", key, err)
		return
	}
	defer o.Close()
	tr.describes(o.Info(), key, content)
	if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, content) {
		tr.Errorf("read %s: %d bytes, %v; want the %d bytes that were written", key, len(got), err, len(content))
	}
}

// lists checks that the prefix lists the keys in want.
func (tr *trial) lists(prefix string, want ...string) {
	tr.Helper()
	all, err := tr.d.List(tr.Context(), prefix)
	if err != nil {
		tr.Errorf("list %q: %v", prefix, err)
		return
	}
	got := make([]string, 0, len(all))
	for _, info := range all {
		got = append(got, info.Key)
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		tr.Errorf("list %q: %q, want %q", prefix, got, want)
	}
}
