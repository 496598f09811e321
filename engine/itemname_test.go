package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// The error of a failed item says by what people know the item, without secrets.
func TestFailedItemsHaveNames(t *testing.T) {
	h := couriertest.New(t, &engine.Options{Secrets: func(context.Context, courier.SecretRequest) (string, error) { return "canary-QzPlain7", nil }})
	h.Stub("demo.fails", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		return nil, errors.New("is bad")
	})
	job := h.Job(`{"name": "a", "params": {"files": []}, "steps": [
		{"type": "flow.foreach", "config": {"source": "context:params.files", "on_item_failure": "continue"}},
		{"type": "demo.fails", "config": {"token": "secret:t"}},
		{"type": "flow.end"}]}`)
	r := h.Run(job, map[string]any{"files": []any{
		map[string]any{"path": "in/a.csv", "name": "a.csv"}, map[string]any{"name": "b\x01", "size": 1}, "c.csv", 7, map[string]any{"size": 1}, "to canary-QzPlain7",
	}}).RequireState(courier.Failed)
	items, err := h.Engine.Executions().FailedItems(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range items {
		got = append(got, i.Error)
	}
	want := []string{
		`item "a.csv" (index 0): is bad`, `item "b\x01" (index 1): is bad`, `item "c.csv" (index 2): is bad`, `item "7" (index 3): is bad`, "is bad",
		`item "to [secret t]" (index 5): is bad`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the errors are %q, want %q", got, want)
	}
	got = nil
	for _, i := range items {
		got = append(got, i.Label)
	}
	if want := []string{"a.csv", "b\x01", "c.csv", "7", "4", "to [secret t]"}; !slices.Equal(got, want) {
		t.Errorf("the labels are %q, want %q", got, want)
	}
}

// The label of a loop names an item wherever an index is shown: in records, in the failure, in
// the values of the loop, in events and in the trail.
func TestLabelsOfItems(t *testing.T) {
	events := make(chan courier.Event, 100)
	h := couriertest.New(t, &engine.Options{Observers: []func(courier.Event){func(e courier.Event) { events <- e }}})
	var failed, seen any
	h.Stub("demo.fails", func(_ context.Context, _ *courier.Context, config map[string]any) (map[string]any, error) {
		if config["file"] == "b.csv" {
			return nil, errors.New("is bad")
		}
		seen = config["label"]
		return nil, nil
	})
	h.Stub("demo.tell", func(_ context.Context, _ *courier.Context, config map[string]any) (map[string]any, error) {
		failed = config["failed"]
		return nil, nil
	})
	job := h.Job(`{"name": "a", "params": {"sets": [{"of": "x", "files": ["a.csv", "b.csv"]}], "day": "Monday"}, "steps": [
		{"type": "flow.foreach", "config": {"source": "context:params.sets", "label": "${context:loop.current_item.of} of ${context:params.day}"}},
		{"id": "each", "type": "flow.foreach", "config": {"source": "context:loop.current_item.files", "on_item_failure": "continue"}},
		{"id": "get", "type": "demo.fails", "config": {"file": "context:loop.current_item", "label": "${context:loop.0.label}/${context:loop.label}"}},
		{"type": "flow.end"},
		{"type": "demo.tell", "config": {"failed": "context:each.failed"}},
		{"type": "flow.end"}]}`)
	r := h.Run(job, nil).RequireState(courier.Failed)
	if want := "x of Monday/a.csv"; seen != want {
		t.Errorf("the step sees the label %q, want %q", seen, want)
	}
	x, err := h.Engine.Executions().Get(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	records, err := h.Engine.Executions().StepsPage(t.Context(), store.StepFilter{Execution: x.ID, FailedItems: true})
	if err != nil {
		t.Fatal(err)
	}
	labels := []string{"x of Monday", "b.csv"}
	if len(records) != 1 || !slices.Equal(records[0].ItemLabels, labels) || records[0].Error != `item "b.csv" (index 1): is bad` {
		t.Errorf("the records are %+v", records)
	}
	if want := fmt.Sprint([]any{map[string]any{"index": 1, "label": "b.csv", "step": "get", "class": "error", "message": `item "b.csv" (index 1): is bad`}}); fmt.Sprint(failed) != want {
		t.Errorf("each.failed is %v, want %v", failed, want)
	}
	var told []string
	for e := range events {
		if e.Type == courier.EventJobFailed {
			close(events)
		}
		if e.ItemLabels != nil || e.Failed != nil {
			told = append(told, fmt.Sprint(e.Type, e.ItemLabels, e.FailedItems, e.Failed))
		}
	}
	want := []string{
		"StepFailed[x of Monday b.csv] 0 []",
		`JobFailed[] 1 [{1 b.csv get error item "b.csv" (index 1): is bad}]`,
	}
	if !slices.Equal(told, want) {
		t.Errorf("the events are\n%q, want\n%q", told, want)
	}
	found, err := h.Engine.Executions().FindFiles(t.Context(), engine.FileFilter{Name: "B.csv"})
	if err != nil || len(found) != 1 || found[0].Item != "b.csv" || len(found[0].Files) != 0 {
		t.Errorf("FindFiles: %+v, %v", found, err)
	}
}

// An execution that fails in a loop says in which item. A label that can't be made is the
// index, which is logged once.
func TestLabelOfTheFailure(t *testing.T) {
	for _, c := range []struct {
		label, want string
		lines       int
	}{
		{`"context:loop.current_item.of"`, `job "a": step 1 (demo.fails), item "x" (index 0): is bad`, 0},
		{`null`, `job "a": step 1 (demo.fails), item 0: is bad`, 0},
		{`"context:loop.current_item.no"`, `job "a": step 1 (demo.fails), item 0: is bad`, 1},
		{`"context:loop.current_item.no", "on_item_failure": "continue"`, `job "a": 2 items failed; the last is item 1: is bad; a resume executes the failed items again`, 1},
	} {
		var log lockedbuffer.Buffer
		h := couriertest.New(t, &engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		h.Stub("demo.fails", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			return nil, errors.New("is bad")
		})
		job := h.Job(fmt.Sprintf(`{"name": "a", "params": {"sets": [{"of": "x"}, {"of": "y"}]}, "steps": [
			{"type": "flow.foreach", "config": {"source": "context:params.sets", "label": %s}}, {"type": "demo.fails"}, {"type": "flow.end"}]}`, c.label))
		r := h.Run(job, nil).RequireState(courier.Failed)
		x, err := h.Engine.Executions().Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Err(); err == nil || err.Error() != c.want {
			t.Errorf("label %s: the error is %v, want %s", c.label, err, c.want)
		}
		if n := strings.Count(log.String(), "name the item of a loop"); n != c.lines {
			t.Errorf("label %s: it is logged %d times, want %d:\n%s", c.label, n, c.lines, log.String())
		}
	}
}

// The failure of an execution names the item that has failed last, also if another engine has
// executed that.
func TestFailureNamesTheItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		begun := make(chan struct{})
		h.Stub("demo.check", func(_ context.Context, _ *courier.Context, config map[string]any) (map[string]any, error) {
			if config["file"] == "b.csv" {
				return nil, errors.New("is bad")
			}
			return nil, nil
		})
		h.Stub("demo.slow", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			begun <- struct{}{}
			time.Sleep(time.Second)
			return nil, nil
		})
		job := h.Job(`{"name": "a", "steps": [
			{"type": "flow.foreach", "config": {"source": ["a.csv", "b.csv", "c.csv"], "on_item_failure": "continue"}},
			{"type": "demo.check", "config": {"file": "context:loop.current_item"}}, {"type": "flow.end"},
			{"type": "demo.slow"}, {"type": "demo.check"}]}`)
		first, second := engine.New(h.Store, h.Registry, nil), engine.New(h.Store, h.Registry, nil)
		if _, err := first.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		x, err := first.Enqueue(t.Context(), "a", nil)
		if err := cmp.Or(err, first.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		<-begun
		if err := cmp.Or(first.Stop(t.Context()), second.Start(t.Context())); err != nil { // the execution is handed over
			t.Fatal(err)
		}
		defer second.Stop(t.Context())
		x, err = second.Wait(t.Context(), x.ID)
		const want = `1 item failed: item "b.csv" (index 1): is bad; a resume executes the failed items again`
		if x.Failure == nil || x.Failure.Message != want {
			t.Errorf("the failure is %+v, %v, want %s", x.Failure, err, want)
		}
	})
}

