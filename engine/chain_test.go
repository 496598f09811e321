package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// A chainWorld is an engine with step types for chains of small jobs.
type chainWorld struct {
	t *testing.T
	*engine.Engine
	store *memstore.Store
	reg   *courier.Registry

	mu   sync.Mutex
	fail map[string]bool          // jobs whose step fails
	gate map[string]chan struct{} // jobs whose step waits
	ran  []string
}

type chainStep struct {
	Text string `json:"text"`
	List []any  `json:"list,omitempty"`
}

// newChains returns a started engine. Jobs called a, b, c ... have one step, which
// waits and fails as the world says, and gives {"text": <name of the job>}.
func newChains(t *testing.T) *chainWorld {
	w := &chainWorld{t: t, store: memstore.New(), reg: new(courier.Registry), fail: make(map[string]bool), gate: make(map[string]chan struct{})}
	courier.RegisterFunc(w.reg, "demo.do", func(ctx context.Context, job *courier.Context, cfg struct {
		In any `json:"in"`
	}) (chainStep, error) {
		return w.work(ctx, job.Job())
	}, nil)
	courier.RegisterFunc(w.reg, "demo.take", func(_ context.Context, job *courier.Context, cfg chainStep) (chainStep, error) {
		return cfg, nil
	}, nil)
	w.Engine = engine.New(w.store, w.reg, &engine.Options{Workspace: t.TempDir()})
	for _, name := range strings.Fields("a b c d e") {
		w.define(`{"name": "` + name + `", "steps": [{"id": "do", "type": "demo.do"}]}`)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	return w
}

func (w *chainWorld) work(ctx context.Context, name string) (chainStep, error) {
	w.mu.Lock()
	gate, fail := w.gate[name], w.fail[name]
	w.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return chainStep{}, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, name)
	if fail {
		return chainStep{}, errors.New(name + " broke")
	}
	return chainStep{Text: name}, nil
}

// hold makes the steps of a job wait until the returned function is called.
func (w *chainWorld) hold(name string) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{})
	w.gate[name] = c
	return sync.OnceFunc(func() { close(c) })
}

func (w *chainWorld) fails(name string, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[name] = fails
}

func (w *chainWorld) define(text string) {
	w.t.Helper()
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Jobs().Define(w.t.Context(), job, nil); err != nil {
		w.t.Fatal(err)
	}
}

