package coordination

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var incidentCases = []testCase{
	// Incidents are the executions that somebody may have to look at; there are none of those that
	// wait, run or have ended well.
	{"incidents_of_nothing", func(k *kit) {
		k.Limit("", "0")
		k.Add(k.New(), k.With(func(n *store.NewExecution) { n.Hold = true }))
		h := k.Start()
		h.End(courier.Completed)
		k.Start()
		k.Same("incidents", k.incidents(0), []store.Incident{})
	}},
	// Lost, pausing and cancelling ones: with worker, who asked and why, the longest first, no
	// more of a kind than the caller asks for.
	{"incidents_of_running_executions", func(k *kit) {
		k.Limit("", "0")
		asked := func(kind courier.RequestKind) courier.Execution {
			h := k.Start()
			x, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: kind, By: "ann", Reason: "too slow"})
			k.OK(err)
			return x
		}
		cancelling, pausing, later := asked(courier.RequestCancel), asked(courier.RequestPause), asked(courier.RequestPause)
		of := func(kind store.IncidentKind, x courier.Execution) store.Incident {
			return store.Incident{Kind: kind, Execution: x.ID, Job: x.Job, Queue: x.Queue, Since: x.RequestedAt, Worker: x.Worker, By: "ann", Text: "too slow"}
		}
		want := []store.Incident{of(store.IncidentPausing, pausing), of(store.IncidentPausing, later), of(store.IncidentCancelling, cancelling)}
		k.Same("requested", k.incidents(0), want)
		k.Same("the first of each kind", k.incidents(1), []store.Incident{want[0], want[2]})
		lost := k.Get(k.Lose().ID())
		list := k.incidents(0)
		k.Same("lost", list[0], store.Incident{Kind: store.IncidentLost, Execution: lost.ID, Job: lost.Job, Queue: lost.Queue, Since: lost.LeaseExpiresAt, Worker: lost.Worker})
		k.Same("others", list[1:], want)
	}},
	// Failed ones: with their failure, the latest first.
	{"incidents_of_failed_executions", func(k *kit) {
		k.Limit("", "0")
		f := &courier.Failure{Step: 0, ID: "get", Type: "a.b", Attempt: 1, Reason: courier.ReasonConnection, Message: "reset"}
		first, second := k.failed(k.New(), f), k.failed(k.New(), f)
		k.Ask(k.failed(k.New(), f).ID, courier.RequestResume)
		want := []store.Incident{failedOf(second, f, ""), failedOf(first, f, "")}
		k.Same("failed", k.incidents(0), want)
		k.Same("the latest", k.incidents(1), want[:1])
		k.SaveAll(store.Job, "job", `{"name":"job","queue":"mended"}`)
		want[0].Latest++
		k.Same("with a newer version of the job", k.incidents(1), want[:1])
	}},
	// A younger completed execution of the job with the same params, byte by byte, of at most 8
	// KiB, or the same label key supersedes a failed one.
	{"incidents_that_are_superseded", func(k *kit) {
		k.Limit("", "0")
		k.Job("other")
		with := func(job, params, key string) store.NewExecution {
			n := k.New()
			n.Job, n.Params = job, json.RawMessage(params)
			if key != "" {
				n.Labels = map[string]string{"key": key, "partner": "acme"}
			}
			return n
		}
		f := &courier.Failure{Step: -1, Reason: courier.ReasonError, Message: "boom"}
		completed := func(n store.NewExecution) courier.ExecutionID {
			h := k.Hold(k.Add(n)[0].ID, long)
			h.End(courier.Completed)
			return h.ID()
		}
		byParams := k.failed(with("job", `{"day":1}`, ""), f)
		completed(with("job", `{"day":5}`, "k5"))
		byKey := k.failed(with("job", `{"day":2}`, "k2"), f)
		none := k.failed(with("job", `{"day": 3}`, "k3"), f)
		other := k.failed(with("other", `{"day":1}`, "k2"), f)
		after := k.failed(with("job", `{"day":5}`, "k5"), f)
		completed(with("job", `{"day":1}`, ""))
		newer := completed(with("job", `{"day":1}`, ""))
		keyed := completed(with("job", `{"day":9}`, "k2"))
		completed(with("job", `{"day":3}`, "K3"))
		large := `{"day":"` + strings.Repeat("d", store.MaxSupersedingParams) + `"}`
		tooLarge, largeKey := k.failed(with("job", large, ""), f), k.failed(with("job", large, "k4"), f)
		completed(with("job", large, ""))
		keyed4 := completed(with("job", large, "k4"))
		cancelled := k.Add(with("job", `{"day":5}`, ""))[0]
		k.Ask(cancelled.ID, courier.RequestCancel)
		got := make(map[courier.ExecutionID]courier.ExecutionID)
		for _, i := range k.incidents(0) {
			got[i.Execution] = i.SupersededBy
		}
		k.Same("superseded", got, map[courier.ExecutionID]courier.ExecutionID{byParams.ID: newer, byKey.ID: keyed, none.ID: "", other.ID: "", after.ID: "", tooLarge.ID: "", largeKey.ID: keyed4})
	}},
	// Not one that holds files that may exist nowhere else, or of which that is not known.
	{"incidents_that_hold_only_copies_are_not_superseded", func(k *kit) {
		k.Limit("", "0")
		f := &courier.Failure{Step: -1, Reason: courier.ReasonError, Message: "boom"}
		fail := func(workspace string, c *courier.OnlyCopies) courier.ExecutionID {
			h := k.Hold(k.Add(k.New())[0].ID, long)
			t := h.To(courier.Failed)
			t.Failure, t.Workspace, t.OnlyCopies = f, workspace, c
			h.Must(t)
			return h.ID()
		}
		want := make(map[courier.ExecutionID]courier.ExecutionID)
		without, none := fail("", nil), fail("here", new(courier.OnlyCopies))
		want[fail("here", nil)] = ""
		want[fail("here", &courier.OnlyCopies{Files: []courier.File{{Path: "a"}}, Count: 1})] = ""
		want[fail("here", &courier.OnlyCopies{Problem: "so"})] = ""
		h := k.Hold(k.Add(k.New())[0].ID, long)
		h.End(courier.Completed)
		want[without], want[none] = h.ID(), h.ID()
		got := make(map[courier.ExecutionID]courier.ExecutionID)
		for _, i := range k.incidents(0) {
			got[i.Execution] = i.SupersededBy
		}
		k.Same("superseded", got, want)
	}},
	// If it is among the last 200 completed ones of the job.
	{"incidents_superseded_by_one_of_the_last", func(k *kit) {
		k.Limit("", "0")
		f := &courier.Failure{Step: -1, Reason: courier.ReasonError, Message: "boom"}
		x := k.failed(k.New(), f)
		same := k.New()
		h := k.Hold(k.Add(same)[0].ID, long)
		h.End(courier.Completed)
		list := make([]store.NewExecution, store.MaxSuperseding)
		for i := range list {
			list[i] = k.With(func(n *store.NewExecution) { n.Params = json.RawMessage(`{"other":true}`) })
		}
		added := k.Add(list...)
		r := k.ClaimRequest(len(list) - 1)
		for _, c := range k.MustClaim(r) {
			k.Holder(c).End(courier.Completed)
		}
		k.Same("among the last", k.incidents(0), []store.Incident{failedOf(x, f, h.ID())})
		last := slices.IndexFunc(added, func(a courier.Execution) bool { return k.Get(a.ID).State == courier.Queued })
		k.Hold(added[last].ID, long).End(courier.Completed)
		k.Same("before the last", k.incidents(0), []store.Incident{failedOf(x, f, "")})
	}},
	// Overdue ones: from the event until they are completed or cancelled, but not while they are
	// failed.
	{"incidents_of_overdue_executions", func(k *kit) {
		if _, ok := k.Store.(store.Deadlines); !ok {
			return
		}
		k.Limit("", "0")
		x := k.Add(k.expected(k.Unit, 0))[0]
		y := k.Add(k.expected(0, k.Unit))[0]
		h := k.Hold(k.Add(k.expected(k.Unit, 0))[0].ID, long)
		k.Pass(2 * k.Unit)
		k.Same("before the event", k.incidents(0), []store.Incident{})
		k.Same("events", len(k.overdue(0).List), 3)
		of := func(x courier.Execution, reason courier.Reason) store.Incident {
			return store.Incident{Kind: store.IncidentOverdue, Execution: x.ID, Job: x.Job, Queue: x.Queue, Since: x.CreatedAt.Add(k.Unit), Reason: reason}
		}
		want := []store.Incident{of(x, courier.ReasonMaxDuration), of(y, courier.ReasonExpectedBy), of(k.Get(h.ID()), courier.ReasonMaxDuration)}
		k.Same("overdue", k.incidents(0), want)
		k.Same("again", [][]store.OverdueExecution{k.overdue(0).List, nil}, [][]store.OverdueExecution{nil, nil})
		k.Same("still", k.incidents(0), want)
		k.standing(h, func() *store.CurrentStep { return k.incidents(0)[2].Current })
		h.End(courier.Completed)
		k.Ask(y.ID, courier.RequestCancel)
		k.Same("once they have ended", k.incidents(0), want[:1])
		k.Hold(x.ID, long).End(courier.Failed)
		list := k.incidents(0)
		k.Same("once it has failed", []any{len(list), list[0].Kind}, []any{1, store.IncidentFailed})
		k.Ask(x.ID, courier.RequestResume)
		k.Same("resumed", k.incidents(0), want[:1])
	}},
	{"looking_for_incidents_changes_nothing", func(k *kit) {
		h := k.Start()
		h.End(courier.Failed)
		k.Unchanged("a look", h.ID(), func() { k.incidents(0) })
	}},
}

