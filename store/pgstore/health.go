package pgstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
)

// Health is the state of a store and its database at an instant. It does not say whether a worker
// can claim the queued executions: only workers know their step types and workspaces. If few
// executions run and OldestDue has been due for a long time, there is no such worker, or a limit is
// reached.
type Health struct {
	At     time.Time `json:"at,omitzero"` // by the clock of the database
	Server string    `json:"server"`      // version of PostgreSQL
	Schema int       `json:"schema"`      // version of the schema

	// Running is the number of running executions, with those whose lease has
	// ended.
	Running int `json:"running"`
	// OldestLease is the lease that ended first or will end first; nil if nothing runs.
	OldestLease *HeldLease `json:"oldest_lease,omitempty"`

	// Queued is the number of queued executions, due or not. Counting stops at
	// 10,000; then QueuedMore is true if there are more.
	Queued     int  `json:"queued"`
	QueuedMore bool `json:"queued_more,omitempty"`
	// OldestDue is the queued execution that has been due for the longest time;
	// nil if none is due.
	OldestDue *Waiting `json:"oldest_due,omitempty"`

	// Notified says that the store receives the notifications of other processes.
	// Otherwise workers poll: with Options.PollOnly, behind a pooler that does not pass
	// on notifications, and until a call of Await has lasted for a moment.
	Notified bool    `json:"notified"`
	Pool     PoolUse `json:"pool"`

	// Tables are the store's tables by their names, from the server's statistics.
	Tables []TableHealth `json:"tables"`
	// XminHolder is the transaction or other holder that makes the server keep the oldest dead
	// rows. It is nil if only Health itself does. It may have begun a moment ago; see its Age.
	XminHolder *XminHolder `json:"xmin_holder,omitempty"`
}

// A HeldLease is the lease of a running execution.
type HeldLease struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Worker    string              `json:"worker"`
	// Remaining is the time until the lease ends. It is negative if the lease has
	// ended and was neither renewed nor taken over.
	Remaining time.Duration `json:"-"`
}

// A Waiting is a queued execution that is due.
type Waiting struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Queue     string              `json:"queue"`
	Age       time.Duration       `json:"-"` // since it became due
}

// A PoolUse says how the connections of the store's pool are used. The store's own two
// connections do not count.
type PoolUse struct {
	Max   int `json:"max"`
	Open  int `json:"open"`
	InUse int `json:"in_use"`
	// Waited is how many times a caller had to wait for a connection since the pool was
	// made, and WaitTime for how long in all.
	Waited   int64         `json:"waited"`
	WaitTime time.Duration `json:"-"`
}

// A TableHealth has the server's estimates for a table.
type TableHealth struct {
	Name string `json:"name,omitempty"`
	Live int64  `json:"live"` // rows
	Dead int64  `json:"dead"` // rows
	// DeadRatio is the part of all rows that is dead, from 0 to 1. Above a fifth
	// in job_executions with many rows, look at LastAutovacuum and
	// [Health.XminHolder].
	DeadRatio      float64   `json:"dead_ratio"`
	LastAutovacuum time.Time `json:"last_autovacuum,omitzero"` // time of the last automatic vacuum; zero: never
	LastVacuum     time.Time `json:"last_vacuum,omitzero"`     // time of the last manual vacuum
}

// An XminHolder keeps the server from removing rows that died after it began. A
// session ends with pg_terminate_backend, a prepared transaction with ROLLBACK
// PREPARED, a slot with pg_drop_replication_slot.
type XminHolder struct {
	// Kind is "session", "standby" (one that sends feedback), "prepared
	// transaction" or "replication slot".
	Kind string `json:"kind"`
	PID  int    `json:"pid,omitempty"`  // of the session, or of the session that uses the slot; 0 for none
	Name string `json:"name,omitempty"` // of the slot or the prepared transaction

	// The following fields are those of a session. Hidden says that the store's role may
	// not read State, Query and Age of the sessions of other roles; it needs
	// pg_read_all_stats for that.
	Application string `json:"application,omitempty"` // its application_name
	Role        string `json:"role,omitempty"`
	State       string `json:"state,omitempty"` // as in pg_stat_activity, such as "idle in transaction"
	Query       string `json:"query,omitempty"` // its last query; the server cuts off long ones
	Hidden      bool   `json:"hidden,omitempty"`

	Age          time.Duration `json:"-"`            // of the transaction; 0 if unknown
	Transactions int64         `json:"transactions"` // approximate number of transactions that began since then
}

// maxCounted is the largest number of queued executions that are counted.
const maxCounted = 10_000

