package engine_test

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
)

// bangs are the ways in which the host's code ends without returning, and what
// the error says.
var bangs = map[string]func(){
	"panic: bang":                             func() { panic("bang") },
	"panic: panic called with nil argument":   func() { panic(nil) },
	"runtime.Goexit":                          runtime.Goexit,
	"panic: runtime error: invalid memory":    func() { var p *courier.Job; p.Name = "x" },
	"panic: assignment to entry in nil map":   func() { noMap()["x"] = 1 },
	"panic: runtime error: integer divide by": func() { var zero int; _ = 1 / zero },
}

func noMap() map[string]int { return nil }

// A bomb is a step that goes off in one of its methods.
type bomb struct {
	in   string
	bang func()
	fail int // calls of Execute that fail
}

func (b *bomb) off(method string) {
	if b.in == method {
		b.bang()
	}
}

func (b *bomb) Execute(ctx, *courier.Context, struct {
	Secret string `json:"secret"`
}) (struct{}, error) {
	b.off("Execute")
	if b.fail > 0 {
		b.fail--
		return struct{}{}, errors.New("boom")
	}
	return struct{}{}, nil
}

func (b *bomb) Validate(ctx, *courier.Context, struct {
	Secret string `json:"secret"`
}) error {
	b.off("Validate")
	return nil
}

func (b *bomb) Cleanup(ctx, *courier.Context, struct {
	Secret string `json:"secret"`
}) error {
	b.off("Cleanup")
	return nil
}

func (b *bomb) Rollback(ctx, *courier.Context, struct {
	Secret string `json:"secret"`
}) error {
	b.off("Rollback")
	return nil
}

// TestWhatTheHostsCodeDoesIsContained lets each piece of the host's code panic
// or end its goroutine, in an engine with one slot, and then runs a step on it
// that behaves.
func TestWhatTheHostsCodeDoesIsContained(t *testing.T) {
	for _, in := range []string{"Execute", "Cleanup", "Rollback", "Secrets", "Around", "observer"} {
		for want, bang := range bangs {
			t.Run(in+"/"+want, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &bomb{in: in, bang: bang}
					if in == "Cleanup" || in == "Rollback" {
						b.fail = 1
					}
					h := couriertest.New(t, &engine.Options{
						Slots:   1,
						Secrets: func(ctx, courier.SecretRequest) (string, error) { b.off("Secrets"); return "hidden", nil },
						Around: func(c ctx, _ *courier.Context, next func(ctx) error) error {
							b.off("Around")
							return next(c)
						},
						Observers: []func(courier.Event){func(courier.Event) { b.off("observer") }},
					})
					courier.Register(h.Registry, "demo.bomb", b, nil)
					policy := `"stop"`
					if in == "Cleanup" {
						policy = `{"type": "retry_step", "max_retries": 1}`
					}
					if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "b", "failure_policy": `+policy+`, "steps": [{"type": "demo.bomb", "config": {"secret": "secret:s"}}]}`), nil); err != nil {
						t.Fatal(err)
					}
					if err := h.Engine.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					x, err := h.Engine.Enqueue(t.Context(), "b", nil)
					if err != nil {
						t.Fatal(err)
					}
					r := h.Wait(x.ID)
					switch in {
					case "observer":
						r.RequireState(courier.Completed)
					case "Rollback": // the failure of a rollback changes nothing
						r.RequireState(courier.Failed).RequireError("boom")
						if !strings.Contains(h.Log(), want) {
							t.Errorf("the log does not tell of the rollback: %s", h.Log())
						}
					default:
						r.RequireState(courier.Failed).RequireError(want)
						if at := regexp.MustCompile(`, at engine/panic_test\.go:[0-9]+$`); !at.MatchString(r.Failure.Message) {
							t.Errorf("the failure does not tell the place: %s", r.Failure.Message)
						}
						if r.Failure.Reason != courier.ReasonPanic || r.Failure.Step != 0 || !strings.Contains(h.Log(), "panic_test.go") {
							t.Errorf("failure %+v; log %s", r.Failure, h.Log())
						}
					}
					requireAudit(t, r)
					synctest.Wait() // for the observer
					b.in = ""
					if x, err = h.Engine.Enqueue(t.Context(), "b", nil); err != nil {
						t.Fatal(err)
					}
					h.Wait(x.ID).RequireState(courier.Completed)
				})
			})
		}
	}
}

func TestDryRunContainsValidate(t *testing.T) {
	for _, in := range []string{"Validate", "Secrets"} {
		for want, bang := range bangs {
			b := &bomb{in: in, bang: bang}
			h := couriertest.New(t, &engine.Options{Secrets: func(ctx, courier.SecretRequest) (string, error) { b.off("Secrets"); return "hidden", nil }})
			courier.Register(h.Registry, "demo.bomb", b, nil)
			courier.Register(h.Registry, "demo.good", &bomb{}, nil)
			job := h.Job(`{"name": "d", "steps": [{"type": "demo.bomb", "config": {"secret": "secret:s"}}, {"type": "demo.good"}]}`)
			report, err := h.Engine.Jobs().DryRun(t.Context(), job, nil)
			if err != nil || len(report.Steps) != 2 || report.Steps[0].State != dryrun.Problem || !strings.Contains(report.Steps[0].Message, want) {
				t.Errorf("%s in %s: %v\n%s", want, in, err, &report)
			} else if s := report.Steps[1]; s.State != dryrun.OK {
				t.Errorf("%s in %s: the next step: %+v", want, in, s)
			}
			b.in = ""
			if report, err = h.Engine.Jobs().DryRun(t.Context(), job, nil); err != nil || !report.OK() {
				t.Errorf("the next dry run after a %s: %v\n%s", want, err, &report)
			}
		}
	}
}

// slowCheck is a step whose Validate reports progress and ignores its context.
type slowCheck struct{ takes time.Duration }

func (*slowCheck) Execute(ctx, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

func (s *slowCheck) Validate(_ ctx, job *courier.Context, _ struct{}) error {
	job.Progress(1, 2, "check")
	time.Sleep(s.takes)
	return nil
}

func TestDryRunSurvivesAValidateThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck []engine.StuckStep
		var events []courier.Event
		h := couriertest.New(t, &engine.Options{
			Slots:       1,
			OnStuckStep: func(s engine.StuckStep) { stuck = append(stuck, s) },
			Observers:   []func(courier.Event){func(e courier.Event) { events = append(events, e) }},
		})
		courier.Register(h.Registry, "demo.slow", &slowCheck{time.Hour}, nil)
		courier.Register(h.Registry, "demo.quick", &slowCheck{}, nil)
		report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "d", "steps": [{"type": "demo.quick"}, {"type": "demo.slow"}, {"type": "demo.quick"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := report.Steps; s[0].State != dryrun.OK || s[1].State != dryrun.Problem ||
			!strings.Contains(s[1].Message, "timed out after 30s; Validate did not return within 10s") || s[2].State != dryrun.OK {
			t.Errorf("report:\n%s", &report)
		}
		synctest.Wait()
		if len(stuck) != 1 || stuck[0].Step != 1 || stuck[0].Type != "demo.slow" {
			t.Errorf("stuck steps: %+v", stuck)
		}
		if len(events) > 0 {
			t.Errorf("events of a dry run: %+v", events)
		}
		time.Sleep(2 * time.Hour)
		h.Run(h.Job(`{"name": "e", "steps": [{"type": "demo.quick"}]}`), nil).RequireState(courier.Completed)
	})
}

func TestPanicOfTheStuckStepHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{Slots: 1, OnStuckStep: func(engine.StuckStep) { panic("hook") }})
		h.Stub("demo.stuck", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		h.Stub("demo.good", nil)
		h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.stuck", "timeout_seconds": 1}]}`), nil).RequireState(courier.Failed).RequireError("did not stop")
		if !strings.Contains(h.Log(), "hook") {
			t.Errorf("log: %s", h.Log())
		}
		time.Sleep(2 * time.Hour) // the step gives its slot back
		job, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "b", "steps": [{"type": "demo.good"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), job.Job.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
	})
}

