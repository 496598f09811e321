// Package promise tells which of Courier's promises was broken.
//
// A [Witness] stands between a store and its engines and sees each write as it
// takes effect, so it knows at every instant who owns an execution, which steps
// are completed and how many executions run. [Check] asks a store afterwards
// what it remembers, and needs nothing but the archive; it serves any store,
// also one that other processes have written to.
//
// The promises, as they are numbered here:
//
//	P1  nothing is lost: what was acknowledged ends, or visibly waits
//	P2  one owner: no write under a lease that was taken over is accepted
//	P3  completed steps are final
//	P4  no two attempts share a directory; what was begun before is cleaned up first
//	P5  limits hold at every committed instant
//	P6  one execution for an idempotency key, and so for a schedule's tick
//	P7  the audit is complete: a change and its entries are one
//	P8  an acknowledged request is obeyed
//
// What breaks a rule of chains is reported as "chain", and what changes an outcome that was
// decided as "finally".
package promise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest"
)

// A Breach is a broken promise.
type Breach struct {
	Promise   string // such as "P2"
	Execution courier.ExecutionID
	Text      string
}

// Error says which promise was broken, where and how.
func (b *Breach) Error() string {
	return fmt.Sprintf("%s: execution %s: %s", b.Promise, b.Execution, b.Text)
}

func breach(promise string, id courier.ExecutionID, format string, args ...any) *Breach {
	return &Breach{promise, id, fmt.Sprintf(format, args...)}
}

// Rules adapt [Check] to what was done to the executions. The zero value
// demands the most.
type Rules struct {
	// Waiting allows executions that have not ended, but are created, queued or
	// paused.
	Waiting bool
	// Restarts says that a step belongs to a loop that a resume starts again, so
	// it may be completed several times. Nil means that none does.
	Restarts func(x *courier.Execution, step int) bool
	// Limits are those that were in force all the time, by scope as in
	// [store.LimitSetting].
	Limits map[string]int
}

// Check reports every promise that the archive's view of the given executions
// breaks: P1, P3, P5, P6 and P7. It must not be called while they change.
func Check(ctx context.Context, s store.Archive, ids []courier.ExecutionID, rules Rules) error {
	var errs []error
	var spans []span
	keys := make(map[[2]string]courier.ExecutionID)
	for _, id := range ids {
		x, err := s.Execution(ctx, id)
		if errors.Is(err, courier.ErrNotFound) {
			errs = append(errs, breach("P1", id, "it is lost: the store does not know it"))
			continue
		} else if err != nil {
			return err
		}
		if err := standing(&x, rules.Waiting); err != nil {
			errs = append(errs, err)
		}
		if err := storetest.CheckExecution(ctx, s, id); err != nil {
			errs = append(errs, breach("P7", id, "%v", err))
		}
		if other, ok := keys[[2]string{x.Job, x.IdempotencyKey}]; ok && x.IdempotencyKey != "" {
			errs = append(errs, breach("P6", id, "it has the idempotency key %q of execution %s", x.IdempotencyKey, other))
		}
		keys[[2]string{x.Job, x.IdempotencyKey}] = id
		entries, err := audit(ctx, s, id)
		if err != nil {
			return err
		}
		records, err := records(ctx, s, id)
		if err != nil {
			return err
		}
		errs = append(errs, final(&x, records, rules.Restarts)...)
		spans = append(spans, running(&x, entries)...)
	}
	errs = append(errs, overlaps(spans, rules.Limits)...)
	return errors.Join(errs...)
}

// standing reports an execution that neither ended nor visibly waits.
func standing(x *courier.Execution, waiting bool) error {
	waits := x.State == courier.Created || x.State == courier.Queued || x.State == courier.Paused
	if x.State.Ended() || waiting && waits {
		return nil
	}
	return breach("P1", x.ID, "it is still %s (queue %q, due at %v, worker %q, lease until %v)", x.State, x.Queue, x.DueAt, x.Worker, x.LeaseExpiresAt)
}

// audit returns all entries of an execution.
func audit(ctx context.Context, s store.Archive, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	var all []courier.AuditEntry
	for {
		page, err := s.Audit(ctx, store.AuditFilter{Execution: id, After: int64(len(all))})
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// records returns the records of all attempts of all steps.
func records(ctx context.Context, s store.Archive, id courier.ExecutionID) ([]courier.StepExecution, error) {
	var all []courier.StepExecution
	for after := int64(0); ; after = all[len(all)-1].Seq {
		page, err := s.Steps(ctx, store.StepFilter{Execution: id, After: after})
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// final reports attempts of steps that were completed or skipped before.
func final(x *courier.Execution, records []courier.StepExecution, restarts func(*courier.Execution, int) bool) []error {
	var errs []error
	done := make(map[string]int64)
	if x.Current != nil {
		records = append(records[:len(records):len(records)], *x.Current)
	}
	for i := range records {
		r := &records[i]
		if restarts != nil && restarts(x, r.Step) {
			continue
		}
		key := fmt.Sprintf("%s of attempt %d", place(r.Step, r.Iteration), r.ExecutionAttempt)
		if seq, ok := done[key]; ok {
			errs = append(errs, breach("P3", x.ID, "step %s was over with audit entry %d, and was executed again as attempt %d, which is %s", key, seq, r.Attempt, r.State))
		}
		if r.State == courier.StepCompleted || r.State == courier.StepSkipped {
			done[key] = r.Seq
		}
	}
	return errs
}

// place names a step in an iteration.
func place(step int, iteration []int) string {
	return fmt.Sprintf("%d[%s]", step, courier.FormatIteration(iteration))
}

// A span is a time in which an execution ran.
type span struct {
	x        *courier.Execution
	from, to int64 // microseconds; to is after from
}

// running returns the spans in which x ran. A reclaim ends one and begins the
// next in the same microsecond.
func running(x *courier.Execution, entries []courier.AuditEntry) []span {
	var spans []span
	for _, e := range entries {
		if e.Step != nil {
			continue
		}
		switch {
		case e.To == string(courier.Running) && (len(spans) == 0 || spans[len(spans)-1].to != open):
			spans = append(spans, span{x, e.At.UnixMicro(), open})
		case e.From == string(courier.Running):
			spans[len(spans)-1].to = e.At.UnixMicro()
		}
	}
	return spans
}

const open = int64(1) << 62

// overlaps reports scopes in which more executions ran at once than allowed.
// Whoever ends in a microsecond has made room for who begins in it.
func overlaps(spans []span, limits map[string]int) []error {
	slices.SortStableFunc(spans, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
	var errs []error
	for i, s := range spans {
		n := make(map[string]int)
		for _, before := range spans[:i+1] {
			if before.to > s.from {
				for _, scope := range scopes(before.x) {
					n[scope]++
				}
			}
		}
		for _, scope := range scopes(s.x) {
			if limit := limits[scope]; limit > 0 && n[scope] > limit {
				errs = append(errs, breach("P5", s.x.ID, "with it, %d executions ran at once under the limit %q of %d", n[scope], scope, limit))
			}
		}
	}
	return errs
}

// scopes are those whose limits hold for x.
func scopes(x *courier.Execution) []string {
	list := []string{"", "job:" + x.Job}
	for _, k := range x.LimitKeys {
		list = append(list, "key:"+k)
	}
	return list
}
