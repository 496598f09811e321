package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store/pgstore/internal/bind"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
)

// A Retention says which executions are removed, with their records and their
// audit. The zero value removes nothing. Only completed and cancelled executions
// are ever removed, and failed ones if Failed is set; queued, running, paused and held
// ones stay. So do executions that hold, or may hold, files that exist nowhere else; see
// [courier.Execution.HoldsOnlyCopies].
//
// The idempotency key of a removed execution can be used again. Definitions and settings
// are not removed.
//
// Members of a chain execution that has not ended are kept whatever their age,
// as are those of a failed one unless Failed is set. A chain execution that has ended is
// removed with the last execution of its members. One whose members never had an
// execution is removed after MaxAge.
type Retention struct {
	// MaxAge is how long an execution is kept after it ended. 0 means no limit.
	MaxAge time.Duration
	// MaxCount is how many removable executions of each job are kept, the newest ones. 0
	// means no limit. If both limits are set, an execution that exceeds either is
	// removed.
	MaxCount int
	// Failed removes failed executions too, which an operator could still resume
	// or cancel.
	Failed bool
	// Jobs has the rules of single jobs, by name. Such a rule replaces the general one,
	// and removes nothing if it is zero. Its own Jobs must be empty.
	Jobs map[string]Retention
}

// check reports what is wrong with a retention.
func (r Retention) check() error {
	wrong := func(of string, r Retention) error {
		if r.MaxAge < 0 || r.MaxCount < 0 {
			return courier.Errorf(courier.ErrInvalid, "retention%s: MaxAge %v and MaxCount %d must not be negative", of, r.MaxAge, r.MaxCount)
		}
		return nil
	}
	for name, j := range r.Jobs {
		of := fmt.Sprintf(" of job %q", name)
		if err := wrong(of, j); err != nil {
			return err
		}
		if len(j.Jobs) > 0 {
			return courier.Errorf(courier.ErrInvalid, "retention%s: it must not have rules for jobs", of)
		}
	}
	return wrong("", r)
}

// keepsAll reports whether nothing is ever removed.
func (r Retention) keepsAll() bool {
	for _, j := range r.Jobs {
		if !j.keepsAll() {
			return false
		}
	}
	return r.MaxAge == 0 && r.MaxCount == 0
}

// Limits of one transaction: the number of executions, and about the number of their
// audit entries.
const (
	retainExecutions = 1000
	retainEntries    = 20_000
)

// Retain removes the executions that a retention does not keep, the oldest of
// each job first, and returns how many it removed. It uses many small transactions:
// after an error or the end of ctx the next call continues where this one stopped.
// Claims and checkpoints do not wait for it. It skips executions that another
// transaction has locked; the next call removes them.
//
// It needs the right to delete, see "rights" in docs/postgres.md.
func (s *Store) Retain(ctx context.Context, r Retention) (int64, error) {
	return s.retain(ctx, r, false)
}

// retainPeriodically removes executions periodically until the store is closed. One
// process at a time does so.
func (s *Store) retainPeriodically(r Retention, every time.Duration) {
	// The first removal comes soon, for processes that run only briefly.
	for wait := rand.N(min(every, time.Minute)); wakeup.Sleep(s.ctx, wait) == nil; wait = every - every/10 + rand.N(every/5+1) {
		n, err := s.retain(s.ctx, r, true)
		if err != nil && s.ctx.Err() == nil {
			s.log.Error("remove old executions; will retry later", "error", err)
		}
		if n > 0 {
			s.log.Info("removed old executions", "count", n)
		}
	}
}