// Health reports the state of the store and its database. It takes three statements
// that read little, whatever the number of executions. Any role that can use the
// store can call it.
func (s *Store) Health(ctx context.Context) (Health, error) {
	if err := s.checkOpen(ctx); err != nil {
		return Health{}, err
	}
	h, err := s.executionHealth(ctx)
	if err == nil {
		h.Tables, h.XminHolder, err = s.databaseHealth(ctx)
	}
	if err != nil {
		return Health{}, failed("health", err)
	}
	h.Notified = s.notifier.Watched(time.Second) > 0
	pool := s.pool.unchecked.Stat()
	h.Pool = PoolUse{
		Max: int(pool.MaxConns()), Open: int(pool.TotalConns()), InUse: int(pool.AcquiredConns()),
		Waited: pool.EmptyAcquireCount(), WaitTime: pool.EmptyAcquireWaitTime(),
	}
	return h, nil
}

// databaseHealth returns the statistics of the tables, and the holder of the oldest dead rows,
// which is nil if there is none.
func (s *Store) databaseHealth(ctx context.Context) ([]TableHealth, *XminHolder, error) {
	tables, err := query(ctx, s.pool, scanTable, s.sql("health/table_statistics"), s.opt.Schema)
	if err != nil {
		return nil, nil, err
	}
	holders, err := query(ctx, s.pool, scanHolder, s.sql("health/oldest_snapshot"))
	if err != nil || len(holders) == 0 {
		return tables, nil, err
	}
	return tables, &holders[0], nil
}

// executionHealth returns the fields of Health about executions.
func (s *Store) executionHealth(ctx context.Context) (Health, error) {
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (h Health, err error) {
		var l HeldLease
		var w Waiting
		var remaining, age int64
		err = rows.Scan(&h.At, &h.Server, &h.Schema, &h.Running, &l.Execution, &l.Worker, &remaining, &h.Queued, &w.Execution, &w.Queue, &age)
		h.At = h.At.UTC()
		if l.Execution != "" {
			l.Remaining = time.Duration(remaining) * time.Microsecond
			h.OldestLease = &l
		}
		if w.Execution != "" {
			w.Age = time.Duration(age) * time.Microsecond
			h.OldestDue = &w
		}
		if h.Queued > maxCounted {
			h.Queued, h.QueuedMore = maxCounted, true
		}
		return h, err
	}, s.sql("health/count_executions"), int64(maxCounted+1))
	if err != nil {
		return Health{}, err
	}
	return list[0], nil
}

func scanTable(rows pgx.Rows) (t TableHealth, err error) {
	var auto, last *time.Time
	err = rows.Scan(&t.Name, &t.Live, &t.Dead, &auto, &last)
	t.LastAutovacuum, t.LastVacuum = instant(auto), instant(last)
	if all := t.Live + t.Dead; all > 0 {
		t.DeadRatio = float64(t.Dead) / float64(all)
	}
	return t, err
}

func scanHolder(rows pgx.Rows) (h XminHolder, err error) {
	var age int64
	err = rows.Scan(&h.Kind, &h.PID, &h.Name, &h.Application, &h.Role, &h.State, &h.Query, &h.Hidden, &age, &h.Transactions)
	h.Age = time.Duration(age) * time.Microsecond
	return h, err
}

// MarshalJSON writes the remaining time as remaining_seconds.
func (l HeldLease) MarshalJSON() ([]byte, error) {
	type plain HeldLease // without methods
	return json.Marshal(struct {
		plain
		Remaining float64 `json:"remaining_seconds"`
	}{plain(l), l.Remaining.Seconds()})
}

// MarshalJSON writes the age as age_seconds.
func (w Waiting) MarshalJSON() ([]byte, error) {
	type plain Waiting // without methods
	return json.Marshal(struct {
		plain
		Age float64 `json:"age_seconds"`
	}{plain(w), w.Age.Seconds()})
}

// MarshalJSON writes the waiting time as wait_seconds.
func (p PoolUse) MarshalJSON() ([]byte, error) {
	type plain PoolUse // without methods
	return json.Marshal(struct {
		plain
		Wait float64 `json:"wait_seconds"`
	}{plain(p), p.WaitTime.Seconds()})
}

// MarshalJSON writes the age as age_seconds.
func (x XminHolder) MarshalJSON() ([]byte, error) {
	type plain XminHolder // without methods
	return json.Marshal(struct {
		plain
		Age float64 `json:"age_seconds"`
	}{plain(x), x.Age.Seconds()})
}
