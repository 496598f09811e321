package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// TestFindFiles asks where a file is: it was received, written, and sent, the last one by
// a step that failed at first.
func TestFindFiles(t *testing.T) {
	h := couriertest.New(t, nil)
	fail := true
	step := func(name string, f func(*courier.Context) error) {
		h.Stub(name, func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
			return nil, f(job)
		})
	}
	step("demo.get", func(job *courier.Context) error {
		f, err := job.Files().Create("in/INV-0423.csv")
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("1"))
		if err := errors.Join(err, f.Commit()); err != nil {
			return err
		}
		return errors.Join(job.Files().Wrote("in/INV-0423.csv"), job.Files().ReportRemote(courier.File{Path: "/out/INV-0423.csv", Size: 1, Connection: "acme", Received: true}))
	})
	step("demo.put", func(job *courier.Context) error {
		err := job.Files().ReportRemote(courier.File{Path: "inbox/inv-0423.csv", Size: 1, Connection: "bank"})
		if fail {
			return errors.Join(err, courier.Permanent(errors.New("refused")))
		}
		return err
	})
	job := courier.Job{Name: "job", Steps: []courier.StepSpec{{ID: "get", Type: "demo.get"}, {ID: "put", Type: "demo.put"}}}
	x, err := h.Engine.Run(t.Context(), job, nil)
	if err == nil {
		t.Fatal("the job completed")
	}
	fail = false
	// What the failed attempt has reported on a server is no file that a resume looks for.
	if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if x, err = h.Engine.Wait(t.Context(), x.ID); err != nil || x.State != courier.Completed {
		t.Fatalf("%s, %v", x.State, err)
	}
	for _, name := range []string{"inv-0423.csv", "Inv-04*", "*0423*"} {
		found, err := h.Engine.Executions().FindFiles(t.Context(), engine.FileFilter{Name: name})
		var got []string
		for _, f := range found {
			for _, file := range f.Files {
				got = append(got, fmt.Sprintf("%s %s %s:%s", f.Step.ID, f.Step.State, file.Connection, file.Path))
			}
		}
		want := "put completed bank:inbox/inv-0423.csv, put failed bank:inbox/inv-0423.csv, get completed :in/INV-0423.csv, get completed acme:/out/INV-0423.csv"
		if s := strings.Join(got, ", "); err != nil || s != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, s, want)
		}
	}
	page, err := h.Engine.Executions().FindFiles(t.Context(), engine.FileFilter{Name: "inv-0423.csv", Limit: 2})
	if err != nil || len(page) != 2 {
		t.Fatalf("%d, %v", len(page), err)
	}
	if page, err = h.Engine.Executions().FindFiles(t.Context(), engine.FileFilter{Name: "inv-0423.csv", Before: &page[1].Entry}); err != nil || len(page) != 1 || page[0].Step.ID != "get" {
		t.Errorf("second page: %+v, %v", page, err)
	}
	for _, name := range []string{"", "*", "**", "*x", "a/b", "a*b"} {
		if _, err := h.Engine.Executions().FindFiles(t.Context(), engine.FileFilter{Name: name}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	e := engine.New(struct{ store.Store }{h.Store}, nil, nil)
	if _, err := e.Executions().FindFiles(t.Context(), engine.FileFilter{Name: "x"}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "store.Trail") {
		t.Errorf("without the role: %v", err)
	}
}

// TestLabels enqueues with labels, finds by them, and reports all mistakes at once.
func TestLabels(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	if _, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"partner": "acme", "day": "2026-11-24"}
	x, err := h.Engine.Enqueue(t.Context(), "job", &courier.EnqueueOptions{Labels: labels})
	if err != nil || x.Labels["partner"] != "acme" {
		t.Fatalf("%v, %v", x.Labels, err)
	}
	again, err := h.Engine.Rerun(t.Context(), x.ID, nil)
	if err != nil || again.Labels["day"] != "2026-11-24" {
		t.Fatalf("%v, %v", again.Labels, err)
	}
	list, err := h.Engine.Executions().List(t.Context(), store.Filter{Labels: labels})
	if err != nil || len(list) != 2 {
		t.Errorf("%d, %v", len(list), err)
	}
	_, err = h.Engine.Enqueue(t.Context(), "job", &courier.EnqueueOptions{Labels: map[string]string{"file": "x", "Big": "x", "empty": "", "long": strings.Repeat("ü", 201), "nul": "a\x00"}})
	if !errors.Is(err, courier.ErrInvalid) {
		t.Fatalf("bad labels: %v", err)
	}
	for _, want := range []string{`"file": the name is reserved`, `"Big": the name must begin`, `"empty": the value is empty`, `"long": the value has 201`, `"nul": the value contains`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %s", err, want)
		}
	}
	many := make(map[string]string)
	for i := range 17 {
		many[fmt.Sprint("l", i)] = "x"
	}
	if _, err := h.Engine.Enqueue(t.Context(), "job", &courier.EnqueueOptions{Labels: many}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "17, more than 16") {
		t.Errorf("too many: %v", err)
	}
}

