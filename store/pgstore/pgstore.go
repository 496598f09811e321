// Package pgstore is a [store.Store] on PostgreSQL 13 or newer. Executions survive
// the process, and any number of processes can work on them.
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
// [Open] does all of this except the last line, for programs that may change the schema.
//
// A checkpoint of an execution is one statement in one round trip. Checkpoints that
// several executions write at the same moment share a statement and a commit; none
// waits for others to join. Each row is guarded by the token of its own lease.
//
// The store keeps no state in its connections and takes no lock that outlives a
// transaction, so it works behind PgBouncer in transaction mode and in all of pgx's
// query modes. It takes connections from the pool, and opens two of its own: one renews leases,
// so that no other traffic can delay renewals, and one listens for notifications of new work
// (see Options.PollOnly).
//
// All instants are those of the database; the clocks of the workers don't matter.
//
// The statements are files below sql, in folders by subject: sql/claim leases executions
// to workers, sql/checkpoint writes their progress, sql/schedule records ticks. Package
// internal/sqltext reads them, internal/pgnotify sends and receives notifications,
// and internal/migrate applies the files below migrations.
//
// # Rows
//
// An execution is one row of job_executions. Its updates stay on their page (HOT), because no
// indexed column changes while the execution runs. The table execution_history has a row for
// each ended attempt, with its outputs and files, and with the change of state that the same
// write made; rows are inserted and never changed. The creation of an execution, a claim and the
// start of a step have no row of their own: the creation is read from columns that a trigger
// guards, and the others go into the row that the next write inserts. The views step_executions
// and job_audit_log show records and audit. JSON is stored as text, because jsonb refuses
// \u0000, alters numbers, and is parsed with every write. There are no foreign keys on columns
// that are written often, because they would lock the rows that they refer to, and no
// partitions, because a query by id would search all of them.
//
// A checkpoint finds the old row by its place (ctid), so a row that changed meanwhile is not
// written and the checkpoint is sent again. A renewal passes over locked rows and asks for them
// again: it locks many rows, in another order than a joined checkpoint, and a statement that
// never waits cannot deadlock. A transition above 1 MiB is written on a connection of its own,
// one at a time, and one above 256 MiB is refused.
//
// The end of a member of a chain takes a path with two round trips: the shared statements refuse
// it by a guard on a column that is null for all other executions. An execution that waits for
// other jobs is queued, with its dependencies in waits_for, and is in no index that claims read.
// Jobs on which others depend are marked, and so are their executions when they are created;
// only those are in the index by creation.
//
// A list of 200 executions and more without idempotency keys is copied (COPY), in two thirds of
// the time for each row.
//
// # Statements
//
// A statement is sent as it stands in its file, without comments; \ir includes a part that
// several files have. Data that only some executions have, such as events, the trail of files,
// labels and deadlines, is written by a statement of its own, which is sent after the main one
// in its transaction. The comment that begins a statement names the file to the server. Most
// progress is written by a shorter statement (checkpoint/write_fast.sql), since starting a
// statement costs as much as writing ten to twenty rows: without it, 10 steps in each of 64
// executions at once are 25 % slower, and executions of one step 5 %.
//
// The arguments of a claim go through a materialized CTE. The planner then cannot see them, and
// keeps the general plan after five executions; planning took as long as claiming.
//
// There is one migration until the first release, with a checksum in schema_migrations. A schema
// of another development version is refused, with an error that says what to do.
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
	"github.com/courierhq/courier/store/pgstore/internal/migrate"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// DefaultSchema is the schema of the tables if none is chosen.
const DefaultSchema = "courier"

