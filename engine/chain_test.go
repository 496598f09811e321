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
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A chainWorld is an engine with step types for chains of small jobs.
type chainWorld struct {
	t *testing.T
	*engine.Engine
	store *memstore.Store

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
	w := &chainWorld{t: t, store: memstore.New(), fail: make(map[string]bool), gate: make(map[string]chan struct{})}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.do", func(ctx context.Context, job *courier.Context, cfg struct {
		In any `json:"in"`
	}) (chainStep, error) {
		return w.work(ctx, job.Job())
	}, nil)
	courier.RegisterFunc(reg, "demo.take", func(_ context.Context, job *courier.Context, cfg chainStep) (chainStep, error) {
		return cfg, nil
	}, nil)
	w.Engine = engine.New(w.store, reg, &engine.Options{Workspace: t.TempDir()})
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
	if _, err := w.Define(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
}

// chain defines a chain and starts it.
func (w *chainWorld) chain(members string, opt *engine.ChainOptions) courier.ChainExecutionID {
	w.t.Helper()
	c := readChain(w.t, `{"name": "chain", "members": `+members+`}`)
	if _, err := w.DefineChain(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
	x, err := w.StartChain(w.t.Context(), "chain", opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.ID
}

func readChain(t *testing.T, text string) courier.Chain {
	t.Helper()
	var c courier.Chain
	if err := c.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends waits for a chain execution and reports another end than the wanted
// one, written as "completed: a=completed b=skipped".
func (w *chainWorld) ends(id courier.ChainExecutionID, want string) courier.ChainExecution {
	w.t.Helper()
	x, err := w.WaitChain(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(x, want)
	if x.EndedAt.IsZero() {
		w.t.Error("it has ended, but not told when")
	}
	return x
}

func (w *chainWorld) is(x courier.ChainExecution, want string) {
	w.t.Helper()
	if got := chainText(&x); got != want {
		w.t.Errorf("chain execution is %s\nwant               %s", got, want)
	}
}

// stands reports a chain execution that stands otherwise, when nothing moves any
// more.
func (w *chainWorld) stands(id courier.ChainExecutionID, want string) courier.ChainExecution {
	w.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	x, err := w.ChainExecution(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(x, want)
	return x
}

func chainText(x *courier.ChainExecution) string {
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
		id := w.chain(`[{"job": "a"}, {"name": "second", "job": "take", "depends_on": ["a"]}]`, &engine.ChainOptions{By: "ann"})
		x := w.ends(id, "completed: a=completed second=completed")
		second, err := w.Execution(w.t.Context(), x.Member("second").Execution)
		if err != nil || second.Chain != id || second.Member != "second" || second.By != "ann" {
			w.t.Errorf("the execution of the second member is %+v, %v", second, err)
		}
		v, err := w.Values(w.t.Context(), second.ID)
		if err != nil || v["take.text"] != "<a>" {
			w.t.Errorf("values %v, %v", v, err)
		}
		if err := x.Err(); err != nil {
			w.t.Error(err)
		}
		list, err := w.ChainExecutions(w.t.Context(), store.ChainFilter{Chain: "chain", States: []courier.ChainState{courier.ChainCompleted}})
		if err != nil || len(list) != 1 || list[0].ID != id {
			w.t.Errorf("listed %v, %v", list, err)
		}
	})
}