// chain defines a chain and starts it.
func (w *chainWorld) chain(members string, opt *chain.StartOptions) courier.ChainExecutionID {
	w.t.Helper()
	c := readChain(w.t, `{"name": "chain", "members": `+members+`}`)
	if _, err := w.Chains().Define(w.t.Context(), c, nil); err != nil {
		w.t.Fatal(err)
	}
	x, err := w.Chains().Start(w.t.Context(), "chain", opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.ID
}

func readChain(t *testing.T, text string) chain.Chain {
	t.Helper()
	var c chain.Chain
	if err := c.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends waits for a chain execution and reports another end than the wanted
// one, written as "completed: a=completed b=skipped".
func (w *chainWorld) ends(id courier.ChainExecutionID, want string) chain.Execution {
	w.t.Helper()
	x, err := w.Chains().Wait(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(x, want)
	if x.EndedAt.IsZero() {
		w.t.Error("it has ended, but not told when")
	}
	return x
}

func (w *chainWorld) is(x chain.Execution, want string) {
	w.t.Helper()
	if got := chainText(&x); got != want {
		w.t.Errorf("chain execution is %s\nwant               %s", got, want)
	}
}

// stands reports a chain execution that stands otherwise, when nothing moves any
// more.
func (w *chainWorld) stands(id courier.ChainExecutionID, want string) chain.Execution {
	w.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	x, err := w.Chains().Execution(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(x, want)
	return x
}

func chainText(x *chain.Execution) string {
	var b strings.Builder
	b.WriteString(string(x.State) + ":")
	for _, m := range x.Members {
		b.WriteString(" " + m.Name + "=" + string(m.State))
	}
	return b.String()
}

// inChains runs a test in a bubble of virtual time.
func inChains(t *testing.T, f func(w *chainWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newChains(t)
		f(w)
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestChainInARow(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		w.define(`{"name": "take", "steps": [
			{"id": "take", "type": "demo.take", "config": {"text": "<${context:chain.a.text}>", "list": ["context:chain.a"]}}]}`)
		id := w.chain(`[{"job": "a"}, {"name": "second", "job": "take", "depends_on": ["a"]}]`, &chain.StartOptions{By: courier.By{Actor: "ann"}})
		x := w.ends(id, "completed: a=completed second=completed")
		second, err := w.Executions().Get(w.t.Context(), x.Member("second").Execution)
		if err != nil || second.Chain != id || second.Member != "second" || second.By != "ann" {
			w.t.Errorf("the execution of the second member is %+v, %v", second, err)
		}
		v, err := w.Executions().Values(w.t.Context(), second.ID)
		if err != nil || v["take.text"] != "<a>" {
			w.t.Errorf("values %v, %v", v, err)
		}
		if err := x.Err(); err != nil {
			w.t.Error(err)
		}
		list, err := w.Chains().Executions(w.t.Context(), chain.Filter{Chain: "chain", States: []chain.State{chain.Completed}})
		if err != nil || len(list) != 1 || list[0].ID != id {
			w.t.Errorf("listed %v, %v", list, err)
		}
	})
}

func TestChainRules(t *testing.T) {
	for name, c := range map[string]struct{ members, fail, want string }{
		"a failure skips what depends on it": {
			`[{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"job": "c", "depends_on": ["b"]}]`, "a",
			"failed: a=failed b=skipped c=skipped",
		},
		"a clean-up runs, and the chain has failed": {
			`[{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"job": "c", "depends_on": [{"member": "b", "run_on_failure": true}]}]`, "a",
			"failed: a=failed b=skipped c=completed",
		},
		"a failure that nobody minds": {
			`[{"job": "a"}, {"job": "b", "depends_on": [{"member": "a", "required_status": "any"}]}]`, "a",
			"completed: a=failed b=completed",
		},
		"a diamond, and one job twice": {
			`[{"name": "top", "job": "a"}, {"job": "b", "depends_on": ["top"]}, {"job": "c", "depends_on": ["top"]},
			{"name": "bottom", "job": "a", "depends_on": ["b", "c"]}]`, "",
			"completed: top=completed b=completed c=completed bottom=completed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inChains(t, func(w *chainWorld) {
				w.fails(c.fail, true)
				x := w.ends(w.chain(c.members, nil), c.want)
				if failed := strings.HasPrefix(c.want, "failed"); (x.Err() != nil) != failed {
					w.t.Errorf("error %v", x.Err())
				} else if failed && x.Err().Error() != `chain "chain": member "a": a broke` {
					w.t.Errorf("error %q", x.Err())
				}
			})
		})
	}
}

func TestChainKeepsVersions(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		release := w.hold("a")
		id := w.chain(`[{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"name": "old", "job": "b", "version": 1, "depends_on": ["b"]}]`, nil)
		w.define(`{"name": "b", "steps": [{"id": "do", "type": "demo.do", "config": {"in": 2}}]}`)
		release()
		x := w.ends(id, "completed: a=completed b=completed old=completed")
		if x.Members[1].Version != 1 {
			w.t.Errorf("b ran version %d", x.Members[1].Version)
		}
		next, err := w.Chains().Start(w.t.Context(), "chain", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		x = w.ends(next.ID, "completed: a=completed b=completed old=completed")
		if x.Members[1].Version != 2 || x.Members[2].Version != 1 {
			w.t.Errorf("versions of %+v", x.Members)
		}
	})
}

const threeMembers = `[{"job": "a"}, {"job": "b"}, {"job": "c", "depends_on": ["a", "b"]}]`

