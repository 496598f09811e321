package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
)

// gatherAutomation adds what is known of chains and deliveries.
func (c *evidence) gatherAutomation(ctx context.Context, w *world) error {
	for f := (chain.Filter{Limit: 1000}); ; {
		list, err := w.store.ChainExecutions(ctx, f)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		c.chains, f.Before = append(c.chains, list...), list[len(list)-1].ID
	}
	c.jobs = make(map[courier.ExecutionID]string)
	for id, x := range c.executions {
		c.jobs[id] = x.Job
	}
	return readJournals(w.dir, ".heard", func(process string, h *heard) {
		h.worker = process
		c.heard = append(c.heard, *h)
	})
}

// report tells how much there was to look at.
func (a *automation) report(c *evidence) string {
	ticks, events := 0, make(map[string]bool)
	for _, x := range c.executions {
		if x.Chain == "" && strings.HasPrefix(x.By, "schedule:") {
			ticks++
		}
	}
	states := make(map[chain.State]int)
	for i := range c.chains {
		if states[c.chains[i].State]++; strings.HasPrefix(c.chains[i].By, "schedule:") {
			ticks++
		}
	}
	for i := range c.heard {
		events[c.heard[i].Notification.ID] = true
	}
	return fmt.Sprintf("%d ticks fired, %d chains %v, %d events delivered %d times", ticks, len(c.chains), states, len(events), len(c.heard))
}

// fails reports whether an execution may have failed in the end: for a reason of
// its job, or since too many workers were killed in the same place.
func (a *automation) fails(x *courier.Execution) bool {
	return a != nil && (x.Job == "chancy" && unlucky(x.ID) || x.Job == mending && x.Chain != "" && x.Failure != nil && x.Failure.Attempt == 1 ||
		x.Failure != nil && x.Failure.Reason == courier.ReasonWorkerLost)
}

// check returns all that is wrong with what went on by itself. It adds to the
// histories that executions were created otherwise than by the call to do so, and
// leaves those out of which a request to their chain has asked something: it is
// no call of their own.
func (a *automation) check(c *evidence, ops map[courier.ExecutionID][]*operation) error {
	errs := []error{a.judge(c)}
	told := make(map[courier.ChainExecutionID]bool)
	for _, o := range c.calls {
		if o.begun.Method == "RequestChain" {
			told[courier.ChainExecutionID(o.begun.Asked[0].Execution)] = true
		}
	}
	for id, x := range c.executions {
		switch {
		case x.Chain != "" && told[x.Chain]:
			delete(ops, id)
		case x.Chain != "" || strings.HasPrefix(x.IdempotencyKey, "schedule:"):
			ops[id] = append(ops[id], &operation{
				Process: "schedule or chain", Method: "Enqueue", Return: never, Until: never, Error: mayHave,
				Asked: asked{Execution: id, To: courier.Queued},
			})
		}
		if x.Job == "chancy" && x.State == courier.Completed && unlucky(id) {
			errs = append(errs, fmt.Errorf("execution %s is completed, and one of its steps must have failed", id))
		}
	}
	return errors.Join(errs...)
}

// judge returns all that is wrong with ticks, chains and deliveries.
func (a *automation) judge(c *evidence) error {
	return errors.Join(a.ticks(c), a.ended(c), c.delivered())
}

// A fired is what a schedule has started at a tick.
type fired struct {
	id             string
	created, ended time.Time
}

