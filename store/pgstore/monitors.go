package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ monitor.Store = (*Store)(nil)

// A monitorRow is a monitor as the statements select it. All columns are null if there is none.
type monitorRow struct {
	name, lister, kind, target, body *string
	saved                            *time.Time
	revision                         *int64
	status, reason, health           *string
	due                              *time.Time
}

// fields returns pointers to the fields that a row is scanned to, in the order of the columns.
func (r *monitorRow) fields() []any {
	return []any{&r.name, &r.lister, &r.kind, &r.target, &r.body, &r.saved, &r.revision, &r.status, &r.reason, &r.health, &r.due}
}

// monitor returns the monitor of a row that has one.
func (r *monitorRow) monitor() monitor.Record {
	return monitor.Record{
		Name: *r.name, Lister: *r.lister, Kind: store.Kind(*r.kind), Target: *r.target, Body: json.RawMessage(*r.body),
		SavedAt: r.saved.UTC(), Revision: *r.revision, Due: instant(r.due),
		Status: monitor.Status{State: monitor.State(*r.status), Reason: *r.reason, Health: json.RawMessage(*r.health)},
	}
}

// dueAfter is the time until a monitor is due, as a parameter.
func dueAfter(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return micros(d)
}

// PutMonitor creates a monitor or replaces one.
func (s *Store) PutMonitor(ctx context.Context, p monitor.Put) (monitor.Record, error) {
	if err := s.checkOpen(ctx); err != nil {
		return monitor.Record{}, err
	}
	var got monitor.Record
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.sql("monitor/lock_name"), lockNumber("courier monitor "+s.opt.Schema+" "+p.Name)); err != nil {
				return err
			}
			revision, there, err := s.lockMonitor(ctx, tx, p.Name)
			switch {
			case err != nil:
				return err
			case !there && p.Revision != 0:
				return contractError{courier.Errorf(courier.ErrConflict, "monitor %q: it no longer exists", p.Name)}
			case there && p.Revision != revision:
				return contractError{courier.Errorf(courier.ErrConflict, "monitor %q: somebody else has changed it", p.Name)}
			}
			got, err = s.putMonitor(ctx, tx, &p)
			return err
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return monitor.Record{}, a.error
	}
	if err != nil {
		return monitor.Record{}, failed(fmt.Sprintf("put monitor %q", p.Name), err)
	}
	s.notifier.Schedules.WakeAll()
	s.notifier.SchedulesChanged()
	return got, nil
}

// putMonitor saves a monitor whose name is locked.
func (s *Store) putMonitor(ctx context.Context, tx pgx.Tx, p *monitor.Put) (got monitor.Record, err error) {
	if p.Forget {
		if _, err := tx.Exec(ctx, s.sql("monitor/remove_all_files"), p.Name); err != nil {
			return got, err
		}
	}
	got = p.Record
	var due *time.Time
	err = tx.QueryRow(ctx, s.sql("monitor/put"), p.Name, p.Lister, string(p.Kind), p.Target, string(p.Body), string(p.State), p.Reason,
		string(p.Health), dueAfter(p.After)).Scan(&got.SavedAt, &got.Revision, &due)
	got.SavedAt, got.Due = got.SavedAt.UTC(), instant(due)
	return got, err
}

// lockMonitor locks a monitor, if it exists.
func (s *Store) lockMonitor(ctx context.Context, tx pgx.Tx, name string) (revision int64, there bool, err error) {
	err = tx.QueryRow(ctx, s.sql("monitor/lock"), name).Scan(&revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return revision, err == nil, err
}

// RemoveMonitor removes a monitor and its files.
func (s *Store) RemoveMonitor(ctx context.Context, name string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	removed, err := query(ctx, s.pool, func(rows pgx.Rows) (name string, err error) { return name, rows.Scan(&name) }, s.sql("monitor/remove"), name)
	if err != nil {
		return failed(fmt.Sprintf("remove monitor %q", name), err)
	}
	if len(removed) == 0 {
		return courier.Errorf(courier.ErrNotFound, "there is no monitor %q", name)
	}
	return nil
}

// Monitors returns monitors in the order of their names.
func (s *Store) Monitors(ctx context.Context, f monitor.Filter) ([]monitor.Record, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (monitor.Record, error) {
		var r monitorRow
		if err := rows.Scan(r.fields()...); err != nil {
			return monitor.Record{}, err
		}
		return r.monitor(), nil
	}, s.sql("monitor/list"), f.Name, f.After, int64(f.Limit))
	if err != nil {
		return nil, failed("read monitors", err)
	}
	return list, nil
}