// nilError is an error type whose nil pointer panics, as most do.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// wrapError has a text, but its nil pointer wraps nothing.
type wrapError struct{ err error }

func (*wrapError) Error() string   { return "wrapError" }
func (e *wrapError) Unwrap() error { return e.err }

// TestErrorsThatPanic returns a nil pointer in an error, the best known trap of
// the language.
func TestErrorsThatPanic(t *testing.T) {
	for _, policy := range []string{"stop", "skip_and_continue", "retry_step"} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.nil", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
				var none *nilError
				return nil, none
			})
			h.Stub("demo.wrap", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
				var none *wrapError
				return nil, none
			})
			wrap := h.Run(h.Job(`{"name": "w", "failure_policy": "`+policy+`", "steps": [{"type": "demo.wrap"}]}`), nil)
			if text := wrap.Steps[0].Error; !strings.Contains(text, "wrapError") {
				t.Errorf("record: %q", text)
			}
			r := h.Run(h.Job(`{"name": "n", "failure_policy": "`+policy+`", "steps": [{"type": "demo.nil"}]}`), nil)
			if text := r.Steps[0].Error; !strings.Contains(text, "nilError") {
				t.Errorf("record: %q", text)
			}
			if policy != "skip_and_continue" {
				r.RequireState(courier.Failed).RequireError("nilError")
			}
			requireAudit(t, r)
		})
	}
}

// TestGoexitInRun ends the goroutine of a step under Run, which must return to
// its caller.
func TestGoexitInRun(t *testing.T) {
	h := couriertest.New(t, nil)
	b := &bomb{in: "Execute", bang: runtime.Goexit}
	courier.Register(h.Registry, "demo.bomb", b, nil)
	returned := make(chan error, 1)
	go func() {
		defer close(returned)
		_, err := h.Engine.Run(context.Background(), courier.Job{Name: "g", Steps: []courier.StepSpec{{Type: "demo.bomb"}}}, nil)
		returned <- err
	}()
	if err, ok := <-returned; !ok || err == nil {
		t.Errorf("Run returned %v, %v", err, ok)
	}
}
