package desk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// A world is a memory store in virtual time, with a desk that serves no work.
type world struct {
	*testing.T
	*couriertest.Harness
	desk *desk.Desk
}

// in runs f in a world.
func in(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		w := &world{t, h, desk.New(engine.New(h.Store, nil, nil), nil)}
		w.ok(h.Engine.Limits().Set(t.Context(), "global", 0, courier.By{}))
		for _, job := range []string{"daily-a", "daily-b", "other"} {
			w.define(courier.Job{Name: job, Steps: []courier.StepSpec{{Type: "demo.a"}}})
		}
		f(w)
	})
}

// ann is a visitor who may see and do everything.
func (w *world) ann() *desk.Visit { return w.desk.Visitor(access.Principal{ID: "ann"}) }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) define(job courier.Job) {
	w.Helper()
	_, err := w.Engine.Jobs().Define(w.Context(), job, nil)
	w.ok(err)
}

func (w *world) add(job string, opt courier.EnqueueOptions) courier.ExecutionID {
	w.Helper()
	x, err := w.Engine.Enqueue(w.Context(), job, &opt)
	w.ok(err)
	return x.ID
}

// many adds n executions in one call.
func (w *world) many(n int, job string, opt courier.EnqueueOptions) (ids []courier.ExecutionID) {
	w.Helper()
	var list []store.NewExecution
	for range n {
		x, err := w.Engine.Prepare(w.Context(), job, &opt)
		w.ok(err)
		list = append(list, x)
	}
	got, err := w.Engine.EnqueueAll(w.Context(), list)
	w.ok(err)
	for i := range got {
		ids = append(ids, got[i].ID)
	}
	return ids
}

// claim has a worker hold executions that are due.
func (w *world) claim(lease time.Duration, ids ...courier.ExecutionID) []store.Claimed {
	w.Helper()
	got, err := w.Store.Claim(w.Context(), store.ClaimRequest{
		Worker: "w", StepTypes: []string{"demo.a"}, Queues: []string{"default", "night"}, Only: ids, Max: len(ids), Lease: lease,
	})
	w.ok(err)
	if len(got.List) != len(ids) {
		w.Fatalf("claimed %d of %d", len(got.List), len(ids))
	}
	return got.List
}

// end ends executions, failed ones with a failure of their first step.
func (w *world) end(to courier.State, reason courier.Reason, ids ...courier.ExecutionID) {
	w.Helper()
	for _, c := range w.claim(time.Hour, ids...) {
		t := store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: to}
		if to == courier.Failed {
			t.Failure = &courier.Failure{Type: "demo.a", ID: "get", Attempt: 1, Reason: reason, Message: "it is " + string(reason)}
		}
		w.ok(w.Store.Apply(w.Context(), t))
	}
}

// state is the state of an execution.
func (w *world) state(id courier.ExecutionID) courier.State {
	w.Helper()
	x, err := w.Engine.Executions().Get(w.Context(), id)
	w.ok(err)
	return x.State
}

func (w *world) where(text string) filter.Filter {
	w.Helper()
	got, err := filter.Parse(text, time.Now())
	w.ok(err)
	return got
}

