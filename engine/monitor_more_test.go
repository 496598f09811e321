package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// TestBadMonitors shows what is said about monitors that start what there is not, or what
// their parameters do not fit.
func TestBadMonitors(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.define("invoices", `{"files": null, "day": null}`)
		w.defineJob(`{"name": "deaf", "params": {"day": null}, "steps": [{"type": "demo.take"}]}`)
		w.defineChain("chain", map[string]any{"files": nil, "day": nil})
		w.defineChain("deaf", map[string]any{"day": nil})
		for _, tt := range []struct {
			job, chain string
			params     map[string]any
			want       string
		}{
			{"", "chian", nil, `chain: there is no chain "chian"; did you mean "chain"?`},
			{"", "deaf", nil, `chain: chain "deaf" has params, but not "files", which holds the files; add it with the value null`},
			{"", "chain", map[string]any{"dy": 1}, `params.dy: unknown parameter "dy"; did you mean "day"?`},
			{"invoice", "", nil, `job: there is no job "invoice"; did you mean "invoices"?`},
			{"deaf", "", nil, `job: job "deaf" has params, but not "files", which holds the files; add it with the value null`},
			{"invoices", "", map[string]any{"dy": 1}, `params.dy: unknown parameter "dy"; did you mean "day"?`},
			{"job", "", map[string]any{"a": "\xff"}, "params: "},
		} {
			_, err := w.engines[0].Monitors().Set(t.Context(), monitor.Monitor{Name: "x", Path: "/in", Job: tt.job, Chain: tt.chain, Params: tt.params}, courier.By{})
			if _, ok := errors.AsType[*monitor.Error](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	})
}

// TestMonitorWithFaults lets calls of the store fail at random, before or after
// they took effect, and engines die: each file is handed over once.
func TestMonitorWithFaults(t *testing.T) {
	for seed := range uint64(raced.Or(20, 100)) {
		synctest.Test(t, func(t *testing.T) {
			r, files := rand.New(rand.NewPCG(seed, 6)), rand.New(rand.NewPCG(seed, 7))
			lost := errors.New("the reply is lost")
			dead := make(map[int]bool)
			behind := memstore.New()
			w := newTower(t, behind, 0)
			engineOf := func(i int) *engine.Engine {
				w.store = storewrap.Intercept(behind, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
					monitors := strings.Contains(c.Method, "Monitors") || c.Method == "RecordPoll" || c.Method == "SeenFiles"
					w.mu.Lock()
					n, gone := r.IntN(8), dead[i]
					w.mu.Unlock()
					switch {
					case gone && monitors, monitors && n == 0:
						return lost
					case monitors && n == 1:
						_ = do(ctx)
						return lost
					}
					return do(ctx)
				})
				return w.engine(fmt.Sprint("w", i))
			}
			w.engines = []*engine.Engine{engineOf(0)}
			var want []string
			w.store = behind
			calm := w.engine("calm") // sets up, and never starts
			w.engines = append(w.engines, calm)
			defineOn(t, calm)
			m := monitor.Monitor{Name: "m", Path: "/in", Job: "job", Every: 5 * time.Second, Stable: time.Second}
			if seed%2 == 1 {
				m.Job, m.Chain = "", "chain"
			}
			if _, err := calm.Monitors().Set(t.Context(), m, courier.By{}); err != nil {
				t.Fatal(err)
			}
			w.start(0)
			for i := range 12 {
				name := fmt.Sprint("f", i)
				w.shelf.put(int64(i), name)
				want = append(want, fmt.Sprintf("created %s:%d", name, i))
				time.Sleep(time.Duration(files.IntN(20)) * time.Second)
				if files.IntN(3) == 0 {
					w.mu.Lock()
					dead[i] = true
					w.mu.Unlock()
					w.stop(0)
					w.engines[0] = engineOf(i + 1)
					w.start(0)
				}
			}
			time.Sleep(time.Hour) // leases end
			w.require(want...)
			w.stop(0)
		})
	}
}

func defineOn(t *testing.T, e *engine.Engine) {
	t.Helper()
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(`{"name": "job", "steps": [{"type": "demo.take", "config": {"files": "context:params.files"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Chains().Define(t.Context(), chain.Chain{Name: "chain", Members: []chain.Member{{Job: "job"}}}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMonitorListers stops an engine in the middle of a listing, and has one without the
// lister.
func TestMonitorListers(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.set(monitor.Monitor{Every: 10 * time.Second, MaxFailures: 100})
		w.shelf.slow = time.Hour
		w.start(0)
		time.Sleep(65 * time.Second)
		if m := w.monitor(); m.Health.Failures != 1 || !strings.Contains(m.Health.Problem, "aborted after 1m0s") {
			t.Errorf("after a listing that hung: %+v", m)
		}
		begun := time.Now()
		w.stop(0) // in the middle of a listing
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		w.shelf.slow = 0
		if m := w.monitor(); m.Health.Failures > 2 || m.State != monitor.Degraded {
			t.Errorf("the stop counts as a failure: %+v", m)
		}
		bare := engine.New(w.store, w.reg, &engine.Options{Workspace: w.dir, Listers: map[string]courier.Lister{"sftp": w.shelf}})
		if err := bare.Start(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		looks := w.shelf.looks()
		time.Sleep(time.Hour)
		if n := w.shelf.looks(); n != looks {
			t.Errorf("%d looks by an engine without the lister", n-looks)
		}
		if err := bare.Stop(w.t.Context()); err != nil {
			t.Error(err)
		}
		w.shelf.files["a"] = courier.ListedFile{Name: "a", Size: 1, Modified: time.Now()}
		w.start(0)
		time.Sleep(time.Minute)
		w.require("created a:1")
		w.stop(0)
	})
}

// TestMonitorOfADirectory hands a real file over soon after it is complete.
func TestMonitorOfADirectory(t *testing.T) {
	dir := t.TempDir()
	reg, got := new(courier.Registry), make(chan string, 10)
	type config struct {
		Path string `json:"path"`
	}
	courier.RegisterFunc(reg, "demo.take", func(_ context.Context, _ *courier.Context, cfg config) (struct{}, error) {
		got <- cfg.Path
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Workspace: t.TempDir(), Roots: []string{dir}, Listers: map[string]courier.Lister{"file": file.NewLister([]string{dir}, nil)},
	})
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(`{"name": "job", "steps": [{"type": "demo.take", "config": {"path": "context:params.monitor.triggered_files[0].path"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Monitors().Set(t.Context(), monitor.Monitor{Name: "m", Path: dir, Job: "job", Every: time.Hour, Stable: time.Second}, courier.By{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	for m, err := e.Monitors().Get(t.Context(), "m"); m.Health.LastPoll.IsZero(); m, err = e.Monitors().Get(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // it begins to watch
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return // the next look is in an hour
	}
	select {
	case path := <-got:
		if path != name {
			t.Errorf("got %q, want %q", path, name)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing was handed over")
	}
}
