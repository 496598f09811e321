package pgstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// manyCopied is the number of executions from which a list is copied. COPY takes two thirds of the
// time of an INSERT for each row, and three more round trips.
const manyCopied = 200

// copyable reports whether a list may be copied. COPY can't leave out an execution whose key is
// already used, and would then be in vain.
func copyable(list []store.NewExecution) bool {
	return len(list) >= manyCopied && !slices.ContainsFunc(list, func(n store.NewExecution) bool {
		return n.IdempotencyKey != "" || bind.UUIDOf(string(n.ID)) == (bind.UUID{})
	})
}

// errNotCopied says that a list has to be created by statements, which find the reason.
var errNotCopied = errors.New("not copied")

// copyIn creates all executions of a list by COPY, at the instant that it returns. If one of them
// exists or its job does not exist, it creates none and returns errNotCopied.
func (s *Store) copyIn(ctx context.Context, tx pgx.Tx, list []store.NewExecution) (now time.Time, err error) {
	err = pgx.BeginFunc(ctx, tx, func(point pgx.Tx) error {
		jobs, at, err := s.jobsToCopy(ctx, point, list)
		if err != nil {
			return err
		}
		now = at
		_, err = point.CopyFrom(ctx, pgx.Identifier{s.opt.Schema, "job_executions"}, copiedColumns, pgx.CopyFromSlice(len(list), func(i int) ([]any, error) {
			n := &list[i]
			return copiedRow(n, jobs[jobKeyOf(n)], now), nil
		}))
		return err
	})
	if code(err) == uniqueViolation {
		err = errNotCopied
	}
	return now, err
}

// A jobKey is a version of a job that must exist.
type jobKey struct {
	name    string
	version int
	latest  bool // and be the latest
}

func jobKeyOf(n *store.NewExecution) jobKey { return jobKey{n.Job, n.Version, n.Latest} }

// A copiedJob is a job whose executions are copied.
type copiedJob struct {
	id         int32
	dependents bool // other jobs depend on it
}

// jobsToCopy returns the jobs of a list, and the instant of its creation.
func (s *Store) jobsToCopy(ctx context.Context, db querier, list []store.NewExecution) (map[jobKey]copiedJob, time.Time, error) {
	jobs := make(map[jobKey]copiedJob)
	var keys []jobKey
	var names []string
	var versions []int32
	var latest []bool
	for i := range list {
		k := jobKeyOf(&list[i])
		if _, known := jobs[k]; !known {
			jobs[k] = copiedJob{}
			keys, names, versions, latest = append(keys, k), append(names, k.name), append(versions, int32(k.version)), append(latest, k.latest)
		}
	}
	var now time.Time
	var ord int64
	var job copiedJob
	found := 0
	find := statement{s.sql("enqueue/find_jobs"), []any{names, versions, latest}}
	err := sendAll(ctx, db, []statement{find}, []any{&ord, &job.id, &job.dependents, &now}, func() error {
		jobs[keys[ord-1]] = job
		found++
		return nil
	})
	if err == nil && found < len(keys) {
		err = errNotCopied
	}
	return jobs, now.UTC(), err
}

// copiedColumns are the columns of a row of copiedRow.
var copiedColumns = []string{
	"id", "created_at", "definition_id", "version", "concurrency_limit", "priority", "queue", "step_types", "limit_keys",
	"timeout_ns", "params", "created_by", "due_at", "state", "state_since", "attempt", "last_audit_seq", "step", "first_step_type", "first_step_id",
	"waits_for", "held", "has_dependents", "rerun_of", "options",
}

// copiedRow returns a new execution in the form in which sql/enqueue/create_many.sql would insert
// it.
func copiedRow(n *store.NewExecution, job copiedJob, now time.Time) []any {
	state := courier.Queued
	if n.Hold {
		state = courier.Created
	}
	var typ, id string
	if n.First != nil {
		if typ = n.First.Type; typ != "" {
			id = n.First.ID
		}
	}
	var rerunOf *bind.UUID
	if n.RerunOf != "" {
		rerun := bind.UUIDOf(string(n.RerunOf))
		rerunOf = &rerun
	}
	var waits []string
	if terms := waitTerms(n.DependsOn); len(terms) > 0 {
		waits = terms
	}
	own := bind.UUIDOf(string(n.ID))
	return []any{
		&own, now, job.id, int32(n.Version), int32(n.JobLimit), int16(n.Priority), n.Queue, textsOf(n.StepTypes), textsOf(n.LimitKeys),
		int64(n.Timeout), nullable(string(n.Params)), n.By, now.Add(n.Delay.Truncate(time.Microsecond)), string(state), now, int32(1), int64(1), int32(0), nullable(typ), nullable(id),
		waits, trueOrNull(n.Hold), trueOrNull(job.dependents), rerunOf, nullable(optionsOf(n)),
	}
}

// nullable returns a text, or nil for an empty text.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// trueOrNull returns true, or nil for false.
func trueOrNull(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}
