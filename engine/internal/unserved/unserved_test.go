package unserved_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/unserved"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
)

// workers is the part of a store that records workers.
type workers struct {
	present  []store.Worker
	stranded []store.Stranded
	err      error
	calls    int
	age      time.Duration // of the last call
}

func (w *workers) Workers(_ context.Context, age time.Duration) ([]store.Worker, error) {
	w.calls, w.age = w.calls+1, age
	return w.present, w.err
}

func (w *workers) Stranded(_ context.Context, age time.Duration) ([]store.Stranded, error) {
	w.calls, w.age = w.calls+1, age
	return w.stranded, w.err
}

func (*workers) Drain(context.Context, string) error { return nil }

// service returns a service with its log.
func service(w *workers) (*unserved.Service, *lockedbuffer.Buffer) {
	log := new(lockedbuffer.Buffer)
	return unserved.New(func() (store.Workers, error) { return w, nil }, slog.New(slog.NewTextHandler(log, nil))), log
}

// run has a service run until the test ends.
func run(t *testing.T, v *unserved.Service) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		v.Run(core.Lifetime{Base: t.Context(), Ctx: t.Context(), Stop: stop})
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// TestWhenItSearches: a search takes a claim that has left executions. It is not before a
// minute and a half after the start, and not more than once a minute.
func TestWhenItSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		v, _ := service(w)
		v.Started()
		run(t, v)
		for _, c := range []struct {
			after time.Duration // since the step before
			left  bool
			want  int
		}{
			{0, true, 0}, {89 * time.Second, true, 0}, {time.Second, false, 0}, {0, true, 1}, {59 * time.Second, true, 1}, {time.Second, true, 2}, {time.Hour, false, 2}, {0, true, 3},
		} {
			time.Sleep(c.after)
			v.Claimed(c.left)
			synctest.Wait()
			if w.calls != c.want {
				t.Errorf("%d searches, want %d after %+v", w.calls, c.want, c)
			}
		}
		v.Started() // again: the engine was stopped
		time.Sleep(time.Minute)
		v.Claimed(true)
		synctest.Wait()
		if w.calls != 3 || w.age != core.PresentFor {
			t.Errorf("%d searches, for workers of %v", w.calls, w.age)
		}
	})
}

// TestFound: what the last search has found holds until a claim leaves nothing. A search that
// fails leaves it, and is logged.
func TestFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{stranded: []store.Stranded{{Queue: "night"}}}
		v, log := service(w)
		run(t, v)
		search := func(want int) {
			t.Helper()
			time.Sleep(time.Minute)
			v.Claimed(true)
			synctest.Wait()
			if got := v.Found(); len(got) != want {
				t.Errorf("found %+v", got)
			}
		}
		search(1)
		v.Found()[0].Queue = "changed"
		if v.Found()[0].Queue != "night" {
			t.Error("a caller has changed what was found")
		}
		w.err = errors.New("out of reach")
		search(1)
		if !strings.Contains(log.String(), "out of reach") {
			t.Errorf("log %s", log)
		}
		w.err, w.stranded = nil, nil
		search(0)
		w.stranded = []store.Stranded{{Queue: "night"}}
		search(1)
		if v.Claimed(false); v.Found() != nil {
			t.Error("executions are shown that this worker has taken")
		}
	})
}

