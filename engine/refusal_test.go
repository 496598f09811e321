package engine_test

import (
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
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// A logbook keeps what an engine logs, a line for each record.
type logbook struct{ lockedbuffer.Buffer }

func (b *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// lines returns the lines that contain all of the words, without the time.
func (b *logbook) lines(words ...string) (found []string) {
	for line := range strings.SplitSeq(strings.TrimSpace(b.String()), "\n") {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, line)
		}
	}
	return found
}

// count reports another number of lines.
func (b *logbook) count(t *testing.T, want int, words ...string) {
	t.Helper()
	if got := b.lines(words...); len(got) != want {
		t.Errorf("%d lines with %q, want %d:\n%s", len(got), words, want, b)
	}
}

// onRefusing returns an engine on a store that can refuse, with its log.
func onRefusing(t *testing.T, h *couriertest.Harness, opt engine.Options) (*engine.Engine, *storewrap.Refusing, *logbook) {
	t.Helper()
	s, log := storewrap.NewRefusing(h.Store), new(logbook)
	opt.Log = log.logger()
	if opt.Workspace == "" {
		opt.Workspace = t.TempDir()
	}
	e := engine.New(s, h.Registry, &opt)
	t.Cleanup(func() {
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return e, s, log
}

// denied refuses what ends a step, as a server does whose role lacks a right.
func denied(c *storewrap.Call) error {
	if t, ok := c.Request.(store.Transition); ok && len(t.Ended) > 0 {
		return courier.Permanent(errors.New("permission denied for table step_executions"))
	}
	return nil
}

func launch(t *testing.T, e *engine.Engine, job courier.Job) courier.ExecutionID {
	t.Helper()
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), job.Name, nil)
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

const twoSteps = `{"name": "a", "steps": [{"type": "demo.a", "id": "one"}, {"type": "demo.a"}]}`

// TestRefusedWritesAreToldOf has the store refuse progress for 45 seconds, for a
// reason that lasts. It is warned of at once and after 30 seconds, shown by
// Health, and nothing more is claimed. Then all goes on as if nothing had been.
func TestRefusedWritesAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		ran := 0
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { ran++; return nil, nil })
		e, s, log := onRefusing(t, h, engine.Options{})
		s.Refuse(denied)
		id := launch(t, e, h.Job(twoSteps))
		time.Sleep(time.Second)
		got := e.Health().Refused
		if len(got) != 1 || got[0].Execution != id || got[0].Job != "a" || !got[0].Lasting || got[0].Left || got[0].Tries < 3 || !strings.Contains(got[0].Error, "permission denied") {
			t.Errorf("health: %+v", got)
		}
		if raw, err := json.Marshal(e.Health()); err != nil || !strings.Contains(string(raw), `"execution_id":"`+string(id)) {
			t.Errorf("health in JSON: %s, %v", raw, err)
		}
		other, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(44 * time.Second)
		log.count(t, 2, "level=WARN", "the store refuses progress", "execution="+string(id), "job=a", "permission denied for table", "lasting=true")
		log.count(t, 1, "level=WARN", "no worker that was seen lately") // of the first enqueue, before the engine ran
		log.count(t, 3, "level=WARN")
		if x, _ := h.Store.Execution(t.Context(), other.ID); x.State != courier.Queued {
			t.Errorf("an execution that could not go on was claimed: %s", x.State)
		}
		s.Refuse(nil)
		h.Wait(id).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.a completed")
		h.Wait(other.ID).RequireState(courier.Completed)
		if ran != 4 || len(e.Health().Refused) > 0 {
			t.Errorf("%d steps ran; health %+v", ran, e.Health())
		}
	})
}