// An item without a label is named by its index, also if its error reads like the name of another.
func TestFailureOfAnItemWithoutLabel(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.fails", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		return nil, errors.New("item 7 of the order is bad")
	})
	r := h.Run(h.Job(`{"name": "a", "steps": [
		{"type": "flow.foreach", "config": {"source": [{"of": "x"}, {"of": "y"}], "on_item_failure": "continue"}}, {"type": "demo.fails"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
	x, err := h.Engine.Executions().Get(t.Context(), r.ID)
	const want = "2 items failed; the last is item 1: item 7 of the order is bad; a resume executes the failed items again"
	if err != nil || x.Failure.Message != want {
		t.Errorf("the failure is %+v, %v, want %s", x.Failure, err, want)
	}
}

// Subscribers are told which items have failed, when an execution has failed with them.
func TestFailedItemsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.fails", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			return nil, courier.WithClass(errors.New("is bad"), courier.ReasonInvalid)
		})
		told := make(chan notify.Notification, 10)
		e := engine.New(h.Store, h.Registry, &engine.Options{
			Workspace: t.TempDir(),
			Subscribers: map[string]func(context.Context, notify.Notification) error{
				"f": func(_ context.Context, n notify.Notification) error { told <- n; return nil },
			},
		})
		sub := notify.Subscription{Name: "s", Kind: notify.KindFunc, Func: "f", Events: []courier.EventType{courier.EventJobFailed, courier.EventJobCompleted}}
		if _, err := e.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(t.Context())
		var files []any
		for i := range 25 {
			files = append(files, fmt.Sprintf("in-%d.csv", i))
		}
		for config, want := range map[string]string{
			`"on_item_failure": "continue"`:                     `JobFailed [] 25 20 {19 in-19.csv get invalid item "in-19.csv" (index 19): is bad}`,
			`"on_item_failure": "continue", "then": "complete"`: `JobCompleted [] 25 20 {19 in-19.csv get invalid item "in-19.csv" (index 19): is bad}`,
			`"on_item_failure": "stop"`:                         `JobFailed [in-0.csv] 0 0 {}`,
		} {
			var job courier.Job
			if err := json.Unmarshal(fmt.Appendf(nil, `{"name": "a", "params": {"files": []}, "steps": [
				{"type": "flow.foreach", "config": {"source": "context:params.files", %s}}, {"id": "get", "type": "demo.fails"}, {"type": "flow.end"}]}`, config), &job); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Params: map[string]any{"files": files}}); err != nil {
				t.Fatal(err)
			}
			n := <-told
			last := "{}"
			if len(n.Failed) > 0 {
				last = fmt.Sprint(n.Failed[len(n.Failed)-1])
			}
			if got := fmt.Sprintln(n.Type, n.ItemLabels, n.FailedItems, len(n.Failed), last); got != want+"\n" {
				t.Errorf("%s: told %s, want %s", config, got, want)
			}
		}
	})
}
