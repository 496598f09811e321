package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// An entry is an audit entry as it is kept: what the record of the step says
// is not repeated.
type entry struct {
	at       time.Time
	step     *courier.StepExecution // nil for a change of the execution's own state
	from, to string
	elapsed  time.Duration
	attempt  int // of the execution
	worker   string
	note     *note // nil for most
}

// A note is the rest of an entry.
type note struct {
	by     string
	reason courier.Reason
	err    string
}

// log appends an entry to the audit.
func (x *execution) log(now time.Time, e entry) {
	e.at, e.elapsed = now, max(0, e.elapsed)
	if e.attempt == 0 {
		e.attempt = x.Attempt
	}
	x.audit = append(x.audit, e)
	x.Seq = int64(len(x.audit))
}

// auditEntry returns the entry with the given number.
func (x *execution) auditEntry(seq int64) courier.AuditEntry {
	e := &x.audit[seq-1]
	a := courier.AuditEntry{
		Execution: x.ID, Seq: seq, At: e.at, From: e.from, To: e.to, Elapsed: e.elapsed, Worker: e.worker,
		ExecutionAttempt: e.attempt,
	}
	if s := e.step; s != nil {
		step := s.Step
		a.Step, a.ID, a.Type, a.Iteration, a.Attempt = &step, s.ID, s.Type, s.Iteration, s.Attempt
		if s.Seq == seq { // the one that ended the attempt
			a.Bytes, a.Reason, a.Error = s.Bytes, s.Reason, s.Error
		}
	}
	if e.note != nil {
		a.By, a.Reason, a.Error = e.note.by, e.note.reason, e.note.err
	}
	return a
}

// latestSteps returns copies of the latest record of each step, in their order: of those
// with a lower number than before, unless that is 0.
func (x *execution) latestSteps(before int64) []courier.StepExecution {
	list := make([]courier.StepExecution, 0, len(x.present))
	for _, i := range slices.Sorted(maps.Keys(x.present)) {
		records := x.present[i]
		if before > 0 {
			records = records[:firstFrom(records, before)]
		}
		if n := len(records); n > 0 {
			list = append(list, withoutDetails(records[n-1]))
		}
	}
	return list
}

// firstFrom returns the index of the first record with the number or a higher one.
func firstFrom(records []*courier.StepExecution, seq int64) int {
	return sort.Search(len(records), func(i int) bool { return records[i].Seq >= seq })
}

