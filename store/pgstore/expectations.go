package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ expectation.Store = (*Store)(nil)

// An expectationRow is an expectation as the statements select it. All columns are null if there is
// none.
type expectationRow struct {
	name, monitor, job, prefix, body *string
	saved                            *time.Time
	revision                         *int64
	seenFrom                         *time.Time
	arrivalsFrom, memory             *string
	due                              *time.Time
}

// fields returns pointers to the fields that a row is scanned to, in the order of the columns.
func (r *expectationRow) fields() []any {
	return []any{&r.name, &r.monitor, &r.job, &r.prefix, &r.body, &r.saved, &r.revision, &r.seenFrom, &r.arrivalsFrom, &r.memory, &r.due}
}

// record returns the expectation of a row that has one.
func (r *expectationRow) record() expectation.Record {
	return expectation.Record{
		Name: *r.name, Monitor: *r.monitor, Job: *r.job, Prefix: *r.prefix, Body: json.RawMessage(*r.body),
		SavedAt: r.saved.UTC(), Revision: *r.revision, Due: instant(r.due),
		Progress: expectation.Progress{SeenFrom: r.seenFrom.UTC(), ArrivalsFrom: *r.arrivalsFrom, Memory: json.RawMessage(*r.memory)},
	}
}

// PutExpectation creates an expectation or replaces one.
func (s *Store) PutExpectation(ctx context.Context, p expectation.Put) (expectation.Record, error) {
	if err := s.checkOpen(ctx); err != nil {
		return expectation.Record{}, err
	}
	got := p.Record
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.sql("expectation/lock_name"), lockNumber("courier expectation "+s.opt.Schema+" "+p.Name)); err != nil {
				return err
			}
			var revision int64
			err := tx.QueryRow(ctx, s.sql("expectation/lock"), p.Name).Scan(&revision)
			switch there := err == nil; {
			case err != nil && !errors.Is(err, pgx.ErrNoRows):
				return err
			case !there && p.Revision != 0:
				return contractError{courier.Errorf(courier.ErrConflict, "expectation %q: it no longer exists", p.Name)}
			case there && p.Revision != revision:
				return contractError{courier.Errorf(courier.ErrConflict, "expectation %q: somebody else has changed it", p.Name)}
			}
			var due *time.Time
			err = tx.QueryRow(ctx, s.sql("expectation/put"), p.Name, p.Monitor, p.Job, p.Prefix, string(p.Body), moment(p.SeenFrom), p.ArrivalsFrom,
				string(p.Memory), dueAfter(p.After)).Scan(&got.SavedAt, &got.Revision, &due)
			got.SavedAt, got.Due, got.SeenFrom = got.SavedAt.UTC(), instant(due), p.SeenFrom.UTC().Truncate(time.Microsecond)
			if err != nil {
				return err
			}
			if look := monitor.LookName(p.Name); p.Monitor != look {
				_, err = tx.Exec(ctx, s.sql("monitor/remove"), look)
			} else if p.Look != nil {
				_, err = s.putMonitor(ctx, tx, p.Look)
			}
			return err
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return expectation.Record{}, a.error
	}
	if err != nil {
		return expectation.Record{}, failed(fmt.Sprintf("put expectation %q", p.Name), err)
	}
	s.notifier.Schedules.WakeAll()
	s.notifier.SchedulesChanged()
	return got, nil
}

// RemoveExpectation removes an expectation and its arrivals.
func (s *Store) RemoveExpectation(ctx context.Context, name string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	removed, err := query(ctx, s.pool, func(rows pgx.Rows) (name string, err error) { return name, rows.Scan(&name) }, s.sql("expectation/remove"), name, monitor.LookName(name))
	if err != nil {
		return failed(fmt.Sprintf("remove expectation %q", name), err)
	}
	if len(removed) == 0 {
		return courier.Errorf(courier.ErrNotFound, "there is no expectation %q", name)
	}
	return nil
}

