package memstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A node is a state that was reached: what the model says, what the store holds
// and what workers remember of it.
type node struct {
	id     uint32
	model  model
	frozen [2]*execution // never changed, and shared between nodes
	hands  [2][2]hand    // by worker and execution
	strays [2]hand
}

// A hand is what a run remembers.
type hand struct {
	token store.Token
	seq   int64             // of the last audit entry that it knows of
	size  int64             // how many entries sent leads to
	sent  *store.Transition // what is under way
}

// A rig is a real store that is brought into the states of nodes, one after the
// other. Only one goroutine may use it.
type rig struct {
	s       *Store
	x       [2]*execution
	class   [2]string // of both
	now     time.Time
	at      *node   // in whose state it is
	changed [2]bool // which executions are not in that state any more
	log     modelLog
}

const (
	modelKey  = "partner"
	modelTerm = time.Minute
)

// modelDecided is what the audit says of the beginning of a finally part.
const modelDecided = "decided"

var modelTypes = []string{"file.copy", store.FinallyType}

// newRig returns a rig whose store holds two executions as they were created, the second
// one held or cancelled if the search says so.
func newRig(of *search) (*rig, error) {
	ctx := context.Background()
	s := New()
	r := &rig{s: s, now: s.clock()}
	if _, err := r.s.Save(ctx, store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{}`)}); err != nil {
		return nil, err
	}
	if err := r.s.Set(ctx, store.LimitSetting(of.scope), fmt.Sprint(of.limit)); err != nil {
		return nil, err
	}
	types := modelTypes
	if !of.finally {
		types = types[:1]
	}
	var list []store.NewExecution
	for i := range r.x {
		list = append(list, store.NewExecution{
			ID: courier.ExecutionID(fmt.Sprint(i + 1)), Job: "job", Version: 1, StepTypes: types, Queue: "default",
			LimitKeys: []string{modelKey}, Hold: of.hold && i == 1,
		})
	}
	if _, err := r.s.Enqueue(ctx, list); err != nil {
		return nil, err
	}
	if of.alone {
		if _, err := r.s.Request(ctx, store.Request{Execution: list[1].ID, Kind: courier.RequestCancel, By: modelOperator}); err != nil {
			return nil, err
		}
	}
	for i := range r.x {
		r.x[i] = r.s.executions[list[i].ID]
	}
	r.class[0] = classOf(r.x[0])
	filed := &execution{Execution: r.x[0].Execution, jobLimit: r.x[0].jobLimit, types: r.x[0].types}
	filed.Workspace = modelWorkspace
	r.class[1] = classOf(filed)
	return r, nil
}

// freeze returns a copy of an execution that stays as it is. Where it stands and
// which records are the latest follows from the rest.
func freeze(x *execution) *execution {
	f := *x
	f.class, f.in, f.present = nil, nil, nil
	f.audit, f.steps, f.failed = slices.Clone(x.audit), slices.Clone(x.steps), slices.Clone(x.failed)
	return &f
}

// thaw brings the store into the state of a node.
func (r *rig) thaw(n *node) {
	if r.at == n && !r.changed[0] && !r.changed[1] {
		return
	}
	r.s.leases.list = r.s.leases.list[:0]
	clear(r.s.queues)
	clear(r.s.running.job)
	clear(r.s.running.key)
	r.s.running.all = 0
	for i, x := range r.x {
		if r.at != n || r.changed[i] {
			restore(x, n.frozen[i])
		}
		switch x.State {
		case courier.Running:
			r.s.leases.push(x)
			r.s.running.add(x, 1)
		case courier.Queued:
			r.stand(x)
		}
	}
	r.at, r.changed = n, [2]bool{}
}

// restore makes x what it was when f was made of it.
func restore(x, f *execution) {
	audit, steps, present := append(x.audit[:0], f.audit...), append(x.steps[:0], f.steps...), x.present
	failed := append(x.failed[:0], f.failed...)
	*x = *f
	x.audit, x.steps, x.failed, x.present = audit, steps, failed, present
	for step, records := range present {
		present[step] = records[:0] // most nodes have records of the same steps
	}
	for _, s := range steps {
		if s.ExecutionAttempt == x.Attempt {
			present[s.Step] = append(present[s.Step], s)
		}
	}
	if f.Current == nil {
		return
	}
	current := *f.Current // the store fills it in when the step ends
	x.Current = &current
	for j := len(audit) - 1; j >= 0; j-- {
		if audit[j].step == f.Current {
			audit[j].step = x.Current
			return
		}
	}
}

// stand puts a queued execution where claims find it, as Store.enqueue does.
func (r *rig) stand(x *execution) {
	q := r.s.queues[x.Queue]
	if q == nil {
		q = make(map[string]*class)
		r.s.queues[x.Queue] = q
	}
	name := r.class[0]
	if x.Workspace != "" {
		name = r.class[1]
	}
	c := q[name]
	if c == nil {
		c = &class{name: name, ready: heap{before: claimedBefore}, waiting: heap{before: dueBefore}}
		q[name] = c
	}
	x.class = c
	if x.DueAt.After(r.now) {
		c.waiting.push(x)
	} else {
		c.ready.push(x)
	}
}

// do carries an operation out on the store in the state of n, compares what
// happens with what p says, and returns the node that follows, without id and
// frozen executions.
func (r *rig) do(n *node, o operation, p *prediction) (next node, err error) {
	next = node{model: p.next, hands: n.hands, strays: n.strays}
	h := &next.hands[o.w][o.x]
	r.thaw(n)
	switch o.kind {
	case crash:
	case send:
		h.sent, h.size = r.transition(n, r.x[o.x], o)
		return next, nil
	default:
		if err = r.call(n, &next, o, p); err == nil {
			err = r.compare(n, p)
		}
	}
	// What was sent by a run that gave up is the stray message, if it still was
	// under way.
	for x := range next.strays {
		switch {
		case p.next.stray[x].lease == noLease:
			next.strays[x] = hand{}
		case n.model.stray[x].lease == noLease:
			next.strays[x] = n.hands[o.w][x]
		}
		for w := range next.hands {
			h := &next.hands[w][x]
			switch now := p.next.run[w][x]; {
			case now.lease == noLease:
				*h = hand{}
			case now.sent == noAction && h.sent != nil:
				if p.answer != requested {
					h.seq += h.size
				}
				h.sent, h.size = nil, 0
			}
		}
	}
	return next, err
}

// call carries out the operation.
func (r *rig) call(n, next *node, o operation, p *prediction) error {
	ctx := context.Background()
	x := r.x[o.x]
	h := &next.hands[o.w][o.x]
	switch o.kind {
	case take, takeAny:
		return r.claim(n, next, o, p)
	case renew:
		return r.renew(n, o, p)
	case write:
		h.sent, h.size = r.transition(n, x, o)
		return p.expect(r.s.Apply(ctx, *h.sent))
	case arrive:
		return p.expect(r.s.Apply(ctx, *h.sent))
	case strayed:
		return p.expect(r.s.Apply(ctx, *n.strays[o.x].sent))
	case writeLate:
		return r.late(n, o, p)
	case ask:
		e, err := r.s.Request(ctx, store.Request{Execution: x.ID, Kind: modelAsks[o.ask], By: modelOperator, Change: changeOf(x, o.ask)})
		if err == nil && e.State != modelStates[p.next.x[o.x].state] {
			return fmt.Errorf("the answer says %s", e.State)
		}
		return p.expect(err)
	case expire:
		x.LeaseExpiresAt = r.now
		r.s.leases.fix(x.index)
	case becomeDue:
		x.DueAt = r.now
		x.in.fix(x.index)
	}
	return nil
}

// changeOf is the change of a request; nil for most.
func changeOf(x *execution, ask uint8) *store.Change {
	c := &store.Change{Seq: x.seq()}
	switch ask {
	case askSkip:
		pos := positionOf(x.Position.Step, x.Position.Iteration())
		c.Skipped = &courier.StepExecution{
			Step: x.Position.Step, Type: modelTypes[0], Iteration: modelIterations[pos], Attempt: x.counters.Attempts + 1, State: courier.StepSkipped,
		}
		c.Move = &store.Move{Position: modelPositions[behind(pos, skipped)]}
	case askBack:
		c.Move, c.Items = &store.Move{}, &store.ItemCount{Rescued: new(store.RescueCount)}
		c.Repairs = new(courier.Repairs)
		if x.Repairs != nil {
			c.Repairs.Passes = slices.Clone(x.Repairs.Passes)
		}
		c.Repairs.Passes = append(c.Repairs.Passes, courier.RepairPass{Seq: x.seq(), From: new(courier.Position)})
	case askElsewhere:
		c.Elsewhere = true
	case askStale:
		c.Seq--
	default:
		return nil
	}
	return c
}

// claim has a worker claim, and compares what it is given.
func (r *rig) claim(n, next *node, o operation, p *prediction) error {
	q := store.ClaimRequest{
		Worker: modelWorker(o.w), Workspace: modelWorkspace, StepTypes: modelTypes, Queues: []string{"default"}, Max: 2, Lease: modelTerm,
	}
	if o.kind == take {
		q.Only, q.Max = []courier.ExecutionID{r.x[o.x].ID}, 1
	}
	before := [2]store.Token{r.x[0].token, r.x[1].token}
	got, err := r.s.Claim(context.Background(), q)
	if err != nil {
		return err
	}
	var claimed [2]bool
	for j := range got.List {
		c := &got.List[j]
		i := slices.IndexFunc(r.x[:], func(x *execution) bool { return x.ID == c.Execution.ID })
		m, x := &p.next.x[i], r.x[i]
		claimed[i] = true
		switch {
		case c.Token == "" || c.Token == before[i] || c.Token != x.token:
			return fmt.Errorf("the token of execution %d is %q, that before %q, the store's %q", i+1, c.Token, before[i], x.token)
		case c.Seq != x.seq() || !reflect.DeepEqual(c.Counters, m.counters()) || c.Execution.Request != modelAsks[m.request]:
			return fmt.Errorf("claimed was execution %d with number %d, counters %+v, request %q", i+1, c.Seq, c.Counters, c.Execution.Request)
		case (c.Lost != nil) != (m.current != 0) || c.First == n.model.x[i].started:
			return fmt.Errorf("claimed was execution %d, for the first time: %v, with a lost step: %v", i+1, c.First, c.Lost != nil)
		case !slices.EqualFunc(c.Latest, x.latestSteps(0), func(a, b courier.StepExecution) bool { return a.Seq == b.Seq && a.Step == b.Step }):
			return fmt.Errorf("the latest records are %+v", c.Latest)
		case c.Execution.FailedItems != int(m.failedItems) || c.Execution.Repairs != x.Repairs || c.Execution.Seq != c.Seq:
			return fmt.Errorf("claimed was execution %d with %d failed items, repairs %+v, number %d", i+1, c.Execution.FailedItems, c.Execution.Repairs, c.Execution.Seq)
		case !m.sameFinish(c.Finish, &c.Execution):
			return fmt.Errorf("claimed was execution %d with the finish %+v, and %d rescued items", i+1, c.Finish, c.Execution.RescuedItems)
		case c.Execution.Worker != q.Worker || !c.Execution.LeaseExpiresAt.Equal(r.now.Add(modelTerm)):
			return fmt.Errorf("leased to %s until %v", c.Execution.Worker, c.Execution.LeaseExpiresAt)
		}
		if p.next.run[o.w][i].lease == ownLease {
			next.hands[o.w][i] = hand{token: c.Token, seq: c.Seq}
		}
	}
	if claimed != p.claimed {
		return fmt.Errorf("claimed were %v, want %v", claimed, p.claimed)
	}
	return nil
}

// sameFinish reports whether what was decided of an execution is what a claim says.
func (x *modelExecution) sameFinish(f *store.Finish, e *courier.Execution) bool {
	if f == nil || e.Finishing == nil {
		return !x.finishing() && f == nil && e.Finishing == nil && e.RescuedItems == int(x.rescued)
	}
	return e.Finishing.Outcome == f.Outcome && finishOf(f) == x.finish && e.RescuedItems == int(x.finish.counters.rescued)
}

func modelWorker(w uint8) string { return [...]string{"worker 1", "worker 2"}[w] }

// renew has a worker renew all its leases, and compares which it keeps.
func (r *rig) renew(n *node, o operation, p *prediction) error {
	q := store.RenewRequest{Worker: modelWorker(o.w), For: modelTerm}
	for i, h := range n.hands[o.w] {
		if n.model.run[o.w][i].lease != noLease {
			q.Leases = append(q.Leases, store.Lease{Execution: r.x[i].ID, Token: h.token})
		}
	}
	got, err := r.s.Renew(context.Background(), q)
	if err != nil {
		return err
	}
	var renewed [2]bool
	for _, g := range got {
		i := slices.IndexFunc(r.x[:], func(x *execution) bool { return x.ID == g.Execution })
		renewed[i] = true
		if want := modelAsks[p.next.x[i].request]; g.Request != want || (g.By == modelOperator) != (want != "") {
			return fmt.Errorf("the renewal of execution %d brings %q by %q", i+1, g.Request, g.By)
		}
	}
	if renewed != p.renewed {
		return fmt.Errorf("renewed were %v, want %v", renewed, p.renewed)
	}
	return nil
}

// transition is what a run writes, as an engine would. X is the execution as the
// run knows it.
func (r *rig) transition(n *node, x *execution, o operation) (t *store.Transition, size int64) {
	r.log = r.log[:0]
	h, before := &n.hands[o.w][o.x], n.model.x[o.x]
	after := before.after(o.outcome, o.action, &r.log)
	t = &store.Transition{
		Execution: x.ID, Lease: h.token, Seq: h.seq + 1, To: courier.Running,
		Position: modelPositions[after.pos], Counters: after.counters(),
	}
	failure := &courier.Failure{Step: -1, Reason: courier.ReasonError, Message: "failure"}
	if state, reason := modelEnds[o.outcome].state, modelEnds[o.outcome].reason; state != "" {
		e := *x.Current
		e.State, e.Reason, e.Error = state, reason, string(reason)
		switch {
		case o.outcome == itemFailed:
			e.FailedLoop, t.FailedItems = new(modelPositions[before.pos].Loops[0].Step), new(int(after.failedItems))
		case o.outcome.rescues():
			e.Rescue = new(modelPositions[before.pos].Loops[0].Step)
		}
		t.Ended = []courier.StepExecution{e}
	}
	if o.outcome.passes() {
		t.Workspace = modelWorkspace
	}
	t.Interrupt, t.Finally = o.outcome == interrupted, before.finishing()
	switch o.action {
	case start:
		i := after.current - 1
		t.Start = &courier.StepExecution{
			Step: modelPositions[i].Step, Type: modelTypes[0], Iteration: modelIterations[i], Attempt: int(after.currentAttempt),
		}
	case checkpoint:
	case retry, retryJob:
		t.Delay, t.Failure, t.RetryJob = time.Hour, failure, o.action == retryJob
		t.To = courier.Queued
	case fail:
		t.To, t.Failure = courier.Failed, failure
	case pause:
		t.To, t.Request = courier.Paused, courier.RequestPause
	case putBack:
		failure.Reason = courier.ReasonFiles
		t.To, t.Failure = modelStates[before.resumed], failure
	default:
		t.To = modelStates[after.state]
	}
	switch f := &after.finish; {
	case o.action.decides():
		t.Finish = &store.Finish{
			Finishing: courier.Finishing{Outcome: modelStates[f.outcome], Position: modelPositions[f.pos], Seq: h.seq + int64(len(r.log))},
			Counters:  f.counters.counters(), Text: modelDecided,
		}
		if f.outcome == isCompleted {
			t.Result = json.RawMessage(`"made"`)
		}
	case o.action == failFinally:
		t.FinallyError = failure
	case o.action == abortFinally:
		t.FinallyError = store.AbortedFinally(modelOperator, "")
	}
	switch {
	case !o.action.decides() && !o.action.endsFinally():
	case after.failure:
		t.Failure = failure
	case t.To == courier.Cancelled:
		t.By = modelOperator
	}
	return t, int64(len(r.log))
}

// modelEnds is how a step ends by what its run has to write.
var modelEnds = [...]struct {
	state  courier.StepState
	reason courier.Reason
}{
	lost: {courier.StepFailed, courier.ReasonWorkerLost}, completed: {courier.StepCompleted, ""},
	skipped: {courier.StepSkipped, courier.ReasonError}, broken: {courier.StepFailed, courier.ReasonError}, interrupted: {},
	itemFailed: {courier.StepFailed, courier.ReasonError}, toRescue: {courier.StepFailed, courier.ReasonError},
	lostToRescue: {courier.StepFailed, courier.ReasonWorkerLost},
}

// late writes under a lease that is gone: what its run would write, and what
// would fit if the number were all that counts.
func (r *rig) late(n *node, o operation, p *prediction) error {
	h, x := &n.hands[o.w][o.x], r.x[o.x]
	seqs := []int64{h.seq + 1, x.seq() + 1}
	if n.model.run[o.w][o.x].lease == oldLease {
		seqs = append(seqs, x.last, x.seq())
	}
	for _, seq := range seqs {
		t := store.Transition{
			Execution: x.ID, Lease: h.token, Seq: seq, To: courier.Completed, Position: modelPositions[modelEnd],
		}
		if err := p.expect(r.s.Apply(context.Background(), t)); err != nil {
			return fmt.Errorf("number %d, with the last one %d: %w", seq, x.seq(), err)
		}
	}
	return nil
}

// expect compares the store's answer.
func (p *prediction) expect(err error) error {
	q, _ := errors.AsType[*store.RequestedError](err)
	ok := false
	switch p.answer {
	case accepted, repeated:
		ok = err == nil
	case leaseLost:
		ok = errors.Is(err, courier.ErrLeaseLost)
	case requested:
		ok = q != nil && q.Kind == modelAsks[p.request]
	case refused:
		ok = errors.Is(err, courier.ErrConflict) && q == nil
	}
	if !ok {
		return fmt.Errorf("the store answers %v, want: %s", err, [...]string{
			"accepted", "accepted before", "the lease is lost", fmt.Sprintf("a %q is pending", modelAsks[p.request]), "the state does not allow it",
		}[p.answer])
	}
	return nil
}

// compare compares what the store holds with what the model says.
func (r *rig) compare(n *node, p *prediction) error {
	for i, x := range r.x {
		r.changed[i] = !same(n.frozen[i], x)
	}
	for i, x := range r.x {
		want := p.next.x[i]
		want.cancelled = false
		if got := modelOf(x, r.now); got != want {
			return fmt.Errorf("execution %d is\n     %s, want\n     %s", i+1, got, want)
		}
		if err := sameEntries(x, n.frozen[i].seq(), p.log[i]); err != nil {
			return fmt.Errorf("execution %d: %w", i+1, err)
		}
	}
	return r.promises(n, p)
}

// modelWorkspace is the workspace of both workers.
const modelWorkspace = "here"

// modelOf is an execution of the store as the model sees it.
func modelOf(x *execution, now time.Time) modelExecution {
	m := modelExecution{
		state: modelState(slices.Index(modelStates[:], x.State)), attempt: uint8(x.Attempt),
		pos:     positionOf(x.Position.Step, x.Position.Iteration()),
		request: uint8(slices.Index(modelAsks[:], x.Request)),

		modelCounters: countersOf(&x.counters),
		hasFinally:    x.HasFinally, finish: finishOf(x.finish), finallyError: x.FinallyError != nil,

		expired: x.expired(now), waiting: x.State == courier.Queued && x.DueAt.After(now), failure: x.Failure != nil,
		wasResumed: x.Resumed, started: !x.StartedAt.IsZero(),
		files: x.Workspace != "", failedItems: uint8(x.FailedItems),
	}
	if c := x.Current; c != nil {
		m.current, m.currentAttempt = positionOf(c.Step, c.Iteration)+1, uint8(c.Attempt)
	}
	return m
}

// finishOf is what was decided as the model sees it.
func finishOf(f *store.Finish) modelFinish {
	if f == nil {
		return modelFinish{}
	}
	return modelFinish{
		outcome: modelState(slices.Index(modelStates[:], f.Outcome)), pos: positionOf(f.Position.Step, f.Position.Iteration()), counters: countersOf(&f.Counters),
	}
}

// positionOf is the index in modelPositions, or one behind.
func positionOf(step int, iteration []int) uint8 {
	for i := range modelPositions {
		if modelPositions[i].Step == step && slices.Equal(modelIterations[i], iteration) {
			return uint8(i)
		}
	}
	return uint8(len(modelPositions))
}

// sameEntries compares the audit entries after a number.
func sameEntries(x *execution, after int64, want modelLog) error {
	if n := x.seq() - after; n != int64(len(want)) {
		return fmt.Errorf("%d audit entries were written, want %v", n, want)
	}
	for j, w := range want {
		e := x.auditEntry(after + int64(j) + 1)
		got := modelEntry{position: -1, attempt: uint8(e.Attempt), from: e.From, to: e.To, reason: e.Reason, by: e.By}
		if e.Step != nil {
			got.position = int8(positionOf(*e.Step, e.Iteration))
		}
		if got != w {
			return fmt.Errorf("audit entry %d is %+v, want %+v", e.Seq, got, w)
		}
	}
	return nil
}
