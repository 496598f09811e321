// Package pgstore is a [store.Store] on PostgreSQL, version 13 or newer: for
// executions that survive their process and are worked on by many.
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	_, err = pgstore.Migrate(ctx, pool, nil) // on deployment
//	...
//	s, err := pgstore.New(ctx, pool, nil)
//	...
//	defer s.Close()
//	e := engine.New(s, registry, nil)
//
// All progress of an execution is one statement in one round trip, and what
// many executions have to write at the same moment is joined into one
// statement and one commit; nothing waits for others to join. Every row is
// guarded by the lease's token, whoever else is in the statement.
//
// The store keeps no state in its connections and takes no locks that outlive a
// transaction, so it works behind PgBouncer in transaction mode and in all of
// pgx's ways to execute queries. It uses the pool for its work, and two
// connections of its own besides: one renews leases, so that no other traffic
// can hold that up, and one listens for news of work (see Options.PollOnly).
//
// Instants and what follows from them are the database's; the clocks of the
// workers don't matter.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// DefaultSchema is the schema of the tables where none is chosen.
const DefaultSchema = "courier"

// Options are the settings of a [Store]. The zero value is the default.
type Options struct {
	// Schema holds the tables. Stores with different schemas share nothing.
	// Empty means [DefaultSchema].
	Schema string
	// PollOnly does without LISTEN and NOTIFY, and so without the connection that
	// listens: what other processes enqueue is found by polling alone. Behind a
	// pooler that does not pass notifications on, the store finds that out
	// itself and polls.
	PollOnly bool
	// Writers is how many statements write progress at the same time; each
	// takes a connection of the pool while it runs. 0 means 2.
	Writers int
	// Retention says which executions are removed in the background; the zero
	// value removes none. Any number of processes may have it: one at a time
	// works, see [Store.Retain].
	Retention Retention
	// RetainEvery is about how often that is done. 0 means an hour.
	RetainEvery time.Duration
	// Log receives what nobody can be told otherwise. Nil means none.
	Log *slog.Logger
}

// A Store is a store in a schema of a PostgreSQL database. It may be used by any
// number of goroutines, and any number of stores may share a schema.
type Store struct {
	pool *pgxpool.Pool
	opt  Options
	q    *statements
	log  *slog.Logger
	lock int64 // the advisory lock of claims that count

	told        atomic.Bool // somebody has subscribed to events, as far as is known
	definitions definitions
	writers     writers
	claims      claims
	roster      roster
	bell        bell
	agenda      bell // rings when schedules are put
	news        news
	renewals    renewals
	plans       plans

	ctx   context.Context // ends with Close
	close context.CancelFunc
	rest  sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// New returns the store in a schema that [Migrate] has prepared. A nil opt means
// the defaults. The pool stays the caller's, who closes it after the store. New
// returns an error that says what to do if the schema is missing, older or
// newer than this package, if the database is not one that the store can use,
// and if the pool has just one connection.
func New(ctx context.Context, pool *pgxpool.Pool, opt *Options) (*Store, error) {
	s := &Store{pool: pool}
	if opt != nil {
		s.opt = *opt
	}
	if s.opt.Schema == "" {
		s.opt.Schema = DefaultSchema
	}
	if s.opt.RetainEvery <= 0 {
		s.opt.RetainEvery = time.Hour
	}
	if err := s.opt.Retention.check(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if s.opt.Writers <= 0 {
		s.opt.Writers = 2
	}
	if s.log = s.opt.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if n := pool.Config().MaxConns; n < 2 {
		return nil, fmt.Errorf("open store: the pool has at most %d connection, and the store needs 2 or more: a claim must not wait for the progress of what was claimed; raise pool_max_conns", n)
	}
	if err := check(ctx, pool, s.opt.Schema); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.lock = claimLock(s.opt.Schema)
	s.q = statementsIn(s.opt.Schema)
	s.ctx, s.close = context.WithCancel(context.Background())
	s.bell.init()
	s.agenda.init()
	s.news.init(s)
	s.claims.init()
	if r := s.opt.Retention; !r.keepsAll() {
		s.rest.Go(func() { s.keepRetained(r, s.opt.RetainEvery) })
	}
	return s, nil
}

// claimLock is the number of the advisory lock of claims in a schema.
func claimLock(schema string) int64 { return lockNumber("courier claims " + schema) }

// lockNumber is the number of the advisory lock for a purpose.
func lockNumber(purpose string) int64 {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return int64(h.Sum64())
}

// Close tells other processes what calls have made claimable that have returned,
// within a second, and ends the store's own connections and goroutines. Calls
// under way fail or succeed as if the database were gone. The pool stays open.
func (s *Store) Close() {
	s.news.flush()
	s.close()
	s.rest.Wait()
	s.renewals.end()
}

// errClosed is what calls return after Close.
var errClosed = courier.Permanent(errors.New("the store is closed"))

// begun reports why a call can't begin.
func (s *Store) begun(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// micros is d in microseconds, which is how Postgres tells the time.
func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }
