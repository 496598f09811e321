package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// unplugged is a store that its engine no longer reaches once it is off.
type unplugged struct {
	store.Store
	off atomic.Bool
}

var errUnplugged = errors.New("the network is down")

func (u *unplugged) Claim(c ctx, r store.ClaimRequest) (store.Claims, error) {
	if u.off.Load() {
		return store.Claims{}, errUnplugged
	}
	return u.Store.Claim(c, r)
}

func (u *unplugged) Renew(c ctx, r store.RenewRequest) ([]store.Renewed, error) {
	if u.off.Load() {
		return nil, errUnplugged
	}
	return u.Store.Renew(c, r)
}

func (u *unplugged) Apply(c ctx, t store.Transition) error {
	if u.off.Load() {
		return errUnplugged
	}
	return u.Store.Apply(c, t)
}

// TestElsewhere has a host die with its own disk, in the middle of a step, after a
// failure, and while paused. The execution begins again on another host, with an
// empty workspace, and the host that comes back gets nothing of it.
func TestElsewhere(t *testing.T) {
	for _, state := range []courier.State{courier.Running, courier.Failed, courier.Paused} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			u := &unplugged{Store: h.Store}
			host := func(s store.Store, id, dir string) *engine.Engine {
				e := engine.New(s, h.Registry, &engine.Options{Worker: id, Workspace: dir, WorkspaceID: "tree of " + id})
				t.Cleanup(func() { e.Stop(t.Context()) })
				return e
			}
			dir := t.TempDir()
			one, two, operator := host(u, "one", dir), host(h.Store, "two", t.TempDir()), host(h.Store, "operator", t.TempDir())
			calls := 0
			fileStubs(h, func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
				calls++
				switch {
				case calls > 1:
					return nil, nil
				case state == courier.Failed:
					return nil, errors.New("boom")
				case state == courier.Paused:
					return nil, errOf(operator.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"}))
				}
				u.off.Store(true)
				<-c.Done()
				return nil, c.Err()
			})
			x := begin(t, one, h.Job(filesJob), nil)
			if x.State != state || x.Workspace != "tree of one" {
				t.Fatalf("%s in %q, want %s in the tree of one", x.State, x.Workspace, state)
			}
			u.off.Store(true)
			elsewhere := &engine.ResumeOptions{By: courier.By{Actor: "ops", Reason: "host one burnt down"}, Elsewhere: true}
			if _, err := operator.Resume(t.Context(), x.ID, elsewhere); state == courier.Running && (!errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `worker "one" holds its lease`)) {
				t.Fatalf("while its worker has it: %v", err)
			}
			if err := two.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state == courier.Running {
				time.Sleep(time.Minute)
				x, _ = operator.Executions().Get(t.Context(), x.ID)
				if text := x.StatusText(time.Now()); !strings.HasPrefix(text, "lost: ") || !strings.Contains(text, `workspace "tree of one"`) || !strings.Contains(text, "Elsewhere") {
					t.Errorf("the status in words: %s", text)
				}
				if _, err := operator.Resume(t.Context(), x.ID, elsewhere); err != nil {
					t.Fatal(err)
				}
			}
			r := h.Wait(x.ID).RequireState(courier.Completed)
			if r.Attempt != 2 || r.Workspace != "tree of two" || !r.Resumed {
				t.Errorf("attempt %d in %q, resumed %v", r.Attempt, r.Workspace, r.Resumed)
			}
			audit, err := operator.Executions().Audit(t.Context(), x.ID)
			if err != nil {
				t.Fatal(err)
			}
			var told bool
			for _, a := range audit {
				told = told || a.By == "ops" && a.Error == "host one burnt down" && a.Reason == courier.ReasonElsewhere && a.From == string(state) && a.To == "queued"
			}
			if !told {
				t.Errorf("the audit does not say who and why: %+v", audit)
			}
			if _, err := os.Stat(filepath.Join(dir, string(x.ID))); err != nil {
				t.Errorf("the files on host one were touched: %v", err)
			}
			u.off.Store(false)
			quiet()
			if after, _ := operator.Executions().Get(t.Context(), x.ID); after.State != courier.Completed {
				t.Errorf("after host one came back: %s", after.State)
			}
		})
	}
}

// TestElsewhereIsRefused has what can go on with its files, or has none.
func TestElsewhereIsRefused(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Fails(errors.New("boom")))
		r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
		elsewhere := &engine.ResumeOptions{By: courier.By{Actor: "ops"}, Elsewhere: true}
		if _, err := h.Engine.Resume(t.Context(), r.ID, elsewhere); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "resume it without Elsewhere") {
			t.Errorf("of one without files: %v", err)
		}
		if _, err := h.Engine.Resume(t.Context(), "nobody", elsewhere); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
		if _, err := h.Engine.Resume(t.Context(), r.ID, &engine.ResumeOptions{Elsewhere: true, By: courier.By{Reason: "\x00"}}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("with a NUL character: %v", err)
		}
		if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
			t.Errorf("without options: %v", err)
		}
	})
}
