package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A world is a service on a store in memory, without an engine. It has jobs called a, b, c
// and d, and more that tests add.
type world struct {
	*chain.Service
	t      *testing.T
	store  *memstore.Store
	ids    uuid7.Source
	jobs   map[string][]*chain.Job // the versions
	events []string
	asked  []string // requests for executions
	writes int      // that the service has committed
	log    strings.Builder
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memstore.New(), jobs: make(map[string][]*chain.Job)}
	w.Service = chain.New(chain.Options{
		Store:       func() (chain.Store, error) { return w.store, nil },
		Definitions: w,
		Job:         w.job,
		Trace:       func(context.Context) string { return "" },
		Requested: func(_ context.Context, x *courier.Execution, r *store.Request) {
			w.asked = append(w.asked, fmt.Sprintf("%s %s", r.Kind, x.Member))
		},
		Written:  func() { w.writes++ },
		Observe:  func(e courier.Event) { w.events = append(w.events, strings.TrimSpace(string(e.Type)+" "+e.Error)) },
		Observed: func() bool { return true },
		WaitUntil: func(ctx context.Context, _ courier.ExecutionID, look func() (bool, error)) error {
			if done, err := look(); done || err != nil {
				return err
			}
			return context.DeadlineExceeded
		},
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), NewID: w.ids.New, MaxParams: 1000,
	})
	for _, name := range strings.Fields("a b c d") {
		w.add(`{"name": "`+name+`", "steps": [{"id": "do", "type": "demo.do"}]}`, "text")
	}
	return w
}

// add saves a version of a job, whose steps have outputs of the given names.
func (w *world) add(text string, outputs ...string) {
	w.t.Helper()
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	d, err := w.store.Save(w.t.Context(), store.Definition{Kind: store.Job, Name: job.Name, Body: json.RawMessage(text)})
	if err != nil {
		w.t.Fatal(err)
	}
	params := flow.ReadParams(job.Params)
	w.jobs[job.Name] = append(w.jobs[job.Name], &chain.Job{
		Name: job.Name, Version: d.Version, Steps: job.Steps, Params: params,
		Outputs: func() ([]string, bool) { return outputs, true },
		New: func(_ context.Context, opt *courier.EnqueueOptions) (store.NewExecution, error) {
			raw, err := inputs.Params(params, opt.Params, false, 1000)
			return store.NewExecution{
				ID: courier.ExecutionID(w.ids.New()), Job: job.Name, Version: d.Version, Params: raw, Priority: opt.Priority, By: opt.By.Actor,
				Queue: courier.DefaultQueue, StepTypes: []string{"demo.do"},
			}, err
		},
	})
}

// job returns a version of a job.
func (w *world) job(_ context.Context, name string, version int) (*chain.Job, error) {
	all := w.jobs[name]
	if len(all) == 0 || version > len(all) {
		return nil, courier.Errorf(courier.ErrNotFound, "there is no job %q version %d", name, version)
	}
	if version == 0 {
		version = len(all)
	}
	return all[version-1], nil
}

// Save saves a definition.
func (w *world) Save(ctx context.Context, kind store.Kind, name string, def any, _ []courier.Problem, opt *courier.DefineOptions) (store.Definition, bool, error) {
	body, err := json.Marshal(def)
	if err != nil {
		return store.Definition{}, false, err
	}
	d := store.Definition{Kind: kind, Name: name, Body: body}
	if opt != nil {
		d.By, d.KeepNewer = opt.By.Actor, opt.KeepNewer
	}
	got, err := w.store.Save(ctx, d)
	return got, string(got.Body) != string(body), err
}

// Load returns a version of a definition.
func (w *world) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	return w.store.Load(ctx, kind, name, version)
}

// Versions returns all versions of a definition.
func (w *world) Versions(ctx context.Context, kind store.Kind, name string, _ store.VersionFilter) (list []store.Definition, err error) {
	for version := 1; ; version++ {
		d, err := w.store.Load(ctx, kind, name, version)
		if err != nil {
			return list, nil
		}
		list = append([]store.Definition{d}, list...)
	}
}

// List returns definitions.
func (w *world) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	return w.store.List(ctx, f)
}

// start defines a chain and starts it.
func (w *world) start(members string, opt *chain.StartOptions) courier.ChainExecutionID {
	w.t.Helper()
	if _, err := w.Define(w.t.Context(), read(w.t, `{"name": "chain", "members": `+members+`}`), nil); err != nil {
		w.t.Fatal(err)
	}
	x, err := w.Start(w.t.Context(), "chain", opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.ID
}

// read returns the chain of a text.
func read(t *testing.T, text string) (c chain.Chain) {
	t.Helper()
	if err := c.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// end ends the executions that are queued, as a worker would, in a state.
func (w *world) end(to courier.State) {
	w.t.Helper()
	ctx := w.t.Context()
	claims, err := w.store.Claim(ctx, store.ClaimRequest{Worker: "w", Workspace: "w", Queues: []string{courier.DefaultQueue}, StepTypes: []string{"demo.do"}, Max: 100, Lease: time.Minute})
	if err != nil || len(claims.List) == 0 {
		w.t.Fatalf("claimed %d, %v", len(claims.List), err)
	}
	for i := range claims.List {
		c := &claims.List[i]
		t := store.Transition{Execution: c.Execution.ID, Chain: c.Execution.Chain, Lease: c.Token, Seq: c.Seq + 1, To: to, Position: c.Execution.Position}
		if to == courier.Failed {
			t.Failure = &courier.Failure{Step: -1, Message: c.Execution.Member + " broke"}
		}
		if err := w.store.Apply(ctx, t); err != nil {
			w.t.Fatal(err)
		}
		w.MemberEnded(ctx, c.Execution.Chain)
	}
}

// is reports a chain execution that stands otherwise than "completed: a=completed b=skipped".
func (w *world) is(id courier.ChainExecutionID, want string) chain.Execution {
	w.t.Helper()
	x, err := w.Execution(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(string(x.State) + ":")
	for _, m := range x.Members {
		b.WriteString(" " + m.Name + "=" + string(m.State))
	}
	if b.String() != want {
		w.t.Errorf("chain execution is %s\nwant               %s", &b, want)
	}
	return x
}
