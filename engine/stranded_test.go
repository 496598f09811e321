package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// TestStrandedExecutionsAreToldOf has executions wait in a queue that nobody
// serves, for a step type that nobody has, and, lost, for a workspace that is gone.
// Each engine warns of each, not before a minute and a half and once a minute, and
// shows it in Health, until somebody can take it.
func TestStrandedExecutionsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		var reg courier.Registry
		courier.Register(&reg, "demo.a", idle{}, nil)
		logs := []*logbook{new(logbook), new(logbook)}
		var engines []*engine.Engine
		for i, log := range logs {
			e := engine.New(h.Store, &reg, &engine.Options{Log: log.logger(), Worker: string(rune('a' + i)), Workspace: t.TempDir(), WorkspaceID: "here"})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer e.Stop(t.Context())
			engines = append(engines, e)
		}
		h.Stub("demo.a", nil)
		h.Stub("demo.b", nil)
		define := func(name, typ, queue string) courier.ExecutionID {
			return enqueueIn(t, h, h.Engine, name, typ, queue)
		}
		night, typed := define("night", "demo.a", "night"), define("typed", "demo.b", courier.DefaultQueue)
		lost := define("lost", "demo.a", "gone")
		loseIn(t, h, lost, "gone", "tree of host 3")
		time.Sleep(85 * time.Second)
		for _, log := range logs {
			log.count(t, 0, "level=WARN")
		}
		time.Sleep(85 * time.Second)
		for i, log := range logs {
			log.count(t, 2, "level=WARN", "reason=queue", "queue=night", "executions=1", "oldest="+string(night), "Options.Queues", "since=")
			log.count(t, 2, "level=WARN", "reason=step_types", "missing=demo.b", "oldest="+string(typed), "Register them")
			log.count(t, 1, "level=WARN", "state=lost", "queue=gone", "oldest="+string(lost), "tree of host 3")
			if got := engines[i].Health().Stranded; len(got) != 3 {
				t.Errorf("health shows %+v", got)
			}
		}
		more := engine.New(h.Store, h.Registry, &engine.Options{Worker: "c", Queues: []string{"night", "gone", courier.DefaultQueue}, Workspace: t.TempDir(), WorkspaceID: "there"})
		if err := more.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer more.Stop(t.Context())
		for _, log := range logs {
			log.Reset()
		}
		time.Sleep(65 * time.Second)
		for i, log := range logs {
			log.count(t, 1, "level=WARN")
			log.count(t, 1, "level=WARN", "reason=workspace", "state=lost", "workspace=\"tree of host 3\"", "Elsewhere")
			if got := engines[i].Health().Stranded; len(got) != 1 || got[0].Workspace != "tree of host 3" || got[0].Oldest != lost {
				t.Errorf("health shows %+v", got)
			}
		}
		if _, err := more.Resume(t.Context(), lost, &courier.ResumeOptions{Elsewhere: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(65 * time.Second)
		for _, e := range engines {
			if got := e.Health().Stranded; got != nil {
				t.Errorf("health shows %+v when all was taken", got)
			}
		}
	})
}

// idle is a step that does nothing.
type idle struct{}