// DueMonitors leases monitors that are due.
func (s *Store) DueMonitors(ctx context.Context, r monitor.DueRequest) (monitor.DueList, error) {
	if err := s.checkOpen(ctx); err != nil {
		return monitor.DueList{}, err
	}
	var d monitor.DueList
	var wait int64
	rows, err := query(ctx, s.pool, func(rows pgx.Rows) (m monitorRow, err error) {
		return m, rows.Scan(append([]any{&d.Now, &wait}, m.fields()...)...)
	}, s.sql("monitor/lease_due"), slices.Concat([]string{}, r.Listers), int64(r.Max), micros(r.Lease), slices.Concat([]string{}, r.Early))
	if err != nil {
		return monitor.DueList{}, failed("look for due monitors", err)
	}
	d.Now, d.Next = d.Now.UTC(), time.Duration(wait)*time.Microsecond
	for i := range rows {
		if rows[i].name != nil {
			d.List = append(d.List, rows[i].monitor())
		}
	}
	return d, nil
}

// RecordPoll saves the result of a poll, in one transaction.
func (s *Store) RecordPoll(ctx context.Context, r monitor.PollResult) (monitor.Recorded, error) {
	if err := s.checkOpen(ctx); err != nil {
		return monitor.Recorded{}, err
	}
	var done monitor.Recorded
	var released []string // the queues of members of chains
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) (err error) {
			done, released, err = s.record(ctx, tx, r)
			return err
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return monitor.Recorded{}, a.error
	}
	if err != nil {
		return monitor.Recorded{}, failed(fmt.Sprintf("record what monitor %q has seen", r.Monitor), err)
	}
	s.notifyEnqueued(done.Executions)
	if len(waitingOf(r.Executions, done.Executions)) > 0 {
		s.releaseWaiting(ctx)
	}
	s.notifyQueues(ctx, released)
	return done, nil
}

func (s *Store) record(ctx context.Context, tx pgx.Tx, r monitor.PollResult) (done monitor.Recorded, released []string, err error) {
	revision, there, err := s.lockMonitor(ctx, tx, r.Monitor)
	if err != nil || !there || revision != r.Revision {
		return done, nil, err
	}
	r.Changed = slices.Clone(r.Changed)
	if len(r.Executions) > 0 {
		if done.Executions, err = s.start(ctx, tx, &r); err != nil {
			return monitor.Recorded{}, nil, err
		}
	}
	if len(r.Chains) > 0 {
		if done.Chains, released, err = s.startMonitored(ctx, tx, &r); err != nil {
			return monitor.Recorded{}, nil, err
		}
	}
	for part := range slices.Chunk(r.Changed, maxStatement) {
		if _, err := tx.Exec(ctx, s.sql("monitor/save_files"), fileArgs(r.Monitor, part)...); err != nil {
			return monitor.Recorded{}, nil, err
		}
	}
	if len(r.Removed) > 0 {
		if _, err := tx.Exec(ctx, s.sql("monitor/remove_files"), r.Monitor, r.Removed); err != nil {
			return monitor.Recorded{}, nil, err
		}
	}
	err = tx.QueryRow(ctx, s.sql("monitor/record_poll"), r.Monitor, string(r.Status.State), r.Status.Reason, string(r.Status.Health), dueAfter(r.After)).Scan(&done.Revision)
	done.Done = err == nil
	return done, released, err
}