// retain is Retain. In the background it works half of the time, and leaves the
// rest to another process if that one has started.
func (s *Store) retain(ctx context.Context, r Retention, background bool) (removed int64, err error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	if r.keepsAll() {
		return 0, nil
	}
	jobs, err := s.jobsToRetain(ctx, r, background)
	if err != nil {
		return 0, retainError("look for executions to remove", err)
	}
	for _, j := range jobs {
		for {
			started := time.Now()
			n, err := s.retainSome(ctx, &j, background)
			removed += n
			if errors.Is(err, errOthersRetain) {
				return removed, nil
			}
			if err != nil {
				return removed, retainError(fmt.Sprintf("remove executions of job %q", j.name), err)
			}
			if n == 0 {
				break
			}
			if background && wakeup.Sleep(s.ctx, time.Since(started)) != nil {
				return removed, nil
			}
		}
	}
	if err := s.retainChains(ctx, r, background); err != nil && !errors.Is(err, errOthersRetain) {
		return removed, retainError("remove chain executions", err)
	}
	return removed, nil
}

// retainChains removes the chain executions that have ended and of which nothing
// else is left.
func (s *Store) retainChains(ctx context.Context, r Retention, alone bool) error {
	for after := bind.NilUUID; after != ""; {
		var gone int64
		err := s.retaining(ctx, alone, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, s.sql("retention/remove_chains"), after, int64(retainExecutions), micros(r.MaxAge), r.Failed).Scan(&after, &gone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// retainError returns err, with advice if the role may not delete.
func retainError(what string, err error) error {
	if code(err) == "42501" {
		return fmt.Errorf("%s: %w; to remove executions, a role needs select, update of a column and delete on job_executions, and select and delete on execution_history, and select, update of a column and delete on chain_executions and select and delete on chain_members: grant them, or let a role that has them do it (\"rights\" in docs/postgres.md)", what, err)
	}
	return failed(what, err)
}

// A retained is a job with executions that are to be removed.
type retained struct {
	id     int32
	name   string
	age    int64 // microseconds; 0: none
	failed bool
	from   string // the first one to remove
	old    string // the last one that can be too old
	many   string // the last one that exceeds the count
}

// jobsToRetain returns the jobs that have executions to remove. With alone set it returns none if
// another process removes executions.
func (s *Store) jobsToRetain(ctx context.Context, r Retention, alone bool) (jobs []retained, err error) {
	n := len(r.Jobs)
	names, ages, counts, faileds := make([]string, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]bool, 0, n)
	for name, j := range r.Jobs {
		names, ages, counts, faileds = append(names, name), append(ages, micros(j.MaxAge)), append(counts, int64(j.MaxCount)), append(faileds, j.Failed)
	}
	err = s.retaining(ctx, alone, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.sql("retention/find_jobs"), names, ages, counts, faileds, micros(r.MaxAge), int64(r.MaxCount), r.Failed)
		if err != nil {
			return err
		}
		jobs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (j retained, err error) {
			err = row.Scan(&j.id, &j.name, &j.age, &j.failed, &j.from, &j.old, &j.many)
			return j, err
		})
		return err
	})
	if errors.Is(err, errOthersRetain) {
		return nil, nil
	}
	return jobs, err
}

// retainSome removes the next executions of a job, and returns how many.
func (s *Store) retainSome(ctx context.Context, j *retained, alone bool) (n int64, err error) {
	var last string
	err = s.retaining(ctx, alone, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.sql("retention/remove_executions"), j.id, j.from, j.old, j.age, j.many, j.failed,
			int64(retainExecutions), int64(retainEntries)).Scan(&n, &last)
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		j.from = last
	}
	return n, nil
}

// errOthersRetain says that another process removes executions.
var errOthersRetain = errors.New("another process removes executions")

// retaining calls f in a transaction that may remove executions. With alone set it
// returns errOthersRetain if another process removes executions.
func (s *Store) retaining(ctx context.Context, alone bool, f func(tx pgx.Tx) error) error {
	return repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			var mine bool
			if err := tx.QueryRow(ctx, s.sql("retention/begin_transaction"), alone, s.retainLock()).Scan(&mine, nil, nil, nil, nil, nil); err != nil {
				return err
			}
			if !mine {
				return errOthersRetain
			}
			return f(tx)
		})
	})
}

// retainLock is the advisory lock of the background task.
func (s *Store) retainLock() int64 { return lockNumber("courier retention " + s.opt.Schema) }
