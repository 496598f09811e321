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

var _ store.Journal = (*Store)(nil)

// Note adds an entry to the journal.
func (s *Store) Note(ctx context.Context, a store.Action) (store.Action, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Action{}, err
	}
	// It is not repeated: an entry that was written twice would tell of two actions.
	err := s.pool.QueryRow(ctx, s.sql("journal/note"), a.By, a.Via, a.Verb, a.Kind, a.Name, a.Job, string(a.Was), string(a.Now),
		bind.OptionalID(string(a.Execution)), a.Reason, a.Outcome).Scan(&a.ID, &a.At)
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
	limit := min(f.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
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
	list, err := query(ctx, s.pool, scanAction, s.sqlFiltered("journal/list", filter), args...)
	if err != nil {
		return nil, failed("read the journal", err)
	}
	return list, nil
}

func scanAction(rows pgx.Rows) (a store.Action, err error) {
	var was, now *string
	var execution string
	err = rows.Scan(&a.ID, &a.At, &a.By, &a.Via, &a.Verb, &a.Kind, &a.Name, &a.Job, &was, &now, &execution, &a.Reason, &a.Outcome)
	a.At, a.Was, a.Now, a.Execution = a.At.UTC(), raw(was), raw(now), courier.ExecutionID(execution)
	return a, err
}