func (idle) Execute(ctx, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

// enqueueIn defines a job of one step with a queue, and enqueues it.
func enqueueIn(t *testing.T, h *couriertest.Harness, e *engine.Engine, name, typ, queue string) courier.ExecutionID {
	t.Helper()
	if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "`+name+`", "queue": "`+queue+`", "steps": [{"type": "`+typ+`"}]}`), nil); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

// loseIn claims an execution for a worker that leaves a file in a workspace, and
// dies.
func loseIn(t *testing.T, h *couriertest.Harness, id courier.ExecutionID, queue, workspace string) {
	t.Helper()
	got, err := h.Store.Claim(t.Context(), store.ClaimRequest{
		Worker: "dead", Workspace: workspace, StepTypes: h.Registry.Keys(), Queues: []string{queue},
		Only: []courier.ExecutionID{id}, Max: 1, Lease: 15 * time.Second,
	})
	if err != nil || len(got.List) != 1 {
		t.Fatalf("claim: %d, %v", len(got.List), err)
	}
	c := got.List[0]
	err = h.Store.Apply(t.Context(), store.Transition{
		Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Running, Workspace: workspace,
		Start: &courier.StepExecution{Type: "demo.a", Attempt: 1}, Counters: store.Counters{Attempts: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnservedQueueIsToldOfAtOnce enqueues with an engine that is not started.
func TestUnservedQueueIsToldOfAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logbook)
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		client := engine.New(h.Store, h.Registry, &engine.Options{Log: log.logger(), Workspace: t.TempDir()})
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet()
		enqueue := func(queue string) courier.ExecutionID { return enqueueIn(t, h, client, "a", "demo.a", queue) }
		enqueue(courier.DefaultQueue)
		log.count(t, 0, "level=WARN")
		id := enqueue("night")
		enqueue("night")
		log.count(t, 1, "level=WARN", "no worker that was seen lately serves its queue", "queue=night", "execution="+string(id), "job=a")
		time.Sleep(time.Minute)
		n, err := client.Prepare(t.Context(), "a", nil)
		if err == nil {
			_, err = client.EnqueueAll(t.Context(), []store.NewExecution{n})
		}
		if err != nil {
			t.Fatal(err)
		}
		log.count(t, 2, "level=WARN", "queue=night")
		if !strings.Contains(log.String(), "workers=1") {
			t.Errorf("it does not say how many workers there are: %s", log)
		}
	})
}

// TestUnservedQueueIsDoubtful checks a job whose queue no worker serves: where somebody
// asks there is a warning, as long as workers are present.
func TestUnservedQueueIsDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		client := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir()})
		const misspelt = `no worker serves the queue "nihgt"; did you mean "night"?`
		check := func(queue, want string) {
			t.Helper()
			text := `{"name": "a", "queue": "` + queue + `", "steps": [{"type": "demo.a"}]}`
			b, err := client.Check(t.Context(), []courier.Source{{Text: []byte(text)}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := client.Jobs().DryRun(t.Context(), h.Job(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			asked, err := client.Jobs().Define(t.Context(), h.Job(text), &courier.DefineOptions{CheckQueue: true})
			if err != nil {
				t.Fatal(err)
			}
			plain, err := client.Jobs().Define(t.Context(), h.Job(text), nil)
			if err != nil || len(plain.Warnings) > 0 {
				t.Errorf("a program that defines its job is warned: %v, %v", plain.Warnings, err)
			}
			chain := chain.Chain{Name: "c", Members: []chain.Member{{Name: "m", Job: "a"}, {Name: "n", Job: "a"}}}
			chained, err := client.DryRunChain(t.Context(), chain, nil)
			if err != nil || len(chained.Members) != 2 {
				t.Fatalf("%+v, %v", chained, err)
			}
			for name, got := range map[string][]courier.Problem{
				"check": b.Warnings, "dry run": report.Warnings, "define": asked.Warnings, "dry run of a chain": chained.Members[1].Report.Warnings,
			} {
				if want == "" && len(got) == 0 {
					continue
				}
				if len(got) != 1 || got[0].Message != want || got[0].Field != "queue" || got[0].Step >= 0 {
					t.Errorf("%s, queue %q: %+v", name, queue, got)
				}
			}
			if len(b.Problems)+len(report.Problems) > 0 {
				t.Errorf("it is a problem: %v %v", b.Problems, report.Problems)
			}
			if want != "" && b.Warnings[0].Column != strings.Index(text, `"queue"`)+1 && b.Warnings[0].Column != strings.Index(text, `"queue"`)+len(`"queue": `)+1 {
				t.Errorf("the warning is at column %d", b.Warnings[0].Column)
			}
		}
		check("nihgt", "") // no worker is known, and the queue is like none of this engine
		check("defualt", `no worker is present, and this engine does not serve the queue "defualt"; did you mean "default"?`)
		check("default", "")
		files := []courier.Source{{Text: []byte(`{"name": "a", "queue": "nihgt", "steps": [{"type": "demo.a"}]}`)}}
		b := engine.Check(files, h.Registry, &engine.Options{Queues: []string{"night"}})
		if len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0].Message, `"nihgt"; did you mean "night"?`) || b.Warnings[0].Line != 1 || len(b.Problems) > 0 {
			t.Errorf("a check without a store: %+v", b)
		}
		worker := engine.New(h.Store, h.Registry, &engine.Options{Worker: "w", Workspace: t.TempDir(), Queues: []string{"night"}})
		if err := worker.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet()
		check("night", "")
		check("nihgt", misspelt)
		check("", `no worker serves the queue "default"; known are night`)
		if err := worker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("nihgt", "") // the only worker has gone
	})
}