// Expectations returns expectations in the order of their names.
func (s *Store) Expectations(ctx context.Context, f expectation.Filter) (expectation.List, error) {
	if err := s.checkOpen(ctx); err != nil {
		return expectation.List{}, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	filter, args := "", []any{f.After, int64(f.Limit)}
	for _, c := range []struct{ column, value string }{{"name", f.Name}, {"monitor", f.Monitor}, {"job", f.Job}} {
		if c.value != "" {
			args = append(args, c.value)
			filter += fmt.Sprintf(" and e.%s = $%d::text", c.column, len(args))
		}
	}
	if f.Names != nil {
		args = append(args, f.Names)
		filter += fmt.Sprintf(" and e.name = any($%d::text[])", len(args))
	}
	var l expectation.List
	rows, err := query(ctx, s.pool, func(rows pgx.Rows) (r expectationRow, err error) {
		return r, rows.Scan(append([]any{&l.Now}, r.fields()...)...)
	}, s.sqlFiltered("expectation/list", filter), args...)
	if err != nil {
		return expectation.List{}, failed("read expectations", err)
	}
	l.Now = l.Now.UTC()
	for i := range rows {
		if rows[i].name != nil {
			l.List = append(l.List, rows[i].record())
		}
	}
	return l, nil
}

// A lookRow is an expectation with the data for a look at it.
type lookRow struct {
	expectationRow
	days, watch, health, files, received *string
}

// DueExpectations leases expectations that are due.
func (s *Store) DueExpectations(ctx context.Context, r expectation.DueRequest) (expectation.DueList, error) {
	if err := s.checkOpen(ctx); err != nil {
		return expectation.DueList{}, err
	}
	var d expectation.DueList
	var wait int64
	rows, err := query(ctx, s.pool, func(rows pgx.Rows) (x lookRow, err error) {
		fields := append([]any{&d.Now, &wait}, x.fields()...)
		return x, rows.Scan(append(fields, &x.days, &x.watch, &x.health, &x.files, &x.received)...)
	}, s.sql("expectation/lease_due"), int64(r.Max), micros(r.Lease), int64(expectation.MaxSeen))
	if err != nil {
		return expectation.DueList{}, failed("look for due expectations", err)
	}
	d.Now, d.Next = d.Now.UTC(), time.Duration(wait)*time.Microsecond
	for i := range rows {
		if rows[i].name == nil {
			continue
		}
		due, err := rows[i].due()
		if err != nil {
			return expectation.DueList{}, failed("read what is due", err)
		}
		d.List = append(d.List, due)
	}
	return d, nil
}

// due returns the data of the row.
func (r *lookRow) due() (d expectation.Due, err error) {
	d.Record = r.record()
	var days []struct{ ID, Day, State, Body string }
	if err := decode(r.days, &days); err != nil {
		return d, err
	}
	for _, x := range days {
		d.Arrivals = append(d.Arrivals, expectation.Kept{ID: x.ID, Expectation: d.Name, Date: x.Day, State: expectation.State(x.State), Body: json.RawMessage(x.Body)})
	}
	if r.watch != nil && r.health != nil {
		d.Watch = &expectation.Watch{Body: json.RawMessage(*r.watch), Health: json.RawMessage(*r.health)}
	}
	var files []struct {
		Name             string
		Size             int64
		Modified, Gone   *int64
		Since            int64
		Done             bool
		Appeared, Handed int
		Execution        courier.ExecutionID
	}
	if err := decode(r.files, &files); err != nil {
		return d, err
	}
	at := func(us *int64) time.Time {
		if us == nil {
			return time.Time{}
		}
		return time.UnixMicro(*us).UTC()
	}
	for i := range files {
		f := &files[i]
		d.Seen = append(d.Seen, monitor.SeenFile{
			Name: f.Name, Size: f.Size, Modified: at(f.Modified), Since: at(&f.Since), Done: f.Done, MissingSince: at(f.Gone), Appeared: f.Appeared, Handed: f.Handed,
			Execution: f.Execution,
		})
	}
	var received []struct {
		Path      string
		Size, At  int64
		Execution courier.ExecutionID
		Seq       int64
	}
	err = decode(r.received, &received)
	for i := range received {
		x := &received[i]
		d.Received = append(d.Received, expectation.Received{Path: x.Path, Size: x.Size, At: at(&x.At), Execution: x.Execution, Seq: x.Seq})
	}
	return d, err
}

// RecordLooks writes looks, in one statement.
func (s *Store) RecordLooks(ctx context.Context, list []expectation.Look) ([]bool, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	done := make([]bool, len(list))
	if len(list) == 0 {
		return done, nil
	}
	args := lookArgs(list)
	var names []string
	err := repeat(ctx, func() (err error) {
		names, err = query(ctx, s.pool, func(rows pgx.Rows) (name string, err error) { return name, rows.Scan(&name) }, s.sql("expectation/record_looks"), args...)
		return err
	})
	if err != nil {
		return nil, failed("record looks at expectations", err)
	}
	written := make(map[string]bool, len(names))
	for _, name := range names {
		written[name] = true
	}
	for i := range list {
		done[i] = written[list[i].Expectation]
	}
	return done, nil
}

// lookArgs returns the parameters of sql/expectation/record_looks.sql.
func lookArgs(list []expectation.Look) []any {
	n := len(list)
	names, revisions, from, arrivals, memories, afters, forget := make([]string, n), make([]int64, n), make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]string, n)
	days, ids, dates, states, bodies := []string{}, []string{}, []string{}, []string{}, []string{}
	of, events, seqs, types, instants, texts, payloads := []string{}, []string{}, []int64{}, []string{}, []string{}, []string{}, []string{}
	for i := range list {
		l := &list[i]
		names[i], revisions[i], from[i], arrivals[i] = l.Expectation, l.Revision, moment(l.Progress.SeenFrom), l.Progress.ArrivalsFrom
		memories[i], afters[i], forget[i] = string(l.Progress.Memory), dueAfter(l.After), l.Forget
		for k := range l.Arrivals {
			a := &l.Arrivals[k]
			days, dates, ids = append(days, l.Expectation), append(dates, a.Date), append(ids, bind.ID(a.ID))
			states, bodies = append(states, string(a.State)), append(bodies, string(a.Body))
		}
		for k := range l.Events {
			e := &l.Events[k]
			of, events, seqs, types = append(of, l.Expectation), append(events, bind.ID(e.ID)), append(seqs, e.Seq), append(types, string(e.Type))
			instants, texts, payloads = append(instants, moment(e.At)), append(texts, e.Text), append(payloads, string(e.Payload))
		}
	}
	return []any{names, revisions, from, arrivals, memories, afters, forget, days, dates, ids, states, bodies, of, events, seqs, types, instants, texts, payloads}
}

