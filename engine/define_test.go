package engine_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// typed returns a harness with two typed steps, so that definitions can be
// checked against them.
func typed(t *testing.T) *couriertest.Harness {
	return typedWith(t, nil)
}

func typedWith(t *testing.T, opt *engine.Options) *couriertest.Harness {
	h := couriertest.New(t, opt)
	courier.RegisterFunc(h.Registry, "demo.list", listFiles, nil)
	courier.RegisterFunc(h.Registry, "demo.get", nop, nil)
	return h
}

type listOutput struct {
	FileList []struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
	} `json:"file_list"`
}

func listFiles(ctx, *courier.Context, struct{}) (listOutput, error) { return listOutput{}, nil }

func TestDefineReportsEverythingAtOnce(t *testing.T) {
	h := typed(t)
	_, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "bad\u0000", "limit": -1, "failure_policy": "stop", "steps": [
		{"id": "list", "type": "demo.lst"},
		{"id": "Get", "type": "demo.get", "config": {"paht": "x"}},
		{"id": "get", "type": "demo.get", "config": {"path": "context:3.file_list"}},
		{"type": "demo.list"},
		{"type": "demo.get", "config": {"path": "context:3.file_lst", "times": "three"}},
		{"type": "demo.get", "config": {"path": "context:loop.current_item.name"}},
		{"type": "flow.if", "config": {"left": "a", "operator": "matches", "right": "b"}},
		{"type": "flow.if", "config": {"left": "a", "operator": "regex", "right": "("}}, {"type": "flow.end"},
		{"type": "flow.end"},
		{"type": "flow.esle"},
		{"type": "flow.foreach", "config": {"source": "context:nobody.files"}}]}`), nil)
	d, ok := errors.AsType[*courier.DefinitionError](err)
	if !ok || !errors.Is(err, courier.ErrInvalid) {
		t.Fatalf("error = %v", err)
	}
	for _, want := range []string{
		"control character", "limit", `did you mean "demo.list"?`, `did you mean "path"?`, `"Get"`,
		`no output "file_lst"; did you mean "file_list"?`, "must be a whole number", "loop", "matches", "regex", `"flow.else"`, "nobody", "flow.end",
	} {
		found := false
		for _, p := range d.Problems {
			found = found || strings.Contains(p.String(), want)
		}
		if !found {
			t.Errorf("no problem mentions %q", want)
		}
	}
	if !strings.Contains(err.Error(), "nothing was saved") {
		t.Errorf("the error does not say what state things are in")
	}
	for _, p := range d.Problems {
		t.Log(p)
	}
	if list, _ := h.Store.List(t.Context(), store.DefinitionFilter{Kind: store.Job, Limit: 10}); len(list) != 0 {
		t.Errorf("saved: %v", list)
	}
}

var big = flag.Int("big", raced.Or(2, 20), "how many megabytes the large value of TestDefineTakesLargeDefinitions has")

func TestDefineTakesLargeDefinitions(t *testing.T) {
	h := typedWith(t, &engine.Options{MaxOutput: 1 << 30, MaxValue: 1 << 30})
	within := func(limit time.Duration, what string, f func()) {
		t.Helper()
		start := time.Now()
		f()
		t.Logf("%s: %v", what, time.Since(start))
		if d := time.Since(start); d > limit {
			t.Errorf("%s took %v", what, d)
		}
	}
	many := raced.Or(5_000, 100_000)
	within(30*time.Second, fmt.Sprint(many, " steps"), func() {
		job := courier.Job{Name: "many", Steps: nopStepsOf("demo.get", many)}
		if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Errorf("%d steps: %v", many, err)
		}
	})
	within(30*time.Second, fmt.Sprint(many, " bad steps"), func() {
		_, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "bad", Steps: nopStepsOf("demo.gte", many)}, nil)
		if err == nil || len(err.Error()) > 20_000 {
			t.Errorf("%d bad steps: %.300v", many, err)
		}
	})
	within(10*time.Second, "1,000 levels", func() {
		job := courier.Job{Name: "deep"}
		for range 1000 {
			job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.if", Config: m{"left": "a", "operator": "equals", "right": "A"}})
		}
		job.Steps = append(job.Steps, courier.StepSpec{Type: "demo.get"})
		for range 1000 {
			job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.end"})
		}
		h.Run(job, nil).RequireState(courier.Completed).RequireTrace("1000 demo.get completed")
	})
	within(3*time.Minute, fmt.Sprint(*big, " MB in a value"), func() {
		job := courier.Job{Name: "big", Steps: []courier.StepSpec{{Type: "demo.get", Config: m{"path": strings.Repeat("x", *big<<20)}}}}
		h.Run(job, nil).RequireState(courier.Completed)
	})
}

func nopStepsOf(typ string, n int) []courier.StepSpec {
	steps := nopSteps(n, m{"path": "x"})
	for i := range steps {
		steps[i].Type = typ
	}
	return steps
}

func TestDefineRefusesWhatJSONCannotHold(t *testing.T) {
	h := typed(t)
	for name, job := range map[string]courier.Job{
		"a channel":     {Name: "c", Steps: []courier.StepSpec{{Type: "demo.get", Config: m{"path": make(chan int)}}}},
		"invalid UTF-8": {Name: "c", Steps: []courier.StepSpec{{Type: "demo.get", Config: m{"path": "caf\xe9"}}}},
		"NUL":           {Name: "c", Steps: []courier.StepSpec{{Type: "demo.get", Config: m{"path": "a\x00"}}}},
		"a long name":   {Name: strings.Repeat("n", 201), Steps: nopStepsOf("demo.get", 1)},
		"no name":       {Steps: nopStepsOf("demo.get", 1)},
	} {
		if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBigNumbersSurvive(t *testing.T) {
	h := couriertest.New(t, nil)
	echo := h.Stub("demo.echo", nil)
	courier.RegisterFunc(h.Registry, "demo.numbers", func(_ ctx, _ *courier.Context, _ struct{}) (struct {
		A json.Number `json:"a"`
		B uint64      `json:"b"`
	}, error) {
		return struct {
			A json.Number `json:"a"`
			B uint64      `json:"b"`
		}{"1.100000000000000000001", 1<<53 + 1}, nil
	}, nil)
	h.Run(h.Job(`{"name": "n", "params": {"p": 9007199254740993}, "steps": [
		{"type": "demo.numbers"}, {"type": "demo.echo", "config": {"t": "${context:0.a} ${context:0.b} ${context:params.p}"}}]}`), nil)
	if got := echo.Calls()[0].Config["t"]; got != "1.100000000000000000001 9007199254740993 9007199254740993" {
		t.Errorf("got %v", got)
	}
}

func TestSubstitutedValuesAreNotScanned(t *testing.T) {
	h := couriertest.New(t, nil)
	echo := h.Stub("demo.echo", nil)
	h.Stub("demo.evil", couriertest.Returns(m{"name": "${context:job.name} context:job.name", "whole": "secret:db"}))
	h.Run(h.Job(`{"name": "n", "steps": [{"type": "demo.evil"}, {"type": "demo.echo", "config": {
		"in": "a ${context:0.name}", "whole": "context:0.whole", "literal": "$context:0.name"}}]}`), nil).RequireState(courier.Completed)
	got := echo.Calls()[0].Config
	if got["in"] != "a ${context:job.name} context:job.name" || got["whole"] != "secret:db" || got["literal"] != "context:0.name" {
		t.Errorf("config = %v", got)
	}
}

func TestMissingValueIsPermanentAndNamesTheField(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", couriertest.Returns(m{"file": "x"}))
	h.Stub("demo.b", nil)
	r := h.Run(h.Job(`{"name": "n", "failure_policy": "retry_step", "steps": [{"type": "demo.a"}, {"type": "demo.b", "config": {"in": {"path": ["context:0.fiel"]}}}]}`), nil)
	r.RequireState(courier.Failed).RequireTrace("0 demo.a completed", "1 demo.b failed")
	r.RequireError("config.in.path[0]").RequireError(`did you mean "0.file"?`)
	if r.Failure.Reason != courier.ReasonConfig {
		t.Errorf("reason = %s", r.Failure.Reason)
	}
}

func TestConditionThatCannotBeEvaluated(t *testing.T) {
	const job = `{"name": "n", "failure_policy": %q, "steps": [{"type": "demo.a"},
		{"type": "flow.foreach", "config": {"source": "context:0.files"}}, {"type": "demo.a"}, {"type": "flow.end"}, {"type": "demo.a"}]}`
	for policy, want := range map[string][]string{
		"retry_step":        {"0 demo.a completed", "1 flow.foreach failed"},
		"skip_and_continue": {"0 demo.a completed", "1 flow.foreach skipped", "4 demo.a completed"},
	} {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", couriertest.Returns(m{"files": 7}))
		r := h.Run(h.Job(fmt.Sprintf(job, policy)), nil).RequireTrace(want...)
		requireAudit(t, r)
	}
}

func TestOptionsErrorsAreClear(t *testing.T) {
	h := typed(t)
	if _, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "a", Steps: nopStepsOf("demo.get", 1)}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Version: 7})
	if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), "the latest is 1") {
		t.Errorf("an unknown version: %v", err)
	}
	_, err = h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Delay: -1})
	if !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("a negative delay: %v", err)
	}
	_, err = h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Params: m{"f": func() {}}})
	if !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("a function as parameter: %v", err)
	}
	for _, f := range []func() error{
		func() error { return errOf(h.Engine.Pause(t.Context(), "nobody", courier.By{Actor: "me"})) },
		func() error {
			return errOf(h.Engine.Resume(t.Context(), "nobody", &courier.ResumeOptions{By: courier.By{Actor: "me"}}))
		},
		func() error {
			return errOf(h.Engine.Cancel(t.Context(), "nobody", &courier.CancelOptions{By: courier.By{Actor: "me"}}))
		},
		func() error { return errOf(h.Engine.Release(t.Context(), "nobody", courier.By{Actor: "me"})) },
		func() error { _, err := h.Engine.Wait(t.Context(), "nobody"); return err },
	} {
		if err := f(); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("an unknown execution: %v", err)
		}
	}
}
