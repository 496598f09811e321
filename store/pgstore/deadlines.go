package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var _ store.Deadlines = (*Store)(nil)

// maxOverdue is how many deadlines sql/deadline/raise_overdue.sql takes at most.
const maxOverdue = 1000

// Overdue drops deadlines that have passed, and returns those of executions that have
// not ended.
func (s *Store) Overdue(ctx context.Context, limit int) (store.Overdue, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Overdue{}, err
	}
	if limit <= 0 || limit > maxOverdue {
		limit = maxOverdue
	}
	var got store.Overdue
	err := repeat(ctx, func() error {
		got = store.Overdue{}
		rows, err := s.pool.Query(ctx, s.sql("deadline/raise_overdue"), int64(limit))
		if err != nil {
			return err
		}
		var wait int64
		var id string
		var job, state, reason *string
		var version *int
		var at *time.Time
		_, err = pgx.ForEachRow(rows, []any{&wait, &id, &job, &version, &state, &reason, &at}, func() error {
			got.Next = max(0, time.Duration(wait)*time.Microsecond)
			if id != "" {
				got.List = append(got.List, store.OverdueExecution{
					Execution: courier.ExecutionID(id), Job: text(job), Version: *version, State: courier.State(text(state)),
					Reason: courier.Reason(text(reason)), Deadline: at.UTC(),
				})
			}
			return nil
		})
		return err
	})
	if err != nil {
		return store.Overdue{}, failed("find overdue executions", err)
	}
	return got, nil
}

// haveDeadlines reports whether executions of a list have deadlines.
func haveDeadlines(list []store.NewExecution) bool {
	return slices.ContainsFunc(list, func(n store.NewExecution) bool { return n.MaxDuration > 0 || n.ExpectedBy > 0 || n.Expires > 0 })
}

// deadlinesOf returns the deadlines of a part of a list of new executions, in
// microseconds.
func deadlinesOf(list []store.NewExecution, part []int) (durations, expected, expires []int64) {
	durations, expected, expires = make([]int64, len(part)), make([]int64, len(part)), make([]int64, len(part))
	for k, i := range part {
		durations[k], expected[k], expires[k] = micros(list[i].MaxDuration), micros(list[i].ExpectedBy), micros(list[i].Expires)
	}
	return durations, expected, expires
}
