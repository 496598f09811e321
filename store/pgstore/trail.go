package pgstore

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ store.Trail = (*Store)(nil)

// trailBlocks is the number of blocks that have about store.MaxTrailWalk entries of files.
const trailBlocks = store.MaxTrailWalk / 60

// lastCharacter sorts after all other characters.
const lastCharacter = "\U0010FFFF"

// Find returns a page of entries of the trail.
func (s *Store) Find(ctx context.Context, f store.TrailFilter) ([]store.TrailEntry, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	var list []store.TrailEntry
	var err error
	if f.Part {
		list, err = query(ctx, s.pool, scanTrail, s.sql("trail/find_part"), f.Value, int64(limit), s.opt.Schema, int64(trailBlocks))
	} else {
		filter, args := "", []any{f.Key, f.Value, int64(limit)}
		add := func(condition string, more ...any) {
			args, filter = append(args, more...), filter+condition
		}
		if f.Prefix {
			add(" and starts_with(t.value, $2::text) and t.value < $4::text", f.Value+lastCharacter)
		} else {
			add(" and t.value = $2::text and t.value <= $4::text", f.Value)
		}
		if b := f.Before; b != nil {
			add(" and (t.value, t.execution_id, t.seq) < ($5::text, $6::text::uuid, $7::bigint)", b.Value, bind.ID(string(b.Execution)), b.Seq)
		}
		list, err = query(ctx, s.pool, scanTrail, s.sqlFiltered("trail/find", filter), args...)
	}
	if err != nil {
		return nil, failed(fmt.Sprintf("find %q in the trail", f.Value), err)
	}
	return list, nil
}

// Reports returns the records that entries refer to.
func (s *Store) Reports(ctx context.Context, entries []store.TrailEntry) ([]courier.StepExecution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	entries = entries[:min(len(entries), 1000)]
	ids, numbers := make([]string, len(entries)), make([]int64, len(entries))
	for i, e := range entries {
		ids[i], numbers[i] = bind.ID(string(e.Execution)), e.Seq
	}
	list, err := query(ctx, s.pool, scanReport, s.sql("trail/list_reports"), ids, numbers)
	if err != nil {
		return nil, failed("read the records of the trail", err)
	}
	return list, nil
}

// scanReport returns a record with its version.
func scanReport(rows pgx.Rows) (courier.StepExecution, error) { return scanReportAnd(rows) }

// scanReportAnd is scanReport for rows with more columns.
func scanReportAnd(rows pgx.Rows, more ...any) (courier.StepExecution, error) {
	var x courier.Execution
	var repairs *string
	s, err := scanStepAnd(rows, append([]any{&x.Version, &repairs}, more...)...)
	if err == nil {
		err = decode(repairs, &x.Repairs)
	}
	list := []courier.StepExecution{s}
	store.SetVersions(&x, list)
	return list[0], err
}

func scanTrail(rows pgx.Rows) (e store.TrailEntry, err error) {
	var id string
	err = rows.Scan(&e.Value, &id, &e.Seq)
	e.Execution = courier.ExecutionID(id)
	return e, err
}

var _ store.Journal = (*Store)(nil)

// Note adds an entry to the journal.
func (s *Store) Note(ctx context.Context, a store.Action) (store.Action, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Action{}, err
	}
	// It is not repeated, because an entry that was written twice would mean two actions.
	err := s.pool.QueryRow(ctx, s.sql("journal/note"), a.By, a.Via, a.Verb, a.Kind, a.Name, a.Job, string(a.Was), string(a.Now),
		bind.OptionalID(string(a.Execution)), a.Reason, a.Outcome, a.Of).Scan(&a.ID, &a.At)
	if err != nil {
		return store.Action{}, failed("note an action in the journal", err)
	}
	a.At = a.At.UTC()
	return a, nil
}

// Actions returns a page of the journal, the newest entries first.
func (s *Store) Actions(ctx context.Context, f store.ActionFilter) ([]store.Action, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	filter, args := "", []any{before, int64(limit)}
	for _, c := range []struct{ column, value string }{{"kind", f.Kind}, {"name", f.Name}, {"by", f.By}} {
		if c.value != "" {
			args = append(args, c.value)
			filter += fmt.Sprintf(" and j.%s = $%d::text", c.column, len(args))
		}
	}
	if f.Acts {
		filter += " and not exists (select from courier.journal k where k.of = j.id)"
	}
	list, err := query(ctx, s.pool, scanAction, s.sqlFiltered("journal/list", filter), args...)
	if err != nil {
		return nil, failed("read the journal", err)
	}
	return list, nil
}

func scanAction(rows pgx.Rows) (a store.Action, err error) {
	var was, now *string
	var execution string
	err = rows.Scan(&a.ID, &a.At, &a.By, &a.Via, &a.Verb, &a.Kind, &a.Name, &a.Job, &was, &now, &execution, &a.Reason, &a.Outcome, &a.Of)
	a.At, a.Was, a.Now, a.Execution = a.At.UTC(), raw(was), raw(now), courier.ExecutionID(execution)
	return a, err
}