// TestMaxRetriesOfAnExecution replaces the number of retries of a policy, also of one that
// allows none by itself.
func TestMaxRetriesOfAnExecution(t *testing.T) {
	for _, policy := range []courier.Policy{courier.RetryStep, courier.RetryJob} {
		for _, c := range [][2]int{{2, -1}, {2, 0}, {2, 1}, {2, 5}, {0, -1}, {0, 1}} {
			ofPolicy, n := c[0], c[1]
			t.Run(fmt.Sprint(policy, ofPolicy, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := couriertest.New(t, nil)
					tries := 0
					h.Stub("demo.bad", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
						tries++
						return nil, errors.New("bad")
					})
					opt, want := &courier.EnqueueOptions{MaxRetries: &n}, n+1
					if n < 0 {
						opt, want = nil, ofPolicy+1
					}
					job := courier.Job{Name: "job", FailurePolicy: courier.FailurePolicy{Type: policy, MaxRetries: &ofPolicy}, Steps: []courier.StepSpec{{Type: "demo.bad"}}}
					x, err := h.Engine.Run(t.Context(), job, opt)
					if err == nil || tries != want {
						t.Errorf("%d attempts, want %d; %v", tries, want, err)
					}
					if x.Retries != want-1 {
						t.Errorf("the execution says %d retries, want %d", x.Retries, want-1)
					}
				})
			})
		}
	}
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	n := -1
	if _, err := h.Engine.Run(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}, &courier.EnqueueOptions{MaxRetries: &n}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("negative: %v", err)
	}
}

// TestTrace carries the trace context of who enqueues to the steps, through the store.
func TestTrace(t *testing.T) {
	type key struct{}
	const trace, ofStep = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, around := range map[string]func(ctx context.Context, x *courier.Execution, next func(context.Context)){
		"calls": func(ctx context.Context, x *courier.Execution, next func(context.Context)) {
			next(context.WithValue(ctx, key{}, x.Trace))
		},
		"forgets": func(context.Context, *courier.Execution, func(context.Context)) {},
		"panics":  func(context.Context, *courier.Execution, func(context.Context)) { panic("around") },
		"Goexit":  func(context.Context, *courier.Execution, func(context.Context)) { runtime.Goexit() },
		"calls it twice": func(ctx context.Context, x *courier.Execution, next func(context.Context)) {
			next(context.WithValue(ctx, key{}, x.Trace))
			next(ctx)
			panic("afterwards")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, nil)
				var seen any
				var along string
				h.Stub("demo.a", func(ctx context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
					seen, along = ctx.Value(key{}), job.Trace(ctx)
					return nil, nil
				})
				log := new(logbook)
				e := engine.New(h.Store, h.Registry, &engine.Options{
					Workspace: t.TempDir(), AroundExecution: around, Log: slog.New(slog.NewTextHandler(log, nil)),
					Trace: func(ctx context.Context) string {
						if ctx.Value(key{}) != nil {
							return ofStep
						}
						return trace
					},
				})
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer e.Stop(t.Context())
				if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil); err != nil {
					t.Fatal(err)
				}
				x, err := e.Enqueue(t.Context(), "job", nil)
				if err == nil {
					x, err = e.Wait(t.Context(), x.ID)
				}
				if err != nil || x.State != courier.Completed || x.Trace != trace {
					t.Fatalf("%s, %q, %v", x.State, x.Trace, err)
				}
				calls := strings.HasPrefix(name, "calls")
				if calls != (seen == trace) || calls != (along == ofStep) || along != ofStep && along != trace {
					t.Errorf("the step saw %v, and sends %q along", seen, along)
				}
				if wrong := name != "calls"; wrong != strings.Contains(log.String(), "AroundExecution") {
					t.Errorf("the log has\n%s", log.String())
				}
			})
		})
	}
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	if _, err := h.Engine.Run(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}, &courier.EnqueueOptions{Trace: "x"}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("no trace: %v", err)
	}
}