func TestChainPauseAndResume(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		release := w.hold("a")
		id := w.chain(threeMembers, nil)
		w.stands(id, "running: a=running b=completed c=pending")
		ctx := w.t.Context()
		if _, err := w.Chains().Pause(ctx, id, courier.By{Actor: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		release() // the step is the last one, so it completes
		w.stands(id, "paused: a=completed b=completed c=pending")
		if _, err := w.Chains().Retry(ctx, id, courier.By{Actor: "ann"}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "it can be resumed or cancelled") {
			w.t.Errorf("retry: %v", err)
		}
		if _, err := w.Chains().Resume(ctx, id, courier.By{Actor: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		w.ends(id, "completed: a=completed b=completed c=completed")
		if _, err := w.Chains().Cancel(ctx, id, courier.By{Actor: "ann"}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "its state is final") {
			w.t.Errorf("cancel: %v", err)
		}
	})
}

func TestChainCancelReachesRunningSteps(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		w.hold("a")
		id := w.chain(threeMembers, nil)
		w.stands(id, "running: a=running b=completed c=pending")
		begun := time.Now()
		if _, err := w.Chains().Cancel(w.t.Context(), id, courier.By{Actor: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		x := w.ends(id, "cancelled: a=cancelled b=completed c=skipped")
		if took := time.Since(begun); took > time.Second {
			w.t.Errorf("it took %v", took)
		}
		if !errors.Is(x.Err(), courier.ErrCancelled) {
			w.t.Errorf("error %v", x.Err())
		}
	})
}

func TestChainRetry(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		w.fails("b", true)
		id := w.chain(threeMembers, nil)
		w.ends(id, "failed: a=completed b=failed c=skipped")
		w.fails("b", false)
		if _, err := w.Chains().Retry(w.t.Context(), id, courier.By{Actor: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		w.ends(id, "completed: a=completed b=completed c=completed")
		if got := strings.Join(w.ran[2:], " "); got != "b c" {
			w.t.Errorf("after the retry %q ran", got)
		}
	})
}

func TestChainHold(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		id := w.chain(`[{"job": "a"}]`, &chain.StartOptions{Hold: true})
		w.stands(id, "pending: a=pending")
		if _, err := w.Chains().Pause(w.t.Context(), id, courier.By{Actor: "ann"}); !errors.Is(err, courier.ErrConflict) {
			w.t.Errorf("pause: %v", err)
		}
		if _, err := w.Chains().Release(w.t.Context(), id, courier.By{Actor: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		w.ends(id, "completed: a=completed")
	})
}

// TestChainMemberRetriesTheJob checks that a member which starts over keeps the
// chain waiting.
func TestChainMemberRetriesTheJob(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		w.define(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 2, "backoff_base_seconds": 60}, "steps": [{"type": "demo.do"}]}`)
		w.fails("a", true)
		id := w.chain(`[{"job": "a"}, {"job": "b", "depends_on": ["a"]}]`, nil)
		w.stands(id, "running: a=queued b=pending")
		w.fails("a", false)
		x := w.ends(id, "completed: a=completed b=completed")
		e, err := w.Executions().Get(w.t.Context(), x.Members[0].Execution)
		if err != nil || e.Attempt != 2 || e.Chain != id {
			w.t.Errorf("execution %+v, %v", e, err)
		}
	})
}

// TestChainValuesOfAFailedMember checks that a clean-up reads what a failed member
// has completed, and that what is not there is said.
func TestChainValuesOfAFailedMember(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		w.define(`{"name": "half", "steps": [{"type": "demo.take", "config": {"text": "left"}}, {"type": "demo.do"}]}`)
		w.define(`{"name": "clean", "steps": [{"type": "demo.take", "config": {"text": "context:chain.half.text"}},
			{"type": "flow.if", "config": {"left": "context:chain.b.text", "operator": "exists"}}, {"type": "demo.do"}, {"type": "flow.end"}]}`)
		w.fails("half", true)
		id := w.chain(`[{"job": "half"}, {"job": "b", "depends_on": ["half"]},
			{"job": "clean", "depends_on": [{"member": "b", "run_on_failure": true}]}]`, nil)
		x := w.ends(id, "failed: half=failed b=skipped clean=completed")
		v, err := w.Executions().Values(w.t.Context(), x.Member("clean").Execution)
		if err != nil || v["0.text"] != "left" || v["2.text"] != nil {
			w.t.Errorf("values %v, %v", v, err)
		}
		alone, err := w.Enqueue(w.t.Context(), "clean", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		alone, err = w.Wait(w.t.Context(), alone.ID)
		if err != nil || alone.State != courier.Failed || !strings.Contains(alone.Failure.Message, "chain.half") {
			w.t.Errorf("outside of a chain: %+v, %v", alone.Failure, err)
		}
	})
}

func TestDefineChainSavesVersions(t *testing.T) {
	w := newChains(t)
	text := `{"name": "c", "description": "nightly", "members": [{"job": "a"}, {"job": "b", "depends_on": ["a"]}]}`
	for i, want := range []int{1, 1, 2} {
		c := readChain(t, text)
		if i == 2 {
			c.Members[1].DependsOn[0].RunOnFailure = true
		}
		got, err := w.Chains().Define(t.Context(), c, nil)
		if err != nil || got.Chain.Version != want {
			t.Fatalf("version %d, %v; want %d", got.Chain.Version, err, want)
		}
	}
	c, err := w.Chains().Get(t.Context(), "c", 1)
	if err != nil || c.Version != 1 || c.Description != "nightly" || c.Members[0].Name != "a" || c.Members[1].DependsOn[0].RunOnFailure {
		t.Errorf("version 1 is %+v, %v", c, err)
	}
	if _, err := w.Chains().Start(t.Context(), "cc", nil); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "c"?`) {
		t.Errorf("unknown chain: %v", err)
	}
	bad := readChain(t, `{"name": "bad", "members": [{"job": "aa"}]}`)
	if _, err := w.Chains().Define(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), `members[0] "aa": job: there is no job "aa"; did you mean "a"?`) {
		t.Errorf("a job that is not there: %v", err)
	}
	if _, err := w.Chains().Get(t.Context(), "bad", 0); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("it was saved: %v", err)
	}
	if _, err := w.Chains().Get(t.Context(), "c", 3); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), "the latest is 2") {
		t.Errorf("version 3: %v", err)
	}
}

