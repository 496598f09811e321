package storekit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// Long is a lease or a delay that does not pass during a case.
const Long = time.Hour

// A Kit is what a case works with: the store, and the common moves. What a move
// does not expect ends the case.
type Kit struct {
	*testing.T
	store.Store
	Unit      time.Duration // of the leases and delays that cases let pass
	Virtual   bool          // time is virtual, so that no call takes long
	MaxOutput int           // bytes of outputs that a transition may have; 0 if there is no limit
	IDs       uuid7.Source
}

// Ctx is the context of the case. It ends with the case.
func (k *Kit) Ctx() context.Context { return k.Context() }

// OK ends the case unless err is nil.
func (k *Kit) OK(err error) {
	if err != nil {
		k.Helper()
		k.Fatalf("unexpected error: %v", err)
	}
}

// Is reports an error other than the wanted one.
func (k *Kit) Is(what string, err, want error) {
	if !errors.Is(err, want) {
		k.Helper()
		k.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// Same reports values whose JSON differs.
func (k *Kit) Same(what string, got, want any) {
	if g, w := Text(got), Text(want); g != w {
		k.Helper()
		k.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
	}
}

// Text is the value as JSON. An empty list is nil.
func Text(v any) string {
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

// Pass lets d go by.
func (k *Kit) Pass(d time.Duration) { time.Sleep(d) }

// Job saves the first version of a job, if there is none.
func (k *Kit) Job(name string) store.Definition {
	k.Helper()
	d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: name, Body: json.RawMessage(`{"name": "` + name + `"}`)})
	k.OK(err)
	return d
}

// New is an execution of the job "job" that can be created.
func (k *Kit) New() store.NewExecution {
	k.Helper()
	k.Job("job")
	return store.NewExecution{
		ID: courier.ExecutionID(k.IDs.New()), Job: "job", Version: 1,
		StepTypes: []string{"a", "b"}, Queue: courier.DefaultQueue,
	}
}

// With is New with changes.
func (k *Kit) With(change func(*store.NewExecution)) store.NewExecution {
	k.Helper()
	n := k.New()
	change(&n)
	return n
}

// Add creates executions that do not exist.
func (k *Kit) Add(list ...store.NewExecution) []courier.Execution {
	k.Helper()
	got, err := k.Enqueue(k.Ctx(), list)
	k.OK(err)
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

// ClaimRequest is what a worker that can do everything in the default queue claims.
func (k *Kit) ClaimRequest(max int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: "worker", Workspace: "here", StepTypes: []string{"a", "b", "c", store.FinallyType},
		Queues: []string{courier.DefaultQueue}, Max: max, Lease: Long,
	}
}

// MustClaim claims.
func (k *Kit) MustClaim(r store.ClaimRequest) []store.Claimed {
	k.Helper()
	c, err := k.Claim(k.Ctx(), r)
	k.OK(err)
	return c.List
}

// Claimed claims and reports when it gets others than the wanted ones, in
// their order.
func (k *Kit) Claimed(what string, r store.ClaimRequest, want ...courier.ExecutionID) []store.Claimed {
	k.Helper()
	list := k.MustClaim(r)
	got := make([]courier.ExecutionID, len(list))
	for i := range list {
		got[i] = list[i].Execution.ID
	}
	k.Same(what, got, want)
	return list
}

// Get returns an execution that exists.
func (k *Kit) Get(id courier.ExecutionID) courier.Execution {
	k.Helper()
	e, err := k.Execution(k.Ctx(), id)
	k.OK(err)
	return e
}

// State reports an execution that is in another state.
func (k *Kit) State(id courier.ExecutionID, want courier.State) {
	k.Helper()
	if e := k.Get(id); e.State != want {
		k.Errorf("execution is %s, want %s", e.State, want)
	}
}

// Ask makes a request that must be possible.
func (k *Kit) Ask(id courier.ExecutionID, kind courier.RequestKind) courier.Execution {
	k.Helper()
	e, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind, By: "ann"})
	k.OK(err)
	return e
}

// Limit sets the limit of a scope.
func (k *Kit) Limit(scope, n string) {
	k.Helper()
	k.OK(k.Set(k.Ctx(), store.LimitSetting(scope), n))
}

// AuditOf returns all audit entries of an execution.
func (k *Kit) AuditOf(id courier.ExecutionID) []courier.AuditEntry {
	k.Helper()
	list, err := k.Audit(k.Ctx(), store.AuditFilter{Execution: id})
	k.OK(err)
	return list
}

// Records returns all records of an execution.
func (k *Kit) Records(id courier.ExecutionID) []courier.StepExecution {
	k.Helper()
	list, err := k.Steps(k.Ctx(), store.StepFilter{Execution: id})
	k.OK(err)
	return list
}

