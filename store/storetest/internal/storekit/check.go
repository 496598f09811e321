package storekit

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// CheckAudit reports the first thing that is wrong with the complete audit of
// one execution: numbers that are not 1, 2, 3 ..., instants that go back, a
// state that is not the one left before, an illegal move, a step that changes
// while no worker holds the execution or is left running by one that gave it
// back, or an elapsed time that is not that between the entries. A step that an
// operator skipped comes right before the resume.
func CheckAudit(entries []courier.AuditEntry) error {
	c := auditor{steps: make(map[string]*lastMove)}
	for i := range entries {
		if err := c.add(&entries[i]); err != nil {
			return fmt.Errorf("audit entry %d of %s (%s > %s): %w", i+1, entries[i].Execution, entries[i].From, entries[i].To, err)
		}
	}
	if c.skipped {
		return fmt.Errorf("audit entry %d of %s skips a step, and no resume follows", c.seq, c.execution)
	}
	return nil
}

// An auditor follows the states through the entries.
type auditor struct {
	execution courier.ExecutionID
	seq       int64
	at        time.Time
	own       lastMove
	steps     map[string]*lastMove // by step, iteration and attempt
	skipped   bool                 // an operator has skipped a step, and the resume follows
}

// A lastMove is the last change of something.
type lastMove struct {
	to string
	at time.Time
}

func (c *auditor) add(e *courier.AuditEntry) error {
	c.seq++
	switch {
	case e.Seq != c.seq:
		return fmt.Errorf("its number is %d", e.Seq)
	case c.seq > 1 && e.Execution != c.execution:
		return fmt.Errorf("the entry before is of %s", c.execution)
	case e.At.Before(c.at):
		return fmt.Errorf("at %v, after one at %v", e.At, c.at)
	case e.At.Location() != time.UTC || !e.At.Equal(e.At.Truncate(time.Microsecond)):
		return fmt.Errorf("the instant %v is not in UTC or not cut to microseconds", e.At)
	case c.skipped && (e.Step != nil || e.To != string(courier.Queued) || !e.At.Equal(c.at)):
		return fmt.Errorf("the entry before skips a step, and this is not the resume")
	}
	c.execution, c.at, c.skipped = e.Execution, e.At, false
	if e.Step != nil {
		return c.step(e)
	}
	kept := e.From == e.To && courier.State(e.To).Final()       // about kept files
	begins := e.From == e.To && e.To == string(courier.Running) // the finally part
	if err := c.own.follow(e, "", !kept && !begins && !courier.State(e.From).CanBecome(courier.State(e.To))); err != nil {
		return err
	}
	if e.From == string(courier.Running) && e.Reason != courier.ReasonWorkerLost {
		for key, s := range c.steps {
			if s.to == string(courier.StepRunning) {
				return fmt.Errorf("step %s is left running", key)
			}
		}
	}
	return nil
}

func (c *auditor) step(e *courier.AuditEntry) error {
	stands := c.own.to == string(courier.Paused) || c.own.to == string(courier.Failed)
	c.skipped = stands && e.From == string(courier.StepPending) && e.To == string(courier.StepSkipped)
	if c.own.to != string(courier.Running) && !c.skipped {
		return fmt.Errorf("step %d changes while the execution is %s", *e.Step, c.own.to)
	}
	key := fmt.Sprintf("%d iteration %v attempt %d", *e.Step, e.Iteration, e.Attempt)
	s := c.steps[key]
	if s == nil || s.to != string(courier.StepRunning) && s.to != string(courier.StepPending) {
		// After a retry of the whole job the attempts begin anew.
		s = &lastMove{to: string(courier.StepPending), at: e.At}
		c.steps[key] = s
	}
	if e.From == string(courier.StepPending) {
		s.at = e.At // how long a step was pending is not kept
	}
	return s.follow(e, string(courier.StepPending), !courier.StepState(e.From).CanBecome(courier.StepState(e.To)))
}

// follow checks e against the move before and takes its place.
func (m *lastMove) follow(e *courier.AuditEntry, first string, illegal bool) error {
	if m.to == "" && first == "" {
		m.at = e.At
	}
	switch {
	case e.From != m.to:
		return fmt.Errorf("the state left before is %q", m.to)
	case illegal:
		return fmt.Errorf("the move is not legal")
	case e.Elapsed != e.At.Sub(m.at):
		return fmt.Errorf("elapsed %v, but the entries are %v apart", e.Elapsed, e.At.Sub(m.at))
	}
	m.to, m.at = e.To, e.At
	return nil
}

