package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
)

// TestJobTimeout checks that the timeout of a job holds for what is enqueued, scheduled
// and started in a chain, and that the option of Enqueue overrides it.
func TestJobTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.slow", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			select {
			case <-c.Done():
				return nil, context.Cause(c)
			case <-time.After(time.Hour):
				return nil, nil
			}
		})
		job := h.Job(`{"name": "slow", "timeout_seconds": 90, "steps": [{"type": "demo.slow", "timeout_seconds": 0}]}`)
		start := time.Now()
		r := h.Run(job, nil).RequireState(courier.Failed)
		if f := r.Execution.Failure; f.Reason != courier.ReasonExecution || time.Since(start) != 90*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), f)
		}
		for _, timeout := range []time.Duration{0, 2 * time.Hour} {
			h.RunWith(job, &courier.EnqueueOptions{Timeout: &timeout}).RequireState(courier.Completed)
		}
		if _, err := h.Engine.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Job: "slow", Every: time.Hour}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		chain := chain.Chain{Name: "c", Members: []chain.Member{{Name: "m", Job: "slow"}}}
		if _, err := h.Engine.Chains().Define(t.Context(), chain, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Chains().Start(t.Context(), "c", nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		list, err := h.Engine.Executions().List(t.Context(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range list {
			if strings.HasPrefix(x.IdempotencyKey, "schedule:") || x.Chain != "" {
				got = append(got, fmt.Sprint(x.Timeout, " ", x.State))
			}
		}
		if len(got) < 3 || slices.ContainsFunc(got, func(s string) bool { return s != "1m30s failed" && s != "1m30s running" }) {
			t.Errorf("scheduled, and of a chain: %q", got)
		}
		if err := h.Engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// overdueObserver notes overdue executions with the time since now.
func overdueObserver(seen *[]string) []func(courier.Event) {
	begin := time.Now()
	return []func(courier.Event){func(ev courier.Event) {
		if ev.Type == courier.EventJobOverdue {
			*seen = append(*seen, fmt.Sprintf("%v %s %s: %s", time.Since(begin), ev.Job, ev.Reason, ev.Error))
		}
	}}
}

// overdueEngine returns a started engine whose observer notes overdue executions with
// the time since the test began.
func overdueEngine(t *testing.T, s store.Store, seen *[]string) *engine.Engine {
	t.Helper()
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.sleep", func(c context.Context, _ *courier.Context, cfg struct {
		Seconds int  `json:"seconds"`
		Fail    bool `json:"fail"`
	}) (struct{}, error) {
		select {
		case <-c.Done():
			return struct{}{}, context.Cause(c)
		case <-time.After(time.Duration(cfg.Seconds) * time.Second):
		}
		if cfg.Fail {
			return struct{}{}, courier.Permanent(errors.New("it broke"))
		}
		return struct{}{}, nil
	}, nil)
	e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "here", Observers: overdueObserver(seen)})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

func defineJob(t *testing.T, e *engine.Engine, job courier.Job) {
	t.Helper()
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
}

// sleeper is a job of one step that takes some seconds.
func sleeper(name string, seconds int, change func(*courier.Job)) courier.Job {
	none := time.Duration(0)
	job := courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "test.sleep", Timeout: &none, Config: m{"seconds": seconds}}}}
	if change != nil {
		change(&job)
	}
	return job
}

// TestOverdue checks that an execution that takes too long raises an event for each of
// its deadlines when it passes, once on two engines, and goes on.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), &mailbox{}
		var seen, other []string
		e := overdueEngine(t, s, &seen)
		told(t, s, box, func(o *engine.Options) { o.Observers = overdueObserver(&other) })
		sub := notify.Subscription{Name: "late", Kind: notify.KindFunc, Func: "box", Events: []courier.EventType{courier.EventJobOverdue}}
		if _, err := e.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		defineJob(t, e, sleeper("slow", 3*3600, func(j *courier.Job) {
			j.MaxDuration, j.ExpectedBy = time.Hour, "01:30 Europe/Berlin" // 00:30 UTC
		}))
		defineJob(t, e, sleeper("quick", 60, func(j *courier.Job) { j.MaxDuration, j.ExpectedBy = time.Hour, "00:30" }))
		x, err := e.Enqueue(t.Context(), "slow", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Enqueue(t.Context(), "quick", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		got := append(seen, other...)
		slices.Sort(got)
		want := []string{
			"1h0m0s slow max_duration: the execution is running, and was expected to end by 2000-01-01T01:00:00Z",
			"30m0s slow expected_by: the execution is running, and was expected to end by 2000-01-01T00:30:00Z",
		}
		if !slices.Equal(got, want) {
			t.Errorf("observers saw\n%s", strings.Join(got, "\n"))
		}
		var mails []string
		for i, n := range box.got() {
			late := box.at[i].Sub(n.At) > 10*time.Second // another engine has kept it
			mails = append(mails, fmt.Sprint(n.Type, " ", n.Reason, " ", n.Job, " ", n.Version, " ", n.At.Format("15:04:05"), " ", late, " ", n.Execution == x.ID))
		}
		if want := []string{"JobOverdue expected_by slow 1 00:30:00 false true", "JobOverdue max_duration slow 1 01:00:00 false true"}; !slices.Equal(mails, want) {
			t.Errorf("the subscriber got %q", mails)
		}
		if x, err := e.Executions().Get(t.Context(), x.ID); err != nil || x.State != courier.Completed {
			t.Errorf("the execution is %s (%v)", x.State, err)
		}
		if err := storetest.CheckExecution(t.Context(), s, x.ID); err != nil {
			t.Error(err)
		}
	})
}

