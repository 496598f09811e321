package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ schedule.Store = (*Store)(nil)

// A scheduleRow is a schedule as the statements select it. All columns are null if there is none.
type scheduleRow struct {
	kind, name, target, body  *string
	saved                     *time.Time
	revision                  *int64
	disabled, paused, waiting *bool
	failures                  *int32
	reason, problem           *string
	next, due, last, moves    *time.Time
	ran                       *string
	open                      []string
}

// fields returns pointers to the fields that a row is scanned to, in the order of the columns.
func (r *scheduleRow) fields() []any {
	return []any{
		&r.kind, &r.name, &r.target, &r.body, &r.saved, &r.revision, &r.disabled, &r.paused, &r.waiting, &r.failures,
		&r.reason, &r.problem, &r.next, &r.due, &r.last, &r.ran, &r.open, &r.moves,
	}
}

// schedule returns the schedule of a row that has one.
func (r *scheduleRow) schedule() schedule.Record {
	s := schedule.Record{
		Name: *r.name, Kind: store.Kind(*r.kind), Target: *r.target, Body: json.RawMessage(*r.body), SavedAt: r.saved.UTC(), Revision: *r.revision,
		Status: schedule.Status{
			Disabled: *r.disabled, Paused: *r.paused, Waiting: *r.waiting, Failures: int(*r.failures), Reason: *r.reason, Problem: *r.problem,
			Next: instant(r.next), Due: instant(r.due), Last: instant(r.last), LastExecution: courier.ExecutionID(*r.ran), MovesFrom: instant(r.moves),
		},
	}
	for _, id := range r.open {
		s.Open = append(s.Open, courier.ExecutionID(id))
	}
	return s
}

// moment returns an instant as a parameter. It is empty for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// idList returns ids as the text of an array.
func idList(ids []courier.ExecutionID) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = bind.ID(string(id))
	}
	return bind.Array(list)
}

// PutSchedule creates a schedule or replaces one.
func (s *Store) PutSchedule(ctx context.Context, put schedule.Record) (schedule.Record, error) {
	if err := s.checkOpen(ctx); err != nil {
		return schedule.Record{}, err
	}
	sql := s.sql("schedule/put_job")
	if put.Kind == store.Chain {
		sql = s.sql("schedule/put_chain")
	}
	ran := ""
	if put.LastExecution != "" {
		ran = bind.ID(string(put.LastExecution))
	}
	got := put
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			if err := s.replaces(ctx, tx, &put); err != nil {
				return err
			}
			return tx.QueryRow(ctx, sql, put.Name, put.Target, string(put.Body), put.Disabled, put.Paused, put.Waiting, int32(put.Failures),
				put.Reason, put.Problem, moment(put.Next), moment(put.Due), moment(put.Last), ran, idList(put.Open), moment(put.MovesFrom)).Scan(&got.SavedAt, &got.Revision)
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return schedule.Record{}, a.error
	}
	if err != nil {
		return schedule.Record{}, failed(fmt.Sprintf("put schedule %q", put.Name), err)
	}
	got.SavedAt = got.SavedAt.UTC()
	for _, t := range []*time.Time{&got.Next, &got.Due, &got.Last, &got.MovesFrom} {
		if !t.IsZero() {
			*t = t.UTC().Truncate(time.Microsecond)
		}
	}
	s.notifier.Schedules.WakeAll()
	s.notifier.SchedulesChanged()
	return got, nil
}

// replaces locks the name of a schedule and checks that it has the expected revision,
// or does not exist. It removes a schedule of the other kind.
func (s *Store) replaces(ctx context.Context, tx pgx.Tx, put *schedule.Record) error {
	if _, err := tx.Exec(ctx, s.sql("schedule/lock_name"), lockNumber("courier schedule "+s.opt.Schema+" "+put.Name)); err != nil {
		return err
	}
	locked, err := s.lockSchedules(ctx, tx, []string{put.Name})
	if err != nil {
		return err
	}
	old, ok := locked[put.Name]
	switch {
	case !ok && put.Revision != 0:
		return contractError{courier.Errorf(courier.ErrConflict, "schedule %q: it no longer exists", put.Name)}
	case ok && put.Revision != old.revision:
		return contractError{courier.Errorf(courier.ErrConflict, "schedule %q: somebody else has changed it", put.Name)}
	case ok && old.kind != put.Kind:
		_, err = tx.Exec(ctx, s.sql("schedule/remove"), put.Name)
	}
	return err
}

// A lockedSchedule is a schedule that is locked.
type lockedSchedule struct {
	kind     store.Kind
	revision int64
}

// lockSchedules locks the schedules that exist.
func (s *Store) lockSchedules(ctx context.Context, tx pgx.Tx, names []string) (map[string]lockedSchedule, error) {
	rows, err := tx.Query(ctx, s.sql("schedule/lock"), names)
	if err != nil {
		return nil, err
	}
	locked := make(map[string]lockedSchedule, len(names))
	var name string
	var l lockedSchedule
	_, err = pgx.ForEachRow(rows, []any{&l.kind, &name, &l.revision}, func() error {
		locked[name] = l
		return nil
	})
	return locked, err
}

// RemoveSchedule removes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	removed, err := query(ctx, s.pool, func(rows pgx.Rows) (name string, err error) { return name, rows.Scan(&name) }, s.sql("schedule/remove"), name)
	if err != nil {
		return failed(fmt.Sprintf("remove schedule %q", name), err)
	}
	if len(removed) == 0 {
		return courier.Errorf(courier.ErrNotFound, "there is no schedule %q", name)
	}
	return nil
}

// Schedules returns schedules in the order of their names.
func (s *Store) Schedules(ctx context.Context, f schedule.Filter) (schedule.List, error) {
	if err := s.checkOpen(ctx); err != nil {
		return schedule.List{}, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	sql, args := s.sql("schedule/list"), []any{f.After, int64(f.Limit), string(f.Kind), f.Target}
	if f.Name != "" {
		sql, args = s.sql("schedule/get"), []any{f.Name}
	}
	var t schedule.List
	rows, err := query(ctx, s.pool, func(rows pgx.Rows) (r scheduleRow, err error) {
		return r, rows.Scan(append([]any{&t.Now}, r.fields()...)...)
	}, sql, args...)
	if err != nil {
		return schedule.List{}, failed("read schedules", err)
	}
	t.Now = t.Now.UTC()
	for i := range rows {
		if rows[i].name == nil {
			continue
		}
		if got := rows[i].schedule(); f.Match(&got) {
			t.List = append(t.List, got)
		}
	}
	return t, nil
}

// AwaitSchedules returns when a schedule was put since a mark.
func (s *Store) AwaitSchedules(ctx context.Context, since uint64) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.notifier.Listen()
	return s.notifier.Schedules.Wait(ctx, nil, since)
}
