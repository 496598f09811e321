package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/jsontext"
)

// A leak is a file to which a step writes its secret, and which other steps show.
type leak struct {
	mu    sync.Mutex
	text  string
	halts int // at which the step in between is interrupted
	asked []courier.SecretRequest
	deny  error // of the secrets
}

// secrets are those of the engine.
func (l *leak) secrets(_ context.Context, q courier.SecretRequest) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, q)
	return canarySecrets["plain"], l.deny
}

// stubs registers the steps: demo.write writes its secret to the file, demo.halt is where
// the execution is interrupted, and demo.read shows the file.
func (l *leak) stubs(h *couriertest.Harness, halt couriertest.StubFunc) {
	h.Stub("demo.write", func(c context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		secret, _ := config["secret"].(string)
		if name, _ := config["ask"].(string); name != "" {
			var err error
			if secret, err = job.Secret(c, name); err != nil {
				return nil, err
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = secret
		return map[string]any{"file": "a.csv"}, nil
	})
	h.Stub("demo.halt", func(c context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		l.mu.Lock()
		l.halts++
		first := l.halts == 1
		l.mu.Unlock()
		if first {
			return halt(c, job, config)
		}
		return nil, nil
	})
	shown := 0
	h.Stub("demo.read", func(_ context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.text == "" {
			return nil, nil
		}
		job.Log().Warn("read "+l.text, "content", l.text)
		job.Progress(1, 2, l.text)
		if err := job.Emit("shown", map[string]any{"text": l.text}); err != nil {
			return nil, err
		}
		if shown++; shown == 1 {
			return nil, errors.New("read " + l.text)
		}
		return map[string]any{"text": l.text}, nil
	})
}

// requireHidden fails the test if the secret is anywhere, or if no step has shown it.
func (l *leak) requireHidden(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) *couriertest.Result {
	t.Helper()
	r := h.Wait(id)
	dump, _ := jsontext.Append(nil, []any{r.Execution, detailed(t, h, id), r.Audit, r.Values})
	all := string(dump) + h.Log()
	if how := secretIn(all, canarySecrets["plain"]); how != "" {
		t.Errorf("it is shown as %s in %.3000s", how, all[max(0, strings.Index(all, "canary-Qz")-500):])
	}
	if !strings.Contains(all, "[secret acme/key]") {
		t.Errorf("no step has shown the file: %s", all)
	}
	return r
}

// laterJob writes a secret in its first step, and shows it in a later one. CONFIG is how the
// first step gets the secret.
const laterJob = `{"name": "later", "params": {"key": {"type": "text", "secret": true, "default": "acme/key"}}, "failure_policy": POLICY, "steps": [
	{"type": "demo.read"}, {"id": "write", "type": "demo.write", "config": CONFIG}, {"id": "halt", "type": "demo.halt"},
	{"id": "read", "type": "demo.read", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 0.01}}]}`

// TestLaterAttemptsHideSecrets interrupts an execution in each way after a step has
// written its secret to a file, and has a step whose configuration names no secret show it.
func TestLaterAttemptsHideSecrets(t *testing.T) {
	pause := func(h *couriertest.Harness, id courier.ExecutionID) {
		if _, err := h.Engine.Pause(t.Context(), id, courier.By{Actor: "ann"}); err != nil {
			t.Error(err)
		}
	}
	resume := func(opt *courier.ResumeOptions) func(*testing.T, *couriertest.Harness, courier.ExecutionID) {
		return func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			settled(t, h.Engine, id)
			opt.By = courier.By{Actor: "ann", Reason: "go on"}
			if _, err := h.Engine.Resume(t.Context(), id, opt); err != nil {
				t.Error(err)
			}
		}
	}
	fail := func(*couriertest.Harness, courier.ExecutionID) error { return errors.New("it fails") }
	for name, test := range map[string]struct {
		policy string
		halt   func(h *couriertest.Harness, id courier.ExecutionID) error
		then   func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID)
		again  bool // another engine goes on
	}{
		"backoff":          {`{"type": "retry_step", "backoff_base_seconds": 0.01}`, fail, nil, false},
		"retry of the job": {`{"type": "retry_job", "backoff_base_seconds": 0.01}`, fail, nil, false},
		"pause":            {`"stop"`, func(h *couriertest.Harness, id courier.ExecutionID) error { pause(h, id); return nil }, resume(&courier.ResumeOptions{}), false},
		"failure":          {`"stop"`, fail, resume(&courier.ResumeOptions{}), false},
		"skipped":          {`"stop"`, fail, resume(&courier.ResumeOptions{Skip: true}), false},
		"from the first":   {`"stop"`, fail, resume(&courier.ResumeOptions{From: "0"}), false},
		"a worker that is stopped": {`"stop"`, func(h *couriertest.Harness, id courier.ExecutionID) error {
			go h.Engine.Stop(context.Background())
			time.Sleep(time.Second)
			return nil
		}, func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			time.Sleep(2 * time.Minute)
		}, true},
	} {
		for how, config := range map[string]string{
			"configuration": `{"secret": "secret:acme/key"}`, "parameter": `{"secret": "context:params.key"}`, "step": `{"ask": "acme/key"}`,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				l := new(leak)
				couriertest.Virtual(t, &engine.Options{Secrets: l.secrets}, func(t *testing.T, h *couriertest.Harness) {
					l.stubs(h, func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
						return nil, test.halt(h, job.Execution())
					})
					id := h.Enqueue(h.Job(strings.NewReplacer("POLICY", test.policy, "CONFIG", config).Replace(laterJob)), nil)
					h.Start()
					if test.then != nil {
						test.then(t, h, id)
					}
					if test.again {
						if err := h.AddEngine(&engine.Options{Secrets: l.secrets}).Start(t.Context()); err != nil {
							t.Error(err)
						}
					}
					x := l.requireHidden(t, h, id).Execution
					want := courier.SecretUse{Name: "acme/key", Version: 1, Step: 1, ID: "write", Type: "demo.write"}
					if how == "parameter" {
						want.Param = "key"
					}
					if len(x.Secrets) != 1 || x.Secrets[0] != want {
						t.Errorf("the secrets of the execution are %+v, want %+v", x.Secrets, want)
					}
					for _, q := range l.asked {
						if q.Step != -1 && (q.Name != want.Name || q.Execution != id || q.Job != "later" || q.Version != 1 || q.Step != 1 || q.ID != "write" || q.Type != "demo.write" || q.Param != want.Param) {
							t.Errorf("asked for %+v", q)
						}
					}
				})
			})
		}
	}
}

