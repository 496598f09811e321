package memstore

import "fmt"

// An operation is one thing that happens: a call of the store, a message that
// arrives, time that passes.
type operation struct {
	kind    operationKind
	w, x    uint8 // the worker and the execution, where there are any
	outcome modelOutcome
	action  modelAction
	ask     uint8
	unheard bool // the reply gets lost; for send the message is delayed
}

type operationKind uint8

const (
	begin     operationKind = iota
	take                    // a worker claims one execution
	takeAny                 // a worker claims what there is
	renew                   // a worker renews its leases
	write                   // a run sends a transition, and it arrives
	send                    // a run sends a transition, and it does not arrive yet
	arrive                  // what was sent arrives, perhaps again
	strayed                 // what a run sent that is no more arrives
	writeLate               // a run writes that does not know that its lease is lost
	ask                     // an operator asks
	expire                  // a lease ends
	becomeDue               // a delay is over
	crash                   // a worker dies
)

// String says what happens.
func (o operation) String() string {
	s := ""
	w, x := fmt.Sprintf("worker %d", o.w+1), fmt.Sprintf("execution %d", o.x+1)
	switch o.kind {
	case begin:
		s = "the executions are created"
	case take:
		s = w + " claims " + x
	case takeAny:
		s = w + " claims all it can get"
	case renew:
		s = w + " renews its leases"
	case write:
		s = fmt.Sprintf("%s writes to %s: %s%s", w, x, modelOutcomes[o.outcome], modelActions[o.action])
	case send:
		s = fmt.Sprintf("%s sends to %s, and it is delayed: %s%s", w, x, modelOutcomes[o.outcome], modelActions[o.action])
	case arrive:
		s = fmt.Sprintf("what %s sent to %s arrives", w, x)
	case strayed:
		s = fmt.Sprintf("what was sent to %s by a run that is no more arrives", x)
	case writeLate:
		s = fmt.Sprintf("%s, whose lease is gone, writes to %s", w, x)
	case ask:
		s = fmt.Sprintf("an operator asks for a %s%s of %s", modelAsks[o.ask], modelChanges[o.ask], x)
	case expire:
		s = "the lease of " + x + " ends"
	case becomeDue:
		s = x + " becomes due"
	case crash:
		s = w + " dies"
	}
	if o.unheard {
		s += "; the reply gets lost"
	}
	return s
}

// operations appends all that can happen.
func (m *model) operations(list []operation) []operation {
	for w := range uint8(2) {
		holds := false
		for x := range uint8(2) {
			if r := &m.run[w][x]; r.lease != noLease {
				holds = true
				list = m.writes(list, w, x)
			}
			can := m.claimable(x, m.running())
			if s := m.x[x].state; can || w == 0 && (s == isQueued || s == isRunning) {
				list = append(list, operation{kind: take, w: w, x: x})
			}
			if can && m.left.losses > 0 {
				list = append(list, operation{kind: take, w: w, x: x, unheard: true})
			}
		}
		if n := m.running(); m.claimable(0, n) || m.claimable(1, n) {
			list = append(list, operation{kind: takeAny, w: w})
		}
		if holds {
			list = append(list, operation{kind: renew, w: w})
			if m.left.crashes > 0 {
				list = append(list, operation{kind: crash, w: w})
			}
		}
	}
	for i := range uint8(2) {
		x := &m.x[i]
		if x.state == isRunning && !x.expired && (m.left.expiries > 0 || !m.owned(i)) {
			list = append(list, operation{kind: expire, x: i})
		}
		if x.waiting {
			list = append(list, operation{kind: becomeDue, x: i})
		}
		if m.stray[i].lease != noLease {
			list = append(list, operation{kind: strayed, x: i})
		}
		for kind := askPause; m.left.asks > 0 && kind <= askAbort; kind++ {
			if kind == askSkip && x.pos == modelEnd || kind == askAbort && !x.hasFinally {
				continue
			}
			list = append(list, operation{kind: ask, x: i, ask: kind})
		}
	}
	return list
}

