package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// An entry of a journal says that a call to the store began, or that it
// returned.
type entry struct {
	Call   int64         `json:"n"` // number of the call in its process
	At     int64         `json:"t"` // monotonic
	Wall   int64         `json:"w"`
	Method string        `json:"m,omitempty"` // empty: it returned
	Lease  time.Duration `json:"lease,omitempty"`
	Asked  []asked       `json:"q,omitempty"`
	Told   []told        `json:"a,omitempty"`
	Error  string        `json:"e,omitempty"` // see kindOf
}

// asked is what a call wants of an execution.
type asked struct {
	Execution courier.ExecutionID `json:"x"`
	Token     store.Token         `json:"token,omitempty"`
	Seq       int64               `json:"seq,omitempty"`
	To        courier.State       `json:"to,omitempty"`
	Request   courier.RequestKind `json:"request,omitempty"`
	By        string              `json:"by,omitempty"`
	Ended     int                 `json:"ended,omitempty"`
	Start     bool                `json:"start,omitempty"`
	Interrupt bool                `json:"interrupt,omitempty"`
}

// told is what the store answered about an execution.
type told struct {
	Execution courier.ExecutionID `json:"x"`
	Token     store.Token         `json:"token,omitempty"`
	Seq       int64               `json:"seq,omitempty"`
	State     courier.State       `json:"state,omitempty"`
	Request   courier.RequestKind `json:"request,omitempty"`
	By        string              `json:"by,omitempty"`
	Existed   bool                `json:"existed,omitempty"`
	// Started says that the claim has started the first step; Seq is the number
	// of the entry before that.
	Started bool `json:"started,omitempty"`
}

// transition is what the model needs of the transition that was sent.
func (a *asked) transition() *store.Transition {
	t := &store.Transition{Execution: a.Execution, Lease: a.Token, Seq: a.Seq, To: a.To, Request: a.Request, Interrupt: a.Interrupt}
	t.Ended = make([]courier.StepExecution, a.Ended)
	if a.Start {
		t.Start = &courier.StepExecution{}
	}
	return t
}

// A recorder writes down all calls that change executions or tell how they
// stand.
type recorder struct {
	to    *journal
	calls atomic.Int64
}

func (r *recorder) intercept(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
	list, lease, ok := question(c)
	if !ok {
		return do(ctx)
	}
	e := entry{Call: r.calls.Add(1), Method: c.Method, Asked: list, Lease: lease}
	e.At, e.Wall = clocks()
	r.to.write(&e)
	err := do(ctx)
	back := entry{Call: e.Call, Error: kindOf(err)}
	back.At, back.Wall = clocks()
	if err == nil {
		back.Told = answer(c.Result)
	}
	r.to.write(&back)
	return err
}

// question is what a call asks of which executions. A claim does not know yet.
func question(c *storewrap.Call) (list []asked, lease time.Duration, ok bool) {
	switch q := c.Request.(type) {
	case []store.NewExecution:
		for i := range q {
			to := courier.Queued
			if q[i].Hold {
				to = courier.Created
			}
			list = append(list, asked{Execution: q[i].ID, To: to})
		}
	case store.ClaimRequest:
		return nil, q.Lease, true
	case store.RenewRequest:
		for _, l := range q.Leases {
			list = append(list, asked{Execution: l.Execution, Token: l.Token})
		}
		return list, q.For, true
	case store.Transition:
		list = append(list, asked{
			Execution: q.Execution, Token: q.Lease, Seq: q.Seq, To: q.To, Request: q.Request,
			Ended: len(q.Ended), Start: q.Start != nil, Interrupt: q.Interrupt,
		})
	case store.Request:
		list = append(list, asked{Execution: q.Execution, Request: q.Kind, By: q.By})
	case chain.Request:
		list = append(list, asked{Execution: courier.ExecutionID(q.Chain), Request: q.Kind, By: q.By})
	default:
		if c.Method == "Execution" {
			return []asked{{Execution: c.Execution}}, 0, true
		}
		return nil, 0, false
	}
	return list, 0, true
}

// answer is what a call told about executions.
func answer(result any) (list []told) {
	switch a := result.(type) {
	case []store.Enqueued:
		for i := range a {
			x := &a[i].Execution
			list = append(list, told{Execution: x.ID, State: x.State, Request: x.Request, Existed: a[i].Existed})
		}
	case store.Claims:
		for i := range a.List {
			c := &a.List[i]
			t := told{Execution: c.Execution.ID, Token: c.Token, Seq: c.Seq, State: c.Execution.State, Request: c.Execution.Request}
			if t.Started = c.Started != nil; t.Started {
				t.Seq--
			}
			list = append(list, t)
		}
	case []store.Renewed:
		for i := range a {
			list = append(list, told{Execution: a[i].Execution, Request: a[i].Request, By: a[i].By})
		}
	case courier.Execution:
		list = append(list, told{Execution: a.ID, State: a.State, Request: a.Request})
	}
	return list
}

