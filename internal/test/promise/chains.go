package promise

import (
	"context"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// chainBreach is the breach of a rule of chains.
func chainBreach(id courier.ChainExecutionID, format string, args ...any) error {
	return fmt.Errorf("chain: chain execution %s: "+format, append([]any{id}, args...)...)
}

// chains is what the witness knows of chain executions.
type chains struct {
	s       chain.Store // nil if there are none
	all     map[courier.ChainExecutionID]*watchedChain
	order   []courier.ChainExecutionID
	keys    map[[2]string]courier.ChainExecutionID
	touched []courier.ChainExecutionID
}

func (c *chains) touch(id courier.ChainExecutionID) {
	if c.all[id] != nil && !slices.Contains(c.touched, id) {
		c.touched = append(c.touched, id)
	}
}

// check compares every chain execution that was touched with what must be.
func (c *chains) check(w *Witness, what string) {
	for _, id := range c.touched {
		x := c.all[id]
		view, err := c.s.ChainExecution(context.Background(), id)
		if err == nil {
			err = x.agree(&view)
		}
		if err != nil {
			w.report(fmt.Errorf("after %s: %w", what, err))
		}
	}
	c.touched = c.touched[:0]
}

// A watchedChain is what must be true of a chain execution. What docs/chains.md says is
// worked out here in other words than those of [chain.Plan].
type watchedChain struct {
	id      courier.ChainExecutionID
	state   chain.State
	request courier.RequestKind // "release" while it is held
	members []member
	ended   bool // once, at least
}

// A member of a chain.
type member struct {
	name      string
	dependsOn []chain.Dependency
	x         *shadow             // its latest execution; nil until it is released
	id        courier.ExecutionID // that its next execution must have
	again     bool                // a retry may release it once more
	limit     int                 // of its job
}

func (c *watchedChain) member(name string) *member {
	for i := range c.members {
		if c.members[i].name == name {
			return &c.members[i]
		}
	}
	return nil
}

// An outcome is what a member has come to for those that depend on it.
type outcome string

const (
	undecided outcome = "undecided"
	completed outcome = "completed"
	failure   outcome = "failure"   // its own, or what it was skipped for
	otherwise outcome = "otherwise" // cancelled, or skipped for no failure
)

// outcome is what the member has come to, and whether all it depends on lets it
// begin.
func (c *watchedChain) outcome(m *member) (o outcome, ready bool) {
	if m.x != nil {
		switch m.x.State {
		case courier.Completed:
			return completed, false
		case courier.Failed:
			return failure, false
		case courier.Cancelled:
			return otherwise, false
		}
		return undecided, false
	}
	ready = true
	skipped := map[outcome]bool{}
	for _, d := range m.dependsOn {
		upstream, _ := c.outcome(c.member(d.Member))
		if upstream == undecided {
			ready = false
		} else if !accepted(d, upstream) {
			skipped[upstream] = true
		}
	}
	switch {
	case skipped[failure]:
		return failure, false
	case len(skipped) > 0, c.request == courier.RequestCancel:
		return otherwise, false
	}
	return undecided, ready
}

// accepted reports whether a dependency is satisfied by an end.
func accepted(d chain.Dependency, o outcome) bool {
	return o == completed || d.RequiredStatus == courier.RequireAny || o == failure && d.RunOnFailure
}

// tolerated reports whether it does not matter how a member ends.
func (c *watchedChain) tolerated(name string) bool {
	dependents := 0
	for i := range c.members {
		for _, d := range c.members[i].dependsOn {
			if d.Member == name {
				dependents++
				if d.RequiredStatus != courier.RequireAny {
					return false
				}
			}
		}
	}
	return dependents > 0
}

// stand is the state that follows from those of the members.
func (c *watchedChain) stand() chain.State {
	var busy, waits, failed bool
	for i := range c.members {
		m := &c.members[i]
		o, _ := c.outcome(m)
		switch {
		case m.x != nil && (m.x.State == courier.Created || m.x.State == courier.Queued || m.x.State == courier.Running):
			busy = true
		case o == undecided:
			waits = true
		case m.x != nil && o != completed:
			failed = failed || !c.tolerated(m.name)
		}
	}
	switch {
	case c.request == courier.RequestRelease:
		return chain.Pending
	case busy:
		return chain.Running
	case waits && c.request == courier.RequestPause:
		return chain.Paused
	case waits:
		return chain.Running
	case c.request == courier.RequestCancel:
		return chain.Cancelled
	case failed:
		return chain.Failed
	}
	return chain.Completed
}

// agree compares how a chain execution stands with how it must, and notes its
// new state.
func (c *watchedChain) agree(view *chain.Execution) error {
	want := c.state
	if !want.Final() {
		want = c.stand()
	}
	if view.State != want {
		return chainBreach(c.id, "it is %s, and must be %s: %s", view.State, want, c)
	}
	if c.state = want; want.Ended() {
		c.request, c.ended = "", true
	}
	if r := view.Request; r != c.request && (r != "" || c.request != courier.RequestRelease) {
		return chainBreach(c.id, "its request is %q, and must be %q", r, c.request)
	}
	if len(view.Members) != len(c.members) {
		return chainBreach(c.id, "it has %d members, and must have %d", len(view.Members), len(c.members))
	}
	for i := range c.members {
		m, v := &c.members[i], &view.Members[i]
		o, ready := c.outcome(m)
		state, id := chain.MemberPending, courier.ExecutionID("")
		switch {
		case m.x != nil:
			state, id = chain.MemberState(m.x.State), m.x.ID
		case o != undecided || want == chain.Cancelled && v.State == chain.MemberSkipped: // a cancelled one remembers no cancel
			state = chain.MemberSkipped
		}
		switch {
		case ready && c.request == "" && !want.Final():
			return chainBreach(c.id, "member %q was not released, and nothing stands in its way: %s", m.name, c)
		case v.State != state || v.Execution != id:
			return chainBreach(c.id, "member %q is %s (execution %s), and must be %s (execution %s): %s", m.name, v.State, v.Execution, state, id, c)
		case state == chain.MemberPending && want.Ended():
			return chainBreach(c.id, "it is %s, and member %q still waits", want, m.name)
		}
	}
	return nil
}

// String tells how the members stand.
func (c *watchedChain) String() string {
	text := ""
	for i := range c.members {
		m := &c.members[i]
		state := "-"
		if m.x != nil {
			state = string(m.x.State)
		}
		text += fmt.Sprintf("%s=%s ", m.name, state)
	}
	return text + "request " + string(c.request)
}

// chainStarted notes a chain execution that was started, or was there before.
func (w *Witness) chainStarted(n *chain.NewExecution, got *chain.Started) {
	x, key := &got.Execution, [2]string{n.Chain, n.IdempotencyKey}
	first, used := w.chains.keys[key]
	switch {
	case got.Existed && (w.chains.all[x.ID] == nil || x.ID != n.ID && x.ID != first):
		w.report(chainBreach(x.ID, "it was returned for the idempotency key %q, which is not its own", n.IdempotencyKey))
	case got.Existed:
	case used:
		w.report(chainBreach(x.ID, "it was created with the idempotency key %q of chain execution %s", n.IdempotencyKey, first))
	case x.ID != n.ID || w.chains.all[n.ID] != nil:
		w.report(chainBreach(x.ID, "it was created for %s", n.ID))
	default:
		if n.IdempotencyKey != "" {
			w.chains.keys[key] = x.ID
		}
		c := &watchedChain{id: n.ID, state: chain.Pending}
		if n.Hold {
			c.request = courier.RequestRelease
		}
		for i := range n.Members {
			m := &n.Members[i]
			c.members = append(c.members, member{name: m.Name, dependsOn: m.DependsOn, id: m.Execution.ID, limit: m.Execution.JobLimit})
		}
		w.chains.all[n.ID] = c
		w.chains.order = append(w.chains.order, n.ID)
		w.chains.touch(n.ID)
	}
}

// released checks that a member may begin whose execution was created.
func (w *Witness) released(s *shadow, x *courier.Execution, what string) {
	c := w.chains.all[x.Chain]
	if c == nil || c.member(x.Member) == nil {
		w.report(chainBreach(x.Chain, "%s created an execution of its member %q, which is unknown", what, x.Member))
		return
	}
	m := c.member(x.Member)
	_, ready := c.outcome(m)
	switch {
	case x.ID != m.id:
		w.report(chainBreach(c.id, "%s released member %q as execution %s, and not as %s", what, m.name, x.ID, m.id))
	case m.again:
	case m.x != nil:
		w.report(chainBreach(c.id, "%s released member %q a second time", what, m.name))
	case c.state.Final() || c.request != "":
		w.report(chainBreach(c.id, "%s released member %q while it is %s with the request %q", what, m.name, c.state, c.request))
	case !ready:
		w.report(chainBreach(c.id, "%s released member %q, which must not begin yet, or at all: %s", what, m.name, c))
	}
	m.x, m.again, s.jobLimit = s, false, m.limit
}

// chainAsked notes a request to a chain execution that was taken.
func (w *Witness) chainAsked(r chain.Request) {
	c := w.chains.all[r.Chain]
	if c == nil {
		w.report(chainBreach(r.Chain, "a %s was taken for what was never created", r.Kind))
		return
	}
	if !c.allows(r.Kind) {
		w.report(chainBreach(c.id, "a %s was taken while it was %s with the request %q", r.Kind, c.state, c.request))
	}
	c.ask(&r)
	w.refresh(c, "RequestChain")
	w.adopt("RequestChain")
	for i := range c.members {
		if m := &c.members[i]; m.x != nil && ignores(m.x, r.Kind) {
			w.report(chainBreach(c.id, "a %s was taken, and member %q is %s with the request %q", r.Kind, m.name, m.x.State, m.x.Request))
		}
	}
	w.chains.touch(c.id)
	w.chains.check(w, "RequestChain")
}

func (c *watchedChain) allows(kind courier.RequestKind) bool {
	switch kind {
	case courier.RequestPause:
		return c.state == chain.Running && c.request != courier.RequestCancel
	case courier.RequestResume:
		return c.request == courier.RequestPause
	case courier.RequestCancel:
		return !c.state.Final()
	case courier.RequestRelease:
		return c.state == chain.Pending
	}
	return kind == courier.RequestRetry && c.state == chain.Failed
}

// ask notes what must follow from a request.
func (c *watchedChain) ask(r *chain.Request) {
	c.request = ""
	if r.Kind == courier.RequestPause || r.Kind == courier.RequestCancel {
		c.request = r.Kind
	}
	for i := range c.members {
		m := &c.members[i]
		switch {
		case m.x == nil:
		case r.Kind == courier.RequestCancel:
			m.x.cancelled = m.x.cancelled || !m.x.State.Final() && m.x.Finishing == nil
		case r.Kind == courier.RequestRetry && m.x.State == courier.Cancelled && i < len(r.IDs):
			m.again, m.id = true, r.IDs[i]
		}
	}
}

// refresh looks at the members that a request to the chain may have changed.
func (w *Witness) refresh(c *watchedChain, what string) {
	for i := range c.members {
		if x := c.members[i].x; x != nil && !x.State.Final() {
			w.look(x, what)
		}
	}
}

// ignores reports whether a member's execution does not do what was asked of the
// chain.
func ignores(x *shadow, kind courier.RequestKind) bool {
	busy := x.State == courier.Queued || x.State == courier.Running
	switch kind {
	case courier.RequestPause:
		return busy && x.Request != courier.RequestPause && x.Request != courier.RequestCancel && x.Request != courier.RequestAbort
	case courier.RequestCancel:
		return !x.State.Final() && x.Request != courier.RequestCancel && x.Request != courier.RequestAbort && x.Finishing == nil
	case courier.RequestRetry:
		return x.State == courier.Failed || x.State == courier.Cancelled
	}
	return false
}

// Chains returns the ids of all chain executions, in the order of their
// creation.
func (w *Witness) Chains() []courier.ChainExecutionID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.chains.order)
}