// LatestOf returns the latest records of an execution.
func (k *Kit) LatestOf(id courier.ExecutionID) []courier.StepExecution {
	k.Helper()
	list, err := k.Latest(k.Ctx(), store.LatestFilter{Execution: id})
	k.OK(err)
	return list
}

// Moves writes audit entries as text, one "from>to" for a change of the
// execution and one "step:from>to" for a step's.
func Moves(entries []courier.AuditEntry) string {
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
func (k *Kit) snapshot(id courier.ExecutionID) string {
	k.Helper()
	return Text([]any{Text(k.Get(id)), k.Records(id), k.LatestOf(id), k.AuditOf(id)})
}

// Unchanged reports an execution that f changed.
func (k *Kit) Unchanged(what string, id courier.ExecutionID, f func()) {
	k.Helper()
	before := k.snapshot(id)
	f()
	if after := k.snapshot(id); after != before {
		k.Errorf("%s changed the execution:\nfrom %s\nto   %s", what, before, after)
	}
}

// All returns all executions, newest first.
func (k *Kit) All() []courier.Execution {
	k.Helper()
	var all []courier.Execution
	f := store.Filter{Limit: 1000}
	for {
		list, err := k.Executions(k.Ctx(), f)
		k.OK(err)
		all = append(all, list...)
		if len(list) < f.Limit {
			return all
		}
		f.Before = list[len(list)-1].ID
	}
}

// checkAll checks what holds for every execution at any time. Of those that were only
// created it takes the newest.
func (k *Kit) checkAll() {
	k.Helper()
	created := 0
	for _, e := range k.All() {
		if e.Seq == 1 {
			if created++; created > 50 {
				continue
			}
		}
		if err := CheckExecution(k.Ctx(), k.Store, e.ID); err != nil {
			k.Error(err)
		}
	}
}

// Mark returns the mark of a claim that finds nothing.
func (k *Kit) Mark() uint64 {
	k.Helper()
	r := k.ClaimRequest(0)
	c, err := k.Claim(k.Ctx(), r)
	k.OK(err)
	return c.Mark
}

// Wakes reports when f does not wake one that waits for two queues.
func (k *Kit) Wakes(f func()) {
	k.Helper()
	mark := k.Mark()
	ctx, cancel := context.WithTimeout(k.Ctx(), Long)
	defer cancel()
	woken := make(chan error)
	go func() { woken <- k.Await(ctx, []string{"night", courier.DefaultQueue}, mark) }()
	k.Pass(k.Unit / 10)
	f()
	select {
	case err := <-woken:
		k.OK(err)
	case <-time.After(20 * k.Unit):
		k.Errorf("not awake after %v", 20*k.Unit)
		cancel()
		<-woken
	}
}

// Existing enqueues n, of which there must be one already.
func (k *Kit) Existing(n store.NewExecution) courier.Execution {
	k.Helper()
	got, err := k.Enqueue(k.Ctx(), []store.NewExecution{n})
	k.OK(err)
	if len(got) != 1 || !got[0].Existed {
		k.Fatalf("enqueued %s, want the existing one", Text(got))
	}
	return got[0].Execution
}

// Refused enqueues what must be refused, and nothing of it created.
func (k *Kit) Refused(what string, want error, list ...store.NewExecution) {
	k.Helper()
	before := k.All()
	_, err := k.Enqueue(k.Ctx(), list)
	k.Is(what, err, want)
	k.Same(what+": executions", k.All(), before)
}

// At calls f n times at once.
func (k *Kit) At(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// Change returns a change for an execution as it is.
func (k *Kit) Change(id courier.ExecutionID) *store.Change {
	k.Helper()
	return &store.Change{Seq: k.Get(id).Seq}
}

// TryChange resumes an execution with a change.
func (k *Kit) TryChange(id courier.ExecutionID, c *store.Change) error {
	_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob", Change: c})
	return err
}

// Changed is TryChange for a change that must be possible.
func (k *Kit) Changed(id courier.ExecutionID, c *store.Change) courier.Execution {
	k.Helper()
	k.OK(k.TryChange(id, c))
	return k.Get(id)
}

// Skipped is the record of a step that is skipped.
func Skipped(i int) *courier.StepExecution {
	return &courier.StepExecution{Step: i, Type: "a", Attempt: 1, State: courier.StepSkipped}
}

// SaveAll saves versions of a definition.
func (k *Kit) SaveAll(kind store.Kind, name string, bodies ...string) {
	k.Helper()
	for _, body := range bodies {
		_, err := k.Save(k.Ctx(), store.Definition{Kind: kind, Name: name, Body: json.RawMessage(body)})
		k.OK(err)
	}
}