// TestOverdueWithoutWorker checks that an execution is overdue which no worker takes, or
// whose worker was lost, which another engine enqueued, and that a deadline which passes
// while it is failed raises nothing.
func TestOverdueWithoutWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		reg := new(courier.Registry)
		client := engine.New(s, reg, nil) // is never started
		courier.RegisterFunc(reg, "test.nowhere", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
		defineJob(t, client, courier.Job{Name: "stranded", MaxDuration: 10 * time.Minute, Steps: []courier.StepSpec{{Type: "test.nowhere"}}})
		if _, err := client.Enqueue(t.Context(), "stranded", &courier.EnqueueOptions{Delay: time.Minute}); err != nil {
			t.Fatal(err)
		}
		lost, err := client.Enqueue(t.Context(), "stranded", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Claim(t.Context(), store.ClaimRequest{
			Worker: "dies", StepTypes: []string{"test.nowhere"}, Queues: []string{courier.DefaultQueue}, Only: []courier.ExecutionID{lost.ID}, Max: 1, Lease: 15 * time.Second,
		})
		if err != nil || len(got.List) != 1 {
			t.Fatal(got, err)
		}
		var seen []string
		e := overdueEngine(t, s, &seen)
		defineJob(t, e, sleeper("fails", 60, func(j *courier.Job) {
			j.MaxDuration = time.Hour
			j.Steps[0].Config["fail"] = true
		}))
		x, err := e.Enqueue(t.Context(), "fails", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := e.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		want := []string{
			"10m0s stranded max_duration: the execution is running, and was expected to end by 2000-01-01T00:10:00Z",
			"11m0s stranded max_duration: the execution is queued, and was expected to end by 2000-01-01T00:11:00Z",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("observers saw\n%s", strings.Join(seen, "\n"))
		}
	})
}

// TestOverdueClaimedElsewhere checks that the engine that claims an execution raises
// deadlines that are shorter than the time between two looks at the store.
func TestOverdueClaimedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var seen []string
		e := overdueEngine(t, s, &seen)
		defineJob(t, e, sleeper("slow", 3600, func(j *courier.Job) { j.MaxDuration, j.ExpectedBy = 20*time.Second, "00:01" }))
		reg := new(courier.Registry)
		courier.RegisterFunc(reg, "test.sleep", func(context.Context, *courier.Context, map[string]any) (struct{}, error) { return struct{}{}, nil }, nil)
		time.Sleep(10 * time.Second)
		if _, err := engine.New(s, reg, nil).Enqueue(t.Context(), "slow", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var at []string
		for _, line := range seen {
			at = append(at, strings.Fields(line)[0])
		}
		if want := []string{"30s", "1m0s"}; !slices.Equal(at, want) {
			t.Errorf("overdue after %q, want %q", at, want)
		}
	})
}

// TestDeadlineProblems checks what Define refuses of the timeout and the deadlines of a
// job, with its place.
func TestDeadlineProblems(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.step", nil)
	for expected, want := range map[string]string{
		"7:30":                `"7:30" is not a time of day; write hours and minutes, and a time zone, such as "07:30 Europe/Berlin"`,
		"24:00 UTC":           `"24:00 UTC" is not a time of day`,
		"07:30 Europe/Berln":  `there is no time zone "Europe/Berln"; did you mean "Europe/Berlin"?`,
		"07:30 CEST":          `it is short for a time of the year`,
		"07:30 Local":         `time zone "Local" is another one on every machine`,
		"07:30  Europe/Paris": `there is no time zone " Europe/Paris"`,
		"soon":                `"soon" is not a time of day`,
		"07:30":               "",
		"23:59 Asia/Kolkata":  "",
	} {
		text := fmt.Sprintf("{\"name\": \"j\",\n  \"expected_by\": %q, \"steps\": [{\"type\": \"demo.step\"}]}", expected)
		c, err := h.Engine.Check(t.Context(), []courier.Source{{File: "j.json", Text: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case want == "" && len(c.Problems) == 0:
		case want == "" || len(c.Problems) != 1 || !strings.HasPrefix(c.Problems[0].Message, want) && !strings.Contains(c.Problems[0].Message, want):
			t.Errorf("%q: %v, want %q", expected, c.Problems, want)
		case c.Problems[0].Line != 2 || c.Problems[0].Column != 18 || c.Problems[0].Field != "expected_by":
			t.Errorf("%q: %v", expected, c.Problems[0])
		}
	}
	_, err := h.Engine.Jobs().Define(t.Context(), courier.Job{
		Name: "j", Timeout: -time.Second, MaxDuration: -time.Minute, ExpectedBy: "x", Steps: []courier.StepSpec{{Type: "demo.step"}},
	}, nil)
	const want = `define job "j": 3 problems (nothing was saved):
  timeout_seconds: -1 is negative; 0 means none
  max_duration_seconds: -60 is negative; 0 means none
  expected_by: "x" is not a time of day; write hours and minutes, and a time zone, such as "07:30 Europe/Berlin"`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v", err)
	}
}