// ticks reports ticks that fired twice, or not at all, or are none.
func (a *automation) ticks(c *evidence) error {
	all := make(map[string]map[time.Time][]fired)
	var errs []error
	add := func(by, key, id string, chain bool, f fired) {
		name, of := strings.CutPrefix(by, "schedule:")
		if !of {
			return
		}
		f.id = id
		text, ok := strings.CutPrefix(key, by+":")
		tick, err := time.Parse(time.RFC3339, text)
		t := a.schedules[name]
		if !ok || err != nil || t == nil || t.chain != chain {
			errs = append(errs, fmt.Errorf("%s of schedule %q has the idempotency key %q, which is none of its ticks", id, name, key))
			return
		}
		if all[name] == nil {
			all[name] = make(map[time.Time][]fired)
		}
		all[name][tick.UTC()] = append(all[name][tick.UTC()], f)
	}
	for id, x := range c.executions {
		if x.Chain == "" {
			add(x.By, x.IdempotencyKey, "execution "+string(id), false, fired{created: x.CreatedAt, ended: x.EndedAt})
		}
	}
	for i := range c.chains {
		x := &c.chains[i]
		add(x.By, x.IdempotencyKey, "chain execution "+string(x.ID), true, fired{created: x.CreatedAt, ended: x.EndedAt})
	}
	for name, t := range a.schedules {
		errs = append(errs, t.check(name, all[name]))
	}
	return errors.Join(errs...)
}

// check compares the ticks of a schedule that fired with those that had to.
func (t *timetable) check(name string, got map[time.Time][]fired) error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("schedule %q: %s", name, fmt.Sprintf(format, args...)))
	}
	want := make(map[time.Time]bool)
	if t.every == 0 {
		want[t.at] = true
	} else {
		for tick := t.first; !tick.After(t.last); tick = tick.Add(t.every) {
			want[tick.UTC()] = true
		}
		if few := len(want) < 3 && !t.skips; few || t.last.IsZero() || t.first.UnixNano()%int64(t.every) != int64(t.late) {
			fault("it has fired from %v to %v", t.first, t.last)
		}
	}
	var list []fired
	for tick, what := range got {
		list = append(list, what...)
		if !want[tick] {
			fault("%s has begun for %v, which is no tick between %v and %v", what[0].id, tick, t.first, t.last)
		}
		if len(what) > 1 {
			fault("the tick %v has fired %d times: %v", tick, len(what), what)
		}
	}
	for tick := range want {
		if len(got[tick]) == 0 && !t.skips && !t.perhaps {
			fault("the tick %v has not fired", tick)
		}
	}
	slices.SortFunc(list, func(a, b fired) int { return a.created.Compare(b.created) })
	for i := 1; i < len(list) && t.skips; i++ {
		if list[i].created.Before(list[i-1].ended) {
			fault("%s began at %v, before %s had ended at %v", list[i].id, list[i].created, list[i-1].id, list[i-1].ended)
		}
	}
	return errors.Join(errs...)
}

// ended reports chains that have not ended as their members did, and members that
// have not begun or been skipped as those before them ended.
func (a *automation) ended(c *evidence) error {
	var errs []error
	members := make(map[courier.ChainExecutionID]map[string][]*courier.Execution)
	for _, x := range c.executions {
		if x.Chain == "" {
			continue
		}
		if members[x.Chain] == nil {
			members[x.Chain] = make(map[string][]*courier.Execution)
		}
		members[x.Chain][x.Member] = append(members[x.Chain][x.Member], x)
	}
	known := make(map[courier.ChainExecutionID]*chain.Execution)
	keys := make(map[[2]string]bool)
	for i := range c.chains {
		x := &c.chains[i]
		known[x.ID] = x
		key := [2]string{x.Chain, x.IdempotencyKey}
		if x.IdempotencyKey == "" || keys[key] {
			errs = append(errs, fmt.Errorf("chain execution %s of %q has the idempotency key %q, none or another's", x.ID, x.Chain, x.IdempotencyKey))
		}
		keys[key] = true
		if err := a.endedWell(c, x, members[x.ID]); err != nil {
			errs = append(errs, fmt.Errorf("chain execution %s of %q, %s: %w", x.ID, x.Chain, x.State, err))
		}
	}
	for id := range members {
		if known[id] == nil {
			errs = append(errs, fmt.Errorf("there is no chain execution %s, and it has members", id))
		}
	}
	for _, id := range a.started {
		if known[id] == nil {
			errs = append(errs, fmt.Errorf("chain execution %s is lost", id))
		}
	}
	for _, id := range a.cancelled {
		if x := known[id]; x != nil && x.State != chain.Cancelled {
			errs = append(errs, fmt.Errorf("chain execution %s: a cancel was acknowledged, and it is %s", id, x.State))
		}
	}
	return errors.Join(errs...)
}