// Arrivals returns a page of arrivals.
func (s *Store) Arrivals(ctx context.Context, f expectation.ArrivalFilter) ([]expectation.Kept, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	filter, args := "", []any{int64(f.Limit)}
	add := func(condition string, more ...any) { // each ? stands for the next element of more
		for _, arg := range more {
			args = append(args, arg)
			condition = strings.Replace(condition, "?", fmt.Sprint("$", len(args)), 1)
		}
		filter += condition
	}
	if f.Expectations != nil {
		args = append(args, f.Expectations)
	}
	if f.From != "" {
		add(" and a.day >= ?::text::date", f.From)
	}
	if f.To != "" {
		add(" and a.day <= ?::text::date", f.To)
	}
	if f.States != nil {
		states := make([]string, len(f.States))
		for i, state := range f.States {
			states[i] = string(state)
		}
		add(" and a.state = any(?::text[])", states)
	}
	if f.After != nil {
		add(" and a.day <= ?::text::date and (a.day < ?::text::date or a.expectation > ?::text)", f.After.Date, f.After.Date, f.After.Expectation)
	}
	text := s.sqlFiltered("expectation/arrivals", filter)
	if f.Expectations != nil {
		text = s.sqlFiltered("expectation/arrivals_of", filter)
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (k expectation.Kept, err error) {
		var body string
		err = rows.Scan(&k.ID, &k.Expectation, &k.Date, &k.State, &body)
		k.Body = json.RawMessage(body)
		return k, err
	}, text, args...)
	if err != nil {
		return nil, failed("read arrivals", err)
	}
	return list, nil
}

// CountArrivals counts arrivals by their states.
func (s *Store) CountArrivals(ctx context.Context, from, to string) (map[expectation.State]int, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	counts := make(map[expectation.State]int)
	_, err := query(ctx, s.pool, func(rows pgx.Rows) (struct{}, error) {
		var state expectation.State
		var n int
		err := rows.Scan(&state, &n)
		counts[state] = n
		return struct{}{}, err
	}, s.sql("expectation/count_arrivals"), from, to)
	if err != nil {
		return nil, failed("count arrivals", err)
	}
	return counts, nil
}