// standing has a step that moves, and then does not: current is it, of an overdue execution.
func (k *kit) standing(h *holder, current func() *store.CurrentStep) {
	k.Helper()
	h.Must(h.Begin(1))
	s := k.Get(h.ID()).Current
	k.Same("a step that has begun", current(), &store.CurrentStep{Step: 1, ID: s.ID, Type: s.Type, Still: s.StartedAt})
	k.Pass(k.Unit)
	p := &store.Progress{Step: s.Step, Iteration: s.Iteration, Attempt: s.Attempt, Report: &courier.Progress{Item: "a", Done: 1, Total: 2, Bytes: 1}}
	_, err := k.Renew(k.Ctx(), store.RenewRequest{Worker: "worker", Leases: []store.Lease{{Execution: h.ID(), Token: h.Token, Progress: p}}, For: long})
	k.OK(err)
	moved := k.Get(h.ID()).Current.Progress.ChangedAt
	k.Same("it has moved since", moved.After(s.StartedAt), true)
	k.Same("a step that has moved", current(), &store.CurrentStep{Step: 1, ID: s.ID, Type: s.Type, Still: moved})
	h.Must(h.Next(1, 2))
	s = k.Get(h.ID()).Current
	k.Same("the next step", current(), &store.CurrentStep{Step: 2, ID: s.ID, Type: s.Type, Still: s.StartedAt})
	h.Must(h.Finish(2))
	k.Same("between two steps", current(), (*store.CurrentStep)(nil))
}

// failed adds an execution, and has it fail.
func (k *kit) failed(n store.NewExecution, f *courier.Failure) courier.Execution {
	k.Helper()
	h := k.Hold(k.Add(n)[0].ID, long)
	t := h.To(courier.Failed)
	t.Failure = f
	h.Must(t)
	return k.Get(h.ID())
}

func failedOf(x courier.Execution, f *courier.Failure, by courier.ExecutionID) store.Incident {
	return store.Incident{Kind: store.IncidentFailed, Execution: x.ID, Job: x.Job, Queue: x.Queue, Since: x.EndedAt, Reason: f.Reason, Failure: f, SupersededBy: by, Version: x.Version, Latest: x.Version}
}

// incidents are those at an instant.
func (k *kit) incidents(most int) []store.Incident {
	k.Helper()
	got, err := k.Store.(store.Overview).Incidents(k.Ctx(), most)
	k.OK(err)
	if most == 0 {
		k.Same("limit", got.Limit, store.DefaultCountLimit)
	}
	if got.At.IsZero() {
		k.Errorf("the incidents have no instant")
	}
	return got.List
}