// What a member has come to, as those see it that depend on it: each accepts what
// comes before.
const (
	isCompleted = iota
	isFailed    // or skipped after a failure
	isOver
)

// endedWell compares a chain execution with what its definition makes of the
// states of its members' executions.
func (a *automation) endedWell(all *evidence, c *chain.Execution, executions map[string][]*courier.Execution) error {
	def := a.chains[c.Chain].Members
	if len(c.Members) != len(def) {
		return fmt.Errorf("it has %d members, not %d", len(c.Members), len(def))
	}
	var errs []error
	came := make(map[string]int)
	counts, tolerated := make(map[string]bool), make(map[string]bool) // whether a failure does
	for i := range def {
		m, got := &def[i], &c.Members[i]
		begins, failure := true, false
		for _, d := range m.DependsOn {
			takes := isCompleted
			if d.RequiredStatus == courier.RequireAny {
				takes, tolerated[d.Member] = isOver, true
			} else {
				counts[d.Member] = true
			}
			if d.RunOnFailure {
				takes = isFailed
			}
			begins = begins && came[d.Member] <= takes
			failure = failure || came[d.Member] > takes && came[d.Member] == isFailed
		}
		state, err := memberState(got, m, executions[m.Name])
		if err != nil {
			errs = append(errs, err)
		}
		if has := state != chain.MemberSkipped; has != begins && (has || c.State != chain.Cancelled) {
			errs = append(errs, fmt.Errorf("member %q is %s, and those before it came to %v", m.Name, state, came))
		}
		switch {
		case state == chain.MemberState(courier.Completed):
			came[m.Name] = isCompleted
		case state == chain.MemberState(courier.Failed), state == chain.MemberSkipped && failure, all.gaveUp(got.Execution):
			came[m.Name] = isFailed
		default:
			came[m.Name] = isOver
		}
	}
	want := chain.Completed
	for i := range c.Members {
		m := &c.Members[i]
		bad := m.State == chain.MemberState(courier.Failed) || m.State == chain.MemberState(courier.Cancelled)
		if bad && (counts[m.Name] || !tolerated[m.Name]) {
			want = chain.Failed
		}
	}
	if c.State != want && c.State != chain.Cancelled || c.Request != "" || c.EndedAt.IsZero() {
		errs = append(errs, fmt.Errorf("it should be %s; request %q, ended at %v", want, c.Request, c.EndedAt))
	}
	for name := range executions {
		if c.Member(name) == nil {
			errs = append(errs, fmt.Errorf("there is an execution of the member %q, which it has not", name))
		}
	}
	return errors.Join(errs...)
}

// gaveUp reports whether an execution was cancelled that had failed before. What
// waited for the failure may have begun then.
func (c *evidence) gaveUp(id courier.ExecutionID) bool {
	x := c.executions[id]
	return x != nil && x.State == courier.Cancelled && slices.ContainsFunc(c.audits[id], func(e courier.AuditEntry) bool {
		return e.Step == nil && e.To == string(courier.Failed)
	})
}

// memberState compares a member with its executions, and returns how it stands.
func memberState(m *chain.MemberExecution, def *chain.Member, list []*courier.Execution) (chain.MemberState, error) {
	switch {
	case len(list) > 1:
		return m.State, fmt.Errorf("member %q was executed %d times", m.Name, len(list))
	case len(list) == 0 && (m.State != chain.MemberSkipped || m.Execution != ""):
		return m.State, fmt.Errorf("member %q is %s, and was never executed", m.Name, m.State)
	case len(list) == 0:
		return m.State, nil
	}
	x := list[0]
	if m.Name != def.Name || m.Job != def.Job || x.Job != def.Job || m.Execution != x.ID || m.State != chain.MemberState(x.State) {
		return chain.MemberState(x.State), fmt.Errorf("member %q is %s by execution %q, which is %s of %q by %s", m.Name, m.State, m.Execution, x.Job, x.ID, x.State)
	}
	return m.State, nil
}
