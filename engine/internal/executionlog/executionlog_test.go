package executionlog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/executionlog"
	"github.com/courierhq/courier/store"
)

// logger returns a logger from a level on, with what it writes without times.
func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &text
}

// TestLines: each attempt that did not complete, each retry and the end of an execution is a line,
// with the place where it failed and how long it took by the store's clock.
func TestLines(t *testing.T) {
	step := func(state courier.StepState, reason courier.Reason) courier.StepExecution {
		return courier.StepExecution{Step: 2, ID: "get", Type: "demo.get", Iteration: []int{3, 0}, Attempt: 2, State: state, Reason: reason, Error: "no route"}
	}
	failure := &courier.Failure{Step: 2, Type: "demo.get", Attempt: 2, Reason: courier.ReasonError, Message: "no route"}
	failed, lost := step(courier.StepFailed, courier.ReasonError), step(courier.StepFailed, courier.ReasonWorkerLost)
	lost.Worker = "w"
	const place = `step=2 type=demo.get id=get iteration=3.0 attempt=2`
	for name, c := range map[string]struct {
		does func(executionlog.Log)
		want []string
	}{
		"progress": {func(l executionlog.Log) {
			l.Write(&store.Transition{To: courier.Running, Ended: []courier.StepExecution{step(courier.StepCompleted, "")}}, nil, 0)
		}, nil},
		"completed": {func(l executionlog.Log) { l.Write(&store.Transition{To: courier.Completed}, nil, 0) }, []string{`level=INFO msg="execution completed" duration=12s`}},
		"failed": {func(l executionlog.Log) {
			l.Write(&store.Transition{To: courier.Failed, Failure: failure, Ended: []courier.StepExecution{failed}}, &failed, 2*time.Second)
		}, []string{`level=WARN msg="step failed" ` + place + ` reason=error duration=2s error="no route"`, `level=INFO msg="execution failed" step=2 type=demo.get attempt=2 reason=error duration=12s error="no route"`}},
		"failed item": {func(l executionlog.Log) {
			item := failed
			item.ItemLabels = []string{"acme", "inv-7.csv"}
			l.Write(&store.Transition{To: courier.Running, Ended: []courier.StepExecution{item}}, &item, 2*time.Second)
		}, []string{`level=WARN msg="step failed" step=2 type=demo.get id=get iteration=3.0 item=acme/inv-7.csv attempt=2 reason=error duration=2s error="no route"`}},
		"skipped": {func(l executionlog.Log) {
			l.Write(&store.Transition{To: courier.Running, Ended: []courier.StepExecution{step(courier.StepSkipped, courier.ReasonError)}}, nil, 0)
		}, []string{`level=WARN msg="step failed and was skipped" ` + place + ` reason=error duration=0s error="no route"`}},
		"retried": {func(l executionlog.Log) {
			l.Write(&store.Transition{To: courier.Queued, Failure: failure, Delay: time.Minute, RetryJob: true}, nil, 0)
		},
			[]string{`level=WARN msg="execution is retried" step=2 type=demo.get attempt=2 reason=error whole_job=true after=1m0s duration=12s`}},
		"back, of the store": {func(l executionlog.Log) {
			l.Write(&store.Transition{To: courier.Queued, Failure: &courier.Failure{Step: -1, Reason: courier.ReasonStore}}, nil, 0)
		}, []string{`level=WARN msg="execution went back to the queue" reason=store whole_job=false after=0s duration=12s`}},
		"back, of a stop": {func(l executionlog.Log) { l.Write(&store.Transition{To: courier.Queued}, nil, 0) }, nil},
		"started":         {func(l executionlog.Log) { l.Claim(&store.Claimed{First: true}) }, []string{`level=INFO msg="execution started" version=7 by=ops waited=5s`}},
		"again":           {func(l executionlog.Log) { l.Claim(&store.Claimed{}) }, nil},
		"taken over": {func(l executionlog.Log) {
			l.Claim(&store.Claimed{Reclaimed: true, Counters: store.Counters{Reclaims: 3}})
		},
			[]string{`level=WARN msg="execution taken over from a lost worker" reason=worker_lost workers_lost=3 duration=12s`}},
		"taken over in a step": {func(l executionlog.Log) { l.Claim(&store.Claimed{Reclaimed: true, Lost: &lost}) },
			[]string{`level=WARN msg="execution taken over from a lost worker" ` + place + ` reason=worker_lost workers_lost=0 duration=12s lost_worker=w`}},
		"lost":           {func(l executionlog.Log) { l.Lost(nil) }, []string{`level=WARN msg="execution lost: its lease has ended, so another worker may go on with it" reason=worker_lost duration=12s`}},
		"lost in a step": {func(l executionlog.Log) { l.Lost(&failed) }, []string{`level=WARN msg="execution lost: its lease has ended, so another worker may go on with it" ` + place + ` reason=worker_lost duration=12s`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
				x := &courier.Execution{Version: 7, By: "ops", CreatedAt: began.Add(-5 * time.Second), StartedAt: began, HeartbeatAt: began.Add(9 * time.Second)}
				log, text := logger(slog.LevelInfo)
				l := executionlog.Log{Logger: log, Execution: x, Claimed: time.Now()}
				time.Sleep(3 * time.Second) // since the claim
				c.does(l)
				if got := strings.FieldsFunc(text.String(), func(r rune) bool { return r == '\n' }); !slices.Equal(got, c.want) {
					t.Errorf("got\n%s", text)
				}
				l.Logger, text = logger(slog.LevelError)
				if c.does(l); text.Len() > 0 {
					t.Errorf("above its level: %s", text)
				}
			})
		})
	}
}