// TestRefusedForLongIsLeft has one engine's writes refused for good, as with a role
// that lacks a right. After a minute another engine takes the execution over.
func TestRefusedForLongIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return nil, nil })
		e, s, log := onRefusing(t, h, engine.Options{Worker: "poor"})
		s.Refuse(denied)
		id := launch(t, e, h.Job(twoSteps))
		time.Sleep(70 * time.Second)
		if got := e.Health().Refused; len(got) != 1 || !got[0].Left {
			t.Errorf("health: %+v", got)
		}
		if x, _ := h.Store.Execution(t.Context(), id); x.State != courier.Running || x.Worker != "poor" {
			t.Errorf("before the lease ended it is %s, of %s", x.State, x.Worker)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Wait(id).RequireState(courier.Completed).RequireTrace("0 demo.a failed", "0 demo.a#2 completed", "1 demo.a completed")
		log.count(t, 1, "other workers may take over the execution")
		s.Refuse(nil)
		time.Sleep(2 * time.Second)
		log.count(t, 1, "execution lost", "execution="+string(id), "step=0", "id=one", "attempt=1")
		if len(e.Health().Refused) > 0 {
			t.Errorf("health: %+v", e.Health())
		}
		if err := storetest.CheckExecution(t.Context(), h.Store, id); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedForLongGoesBack has nobody else who could take it over: what was
// refused for minutes is written as soon as the store takes it, the audit says so,
// and no step that completed runs again.
func TestRefusedForLongGoesBack(t *testing.T) {
	for _, asked := range []courier.RequestKind{"", courier.RequestCancel, courier.RequestPause} {
		t.Run("asked for "+string(asked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, nil)
				ran := 0
				h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { ran++; return nil, nil })
				e, s, log := onRefusing(t, h, engine.Options{})
				s.Refuse(denied)
				id := launch(t, e, h.Job(twoSteps))
				time.Sleep(50 * time.Second)
				if asked != "" {
					if _, err := h.Store.Request(t.Context(), store.Request{Execution: id, Kind: asked, By: "ops"}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(100 * time.Second)
				if x, _ := h.Store.Execution(t.Context(), id); x.Status(time.Now()) != "lost" {
					t.Errorf("it is shown as %s", x.Status(time.Now()))
				}
				s.Refuse(nil)
				switch asked {
				case courier.RequestCancel:
					h.Wait(id).RequireState(courier.Cancelled)
				case courier.RequestPause:
					time.Sleep(10 * time.Second)
					if x, _ := h.Store.Execution(t.Context(), id); x.State != courier.Paused {
						t.Errorf("it is %s", x.State)
					}
				default:
					h.Wait(id).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.a completed")
					audit, _ := h.Store.Audit(t.Context(), store.AuditFilter{Execution: id})
					at := slices.IndexFunc(audit, func(a courier.AuditEntry) bool { return a.Reason == courier.ReasonStore })
					if at < 0 || audit[at].To != "queued" || !strings.Contains(audit[at].Error, "permission denied for table step_executions") {
						t.Errorf("audit: %v", audit)
					}
					log.count(t, 1, "execution went back to the queue", "reason=store")
					if ran != 2 {
						t.Errorf("%d steps ran, want 2", ran)
					}
				}
				if err := storetest.CheckExecution(t.Context(), h.Store, id); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRefusedContentEndsTheExecution has the store refuse for good what is written
// of a step: with its outputs, with any attempt that ended, or whatever it is for a
// while. Each execution ends as failed, says why, and can be resumed.
func TestRefusedContentEndsTheExecution(t *testing.T) {
	refusals := map[string]struct {
		refuse func(*store.Transition) bool
		trace  []string
		step   int
		warned int // how often the log tells of it
	}{
		"outputs":  {func(t *store.Transition) bool { return len(t.Ended) > 0 && len(t.Ended[0].Outputs) > 0 }, []string{"0 demo.b completed", "1 demo.a failed"}, 1, 1},
		"attempts": {func(t *store.Transition) bool { return len(t.Ended) > 0 && t.Ended[len(t.Ended)-1].Step == 1 }, []string{"0 demo.b completed"}, 1, 2},
	}
	for name, tt := range refusals {
		for _, asked := range []courier.RequestKind{"", courier.RequestCancel} {
			t.Run(name+" "+string(asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := couriertest.New(t, nil)
					h.Stub("demo.b", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return nil, nil })
					h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
						time.Sleep(time.Second)
						return map[string]any{"x": 1}, nil
					})
					e, s, log := onRefusing(t, h, engine.Options{})
					s.Refuse(func(c *storewrap.Call) error {
						if t, ok := c.Request.(store.Transition); ok && tt.refuse(&t) {
							return fmt.Errorf("string too long for the row: %w", courier.ErrInvalid)
						}
						return nil
					})
					id := launch(t, e, h.Job(`{"name": "a", "failure_policy": "retry_step", "steps": [{"type": "demo.b"}, {"type": "demo.a", "id": "big"}]}`))
					if asked != "" {
						time.Sleep(100 * time.Millisecond)
						if _, err := h.Store.Request(t.Context(), store.Request{Execution: id, Kind: asked, By: "ops"}); err != nil {
							t.Fatal(err)
						}
						h.Wait(id).RequireState(courier.Cancelled)
						return
					}
					r := h.Wait(id).RequireState(courier.Failed).RequireTrace(tt.trace...)
					f := r.Failure
					if f.Reason != courier.ReasonStore || f.Step != tt.step || f.ID != "big" || !strings.Contains(f.Message, "string too long for the row") {
						t.Errorf("failure %+v", f)
					}
					log.count(t, 1, "level=INFO", "execution failed", "reason=store", "step=1")
					log.count(t, tt.warned, "level=WARN", "the store refuses progress for good", "string too long for the row")
					log.count(t, 0, "it will be retried")
					log.count(t, 0, "execution lost")
					if err := storetest.CheckExecution(t.Context(), h.Store, id); err != nil {
						t.Error(err)
					}
					s.Refuse(nil)
					if _, err := e.Resume(t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
						t.Fatal(err)
					}
					h.Wait(id).RequireState(courier.Completed)
				})
			})
		}
	}
}
