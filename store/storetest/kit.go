package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// long is a lease or a delay that does not pass during a case.
const long = time.Hour

// A kit is what a case works with: the store, and the common moves. What a move
// does not expect ends the case.
type kit struct {
	*testing.T
	store.Store
	unit    time.Duration
	virtual bool // time is virtual, so that no call takes long
	most    int  // bytes of outputs that a transition may have; 0 if there is no limit
	ids     uuid7.Source
}

func (k *kit) ctx() context.Context { return k.Context() }

// ok ends the case unless err is nil.
func (k *kit) ok(err error) {
	if err != nil {
		k.Helper()
		k.Fatalf("unexpected error: %v", err)
	}
}

// is reports an error other than the wanted one.
func (k *kit) is(what string, err, want error) {
	if !errors.Is(err, want) {
		k.Helper()
		k.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// same reports values whose JSON differs.
func (k *kit) same(what string, got, want any) {
	if g, w := text(got), text(want); g != w {
		k.Helper()
		k.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
	}
}

// text is the value as JSON. An empty list is nil.
func text(v any) string {
	switch e := v.(type) {
	case courier.Execution:
		v = struct {
			courier.Execution
			Timeout time.Duration
		}{e, e.Timeout}
	case error:
		v = e.Error()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", v, err)
	}
	if string(b) == "[]" {
		return "null"
	}
	return string(b)
}

// pass lets d go by.
func (k *kit) pass(d time.Duration) { time.Sleep(d) }

// job saves the first version of a job, if there is none.
func (k *kit) job(name string) store.Definition {
	k.Helper()
	d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: name, Body: json.RawMessage(`{"name": "` + name + `"}`)})
	k.ok(err)
	return d
}

// new is an execution of the job "job" that can be created.
func (k *kit) new() store.NewExecution {
	k.Helper()
	k.job("job")
	return store.NewExecution{
		ID: courier.ExecutionID(k.ids.New()), Job: "job", Version: 1,
		StepTypes: []string{"a", "b"}, Queue: courier.DefaultQueue,
	}
}

// with is k.new with changes.
func (k *kit) with(change func(*store.NewExecution)) store.NewExecution {
	k.Helper()
	n := k.new()
	change(&n)
	return n
}

// add creates executions that do not exist.
func (k *kit) add(list ...store.NewExecution) []courier.Execution {
	k.Helper()
	got, err := k.Enqueue(k.ctx(), list)
	k.ok(err)
	if len(got) != len(list) {
		k.Fatalf("%d results for %d executions", len(got), len(list))
	}
	executions := make([]courier.Execution, len(got))
	for i := range got {
		if executions[i] = got[i].Execution; got[i].Existed {
			k.Fatalf("execution %s existed before", executions[i].ID)
		}
	}
	return executions
}

// request is what a worker that can do everything in the default queue claims.
func (k *kit) request(max int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: "worker", Workspace: "here", StepTypes: []string{"a", "b", "c"},
		Queues: []string{courier.DefaultQueue}, Max: max, Lease: long,
	}
}

// claim claims.
func (k *kit) claim(r store.ClaimRequest) []store.Claimed {
	k.Helper()
	c, err := k.Claim(k.ctx(), r)
	k.ok(err)
	return c.List
}

// claimed claims and reports when it gets others than the wanted ones, in
// their order.
func (k *kit) claimed(what string, r store.ClaimRequest, want ...courier.ExecutionID) []store.Claimed {
	k.Helper()
	list := k.claim(r)
	got := make([]courier.ExecutionID, len(list))
	for i := range list {
		got[i] = list[i].Execution.ID
	}
	k.same(what, got, want)
	return list
}

// A holder is a worker's lease of one execution, with the result of the claim.
type holder struct {
	k *kit
	store.Claimed
	seq int64
}

// hold claims one execution for as long as a lease lasts.
func (k *kit) hold(id courier.ExecutionID, lease time.Duration) *holder {
	k.Helper()
	return k.holdBy(k.request(1).Worker, id, lease)
}

// holdBy is hold for a worker.
func (k *kit) holdBy(worker string, id courier.ExecutionID, lease time.Duration) *holder {
	k.Helper()
	r := k.request(1)
	r.Worker, r.Only, r.Lease = worker, []courier.ExecutionID{id}, lease
	list := k.claim(r)
	if len(list) != 1 {
		k.Fatalf("execution %s could not be claimed: %s", id, text(k.get(id)))
	}
	return &holder{k, list[0], list[0].Seq}
}

// start creates an execution and claims it.
func (k *kit) start() *holder {
	k.Helper()
	return k.hold(k.add(k.new())[0].ID, long)
}

// lose creates an execution and claims it with a lease that has expired when
// lose returns. If steps are given, the worker starts and ends them in turn,
// all but the last, which it is executing when it is lost.
func (k *kit) lose(steps ...int) *holder {
	k.Helper()
	h := k.hold(k.add(k.new())[0].ID, k.unit)
	for i, s := range steps {
		if i > 0 {
			h.must(h.next(steps[i-1], s))
		} else {
			h.must(h.begin(s))
		}
	}
	k.pass(2 * k.unit)
	return h
}