// TestLasted: the attempt that ran took the time that was measured. That of a lost worker lasts
// from its start to the claim, by the store's clock, and never a negative time.
func TestLasted(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	l := executionlog.Log{Execution: &courier.Execution{HeartbeatAt: at}}
	current := courier.StepExecution{Step: 1, Attempt: 1, Iteration: []int{0}}
	other, lost, odd := current, current, current
	other.Iteration = []int{1}
	lost.Reason, lost.StartedAt = courier.ReasonWorkerLost, at.Add(-time.Minute)
	odd.Reason, odd.StartedAt = courier.ReasonWorkerLost, at.Add(time.Minute)
	for name, c := range map[string]struct {
		s    *courier.StepExecution
		want time.Duration
	}{"current": {&current, time.Second}, "another": {&other, 0}, "lost": {&lost, time.Minute}, "lost, with another clock": {&odd, 0}} {
		if got := l.Lasted(c.s, &current, time.Second); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := l.Lasted(&current, nil, time.Second); got != 0 {
		t.Errorf("without a step that ran: %v", got)
	}
}

// TestRequests: a request that took effect at once is a line and an event. One that did not is
// neither.
func TestRequests(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	skipped := &store.Change{Skipped: &courier.StepExecution{Step: 2, ID: "get", Error: "no route"}}
	for name, c := range map[string]struct {
		state  courier.State
		kind   courier.RequestKind
		change *store.Change
		events string
		line   string
	}{
		"cancelled":         {courier.Cancelled, courier.RequestCancel, nil, "[JobCancelled -1]", `level=INFO msg="execution cancelled" execution=x job=a by=ops duration=1m0s`},
		"is to be":          {courier.Running, courier.RequestCancel, nil, "[]", ""},
		"paused":            {courier.Paused, courier.RequestPause, nil, "[JobPaused -1]", ""},
		"is to pause":       {courier.Running, courier.RequestPause, nil, "[]", ""},
		"resumed":           {courier.Queued, courier.RequestResume, nil, "[JobResumed -1]", ""},
		"goes on":           {courier.Running, courier.RequestResume, nil, "[]", ""}, // the pause was withdrawn
		"resumed by a skip": {courier.Queued, courier.RequestResume, skipped, "[StepSkipped 2 JobResumed -1]", ""},
		"restarted":         {courier.Queued, courier.RequestRestart, nil, "[JobResumed -1]", `level=WARN msg="execution starts again without its files" execution=x job=a by=ops execution_attempt=2 why="too late"`},
		"expired":           {courier.Failed, courier.RequestExpire, nil, "[JobFailed -1]", `level=WARN msg="execution failed: it did not begin in time" execution=x job=a by=ops reason=expired error="too late"`},
	} {
		x := &courier.Execution{ID: "x", Job: "a", State: c.state, Attempt: 2, CreatedAt: at, EndedAt: at.Add(time.Minute)}
		q := &store.Request{Kind: c.kind, By: "ops", Reason: "too late", Change: c.change}
		got := []any{}
		for _, e := range executionlog.RequestEvents(x, q) {
			if got = append(got, e.Type, e.Step); e.Execution != "x" || e.Job != "a" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		log, text := logger(slog.LevelInfo)
		executionlog.Requested(log, x, q)
		if line := strings.TrimSpace(text.String()); fmt.Sprint(got) != c.events || line != c.line {
			t.Errorf("%s: events %v, line %s", name, got, line)
		}
	}
	x := &courier.Execution{ID: "x", State: courier.Queued, Finishing: new(courier.Finishing)}
	if list := executionlog.RequestEvents(x, &store.Request{Kind: courier.RequestResume}); list != nil {
		t.Errorf("a pause is withdrawn in the finally part: %+v", list)
	}
}

// TestEventOf: the event of a failed execution names the step that failed, if one did. The entry
// of a step names its own.
func TestEventOf(t *testing.T) {
	x, step := &courier.Execution{ID: "x", Job: "a", Version: 3, Chain: "c"}, 1
	of := func(a courier.AuditEntry, f *courier.Failure) string {
		e, ok := executionlog.EventOf(x, &a, f)
		if ok && (e.Execution != "x" || e.Job != "a" || e.Version != 3 || e.ChainExecution != "c") {
			t.Errorf("%+v", e)
		}
		return fmt.Sprint(e.Type, " ", e.Step, " ", e.ID, " ", e.Iteration, " ", e.Attempt, " ", e.Reason, " ", ok)
	}
	failed := courier.AuditEntry{From: "running", To: "failed", Reason: courier.ReasonError}
	failure := &courier.Failure{Step: 2, ID: "get", Iteration: []int{3}, Attempt: 4}
	for _, c := range []struct{ got, want string }{
		{of(failed, failure), "JobFailed 2 get [3] 4 error true"},
		{of(failed, &courier.Failure{Step: -1}), "JobFailed -1  [] 0 error true"},
		{of(failed, nil), "JobFailed -1  [] 0 error true"},
		{of(courier.AuditEntry{From: "running", To: "completed"}, failure), "JobCompleted -1  [] 0  true"},
		{of(courier.AuditEntry{Step: &step, ID: "put", Iteration: []int{0}, Attempt: 1, To: "running"}, nil), "StepStarted 1 put [0] 1  true"},
		{of(courier.AuditEntry{To: "created"}, nil), " -1  [] 0  false"},
		{of(courier.AuditEntry{Step: &step, To: "pending"}, nil), " 1  [] 0  false"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	n := 0
	executionlog.StepEvents(x, &courier.StepExecution{Step: 1, Attempt: 2, Events: []courier.StepEvent{{Name: "a"}, {Name: "b", Payload: []byte(`1`)}}}, func(e courier.Event) {
		if n++; e.Type != courier.EventStep || e.Name != []string{"", "a", "b"}[n] || e.Step != 1 || e.Attempt != 2 {
			t.Errorf("%+v", e)
		}
	})
	if n != 2 {
		t.Errorf("%d events of a step", n)
	}
}