// Execution returns an execution.
func (s *Store) Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	if err := ctx.Err(); err != nil {
		return courier.Execution{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.executions[id]; x != nil {
		return s.view(x), nil
	}
	return courier.Execution{}, unknown(id)
}

// Executions returns a page of executions, newest first.
func (s *Store) Executions(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids
	if f.IDs != nil {
		ids = slices.DeleteFunc(slices.Clone(f.IDs), func(id courier.ExecutionID) bool { return s.executions[id] == nil })
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	for name, value := range f.Labels { // the trail has the ids
		if f.IDs == nil {
			ids = s.labelledIDs(name, value)
		}
		break
	}
	i := len(ids)
	if f.Before != "" {
		i, _ = slices.BinarySearch(ids, f.Before)
	}
	var list []courier.Execution
	for i--; i >= 0 && len(list) < limit; i-- {
		x := s.executions[ids[i]]
		if (f.Job == "" || x.Job == f.Job) && (len(f.Jobs) == 0 || slices.Contains(f.Jobs, x.Job)) && labelled(x, f.Labels) && (f.Queue == "" || x.Queue == f.Queue) &&
			(len(f.States) == 0 || slices.Contains(f.States, x.State)) && (!f.Waiting || s.waiting.has(x)) &&
			(len(f.Reasons) == 0 || x.Failure != nil && slices.Contains(f.Reasons, x.Failure.Reason)) &&
			(!f.Kept || x.State.Final() && x.OnlyCopies != nil && x.OnlyCopies.Any()) && (f.Workspace == "" || x.Workspace == f.Workspace) &&
			(!f.FailedItems || x.FailedItems > 0) && (!f.FinallyError || x.FinallyError != nil) && (f.RerunOf == "" || x.RerunOf == f.RerunOf) {
			e := s.view(x)
			e.Params, e.Result, e.Repairs = nil, nil, nil
			if c := e.OnlyCopies; c != nil && !f.Kept {
				e.OnlyCopies = &courier.OnlyCopies{Count: c.Count, Bytes: c.Bytes, Problem: c.Problem}
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// labelledIDs returns the ids of the executions with a label, in their order.
func (s *Store) labelledIDs(name, value string) []courier.ExecutionID {
	t := s.trails[name]
	if t == nil {
		return nil
	}
	ids := make([]courier.ExecutionID, len(t.entries[value]))
	for i, e := range t.entries[value] {
		ids[i] = e.Execution
	}
	slices.Sort(ids)
	return ids
}

// labelled reports whether an execution has all of the labels.
func labelled(x *execution, labels map[string]string) bool {
	for name, value := range labels {
		if v, ok := x.Labels[name]; !ok || v != value {
			return false
		}
	}
	return true
}

// Steps returns a page of the records of an execution.
func (s *Store) Steps(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[f.Execution]
	if x == nil {
		return nil, nil
	}
	records := x.recordsOf(&f)
	var list []courier.StepExecution
	for i := firstFrom(records, f.After+1); i < len(records) && len(list) < f.Limit; i++ {
		r := records[i]
		if f.Attempt != 0 && r.ExecutionAttempt > f.Attempt {
			break
		}
		if (f.Attempt == 0 || r.ExecutionAttempt == f.Attempt) && (f.Step == nil || r.Step == *f.Step) && f.Holds(r.Step, r.Iteration) &&
			(len(f.States) == 0 || slices.Contains(f.States, r.State)) && (!f.Files || len(r.Files) > 0) && (!f.Events || len(r.Events) > 0) {
			step := *r
			if !f.Details {
				step = withoutDetails(r)
			}
			if f.Brief {
				step.Outputs, step.Files = nil, nil
			}
			list = append(list, step)
		}
	}
	return list, nil
}

// withoutDetails returns a copy of a record without what only a filter with Details
// returns.
func withoutDetails(r *courier.StepExecution) courier.StepExecution {
	plain := *r
	plain.Stack, plain.Log, plain.Events = "", "", nil
	return plain
}

// recordsOf returns the fewest records among which those of a filter are.
func (x *execution) recordsOf(f *store.StepFilter) []*courier.StepExecution {
	switch {
	case f.FailedItems:
		return x.failed
	case f.Step != nil && f.Attempt == x.Attempt:
		return x.present[*f.Step]
	case f.Attempt != 0:
		return x.steps[sort.Search(len(x.steps), func(i int) bool { return x.steps[i].ExecutionAttempt >= f.Attempt }):]
	}
	return x.steps
}

// Latest returns the latest record of each step of the present attempt.
func (s *Store) Latest(ctx context.Context, f store.LatestFilter) ([]courier.StepExecution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.executions[f.Execution]; x != nil {
		return x.latestSteps(f.Before), nil
	}
	return nil, nil
}

// Transfers returns the newest attempts of some steps.
func (s *Store) Transfers(ctx context.Context, f store.TransferFilter) ([]store.Transfer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*courier.StepExecution
	for _, w := range f.Steps[:min(len(f.Steps), store.MaxTransferSteps)] {
		x := s.executions[w.Execution]
		if x == nil {
			continue
		}
		records := x.recordsOf(&store.StepFilter{Step: &w.Step, Attempt: w.Attempt})
		for i, n := len(records)-1, 0; i >= 0 && n < limit; i-- {
			if r := records[i]; r.Step == w.Step && r.ExecutionAttempt == w.Attempt {
				found = append(found, r)
				n++
			}
		}
	}
	slices.SortFunc(found, func(a, b *courier.StepExecution) int {
		return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.Execution, a.Execution), cmp.Compare(b.Seq, a.Seq))
	})
	var list []store.Transfer
	for _, r := range found[:min(len(found), limit)] {
		t := store.Transfer{}
		for _, file := range r.Files {
			if file.Connection != "" && !file.Removed {
				t.Files++
			}
		}
		record := []courier.StepExecution{withoutDetails(r)}
		record[0].Outputs, record[0].Files = nil, nil
		store.SetVersions(&s.executions[r.Execution].Execution, record)
		t.Attempt = record[0]
		list = append(list, t)
	}
	return list, nil
}

// Audit returns a page of the audit entries of an execution.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[f.Execution]
	if x == nil {
		return nil, nil
	}
	var list []courier.AuditEntry
	for seq := max(0, f.After) + 1; seq <= x.seq() && len(list) < f.Limit; seq++ {
		list = append(list, x.auditEntry(seq))
	}
	return list, nil
}