// The kinds of errors. All but the last are answers of the contract.
const (
	noError   = ""
	leaseLost = "lease lost"
	requested = "requested: "
	refused   = "refused"
	notFound  = "not found"
	mayHave   = "unknown" // it may have taken effect, or may still do so
)

func kindOf(err error) string {
	if err == nil {
		return noError
	}
	if r, ok := errors.AsType[*store.RequestedError](err); ok {
		return requested + string(r.Kind)
	}
	if _, ok := errors.AsType[*courier.TransitionError](err); ok {
		return refused
	}
	switch {
	case errors.Is(err, courier.ErrLeaseLost):
		return leaseLost
	case errors.Is(err, courier.ErrNotFound):
		return notFound
	}
	return mayHave
}

// An operation is a call as far as it concerns one execution.
type operation struct {
	Process      string
	Method       string
	Call, Return int64 // monotonic; never if it has not returned
	// Since and Until are the same by the clock of the day; for a claim both are
	// when the server made it.
	Since, Until int64
	Lease        time.Duration
	Asked        asked
	Told         told
	Error        string
}

// never is later than all instants.
const never = math.MaxInt64

// A call is one of a process, before it is divided among executions.
type call struct {
	process      string
	begun, ended *entry // ended is nil if it has not returned
}

// readHistory returns the calls that the journals in dir hold, in order within
// each process.
func readHistory(dir string) ([]*call, error) {
	var calls []*call
	open := make(map[string]*call)
	var faults []error
	err := readJournals(dir, ".calls", func(process string, e *entry) {
		key := fmt.Sprintf("%s %d", process, e.Call)
		switch c := open[key]; {
		case e.Method != "":
			c = &call{process: process, begun: e}
			open[key], calls = c, append(calls, c)
		case c == nil || c.ended != nil:
			faults = append(faults, fmt.Errorf("journal of %s: call %d returned and had not begun", process, e.Call))
		default:
			c.ended = e
		}
	})
	return calls, errors.Join(append(faults, err)...)
}

// unanswered reports whether nobody was told the result of the call.
func (c *call) unanswered() bool { return c.ended == nil || c.ended.Error == mayHave }

// history divides calls among executions. Of a claim that nobody was told of,
// only the audit knows what it has claimed; see claims.
func history(calls []*call, audits map[courier.ExecutionID][]courier.AuditEntry, forgetful bool) (map[courier.ExecutionID][]*operation, error) {
	ops := make(map[courier.ExecutionID][]*operation)
	for _, c := range calls {
		for _, o := range c.operations() {
			ops[o.Asked.Execution] = append(ops[o.Asked.Execution], o)
		}
	}
	claimed, err := claims(calls, audits, forgetful)
	for _, o := range claimed {
		ops[o.Asked.Execution] = append(ops[o.Asked.Execution], o)
	}
	for id, list := range ops {
		if forgetful {
			for _, o := range list {
				o.Lease = 0 // the server may have forgotten what it has granted
			}
		}
		ops[id] = reduce(list, audits[id])
	}
	return ops, err
}

// reduce leaves out what an order need not explain, or the search for one takes
// too long: calls that were never answered and had no effect, as the audit
// tells, and all but the first of those that wanted the same. One that was
// made again until it was answered becomes one call with the answer.
func reduce(list []*operation, audit []courier.AuditEntry) []*operation {
	leases := make(map[store.Token]int64) // by the number of their claim
	for _, o := range list {
		if o.Method == "Claim" {
			leases[o.Told.Token] = o.Told.Seq
		}
	}
	type wish struct {
		method string
		asked
	}
	slices.SortStableFunc(list, func(a, b *operation) int { return cmp.Compare(a.Call, b.Call) })
	first := make(map[wish]*operation)
	return slices.DeleteFunc(list, func(o *operation) bool {
		if o.Method != "Apply" && o.Method != "Enqueue" {
			return false
		}
		to := wish{o.Method, o.Asked}
		same := first[to]
		switch {
		case o.Error != mayHave && o.Error != noError:
			return false
		case o.Error == mayHave && o.Method == "Apply" && !written(o, leases[o.Asked.Token], audit):
			return true
		case same == nil:
			first[to] = o
			return false
		case o.Error == mayHave:
			return true
		case o.Method == "Apply" && o.Error == noError && same.Error == mayHave:
			same.Return, same.Until, same.Error = o.Return, o.Until, noError
			return true
		}
		return false
	})
}

// written reports whether the audit has the entries of a transition under the
// lease that began with an entry.
func written(o *operation, lease int64, audit []courier.AuditEntry) bool {
	if o.Asked.Seq > int64(len(audit)) || audit[o.Asked.Seq-1].Worker != o.Process {
		return false
	}
	for seq := o.Asked.Seq; seq > 0; seq-- {
		if e := &audit[seq-1]; e.Step == nil && e.To == string(courier.Running) {
			return seq == lease
		}
	}
	return false
}