// AcknowledgedChain notes that an engine has told its caller that the chain
// execution exists.
func (w *Witness) AcknowledgedChain(id courier.ChainExecutionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chains.all[id] == nil {
		w.report(chainBreach(id, "it was acknowledged, but never written"))
	}
}

// ObeyedChain notes that an engine has told its caller that a request to a chain
// execution was taken. A cancel that was is its end.
func (w *Witness) ObeyedChain(id courier.ChainExecutionID, kind courier.RequestKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.chains.all[id]
	if c != nil && kind == courier.RequestCancel && c.request != kind && c.state != chain.Cancelled {
		w.report(chainBreach(id, "a cancel was acknowledged, but never written"))
	}
}

// CheckChain reports what a chain execution, its members and their executions
// break, by the archive's view, once all have ended. It serves any store that
// keeps chains.
func CheckChain(ctx context.Context, s store.Store, id courier.ChainExecutionID) error {
	chains, ok := s.(chain.Store)
	if !ok {
		return chainBreach(id, "%T keeps no chains", s)
	}
	view, err := chains.ChainExecution(ctx, id)
	if err != nil {
		return chainBreach(id, "%w", err)
	}
	if !view.State.Ended() {
		return chainBreach(id, "it is still %s (request %q)", view.State, view.Request)
	}
	c := &watchedChain{id: id}
	if view.State == chain.Cancelled {
		c.request = courier.RequestCancel
	}
	for _, v := range view.Members {
		m := member{name: v.Name, dependsOn: v.DependsOn}
		if v.Execution != "" {
			x, err := s.Execution(ctx, v.Execution)
			if err != nil {
				return chainBreach(id, "member %q: %w", v.Name, err)
			}
			if x.Repairs != nil && len(x.Repairs.Versions) > 0 { // an operator has pinned another one
				x.Version = x.Repairs.Versions[0].From
			}
			if x.Chain != id || x.Member != v.Name || x.Job != v.Job || x.Version != v.Version {
				return chainBreach(id, "member %q (job %q version %d): execution %s is of member %q of %q, job %q version %d", v.Name, v.Job, v.Version, x.ID, x.Member, x.Chain, x.Job, x.Version)
			}
			m.x = &shadow{Execution: x}
		}
		c.members = append(c.members, m)
	}
	if err := c.agree(&view); err != nil {
		return err
	}
	return c.began()
}

// revived reports whether the member had come to an end when an execution was created, and
// has none any more: what it depends on, directly or not, was resumed since, or is executed
// anew. It waits then, and still does when the chain execution is cancelled.
func (c *watchedChain) revived(name string, x *shadow) bool {
	return slices.ContainsFunc(c.member(name).dependsOn, func(d chain.Dependency) bool {
		upstream := c.member(d.Member).x
		return upstream != nil && (upstream.Resumed || upstream.CreatedAt.After(x.CreatedAt)) || c.revived(d.Member, x)
	})
}

// began reports members that have begun though what they depend on has ended
// otherwise, as far as the ends tell: what was resumed may have failed before.
func (c *watchedChain) began() error {
	for i := range c.members {
		m := &c.members[i]
		for _, d := range m.dependsOn {
			upstream, _ := c.outcome(c.member(d.Member))
			plain := !d.RunOnFailure && d.RequiredStatus != courier.RequireAny
			if m.x != nil && (upstream == undecided && !c.revived(d.Member, m.x) || plain && upstream != completed) {
				return chainBreach(c.id, "member %q has an execution, though it depends on %q: %s", m.name, d.Member, c)
			}
		}
	}
	return nil
}