// writes appends what a run can do.
func (m *model) writes(list []operation, w, i uint8) []operation {
	r, x := &m.run[w][i], &m.x[i]
	inBody := modelPositions[x.pos].Step == modelBody
	switch {
	case r.sent != noAction:
		list = append(list, operation{kind: arrive, w: w, x: i})
		if m.left.losses > 0 && !r.written {
			list = append(list, operation{kind: arrive, w: w, x: i, unheard: true})
		}
		return list
	case r.lease == oldLease, x.state != isRunning:
		return append(list, operation{kind: writeLate, w: w, x: i})
	}
	add := func(o modelOutcome, actions ...modelAction) {
		for _, a := range actions {
			list = append(list, operation{kind: write, w: w, x: i, outcome: o, action: a})
			if m.left.losses > 0 {
				list = append(list,
					operation{kind: write, w: w, x: i, outcome: o, action: a, unheard: true},
					operation{kind: send, w: w, x: i, outcome: o, action: a})
			}
		}
	}
	outcomes := []modelOutcome{r.outcome}
	if r.outcome == executing {
		outcomes = []modelOutcome{completed}
		if m.left.failures > 0 {
			outcomes = append(outcomes, broken, skipped)
			if modelIterations[x.pos] != nil {
				outcomes = append(outcomes, itemFailed)
			}
			if m.rescues && inBody {
				outcomes = append(outcomes, toRescue)
			}
		}
		if m.left.stops > 0 || r.asked() {
			outcomes = append(outcomes, interrupted)
		}
	}
	completes, fails, cancels := r.ends(x)
	for _, o := range outcomes {
		poisoned := (o == nothing || o == lost) && x.poisoned()
		if poisoned && o == lost && m.rescues && inBody && !r.asked() {
			o, poisoned = lostToRescue, false
		}
		next := x.pos
		if o.passes() {
			next = behind(x.pos, o)
		}
		pausing := r.known == askPause && !x.finishing()
		switch {
		case r.asked():
			add(o, cancels)
		case poisoned:
			add(o, fails)
		case pausing && o == broken:
			add(o, fails, pause)
		case pausing:
			add(o, pause)
		case o == broken && x.finishing():
			add(o, retry, fails)
		case o == broken:
			add(o, retry, retryJob, fails)
		case o == interrupted:
			add(o, handOver)
		default:
			if next == modelEnd {
				add(o, completes)
			} else {
				add(o, start)
			}
			if next == modelEnd && completes == decideCompleted && m.left.stops > 0 {
				add(o, decideLater)
			}
			if o != nothing {
				add(o, checkpoint)
			}
			if m.left.stops > 0 {
				add(o, handOver)
			}
			if m.left.failures > 0 && o == nothing && x.resumed != noState {
				add(o, putBack)
			}
		}
	}
	return list
}

// asked reports whether a run knows that it has to end.
func (r *modelRun) asked() bool { return r.known == askCancel || r.known == askAbort }

// ends are the actions with which a run ends an execution, or its finally part.
func (r *modelRun) ends(x *modelExecution) (completes, fails, cancels modelAction) {
	switch {
	case x.finishing():
		return endFinally, failFinally, abortFinally
	case x.hasFinally && r.known != askAbort:
		return decideCompleted, decideFailed, decideCancelled
	}
	return complete, fail, cancel
}

// owned reports whether a living run has the lease of an execution.
func (m *model) owned(x uint8) bool {
	return m.run[0][x].lease == ownLease || m.run[1][x].lease == ownLease
}

// running counts the executions that run, whatever became of their leases.
func (m *model) running() int {
	n := 0
	for i := range m.x {
		if m.x[i].state == isRunning {
			n++
		}
	}
	return n
}

// claimable reports whether an execution can be claimed while n run.
func (m *model) claimable(i uint8, n int) bool {
	x := &m.x[i]
	if x.state == isRunning {
		return x.expired
	}
	return x.state == isQueued && !x.waiting && (m.limit == 0 || n < int(m.limit))
}

// A prediction is what an operation leads to.
type prediction struct {
	next    model
	log     [2]modelLog // the audit entries of each execution
	answer  modelAnswer
	request uint8 // of a requested answer
	claimed [2]bool
	renewed [2]bool
}

// fair reports whether the operation happens in the end if it can, without
// anything that fails and without operators.
func (m *model) fair(o operation) bool {
	switch o.kind {
	case write:
		r := &m.run[o.w][o.x]
		chosen := r.outcome == executing && o.outcome != completed
		return !o.unheard && (!chosen || r.asked()) && (o.action != handOver || o.outcome == interrupted) && o.action != putBack && o.action != decideLater
	case send, ask, crash:
		return false
	case expire:
		return !m.owned(o.x)
	}
	return !o.unheard
}