// TestExecutions lists by each condition, also the states that are not stored.
func TestExecutions(t *testing.T) {
	in(t, func(w *world) {
		ids := make(map[string]courier.ExecutionID)
		add := func(name, job string, opt courier.EnqueueOptions) courier.ExecutionID {
			ids[name] = w.add(job, opt)
			time.Sleep(time.Minute)
			return ids[name]
		}
		w.end(courier.Failed, courier.ReasonTimeout, add("old", "daily-a", courier.EnqueueOptions{}))
		time.Sleep(48 * time.Hour)
		w.end(courier.Failed, courier.ReasonTimeout, add("failed", "daily-b", courier.EnqueueOptions{By: courier.By{Actor: "ann"}}))
		add("queued", "other", courier.EnqueueOptions{Labels: map[string]string{"partner": "acme"}})
		add("scheduled", "other", courier.EnqueueOptions{Delay: 1000 * time.Hour})
		add("created", "other", courier.EnqueueOptions{Hold: true})
		w.claim(time.Second, add("lost", "other", courier.EnqueueOptions{}))
		w.claim(time.Hour, add("running", "other", courier.EnqueueOptions{}), add("pausing", "other", courier.EnqueueOptions{}))
		_, err := w.Engine.Pause(w.Context(), ids["pausing"], courier.By{})
		w.ok(err)
		for filter, want := range map[string]string{
			"":                       "pausing running lost created scheduled queued failed old",
			"state:failed":           "failed old",
			"state:failed since:24h": "failed",
			"since:24h until:390s":   "failed",
			"until:24h":              "old",
			"state:running":          "pausing running lost",
			"state:lost":             "lost",
			"state:pausing,created":  "pausing created",
			"state:scheduled":        "scheduled",
			"state:queued":           "scheduled queued",
			"state:cancelling":       "",
			"job:daily-*":            "failed old",
			"job:daily-b job:other":  "pausing running lost created scheduled queued failed",
			"job:daily-a job:oth*":   "pausing running lost created scheduled queued old",
			"by:ann":                 "failed",
			"label:partner=acme":     "queued",
			"reason:timeout":         "failed old",
			"reason:error":           "",
			"queue:night":            "",
			"ended:1h":               "failed",
		} {
			var got []string
			for cursor := ""; ; {
				page, err := w.desk.Executions(w.Context(), w.where(filter), cursor, 2)
				w.ok(err)
				for _, x := range page.Items {
					for name, id := range ids {
						if id == x.ID {
							got = append(got, name)
						}
					}
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if strings.Join(got, " ") != want {
				w.Errorf("%q: %v, want %s", filter, got, want)
			}
		}
	})
}

// TestExecutionsRefuses checks unknown names and cursors of something else.
func TestExecutionsRefuses(t *testing.T) {
	in(t, func(w *world) {
		w.add("other", courier.EnqueueOptions{})
		w.add("other", courier.EnqueueOptions{})
		page, err := w.desk.Executions(w.Context(), w.where("job:other since:1h"), "", 1)
		w.ok(err)
		time.Sleep(time.Minute)
		if _, err := w.desk.Executions(w.Context(), w.where("job:other since:1h"), page.Next, 1); err != nil || page.Next == "" {
			t.Errorf("its own cursor %q, a minute later: %v", page.Next, err)
		}
		for what, c := range map[string]struct{ filter, cursor, want string }{
			"another filter": {"job:daily-a", page.Next, "belongs to another filter"},
			"no cursor":      {"job:other", "x", "not a valid cursor"},
			"an unknown job": {"job:othr", "", `did you mean "other"?`},
			"a chain":        {"chain:daily", "", "there is no chain"},
		} {
			_, err := w.desk.Executions(w.Context(), w.where(c.filter), c.cursor, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, courier.ErrInvalid) && !errors.Is(err, courier.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestExecutionsOfChain lists the members of a chain's executions, not those of another.
func TestExecutionsOfChain(t *testing.T) {
	in(t, func(w *world) {
		var want []courier.ExecutionID
		for _, name := range []string{"one", "two", "one"} {
			_, err := w.Engine.Chains().Define(w.Context(), chain.Chain{Name: name, Members: []chain.Member{{Name: "m", Job: "other"}}}, nil)
			w.ok(err)
			c, err := w.Engine.Chains().Start(w.Context(), name, nil)
			w.ok(err)
			if time.Sleep(time.Second); name == "one" {
				want = append(want, c.Members[0].Execution)
			}
		}
		w.add("other", courier.EnqueueOptions{})
		page, err := w.desk.Executions(w.Context(), w.where("chain:one"), "", 0)
		w.ok(err)
		if len(page.Items) != 2 || page.Items[0].ID != want[1] || page.Items[1].ID != want[0] {
			t.Errorf("listed %+v, want %v", page.Items, want)
		}
	})
}

// ids of results with an outcome.
func withResult(list []bulk.Result, result string) (ids []courier.ExecutionID) {
	for _, r := range list {
		if r.Result == result {
			ids = append(ids, r.Execution)
		}
	}
	slices.Sort(ids)
	return ids
}
