package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

const threeMembers = `[{"job": "a"}, {"job": "b"}, {"job": "c", "depends_on": ["a", "b"]}]`

// TestDefine saves a chain by version, once if it does not change.
func TestDefine(t *testing.T) {
	w := newWorld(t)
	by := &courier.DefineOptions{By: courier.By{Actor: "ann"}}
	for i, want := range []int{1, 1, 2} {
		c := read(t, `{"name": "c", "members": [{"job": "a"}, {"job": "b", "depends_on": ["a"]}]}`)
		c.Members[1].DependsOn[0].RunOnFailure = i == 2
		got, err := w.Define(t.Context(), c, by)
		if err != nil || got.Chain.Version != want || got.SavedBy != "ann" {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
	older := read(t, `{"name": "c", "members": [{"job": "a"}, {"job": "b", "depends_on": ["a"]}]}`)
	got, err := w.Define(t.Context(), older, &courier.DefineOptions{KeepNewer: true})
	if err != nil || !got.Superseded || got.Chain.Version != 2 || !got.Chain.Members[1].DependsOn[0].RunOnFailure {
		t.Errorf("an older one: %+v, %v", got, err)
	}
	list, err := w.Service.Versions(t.Context(), "c", store.VersionFilter{})
	if err != nil || len(list) != 2 || list[0].Chain.Version != 2 || list[1].Chain.Members[0].Name != "a" {
		t.Errorf("versions: %+v, %v", list, err)
	}
	if list, err := w.Service.List(t.Context(), store.DefinitionFilter{}); err != nil || len(list) != 1 {
		t.Errorf("chains: %+v, %v", list, err)
	}
}

// TestEnds has what the ends of members start, by the table of [chain.Plan], and which events
// follow.
func TestEnds(t *testing.T) {
	const cleanUp = `[{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"job": "c", "depends_on": [{"member": "b", "run_on_failure": true}]}]`
	for _, tt := range []struct {
		members string
		ends    string // of those that are queued, one after the other
		want    string
		events  string
	}{
		{threeMembers, "completed completed", "completed: a=completed b=completed c=completed", "ChainStarted, ChainCompleted"},
		{threeMembers, "failed", "failed: a=failed b=failed c=skipped", "ChainStarted, ChainFailed a broke"},
		{cleanUp, "completed completed completed", "completed: a=completed b=completed c=completed", "ChainStarted, ChainCompleted"},
		{cleanUp, "failed completed", "failed: a=failed b=skipped c=completed", "ChainStarted, ChainFailed a broke"},
		{cleanUp, "completed failed completed", "failed: a=completed b=failed c=completed", "ChainStarted, ChainFailed b broke"},
		{`[{"job": "a"}, {"job": "b", "depends_on": [{"member": "a", "required_status": "any"}]}]`, "failed completed", "completed: a=failed b=completed", "ChainStarted, ChainCompleted"},
	} {
		w := newWorld(t)
		id := w.start(tt.members, nil)
		for _, to := range strings.Fields(tt.ends) {
			w.end(courier.State(to))
		}
		x := w.is(id, tt.want)
		if got := strings.Join(w.events, ", "); got != tt.events {
			t.Errorf("%s: events %s, want %s", tt.want, got, tt.events)
		}
		if waited, err := w.Wait(t.Context(), id); err != nil || waited.State != x.State {
			t.Errorf("%s: Wait returns %s, %v", tt.want, waited.State, err)
		}
	}
}

// TestStart fixes versions and parameters when a chain starts.
func TestStart(t *testing.T) {
	w := newWorld(t)
	w.add(`{"name": "declares", "params": {"day": "none", "other": 1}, "steps": [{"type": "demo.do"}]}`)
	w.add(`{"name": "takes", "steps": [{"type": "demo.do"}]}`)
	if _, err := w.Define(t.Context(), read(t, `{"name": "p", "params": {"day": "monday", "n": 5}, "members": [{"job": "declares"},
		{"job": "takes", "priority": 3, "params": {"day": "late on ${context:params.day}", "m": "context:params.n"}, "depends_on": ["declares"]}]}`), nil); err != nil {
		t.Fatal(err)
	}
	opt := &chain.StartOptions{Params: map[string]any{"day": "friday"}, IdempotencyKey: "k", By: courier.By{Actor: "ann", Reason: "late files"}}
	planned, err := w.Prepare(t.Context(), "p", opt)
	if err != nil || len(planned.Members) != 2 || w.writes != 0 {
		t.Errorf("prepared %+v, %v", planned, err)
	}
	x, err := w.Start(t.Context(), "p", opt)
	if err != nil || x.By != "ann" || string(x.Params) != `{"day":"friday","n":5}` || w.writes != 1 {
		t.Fatalf("started %+v, %v", x, err)
	}
	if !strings.Contains(w.log.String(), "late files") {
		t.Errorf("the log does not have the reason: %s", &w.log)
	}
	w.add(`{"name": "takes", "steps": [{"type": "demo.do"}, {"type": "demo.do"}]}`)
	w.end(courier.Completed)
	w.end(courier.Completed)
	x = w.is(x.ID, "completed: declares=completed takes=completed")
	for i, want := range []string{`{"day":"friday","other":1} 0 1`, `{"day":"late on friday","m":5,"n":5} 3 1`} {
		e, err := w.store.Execution(t.Context(), x.Members[i].Execution)
		if got := fmt.Sprint(string(e.Params), " ", e.Priority, " ", e.Version); err != nil || got != want || e.Chain != x.ID {
			t.Errorf("%s has %s, %v; want %s", x.Members[i].Name, got, err, want)
		}
	}
	if again, err := w.Start(t.Context(), "p", opt); err != nil || again.ID != x.ID {
		t.Errorf("the same key has started %s, %v", again.ID, err)
	}
	if _, err := w.Start(t.Context(), "p", &chain.StartOptions{IdempotencyKey: "k"}); !errors.Is(err, courier.ErrConflict) {
		t.Errorf("the same key with other params: %v", err)
	}
	for _, tt := range []struct {
		opt  chain.StartOptions
		want string
	}{
		{chain.StartOptions{Params: map[string]any{"dya": 1}}, `params.dya: unknown parameter "dya"; did you mean "day"?`},
		{chain.StartOptions{Labels: map[string]string{"A b": "x"}, Trace: "x"}, `label "A b"`},
		{chain.StartOptions{By: courier.By{Actor: "a\x00"}}, "By: "},
		{chain.StartOptions{Params: map[string]any{"day": strings.Repeat("x", 1000)}}, "more than the 1000"},
	} {
		if _, err := w.Start(t.Context(), "p", &tt.opt); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.opt, err)
		}
	}
	if list, err := w.Executions(t.Context(), chain.Filter{Chain: "p"}); err != nil || len(list) != 1 {
		t.Errorf("%d chain executions, %v", len(list), err)
	}
}