// startMonitored starts the chain executions of a record, like start for executions.
func (s *Store) startMonitored(ctx context.Context, tx pgx.Tx, r *monitor.PollResult) (started []chain.Started, released []string, err error) {
	started, released, wrong, err := s.startUnused(ctx, tx, r.Chains)
	if err != nil {
		return nil, nil, err
	}
	for i := range started {
		if err := wrong[i]; err != nil {
			return nil, nil, contractError{err}
		}
		r.Replace(courier.ExecutionID(r.Chains[i].ID), courier.ExecutionID(started[i].Execution.ID))
	}
	return started, released, nil
}

// start creates the executions of a record. If the key of an execution is already used, the
// execution that has used it replaces it in the record.
func (s *Store) start(ctx context.Context, tx pgx.Tx, r *monitor.PollResult) ([]store.Enqueued, error) {
	list := slices.Clone(r.Executions)
	for i := range list {
		list[i].Latest = false // the engine has just checked this
	}
	results, notCreated, err := s.create(ctx, tx, list, nil)
	if err != nil {
		return nil, err
	}
	there, err := s.existing(ctx, tx, list, notCreated)
	if err != nil {
		return nil, err
	}
	for _, i := range notCreated {
		n, x := &list[i], there[i]
		if err := conflict(n, x); err != nil {
			return nil, contractError{err}
		}
		results[i] = store.Enqueued{Execution: *x, Existed: true}
		r.Replace(n.ID, x.ID)
	}
	return results, s.checkDependencies(ctx, tx, list, notCreated)
}

// fileArgs returns the parameters of sql/monitor/save_files.sql.
func fileArgs(monitor string, files []monitor.SeenFile) []any {
	n := len(files)
	names, sizes, times, since, done, gone := make([]string, n), make([]int64, n), make([]string, n), make([]string, n), make([]bool, n), make([]string, n)
	appeared, handed, handedSizes := make([]int32, n), make([]int32, n), make([]int64, n)
	handedTimes, handedAt, executions := make([]string, n), make([]string, n), make([]string, n)
	for i := range files {
		f := &files[i]
		names[i], sizes[i], times[i], since[i], done[i], gone[i] = f.Name, f.Size, moment(f.Modified), moment(f.Since), f.Done, moment(f.MissingSince)
		appeared[i], handed[i], handedSizes[i] = int32(f.Appeared), int32(f.Handed), f.HandedSize
		handedTimes[i], handedAt[i] = moment(f.HandedModified), moment(f.HandedAt)
		if f.Execution != "" {
			executions[i] = bind.ID(string(f.Execution))
		}
	}
	return []any{monitor, names, sizes, times, since, done, gone, appeared, handed, handedSizes, handedTimes, handedAt, executions}
}

// SeenFiles returns the files of a monitor, in the order of their names.
func (s *Store) SeenFiles(ctx context.Context, f monitor.SeenFilter) ([]monitor.SeenFile, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (monitor.SeenFile, error) {
		var f monitor.SeenFile
		var modified, gone, handedModified, handedAt *time.Time
		var appeared, handed int32
		var execution string
		err := rows.Scan(&f.Name, &f.Size, &modified, &f.Since, &f.Done, &gone, &appeared, &handed, &f.HandedSize, &handedModified, &handedAt, &execution)
		f.Since, f.Appeared, f.Handed, f.Execution = f.Since.UTC(), int(appeared), int(handed), courier.ExecutionID(execution)
		f.Modified, f.MissingSince, f.HandedModified, f.HandedAt = instant(modified), instant(gone), instant(handedModified), instant(handedAt)
		return f, err
	}, s.sql("monitor/list_files"), f.Monitor, f.After, int64(f.Limit))
	if err != nil {
		return nil, failed(fmt.Sprintf("read what monitor %q has seen", f.Monitor), err)
	}
	return list, nil
}
