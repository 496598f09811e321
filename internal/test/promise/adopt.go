package promise

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// Planned is [Witness.Store] for a store that keeps schedules and chains too,
// and must have both roles. Executions that the store itself creates, of ticks
// and of members of chains, are watched like all others; after every write to a
// chain the witness works out how it must stand, by rules of its own.
func (w *Witness) Planned() store.Store {
	w.agenda, w.chains.s = w.s.(schedule.Store), w.s.(chain.Store)
	type schedules = schedule.Store // the field must not hide the method Schedules
	type chains = chain.Store
	type planned struct {
		store.Store
		schedules
		chains
	}
	return storewrap.Intercept(planned{w.s, w.agenda, w.chains.s}, w.see)
}

// plans is what the witness knows of schedules and of what the store creates by
// itself.
type plans struct {
	agenda    schedule.Store // nil if there are none
	schedules map[string]*watched
	ticks     map[string]string // what was started, by the key of the tick
	startedBy map[string]string // the targets of schedules, by the ids of what ticks have started
	jobLimits map[courier.ExecutionID]int
}

// plan notes what a call has done to schedules and chains.
func (w *Witness) plan(c *storewrap.Call) {
	switch r := c.Request.(type) {
	case store.Transition:
		w.memberMoved(r.Execution, c.Method)
	case store.Request:
		w.memberMoved(r.Execution, c.Method)
	case []chain.NewExecution:
		for i, got := range c.Result.([]chain.Started) {
			w.chainStarted(&r[i], &got)
		}
		w.adopt(c.Method)
		w.chains.check(w, c.Method)
	case chain.Request:
		w.chainAsked(r)
	case schedule.Record:
		w.put(&r, c.Result.(schedule.Record))
	case string:
		delete(w.schedules, r)
	case []schedule.Firing:
		w.fired(r, c.Result.([]schedule.Fired))
	case nil:
		if d, ok := c.Result.(schedule.DueList); ok {
			w.due(&d)
		}
	}
}

// memberMoved notes that an execution was changed which may be a member's.
func (w *Witness) memberMoved(id courier.ExecutionID, what string) {
	x := w.executions[id]
	if x == nil || x.Chain == "" {
		return
	}
	w.adopt(what)
	w.chains.touch(x.Chain)
	w.chains.check(w, what)
}

// adopt finds the executions that the store has created by itself.
func (w *Witness) adopt(what string) {
	list, err := w.s.Executions(context.Background(), store.Filter{Limit: 1000})
	if err != nil {
		w.report(breach("P1", "", "after %s the executions can't be listed: %v", what, err))
		return
	}
	list = slices.DeleteFunc(list, func(x courier.Execution) bool { return w.executions[x.ID] != nil })
	slices.SortFunc(list, func(a, b courier.Execution) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for i := range list {
		x := &list[i]
		s := &shadow{jobLimit: w.jobLimits[x.ID], done: make(map[string]bool)}
		s.ID = x.ID
		if key := [2]string{x.Job, x.IdempotencyKey}; x.IdempotencyKey != "" {
			if first, used := w.keys[key]; used {
				w.report(breach("P6", x.ID, "%s created it with the idempotency key %q of execution %s", what, x.IdempotencyKey, first))
			}
			w.keys[key] = x.ID
		}
		switch {
		case x.Chain != "":
			w.released(s, x, what)
		case !strings.HasPrefix(x.IdempotencyKey, "schedule:"):
			w.report(breach("P1", x.ID, "%s created it, and nobody has asked for it", what))
		}
		w.executions[x.ID] = s
		w.order = append(w.order, x.ID)
		w.look(s, what)
		if w.OnCreated != nil {
			w.OnCreated(x)
		}
	}
}

// untouched reports what a call has changed that was refused.
func (w *Witness) untouched(c *storewrap.Call, err error) {
	if c.Method != "FireSchedules" && c.Method != "RequestChain" && c.Method != "StartChains" {
		return
	}
	for _, id := range w.order {
		if x := w.executions[id]; !x.State.Final() && len(w.news(x)) > 0 {
			w.report(breach("P7", x.ID, "%s was refused with %q, but changed it", c.Method, err))
		}
	}
}

// Unknown returns an error for every execution and chain execution of the store
// that the witness has not seen coming into being.
func (w *Witness) Unknown(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, err := w.s.Executions(ctx, store.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for i := range list {
		if w.executions[list[i].ID] == nil {
			return breach("P1", list[i].ID, "the store has it, and no call has created it")
		}
	}
	if w.chains.s == nil {
		return nil
	}
	chains, err := w.chains.s.ChainExecutions(ctx, chain.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for i := range chains {
		if w.chains.all[chains[i].ID] == nil {
			return chainBreach(chains[i].ID, "the store has it, and no call has created it")
		}
	}
	return nil
}