// TestChainSurvivesFaults has a store that fails, hangs or dies at the n-th call of
// an engine that starts a chain and works on it, for all n, while another engine
// stands by. The chain ends as it should, and each member has run once, but for
// the one that was interrupted.
func TestChainSurvivesFaults(t *testing.T) {
	for _, kind := range storewrap.FaultKinds {
		for n := 1; ; n++ {
			hit := false
			synctest.Test(t, func(t *testing.T) { hit = survives(t, storewrap.Fault{Kind: kind, N: n}) })
			if !hit {
				if n < 15 {
					t.Errorf("%v: there were only %d calls", kind, n)
				}
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

// survives runs a chain with a fault, and reports whether that happened.
func survives(t *testing.T, f storewrap.Fault) bool {
	w := newChains(t) // stands by
	w.fails("b", true)
	w.define(`{"name": "take", "steps": [{"type": "demo.take", "config": {"text": "context:chain.a.text"}}]}`)
	c := readChain(t, `{"name": "chain", "members": [{"job": "a"}, {"job": "b"}, {"name": "take", "job": "take", "depends_on": ["a"]},
		{"job": "c", "depends_on": ["take", "b"]}, {"job": "d", "depends_on": [{"member": "c", "run_on_failure": true}]}]}`)
	if _, err := w.Chains().Define(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	faulty := storewrap.NewFaulty(w.store, f)
	first := engine.New(faulty, w.reg, &engine.Options{Workspace: t.TempDir()})
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	x, err := first.Chains().Start(ctx, "chain", &chain.StartOptions{IdempotencyKey: "once"})
	cancel()
	if err == nil {
		time.Sleep(5 * time.Second)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err != nil { // whoever wanted it starts it again
		if x, err = w.Chains().Start(t.Context(), "chain", &chain.StartOptions{IdempotencyKey: "once"}); err != nil {
			t.Fatalf("%v: %v", f, err)
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	x, err = w.Chains().Wait(ctx, x.ID)
	if err != nil {
		t.Errorf("%v (%s): %v: %s", f, faulty.Hit(), err, chainText(&x))
	}
	if got, want := chainText(&x), "failed: a=completed b=failed take=completed c=skipped d=completed"; got != want {
		t.Errorf("%v (%s): %s, want %s", f, faulty.Hit(), got, want)
	}
	all, err := w.Executions().List(t.Context(), store.Filter{})
	if err != nil || len(all) != 4 {
		t.Errorf("%v (%s): %d executions of 4 members, %v", f, faulty.Hit(), len(all), err)
	}
	for _, e := range all {
		if err := storetest.CheckExecution(t.Context(), w.store, e.ID); err != nil {
			t.Errorf("%v (%s): %v", f, faulty.Hit(), err)
		}
	}
	faulty.Release()
	for _, e := range []*engine.Engine{first, w.Engine} {
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return faulty.Hit() != ""
}

// TestChainLabels checks that all executions of a chain's members have its labels and its
// trace context, and that a rerun keeps the labels.
func TestChainLabels(t *testing.T) {
	inChains(t, func(w *chainWorld) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		labels := map[string]string{"partner": "acme"}
		id := w.chain(threeMembers, &chain.StartOptions{Labels: labels, Trace: trace})
		labels["partner"] = "changed by the caller"
		w.ends(id, "completed: a=completed b=completed c=completed")
		again, err := w.Chains().Rerun(w.t.Context(), id, nil)
		if err != nil || again.Labels["partner"] != "acme" || again.Trace != "" {
			w.t.Errorf("again %+v, %v", again, err)
		}
		w.ends(again.ID, "completed: a=completed b=completed c=completed")
		list, err := w.Executions().List(w.t.Context(), store.Filter{Labels: map[string]string{"partner": "acme"}})
		traced := 0
		for _, x := range list {
			if x.Trace == trace && x.Chain == id {
				traced++
			}
		}
		if err != nil || len(list) != 6 || traced != 3 {
			w.t.Errorf("%d executions have the label, %d the trace; %v", len(list), traced, err)
		}
		_, err = w.Chains().Start(w.t.Context(), again.Chain, &chain.StartOptions{Labels: map[string]string{"A b": "x"}, Trace: "x"})
		if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), `label "A b"`) || !strings.Contains(err.Error(), "traceparent") {
			w.t.Errorf("wrong ones: %v", err)
		}
	})
}