// TestTakeoverHidesSecrets has a worker lost after a step has written its secret to a file.
func TestTakeoverHidesSecrets(t *testing.T) {
	l := new(leak)
	couriertest.Virtual(t, &engine.Options{Secrets: l.secrets}, func(t *testing.T, h *couriertest.Harness) {
		l.stubs(h, func(c context.Context, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			<-c.Done()
			return nil, context.Cause(c)
		})
		s, dead := killable(h.Store)
		a := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir(), Worker: "a", Secrets: l.secrets})
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer a.Stop(context.WithoutCancel(t.Context()))
		id := h.Enqueue(h.Job(strings.NewReplacer("POLICY", `"stop"`, "CONFIG", `{"ask": "acme/key"}`).Replace(laterJob)), nil)
		time.Sleep(10 * time.Second)
		dead.Store(true)
		h.Start()
		l.requireHidden(t, h, id)
	})
}

// TestSecretsThatCannotBeHad has secrets that are refused when an execution is resumed, for
// good and for now.
func TestSecretsThatCannotBeHad(t *testing.T) {
	for name, test := range map[string]struct {
		deny error
		want courier.State
	}{
		"for now": {errors.New("the vault is sealed"), courier.Failed}, "for good": {courier.Permanent(errors.New("no longer yours")), courier.Completed},
	} {
		l := new(leak)
		couriertest.Virtual(t, &engine.Options{Secrets: l.secrets}, func(t *testing.T, h *couriertest.Harness) {
			l.stubs(h, couriertest.Fails(errors.New("it fails")))
			h.Stub("demo.read", nil)
			id := h.Enqueue(h.Job(strings.NewReplacer("POLICY", `"stop"`, "CONFIG", `{"secret": "secret:acme/key"}`).Replace(laterJob)), nil)
			h.Start()
			resumed := func(deny error) *couriertest.Result {
				h.Wait(id)
				l.mu.Lock()
				l.deny = deny
				l.mu.Unlock()
				if _, err := h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ann"}}); err != nil {
					t.Fatal(err)
				}
				return h.Wait(id)
			}
			r := resumed(test.deny).RequireState(test.want)
			if test.want == courier.Failed {
				if r.Failure.Reason != courier.ReasonSecret || !strings.Contains(r.Failure.Message, "step 1") || !strings.Contains(r.Failure.Message, "the vault is sealed") || len(l.asked) != 3 {
					t.Errorf("%s: %+v; asked %d times", name, r.Failure, len(l.asked))
				}
				if r = resumed(nil).RequireState(courier.Completed); r.Secrets[0].Refused {
					t.Errorf("%s: %+v", name, r.Secrets)
				}
				return
			}
			const note = "is refused now"
			if len(r.Secrets) != 1 || !r.Secrets[0].Refused || strings.Count(h.Log(), note) != 1 || !strings.Contains(detailed(t, h, id)[3].Log, note) {
				t.Errorf("%s: secrets %+v, log %s", name, r.Secrets, h.Log())
			}
		})
	}
}

// TestMaxSecrets has an execution that uses more secrets than it may.
func TestMaxSecrets(t *testing.T) {
	l := new(leak)
	couriertest.Virtual(t, &engine.Options{Secrets: l.secrets, MaxSecrets: 2}, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.write", nil)
		r := h.Run(h.Job(`{"name": "many", "failure_policy": {"type": "retry_step"}, "steps": [{"type": "demo.write", "config": {"a": "secret:a", "b": "secret:b", "again": "secret:a"}},
			{"type": "demo.write", "config": {"c": "secret:c"}}]}`), nil)
		r.RequireState(courier.Failed).RequireError("engine.Options.MaxSecrets")
		if len(r.Steps) != 2 || r.Failure.Reason != courier.ReasonSecret || len(r.Secrets) != 2 {
			t.Errorf("%+v after %d attempts, secrets %+v", r.Failure, len(r.Steps), r.Secrets)
		}
	})
}