// operations returns what the call means for each execution. Reads and renewals
// that were not answered mean nothing.
func (c *call) operations() []*operation {
	if c.begun.Method == "Claim" || c.begun.Method == "RequestChain" {
		return nil
	}
	if c.unanswered() && (c.begun.Method == "Renew" || c.begun.Method == "Execution") {
		return nil
	}
	var list []*operation
	for i := range c.begun.Asked {
		o := &operation{
			Process: c.process, Method: c.begun.Method, Call: c.begun.At, Return: never, Since: c.begun.Wall, Until: never,
			Lease: c.begun.Lease, Asked: c.begun.Asked[i], Error: mayHave,
		}
		if !c.unanswered() {
			o.Return, o.Until, o.Error = c.ended.At, c.ended.Wall, c.ended.Error
		}
		switch {
		case o.Error != noError || o.Method == "Apply":
		case o.Method == "Enqueue":
			o.Told = c.ended.Told[i]
			o.Asked.Execution = o.Told.Execution // another one with the same key may have existed
		case o.Method == "Renew":
			o.Error = leaseLost
			for _, a := range c.ended.Told {
				if a.Execution == o.Asked.Execution {
					o.Told, o.Error = a, noError
				}
			}
		default:
			o.Told = c.ended.Told[0]
		}
		list = append(list, o)
	}
	return list
}

// A claiming is where an audit has a claim.
type claiming struct {
	id  courier.ExecutionID
	seq int64
	by  string
}

// starts reports whether the claim that a part of an audit begins with has
// started a step: in the same instant.
func starts(audit []courier.AuditEntry) bool {
	return len(audit) > 1 && audit[1].Step != nil && audit[1].To == string(courier.StepRunning) && audit[1].At.Equal(audit[0].At)
}

// claims returns an operation for each claim that the audits hold, by the call
// that was told of it, or else by one of the same process that was told nothing,
// the earliest that can have made it. A claim that none can have made is an
// error. So is one of which somebody was told although it is in no audit, but
// where the server was killed and may have forgotten it; then it is followed by
// its loss.
func claims(calls []*call, audits map[courier.ExecutionID][]courier.AuditEntry, forgetful bool) ([]*operation, error) {
	answered, silent := make(map[claiming][]*operation), make(map[string][]*call)
	for _, c := range calls {
		switch {
		case c.begun.Method != "Claim":
		case c.unanswered():
			silent[c.process] = append(silent[c.process], c)
		default:
			for _, a := range c.ended.Told {
				at := claiming{a.Execution, a.Seq, c.process}
				answered[at] = append(answered[at], c.claimed(a))
			}
		}
	}
	var list []*operation
	var faults []error
	for id, audit := range audits {
		for i := range audit {
			e := &audit[i]
			if e.Step != nil || e.To != string(courier.Running) {
				continue
			}
			at := claiming{id, e.Seq, e.Worker}
			var o *operation
			if list := answered[at]; len(list) > 0 {
				o, answered[at] = list[len(list)-1], list[:len(list)-1]
			} else if c := first(silent[e.Worker], e.At); c != nil {
				o = c.claimed(told{Execution: id, Token: store.Token(fmt.Sprintf("of %s at %d", e.Worker, e.Seq)), Seq: e.Seq, Started: starts(audit[i:])})
			} else {
				faults = append(faults, fmt.Errorf("execution %s: entry %d says that %s claimed it, which it did not", id, e.Seq, e.Worker))
				continue
			}
			o.Since, o.Until = e.At.UnixNano(), e.At.UnixNano()
			list = append(list, o)
		}
	}
	for at, more := range answered {
		for _, o := range more {
			if !forgetful {
				faults = append(faults, fmt.Errorf("execution %s: %s was told that its claim is entry %d, which it is not", at.id, at.by, at.seq))
				continue
			}
			lost := *o
			lost.Method, lost.Return, lost.Until = loss, never, never
			list = append(list, o, &lost)
		}
	}
	return list, errors.Join(faults...)
}

// first returns the first of the calls that can have been carried out at an
// instant; nil if there is none.
func first(calls []*call, at time.Time) *call {
	if len(calls) > 0 && calls[0].begun.Wall <= at.UnixNano()+slack {
		return calls[0]
	}
	return nil
}

// claimed is a claim of an execution.
func (c *call) claimed(a told) *operation {
	o := &operation{
		Process: c.process, Method: "Claim", Call: c.begun.At, Return: never, Since: c.begun.Wall, Until: never,
		Lease: c.begun.Lease, Asked: asked{Execution: a.Execution}, Told: a, Error: mayHave,
	}
	if !c.unanswered() {
		o.Return, o.Until, o.Error = c.ended.At, c.ended.Wall, noError
	}
	return o
}

// slack is by how much the server's instants, which are cut to microseconds,
// may be before those of its clients.
const slack = int64(time.Millisecond)