// predict says what an operation leads to.
func (p *prediction) predict(m *model, o operation) {
	p.next, p.answer, p.request = *m, accepted, 0
	p.claimed, p.renewed = [2]bool{}, [2]bool{}
	p.log[0], p.log[1] = p.log[0][:0], p.log[1][:0]
	n := &p.next
	r, x := &n.run[o.w][o.x], &n.x[o.x]
	if o.unheard {
		n.left.losses--
	}
	switch o.kind {
	case take:
		p.take(o.w, o.x, o.unheard)
	case takeAny:
		for _, expired := range []bool{true, false} { // expired ones first, then by id
			for i := range uint8(2) {
				if x := &m.x[i]; (x.state == isRunning) == expired {
					p.take(o.w, i, false)
				}
			}
		}
	case renew:
		p.renew(o.w)
	case write:
		p.spend(o)
		r.outcome, r.sent = o.outcome, o.action
		p.deliver(r, x, o.x, !o.unheard)
	case send:
		n.left.losses--
		p.spend(o)
		r.outcome, r.sent = o.outcome, o.action
	case arrive:
		p.deliver(r, x, o.x, !o.unheard)
	case strayed:
		p.deliver(&n.stray[o.x], x, o.x, true)
		n.stray[o.x] = modelRun{}
	case writeLate:
		p.answer = leaseLost
		*r = modelRun{}
	case ask:
		after, ok := x.asked(o.ask, &p.log[o.x])
		if !ok {
			p.answer = refused
		} else if after != *x {
			*x = after
			n.left.asks--
		}
	case expire:
		x.expired = true
		if n.owned(o.x) {
			n.left.expiries--
		}
	case becomeDue:
		x.waiting = false
	case crash:
		n.left.crashes--
		for i := range n.run[o.w] {
			n.giveUp(o.w, uint8(i))
		}
	}
}

// spend takes what a run does from the budget.
func (p *prediction) spend(o operation) {
	left := &p.next.left
	chosen := p.next.run[o.w][o.x].outcome != o.outcome
	switch {
	case chosen && (o.outcome == broken || o.outcome == skipped || o.outcome == itemFailed || o.outcome == toRescue), o.action == putBack:
		left.failures--
	case (chosen && o.outcome == interrupted || o.action == handOver || o.action == decideLater) && left.stops > 0:
		left.stops--
	}
}

// take claims an execution if that is possible.
func (p *prediction) take(w, i uint8, unheard bool) {
	n := &p.next
	if !n.claimable(i, n.running()) {
		return
	}
	p.claimed[i] = true
	n.x[i] = n.x[i].claimed(&p.log[i])
	n.giveUp(w, i)
	for _, r := range []*modelRun{&n.run[0][i], &n.run[1][i], &n.stray[i]} {
		if r.lease == ownLease {
			r.forget()
		}
	}
	if unheard {
		return
	}
	n.run[w][i] = modelRun{lease: ownLease, outcome: nothing}
	x := &n.x[i]
	if x.current != 0 {
		n.run[w][i].outcome = lost
	}
	if x.hasFinally && x.cancelling() {
		n.run[w][i].known = x.request
	}
}

// forget drops what makes no difference once the lease is another's.
func (r *modelRun) forget() {
	*r = modelRun{lease: oldLease, sent: r.sent}
}

// giveUp ends a run. What it has sent may still arrive.
func (m *model) giveUp(w, x uint8) {
	r := &m.run[w][x]
	if r.sent != noAction && m.stray[x].lease == noLease {
		m.stray[x] = *r
		m.stray[x].known = 0
	}
	*r = modelRun{}
}

func (p *prediction) renew(w uint8) {
	n := &p.next
	for i := range n.run[w] {
		r, x := &n.run[w][i], &n.x[i]
		switch {
		case r.lease == noLease:
		case r.lease == ownLease && x.state == isRunning:
			p.renewed[i] = true
			x.expired = false
			r.known = x.request
		default:
			n.giveUp(w, uint8(i))
		}
	}
}

// deliver has the store answer what r sent, and r hear of it.
func (p *prediction) deliver(r *modelRun, x *modelExecution, i uint8, heard bool) {
	switch {
	case r.lease == oldLease:
		p.answer = leaseLost
	case r.written:
		p.answer = repeated
	case x.state != isRunning:
		p.answer = leaseLost
	case !x.answers(r.sent):
		p.answer, p.request = requested, x.request
	default:
		*x = x.after(r.outcome, r.sent, &p.log[i])
		r.written = true
	}
	switch {
	case !heard:
	case p.answer == requested:
		r.sent, r.known = noAction, p.request
	case p.answer == leaseLost:
		*r = modelRun{}
	case r.sent == start:
		*r = modelRun{lease: ownLease, outcome: executing, known: r.known}
	case r.sent == checkpoint:
		*r = modelRun{lease: ownLease, outcome: nothing, known: r.known}
	case r.sent.decides() && r.sent != decideLater:
		*r = modelRun{lease: ownLease, outcome: nothing}
	default:
		*r = modelRun{}
	}
}
