package chain

import (
	"errors"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Plan has the constant part of a chain execution: its members and their dependencies. It
// decides what follows from the states of the members, in the same way for all stores.
//
// A dependency on a member is satisfied or dead once that member has ended:
//
//	the other member        plain       run_on_failure   required_status any
//	completed               satisfied   satisfied        satisfied
//	failed                  dead        satisfied        satisfied
//	skipped after a failure dead        satisfied        satisfied
//	cancelled               dead        dead             satisfied
//	skipped otherwise       dead        dead             satisfied
//
// A member is released when all its dependencies are satisfied, and skipped
// when one is dead: after a failure if the member of any dead dependency failed
// or was skipped after a failure. Skipped members are evaluated again after every
// change: when the execution of a member is resumed, the members that were skipped
// because of it are pending again. Released members stay released.
type Plan struct {
	members []PlannedMember
	edges   [][]edge // of each member, to those it depends on
	order   []int    // each member after those it depends on
	forgive []bool   // whether the failure of a member does not count
	index   map[string]int
}

// A PlannedMember is a member in a [Plan].
type PlannedMember struct {
	Name      string       `json:"name"`
	Job       string       `json:"job"`
	Version   int          `json:"version"`
	DependsOn []Dependency `json:"depends_on,omitempty"`
}

type edge struct {
	to     int
	accept acceptance
}

// An acceptance says which ends of a member an edge accepts. Each value also accepts all ends
// that the value before it accepts.
type acceptance int

const (
	acceptCompleted acceptance = iota
	acceptFailed
	acceptAny
)

// NewPlan returns the plan of members. The error for repeated names, dependencies on unknown
// members and cycles matches [courier.ErrInvalid].
func NewPlan(members []PlannedMember) (*Plan, error) {
	p := &Plan{members: members, index: make(map[string]int, len(members))}
	for i, m := range members {
		if _, again := p.index[m.Name]; again {
			return nil, courier.Errorf(courier.ErrInvalid, "chain: two members are called %q", m.Name)
		}
		p.index[m.Name] = i
	}
	p.edges, p.forgive = make([][]edge, len(members)), make([]bool, len(members))
	counts := make([]bool, len(members)) // whether some dependency does not accept every end
	for i, m := range members {
		for _, d := range m.DependsOn {
			to, ok := p.index[d.Member]
			if !ok {
				return nil, courier.Errorf(courier.ErrInvalid, "chain: member %q depends on %q, which is not a member", m.Name, d.Member)
			}
			e := edge{to, accepts(d)}
			p.edges[i] = append(p.edges[i], e)
			p.forgive[to] = true
			counts[to] = counts[to] || e.accept != acceptAny
		}
	}
	for i := range p.forgive {
		p.forgive[i] = p.forgive[i] && !counts[i]
	}
	if p.order = p.sorted(); len(p.order) < len(members) {
		return nil, courier.Errorf(courier.ErrInvalid, "chain: its members depend on each other in a cycle")
	}
	return p, nil
}

func accepts(d Dependency) acceptance {
	switch {
	case d.RequiredStatus == courier.RequireAny:
		return acceptAny
	case d.RunOnFailure:
		return acceptFailed
	}
	return acceptCompleted
}

// sorted returns the members in an order in which each comes after its dependencies. Members in
// or behind cycles are left out.
func (p *Plan) sorted() []int {
	waits, behind := make([]int, len(p.members)), make([][]int, len(p.members))
	var order []int
	for i, edges := range p.edges {
		if waits[i] = len(edges); waits[i] == 0 {
			order = append(order, i)
		}
		for _, e := range edges {
			behind[e.to] = append(behind[e.to], i)
		}
	}
	for n := 0; n < len(order); n++ {
		for _, i := range behind[order[n]] {
			if waits[i]--; waits[i] == 0 {
				order = append(order, i)
			}
		}
	}
	return order
}

// Members returns the members, in the order of the definition. The caller must not change them.
func (p *Plan) Members() []PlannedMember { return p.members }

// Index returns the index of a member in [Plan.Members], or -1.
func (p *Plan) Index(name string) int {
	if i, ok := p.index[name]; ok {
		return i
	}
	return -1
}

// A Progress is the part of a chain execution that changes.
type Progress struct {
	State   State
	Request courier.RequestKind // pause, cancel or empty; release while it is held
	Members []MemberProgress
}

// A MemberProgress is the state of a member: pending, skipped, or released with the state of its
// execution. Running also stands for created and queued.
type MemberProgress struct {
	State MemberState
	// Asked says that the last request to the execution was the pause of its chain execution.
	Asked bool
}

// The states of released members.
const (
	memberRunning   = MemberState(courier.Running)
	memberPaused    = MemberState(courier.Paused)
	memberCompleted = MemberState(courier.Completed)
	memberFailed    = MemberState(courier.Failed)
	memberCancelled = MemberState(courier.Cancelled)
)

// Released reports whether the member has an execution.
func (m MemberProgress) Released() bool {
	return m.State != MemberPending && m.State != MemberSkipped
}

// Begin returns the progress of a new chain execution, before it is evaluated.
func (p *Plan) Begin(hold bool) Progress {
	s := Progress{State: Pending, Members: make([]MemberProgress, len(p.members))}
	if hold {
		s.Request = courier.RequestRelease
	}
	for i := range s.Members {
		s.Members[i].State = MemberPending
	}
	return s
}

// Moved returns a copy of s in which the execution of a member has another state. The caller
// evaluates the result with [Plan.Evaluate].
func (s Progress) Moved(member int, to courier.State) Progress {
	s.Members = slices.Clone(s.Members)
	m := &s.Members[member]
	switch to {
	case courier.Created, courier.Queued, courier.Running:
		*m = MemberProgress{State: memberRunning}
	default:
		m.State = MemberState(to)
		m.Asked = m.Asked && to == courier.Paused
	}
	return s
}

// Evaluate returns what follows from the progress of a chain execution: the next progress, and
// the members to release, in the order of the definition. A final chain execution does not
// change.
func (p *Plan) Evaluate(s Progress) (next Progress, release []int) {
	if s.State.Final() {
		return s, nil
	}
	next = s
	next.Members = slices.Clone(s.Members)
	ends := p.ends(s)
	for _, i := range p.order {
		m := &next.Members[i]
		if m.Released() {
			continue
		}
		switch ends[i] {
		case endRelease:
			m.State = memberRunning
			release = append(release, i)
		case endOpen:
			m.State = MemberPending
		default:
			m.State = MemberSkipped
		}
	}
	slices.Sort(release)
	next.State = p.state(&next)
	if next.State.Ended() {
		next.Request = ""
		for i := range next.Members {
			next.Members[i].Asked = false
		}
	}
	return next, release
}

// An end is how a member has ended, as its dependents see it.
type end int

const (
	endOpen      end = iota // has not ended
	endRelease              // may begin
	endCompleted            // from here on in the order in which acceptances take them
	endFailed               // or skipped after a failure
	endOther                // cancelled, or skipped otherwise
)

// ends returns how each member has ended.
func (p *Plan) ends(s Progress) []end {
	ends := make([]end, len(p.members))
	for _, i := range p.order {
		ends[i] = p.end(i, s, ends)
	}
	return ends
}

func (p *Plan) end(i int, s Progress, ends []end) end {
	switch s.Members[i].State {
	case memberCompleted:
		return endCompleted
	case memberFailed:
		return endFailed
	case memberCancelled:
		return endOther
	case MemberPending, MemberSkipped:
	default:
		return endOpen
	}
	result := endRelease
	for _, e := range p.edges[i] {
		switch to := ends[e.to]; {
		case to <= endRelease:
			if result == endRelease {
				result = endOpen
			}
		case int(to-endCompleted) <= int(e.accept):
		case to == endFailed || result == endFailed:
			result = endFailed
		default:
			result = endOther
		}
	}
	switch {
	case result > endRelease:
	case s.Request == courier.RequestCancel:
		result = endOther
	case result == endRelease && s.Request != "":
		result = endOpen
	}
	return result
}

// state returns the state of a chain execution that follows from the states of its members.
func (p *Plan) state(s *Progress) State {
	var running, waiting, failed bool
	for i, m := range s.Members {
		switch m.State {
		case memberRunning:
			running = true
		case memberPaused, MemberPending:
			waiting = true
		case memberFailed, memberCancelled:
			failed = failed || !p.forgive[i]
		}
	}
	switch {
	case s.Request == courier.RequestRelease:
		return Pending
	case running:
		return Running
	case waiting && s.Request == courier.RequestPause:
		return Paused
	case waiting:
		return Running
	case s.Request == courier.RequestCancel:
		return Cancelled
	case failed:
		return Failed
	}
	return Completed
}

// A MemberRequest is a request to the execution of a member, with the result of
// [store.Decide].
type MemberRequest struct {
	Member   int
	Kind     courier.RequestKind
	Decision store.Decision
}

// A Decision is the effect of a request on a chain execution.
type Decision struct {
	// Next is the progress after the requests to members have been carried out. It must be
	// evaluated.
	Next     Progress
	Requests []MemberRequest
	// Restarted are the members that get a new execution.
	Restarted []int
}

// Decide returns the effect of a request on the chain execution with an id and the
// progress s. Of returns the latest execution of a released member, nil if that was
// removed, and whether it is running with a lease that has ended. The error of a
// request that the state does not allow is a *RequestError.
//
//	state                pause     resume     cancel     release   retry
//	pending (held)       -         -          cancelled  running   -
//	running              pausing   -          cancelling -         -
//	running, pausing     pausing   running    cancelling -         -
//	running, cancelling  -         -          cancelling -         -
//	paused               -         running    cancelling -         -
//	failed               -         -          cancelled  -         running
//	completed, cancelled -         -          -          -         -
//
// A pause requests the pause of all queued and running executions. A resume resumes
// those to which that pause was the last request, and no others. A cancel requests the
// cancel of all executions that are not final. A retry resumes the failed members, and
// creates a new execution for cancelled ones and for failed ones whose execution was
// removed. Requests that the state of an execution does not allow are left out.
func (p *Plan) Decide(id courier.ChainExecutionID, s Progress, kind courier.RequestKind, of func(member int) (x *courier.Execution, expired bool)) (Decision, error) {
	if !slices.Contains([]courier.RequestKind{courier.RequestPause, courier.RequestResume, courier.RequestCancel, courier.RequestRelease, courier.RequestRetry}, kind) {
		return Decision{}, courier.Errorf(courier.ErrInvalid, "request %q: unknown to chains", kind)
	}
	if !allowed(s, kind) {
		e := &RequestError{Chain: id, State: s.State, Pending: s.Request, Kind: kind}
		if s.Request == courier.RequestRelease {
			e.Pending = ""
		}
		return Decision{}, e
	}
	d := Decision{Next: s}
	d.Next.Members = slices.Clone(s.Members)
	switch kind {
	case courier.RequestPause, courier.RequestCancel:
		d.Next.Request = kind
	default:
		d.Next.Request = ""
	}
	if kind == courier.RequestRetry {
		d.Next.State = Running
	}
	for i, m := range s.Members {
		ask := wanted(m, kind)
		switch {
		case ask == "":
		case ask == courier.RequestRetry:
			d.Restarted = append(d.Restarted, i)
			d.Next.Members[i] = MemberProgress{State: memberRunning}
		default:
			if err := d.ask(i, ask, of); err != nil {
				return Decision{}, err
			}
		}
	}
	return d, nil
}

func allowed(s Progress, kind courier.RequestKind) bool {
	switch kind {
	case courier.RequestPause:
		return s.State == Running && s.Request != courier.RequestCancel
	case courier.RequestResume:
		return s.Request == courier.RequestPause
	case courier.RequestCancel:
		return !s.State.Final()
	case courier.RequestRelease:
		return s.Request == courier.RequestRelease
	}
	return s.State == Failed
}

// wanted returns the request to a member's execution that follows from a request to the chain.
// Retry stands for a new execution.
func wanted(m MemberProgress, kind courier.RequestKind) courier.RequestKind {
	if !m.Released() {
		return ""
	}
	switch kind {
	case courier.RequestPause:
		if m.State == memberRunning && !m.Asked {
			return kind
		}
	case courier.RequestResume:
		if m.Asked {
			return kind
		}
	case courier.RequestCancel:
		if m.State == memberRunning || m.State == memberPaused || m.State == memberFailed {
			return kind
		}
	case courier.RequestRetry:
		switch m.State {
		case memberFailed:
			return courier.RequestResume
		case memberCancelled:
			return kind
		}
	}
	return ""
}

// ask adds a request to a member's execution, if its state allows it.
func (d *Decision) ask(member int, kind courier.RequestKind, of func(int) (*courier.Execution, bool)) error {
	x, expired := of(member)
	m := &d.Next.Members[member]
	m.Asked = false
	if x == nil { // retention removed it
		if kind == courier.RequestResume {
			d.Restarted = append(d.Restarted, member)
			m.State = memberRunning
		}
		return nil
	}
	if x.Request == kind && !expired && !(kind == courier.RequestCancel && x.HasFinally) {
		return nil // the same request is pending already
	}
	decision, err := store.Decide(x, expired, kind)
	if _, ok := errors.AsType[*courier.TransitionError](err); ok {
		return nil
	}
	if err != nil {
		return err
	}
	d.Requests = append(d.Requests, MemberRequest{Member: member, Kind: kind, Decision: decision})
	if decision.To != "" {
		d.Next = d.Next.Moved(member, decision.To)
	}
	d.Next.Members[member].Asked = kind == courier.RequestPause
	return nil
}