// TestRequests carries out requests, and refuses those that the state does not allow.
func TestRequests(t *testing.T) {
	w, by := newWorld(t), courier.By{Actor: "ann"}
	ctx := t.Context()
	type request = func(context.Context, courier.ChainExecutionID, courier.By) (chain.Execution, error)
	ask := func(f request, id courier.ChainExecutionID, want string, asked ...string) {
		t.Helper()
		w.asked = nil
		if _, err := f(ctx, id, by); err != nil {
			t.Fatal(err)
		}
		w.is(id, want)
		if !slices.Equal(w.asked, asked) {
			t.Errorf("requests for executions: %q, want %q", w.asked, asked)
		}
	}
	refused := func(f request, id courier.ChainExecutionID, advice string) {
		t.Helper()
		_, err := f(ctx, id, by)
		if _, ok := errors.AsType[*chain.RequestError](err); !ok || !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), advice) {
			t.Errorf("error %v lacks %q", err, advice)
		}
	}
	id := w.start(threeMembers, &chain.StartOptions{Hold: true})
	w.is(id, "pending: a=pending b=pending c=pending")
	refused(w.Pause, id, "it can be released or cancelled")
	ask(w.Release, id, "running: a=queued b=queued c=pending")
	ask(w.Pause, id, "paused: a=paused b=paused c=pending", "pause a", "pause b")
	refused(w.Retry, id, "it can be resumed or cancelled")
	ask(w.Resume, id, "running: a=queued b=queued c=pending", "resume a", "resume b")
	w.end(courier.Failed)
	w.is(id, "failed: a=failed b=failed c=skipped")
	refused(w.Resume, id, "it can be retried or cancelled")
	ask(w.Retry, id, "running: a=queued b=queued c=pending", "resume a", "resume b")
	w.end(courier.Completed)
	ask(w.Cancel, id, "cancelled: a=completed b=completed c=cancelled", "cancel c")
	refused(w.Retry, id, "its state is final")
	if x := w.is(id, "cancelled: a=completed b=completed c=cancelled"); !errors.Is(x.Err(), courier.ErrCancelled) {
		t.Errorf("error %v", x.Err())
	}
	for _, f := range []request{w.Pause, w.Resume, w.Cancel, w.Release, w.Retry} {
		if _, err := f(ctx, "nothing", by); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `there is no chain execution "nothing"`) {
			t.Errorf("error %v", err)
		}
	}
}