// TestWarnings: each group is a line with what to do. A search writes ten of them at most, and
// then how many more there are.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{stranded: []store.Stranded{
			{Reason: store.StrandedQueue, Queue: "nihgt", Served: []string{"night"}, Count: 2, Oldest: "x"},
			{Reason: store.StrandedWorkspace, Queue: "night", Workspace: "host 3", Lost: true, Count: 1, Oldest: "y"},
			{Reason: store.StrandedStepTypes, Queue: "night", Missing: []string{"demo.a", "demo.b"}, Count: 1, Oldest: "z"},
		}}
		v, log := service(w)
		run(t, v)
		v.Claimed(true)
		synctest.Wait()
		for i, want := range [][]string{
			{`msg="executions wait that no worker can take"`, `Did you mean \"night\"?`, `Options.Queues`, "reason=queue", "state=queued", "queue=nihgt", "executions=2", "oldest=x"},
			{`msg="executions are lost, and no worker takes them over"`, "WorkspaceID", "reason=workspace", "state=lost", "oldest=y", `workspace="host 3"`},
			{"Register them", "reason=step_types", "state=queued", "oldest=z", `missing="demo.a demo.b"`},
		} {
			line := strings.Split(log.String(), "\n")[i]
			for _, part := range append(want, "level=WARN") {
				if !strings.Contains(line, part) {
					t.Errorf("no %s in %s", part, line)
				}
			}
		}
		for _, c := range []struct {
			groups, lines int
			last          string
		}{{10, 10, "executions="}, {13, 11, "groups=3"}} {
			log.Reset()
			w.stranded = make([]store.Stranded, c.groups)
			time.Sleep(time.Minute)
			v.Claimed(true)
			synctest.Wait()
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(lines) != c.lines || !strings.Contains(lines[len(lines)-1], c.last) {
				t.Errorf("%d groups: %d lines, the last is %s", c.groups, len(lines), lines[len(lines)-1])
			}
		}
	})
}

// TestCreated: an execution is warned of that is queued for a queue which neither this engine
// nor a present worker serves, once a minute for each queue.
func TestCreated(t *testing.T) {
	queued := func(queue string) courier.Execution {
		return courier.Execution{ID: "x", Job: "a", Queue: queue, State: courier.Queued}
	}
	for name, c := range map[string]struct {
		x    courier.Execution
		err  error
		warn bool
	}{
		"nobody's":              {queued("night"), nil, true},
		"of this engine":        {queued("mine"), nil, false},
		"of another worker":     {queued("day"), nil, false},
		"held":                  {courier.Execution{Queue: "night", State: courier.Created}, nil, false},
		"the store is away":     {queued("night"), errors.New("out of reach"), false},
		"in another case":       {queued("DAY"), nil, true},
		"with spaces around it": {queued(" day"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &workers{err: c.err, present: []store.Worker{{Name: "a", Queues: []string{"early", "day"}}, {Name: "b"}}}
			v, log := service(w)
			v.Created(t.Context(), []string{"mine"}, c.x)
			if warned := strings.Contains(log.String(), "no worker that was seen lately serves its queue"); warned != c.warn || c.warn && !strings.Contains(log.String(), "execution=x job=a workers=2") {
				t.Errorf("log %q", log)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		v, log := service(w)
		lines := func(want int, queues ...string) {
			t.Helper()
			for _, q := range queues {
				v.Created(t.Context(), nil, queued(q))
			}
			if got := strings.Count(log.String(), "level=WARN"); got != want {
				t.Errorf("%d warnings, want %d", got, want)
			}
		}
		lines(2, "night", "night", "day", "night")
		time.Sleep(59 * time.Second)
		lines(2, "night", "day")
		time.Sleep(time.Second)
		lines(3, "night", "night")
		log.Reset()
		for i := range 5000 { // what is remembered has a bound
			v.Created(t.Context(), nil, queued(fmt.Sprint(i)))
		}
		lines(5001, "night")
	})
}

// TestWithoutWorkers: nothing is looked for where nobody reads warnings, or where the store does
// not record workers.
func TestWithoutWorkers(t *testing.T) {
	night := courier.Execution{Queue: "night", State: courier.Queued}
	w, log := &workers{}, new(lockedbuffer.Buffer)
	quiet := unserved.New(func() (store.Workers, error) { return w, nil }, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})))
	quiet.Created(t.Context(), nil, night)
	lacks := unserved.New(func() (store.Workers, error) { return nil, errors.ErrUnsupported }, slog.New(slog.NewTextHandler(log, nil)))
	lacks.Created(t.Context(), nil, night)
	lacks.Run(core.Lifetime{Ctx: t.Context()}) // returns
	if w.calls > 0 || log.String() != "" {
		t.Errorf("%d calls, log %s", w.calls, log)
	}
}