// CheckExecution reports the first fault of an execution in a store: of its audit, or
// between the audit and the execution or its records. It must not be called while the execution changes.
func CheckExecution(ctx context.Context, s store.Archive, id courier.ExecutionID) error {
	x, err := s.Execution(ctx, id)
	if err != nil {
		return err
	}
	entries, err := pages(func(after int64) ([]courier.AuditEntry, int64, error) {
		list, err := s.Audit(ctx, store.AuditFilter{Execution: id, After: after})
		return list, int64(len(list)), err
	})
	if err != nil {
		return err
	}
	if err := CheckAudit(entries); err != nil {
		return err
	}
	records, err := pages(func(after int64) ([]courier.StepExecution, int64, error) {
		list, err := s.Steps(ctx, store.StepFilter{Execution: id, After: after})
		if len(list) == 0 {
			return nil, 0, err
		}
		return list, list[len(list)-1].Seq - after, err
	})
	if err != nil {
		return err
	}
	return checkRecords(&x, entries, records)
}

// pages collects all pages. Each call returns a page and by how much the place
// where it ended lies behind the one where it began.
func pages[T any](page func(after int64) ([]T, int64, error)) ([]T, error) {
	var all []T
	var after int64
	for {
		list, n, err := page(after)
		if err != nil || len(list) == 0 {
			return all, err
		}
		all, after = append(all, list...), after+n
	}
}

// checkRecords compares what the audit says with the execution and its records.
func checkRecords(x *courier.Execution, entries []courier.AuditEntry, records []courier.StepExecution) error {
	var state string
	var running *courier.AuditEntry
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Step == nil:
			state = e.To
		case e.To == string(courier.StepRunning):
			running = e
		case running != nil && *running.Step == *e.Step && running.Attempt == e.Attempt:
			running = nil
		}
		if e.Step == nil || e.To == string(courier.StepRunning) || e.To == string(courier.StepPending) {
			continue
		}
		if len(records) == 0 || records[0].Seq != e.Seq {
			return fmt.Errorf("execution %s: audit entry %d ends step %d, but there is no such record", x.ID, e.Seq, *e.Step)
		}
		r := &records[0]
		if r.Step != *e.Step || r.Attempt != e.Attempt || string(r.State) != e.To || !r.EndedAt.Equal(e.At) || r.Error != e.Error || r.Bytes != e.Bytes {
			return fmt.Errorf("execution %s: the record and audit entry %d differ: %s, %s", x.ID, e.Seq, Text(r), Text(e))
		}
		records = records[1:]
	}
	switch {
	case len(records) > 0:
		return fmt.Errorf("execution %s: record %d has no audit entry", x.ID, records[0].Seq)
	case state != string(x.State):
		return fmt.Errorf("execution %s is %s, but its audit ends with %q", x.ID, x.State, state)
	case len(entries) > 0 && x.Seq != entries[len(entries)-1].Seq:
		return fmt.Errorf("execution %s has the number %d, and the last audit entry %d", x.ID, x.Seq, entries[len(entries)-1].Seq)
	case (running == nil) != (x.Current == nil):
		return fmt.Errorf("execution %s: its present step is %s, but the audit's is %s", x.ID, Text(x.Current), Text(running))
	case running != nil && (*running.Step != x.Current.Step || running.Attempt != x.Current.Attempt || !running.At.Equal(x.Current.StartedAt)):
		return fmt.Errorf("execution %s: its present step is %s, but the audit's is %s", x.ID, Text(x.Current), Text(running))
	case (x.State == courier.Running) == x.LeaseExpiresAt.IsZero():
		return fmt.Errorf("execution %s is %s and its lease ends at %v", x.ID, x.State, x.LeaseExpiresAt)
	case (x.State == courier.Running) == x.HeartbeatAt.IsZero():
		return fmt.Errorf("execution %s is %s and its last heartbeat was at %v", x.ID, x.State, x.HeartbeatAt)
	case x.State.Ended() == x.EndedAt.IsZero():
		return fmt.Errorf("execution %s is %s and ended at %v", x.ID, x.State, x.EndedAt)
	case x.State != courier.Running && x.Request != "" && !waitsForFinally(x):
		return fmt.Errorf("execution %s is %s and has a pending %s", x.ID, x.State, x.Request)
	}
	return nil
}

// waitsForFinally reports whether a request is pending that a queued execution has for its finally
// part: a cancel that leads into that, or a pause, which it drops when it is over.
func waitsForFinally(x *courier.Execution) bool {
	return x.State == courier.Queued && x.HasFinally && (x.Request == courier.RequestCancel && x.Finishing == nil || x.Request == courier.RequestPause && x.Finishing != nil)
}