// TestRerun starts a chain again with what the former execution was started with, whatever
// has become of that.
func TestRerun(t *testing.T) {
	w := newWorld(t)
	former := w.start(threeMembers, &chain.StartOptions{
		Params: map[string]any{"day": "monday", "n": 1}, Labels: map[string]string{"partner": "acme", courier.LabelBy: "ann"}, By: courier.By{Actor: "ann"}, IdempotencyKey: "k",
	})
	w.end(courier.Failed)
	w.is(former, "failed: a=failed b=failed c=skipped")
	again, err := w.Rerun(t.Context(), former, nil)
	if err != nil || again.ID == former || again.RerunOf != former || string(again.Params) != `{"day":"monday","n":1}` || again.IdempotencyKey != "" || again.By != "" {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if len(again.Labels) != 1 || again.Labels["partner"] != "acme" {
		t.Errorf("labels %v", again.Labels)
	}
	w.is(again.ID, "running: a=queued b=queued c=pending")
	changed, err := w.Rerun(t.Context(), former, &chain.StartOptions{Params: map[string]any{"n": 2}, Labels: map[string]string{"why": "repair"}, By: courier.By{Actor: "bob"}})
	if err != nil || string(changed.Params) != `{"day":"monday","n":2}` || changed.Labels["partner"] != "acme" || changed.Labels["why"] != "repair" || changed.By != "bob" {
		t.Errorf("with changes: %+v, %v", changed, err)
	}
	list, err := w.Executions(t.Context(), chain.Filter{RerunOf: former})
	if err != nil || len(list) != 2 {
		t.Errorf("%d reruns, %v", len(list), err)
	}
	if _, err := w.Rerun(t.Context(), "nothing", nil); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestNoRole has a store that keeps no chain executions: what needs it says so.
func TestNoRole(t *testing.T) {
	w := newWorld(t)
	s := chain.New(chain.Options{
		Store:       func() (chain.Store, error) { return nil, fmt.Errorf("no chains here: %w", errors.ErrUnsupported) },
		Definitions: w, Job: w.job, Trace: func(context.Context) string { return "" }, NewID: w.ids.New, MaxParams: 1000,
	})
	c := read(t, `{"name": "c", "members": [{"job": "a"}]}`)
	if _, err := w.Define(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"define": func() error { _, err := s.Define(t.Context(), c, nil); return err },
		"start":  func() error { _, err := s.Start(t.Context(), "c", nil); return err },
		"list":   func() error { _, err := s.Executions(t.Context(), chain.Filter{}); return err },
		"cancel": func() error { _, err := s.Cancel(t.Context(), "x", courier.By{}); return err },
	} {
		if err := f(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no chains here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := s.Get(t.Context(), "c", 0); err != nil || got.Version != 1 {
		t.Errorf("definitions can be read: %+v, %v", got, err)
	}
}