// again claims an execution whose lease has expired, by another worker.
func (k *kit) again(id courier.ExecutionID) *holder {
	k.Helper()
	return k.holdBy("another worker", id, long)
}

func (h *holder) id() courier.ExecutionID { return h.Execution.ID }

// to is a transition to a state that does nothing else.
func (h *holder) to(s courier.State) store.Transition {
	return store.Transition{Execution: h.id(), Lease: h.Token, Seq: h.seq + 1, To: s}
}

// step is an attempt of a step.
func step(i int) courier.StepExecution {
	return courier.StepExecution{Step: i, Type: "a", Attempt: 1}
}

// ended is an attempt that was completed.
func ended(i int) courier.StepExecution {
	s := step(i)
	s.State = courier.StepCompleted
	return s
}

// begin is the transition that starts a step.
func (h *holder) begin(i int) store.Transition {
	t := h.to(courier.Running)
	s := step(i)
	t.Start, t.Position.Step = &s, i
	return t
}

// finish is the transition that ends the present step.
func (h *holder) finish(i int) store.Transition {
	t := h.to(courier.Running)
	t.Ended, t.Position.Step = []courier.StepExecution{ended(i)}, i+1
	return t
}

// next is the transition that ends the present step and starts another.
func (h *holder) next(i, j int) store.Transition {
	t := h.begin(j)
	t.Ended = []courier.StepExecution{ended(i)}
	return t
}

// try applies t and counts its entries if it was written.
func (h *holder) try(t store.Transition) error {
	h.k.Helper()
	before := h.k.get(h.id())
	err := h.k.Apply(h.k.ctx(), t)
	if err == nil && t.Seq == h.seq+1 {
		h.seq += int64(len(t.Entries(before.Current, "")))
	}
	return err
}

// must applies t, which must be possible.
func (h *holder) must(t store.Transition) {
	h.k.Helper()
	h.k.ok(h.try(t))
}

// get returns an execution that exists.
func (k *kit) get(id courier.ExecutionID) courier.Execution {
	k.Helper()
	e, err := k.Execution(k.ctx(), id)
	k.ok(err)
	return e
}

// state reports an execution that is in another state.
func (k *kit) state(id courier.ExecutionID, want courier.State) {
	k.Helper()
	if e := k.get(id); e.State != want {
		k.Errorf("execution is %s, want %s", e.State, want)
	}
}

// ask makes a request that must be possible.
func (k *kit) ask(id courier.ExecutionID, kind courier.RequestKind) courier.Execution {
	k.Helper()
	e, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: kind, By: "ann"})
	k.ok(err)
	return e
}

// limit sets the limit of a scope.
func (k *kit) limit(scope, n string) {
	k.Helper()
	k.ok(k.Set(k.ctx(), store.LimitSetting(scope), n))
}

// audit returns all audit entries of an execution.
func (k *kit) audit(id courier.ExecutionID) []courier.AuditEntry {
	k.Helper()
	list, err := k.Audit(k.ctx(), store.AuditFilter{Execution: id})
	k.ok(err)
	return list
}

// records returns all records of an execution.
func (k *kit) records(id courier.ExecutionID) []courier.StepExecution {
	k.Helper()
	list, err := k.Steps(k.ctx(), store.StepFilter{Execution: id})
	k.ok(err)
	return list
}

// latest returns the latest records of an execution.
func (k *kit) latest(id courier.ExecutionID) []courier.StepExecution {
	k.Helper()
	list, err := k.Latest(k.ctx(), store.LatestFilter{Execution: id})
	k.ok(err)
	return list
}

// moves writes audit entries as text, one "from>to" for a change of the
// execution and one "step:from>to" for a step's.
func moves(entries []courier.AuditEntry) string {
	var b strings.Builder
	for _, e := range entries {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if e.Step != nil {
			fmt.Fprintf(&b, "%d:", *e.Step)
		}
		b.WriteString(e.From + ">" + e.To)
	}
	return b.String()
}

// snapshot is all that is known of an execution.
func (k *kit) snapshot(id courier.ExecutionID) string {
	k.Helper()
	return text([]any{text(k.get(id)), k.records(id), k.latest(id), k.audit(id)})
}

// unchanged reports an execution that f changed.
func (k *kit) unchanged(what string, id courier.ExecutionID, f func()) {
	k.Helper()
	before := k.snapshot(id)
	f()
	if after := k.snapshot(id); after != before {
		k.Errorf("%s changed the execution:\nfrom %s\nto   %s", what, before, after)
	}
}

// all returns all executions, newest first.
func (k *kit) all() []courier.Execution {
	k.Helper()
	var all []courier.Execution
	f := store.Filter{Limit: 1000}
	for {
		list, err := k.Executions(k.ctx(), f)
		k.ok(err)
		all = append(all, list...)
		if len(list) < f.Limit {
			return all
		}
		f.Before = list[len(list)-1].ID
	}
}

// checkAll checks what holds for every execution at any time.
func (k *kit) checkAll() {
	k.Helper()
	for _, e := range k.all() {
		if err := CheckExecution(k.ctx(), k.Store, e.ID); err != nil {
			k.Error(err)
		}
	}
}
