package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
)

// TestResult resolves the result of a job when it completes, and tells subscribers of it.
func TestResult(t *testing.T) {
	for name, test := range map[string]struct{ result, want string }{
		"none":               {"", ""},
		"text":               {"context:sum.url", `"https://x/1"`},
		"number":             {"context:sum.n", "12.50"},
		"object":             {"context:sum.all", `{"a":[1]}`},
		"in text":            {"see ${context:sum.url} of ${context:params.day}", `"see https://x/1 of today"`},
		"a branch not taken": {"context:other.url", "null"},
		"too large":          {"context:sum.large", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, nil)
				h.Stub("demo.sum", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
					return map[string]any{"url": "https://x/1", "n": json.Number("12.50"), "all": map[string]any{"a": []int{1}}, "large": strings.Repeat("x", 1<<20)}, nil
				})
				log := new(logbook)
				var mu sync.Mutex
				told := make(map[courier.EventType]string)
				e := engine.New(h.Store, h.Registry, &engine.Options{
					Workspace: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil)),
					Subscribers: map[string]func(context.Context, notify.Notification) error{
						"f": func(_ context.Context, n notify.Notification) error {
							mu.Lock()
							defer mu.Unlock()
							told[n.Type] = string(n.Result)
							return nil
						},
					},
				})
				if _, err := e.Subscriptions().Set(t.Context(), notify.Subscription{Name: "s", Kind: notify.KindFunc, Func: "f", Events: []courier.EventType{courier.EventJobCompleted, courier.EventJobStarted}}, courier.By{}); err != nil {
					t.Fatal(err)
				}
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer e.Stop(t.Context())
				job := courier.Job{Name: "job", Result: test.result, Params: map[string]any{"day": "today"}, Steps: []courier.StepSpec{
					{ID: "sum", Type: "demo.sum"},
					{Type: "flow.if", Config: map[string]any{"left": 1, "operator": "equals", "right": 2}}, {ID: "other", Type: "demo.sum"}, {Type: "flow.end"},
				}}
				if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
					t.Fatal(err)
				}
				x, err := e.Enqueue(t.Context(), "job", nil)
				if err == nil {
					x, err = e.Wait(t.Context(), x.ID)
				}
				time.Sleep(time.Second)
				if err != nil || x.State != courier.Completed || string(x.Result) != test.want {
					t.Fatalf("%s with %s, %v, want %s\n%s", x.State, x.Result, err, test.want, log.String())
				}
				mu.Lock()
				defer mu.Unlock()
				if len(told) != 2 || told[courier.EventJobStarted] != "" || told[courier.EventJobCompleted] != test.want {
					t.Errorf("told %q", told)
				}
				if warned := strings.Contains(log.String(), "without its result"); warned != (test.want == "null") {
					t.Errorf("the log has\n%s", log.String())
				}
			})
		})
	}
}

// TestResultIsChecked defines jobs whose result can't be had.
func TestResultIsChecked(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.sum", nil)
	for result, want := range map[string]string{
		"context:summ.url":   `no step has the id "summ"; did you mean "sum"?`,
		"context:params.dya": `declares no param "dya"; did you mean "day"?`,
		"context:loop.index": "has a value only inside a flow.foreach",
		"context:params.key": "is a secret",
		"secret:key":         "secret",
		"context:":           "result",
		"a\x01b":             "control character",
		"context:9.x":        "there is no step 9",
	} {
		job := courier.Job{Name: "job", Result: result, Params: map[string]any{"day": nil, "key": courier.Param{Type: "text", Secret: true}}, Steps: []courier.StepSpec{{ID: "sum", Type: "demo.sum"}}}
		_, err := h.Engine.Jobs().Define(t.Context(), job, nil)
		if d, ok := errors.AsType[*courier.DefinitionError](err); !ok || len(d.Problems) != 1 || d.Problems[0].Field != "result" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", result, err, want)
		}
	}
}