// Options are the settings of a [Store]. The zero value is the default.
type Options struct {
	// Schema holds the tables. Stores with different schemas share nothing.
	// Empty means [DefaultSchema].
	Schema string
	// PollOnly switches LISTEN and NOTIFY off, and with them the connection that
	// listens. Workers then find executions of other processes by polling. The store
	// detects a pooler that does not pass on notifications, and polls even without this
	// option.
	PollOnly bool
	// Writers is the number of statements that write checkpoints at the same time.
	// Each takes a connection of the pool while it runs. 0 means 2.
	Writers int
	// Retention says which executions the store removes in the background; the zero
	// value removes none. Any number of processes may set it: one at a time removes,
	// see [Store.Retain].
	Retention Retention
	// RetainEvery is the approximate time between two removals. 0 means an hour.
	RetainEvery time.Duration
	// Log receives errors that cannot be returned to a caller. Nil means none.
	Log *slog.Logger
}

// A Store is a store in a schema of a PostgreSQL database. It may be used by any
// number of goroutines, and any number of stores may share a schema.
type Store struct {
	pool sessions
	opt  Options
	q    *statements
	log  *slog.Logger
	lock int64 // the advisory lock of claims under limits

	identity    func(context.Context) (string, error)
	subscribed  atomic.Bool // somebody has subscribed to events, as far as this store has seen
	definitions definitions
	writers     writers
	claims      claimState
	registry    workerRegistry
	notifier    *pgnotify.Notifier
	renewals    renewals
	plans       plans

	ctx   context.Context // ends with Close
	close context.CancelFunc
	wg    sync.WaitGroup

	ownPool *pgxpool.Pool // that Close closes; nil if the caller does
}

var _ store.Store = (*Store)(nil)

// StoreID implements [store.Identity]. It depends on the time when the schema was created, so a
// restored copy has the same id.
func (s *Store) StoreID(ctx context.Context) (string, error) { return s.identity(ctx) }

// New returns the store in a schema that [Migrate] has prepared. A nil opt means
// the defaults. The caller closes the pool, after the store. New returns an error
// that says what to do if the schema is missing, older or newer than this package,
// if the store can't use the database, or if the pool has just one connection.
func New(ctx context.Context, pool *pgxpool.Pool, opt *Options) (*Store, error) {
	s := &Store{pool: sessions{pool}}
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
	s.lock, s.identity = claimLock(s.opt.Schema), migrate.Identity(s.pool, s.opt.Schema)
	s.q = statementsFor(s.opt.Schema)
	s.ctx, s.close = context.WithCancel(context.Background())
	s.claims.init()
	s.notifier = s.newNotifier()
	if r := s.opt.Retention; !r.keepsAll() {
		s.wg.Go(func() { s.retainPeriodically(r, s.opt.RetainEvery) })
	}
	return s, nil
}

// Open connects to the database of a connection string, brings the schema up to date as
// [Migrate] does, and returns its store. Close ends the connections too. It is for programs
// whose user may change the schema; others call Migrate on deployment, and New. A nil opt means
// the defaults.
func Open(ctx context.Context, database string, opt *Options) (*Store, error) {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	var migration MigrateOptions
	if opt != nil {
		migration.Schema = opt.Schema
	}
	var s *Store
	if _, err = Migrate(ctx, pool, &migration); err == nil {
		s, err = New(ctx, pool, opt)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownPool = pool
	return s, nil
}

// claimLock is the number of the advisory lock of claims under limits in a schema.
func claimLock(schema string) int64 { return lockNumber("courier claims " + schema) }

// lockNumber is the number of the advisory lock for a purpose.
func lockNumber(purpose string) int64 {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return int64(h.Sum64())
}

// Close sends the notifications of all calls that have returned, within a second, and
// ends the store's own connections and goroutines. Calls in progress fail or succeed, as
// if the database had become unreachable. The pool stays open.
func (s *Store) Close() {
	s.notifier.Close()
	s.close()
	s.wg.Wait()
	s.renewals.end()
	if s.ownPool != nil {
		s.ownPool.Close()
	}
}

// errClosed is the error of calls after Close.
var errClosed = courier.Permanent(errors.New("the store is closed"))

// checkOpen returns ctx's error, or errClosed after Close.
func (s *Store) checkOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// micros is d in microseconds, the resolution of a timestamptz.
func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }
