package engine_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// TestNoStore gives an engine no store: every call says so.
func TestNoStore(t *testing.T) {
	var opened *memstore.Store
	for name, s := range map[string]store.Store{"nil": nil, "a nil pointer": opened} {
		e := engine.New(s, nil, &engine.Options{Workspace: t.TempDir()})
		job := courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.nop"}}}
		_, enqueued := e.Enqueue(t.Context(), "j", nil)
		_, run := e.Run(t.Context(), job, nil)
		_, got := e.Executions().Get(t.Context(), "x")
		for call, err := range map[string]error{
			"Start": e.Start(t.Context()), "Enqueue": enqueued, "Run": run, "Execution": got,
			"SetLimit": e.Limits().Set(t.Context(), "global", 1, courier.By{}), "Cancel": errOf(e.Cancel(t.Context(), "x", &courier.CancelOptions{By: courier.By{}})),
			"Schedules.Get": errOf(e.Schedules().Get(t.Context(), "s")), "Monitors.Get": errOf(e.Monitors().Get(t.Context(), "m")),
			"DryRunChain": errOf(e.DryRunChain(t.Context(), chain.Chain{Name: "c", Members: []chain.Member{{Job: "j"}}}, nil)),
		} {
			if err == nil || !strings.Contains(err.Error(), "engine.New was given a nil store") || !errors.Is(err, courier.ErrInvalid) {
				t.Errorf("%s with %s: %v", call, name, err)
			}
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Errorf("Stop with %s: %v", name, err)
		}
	}
}

// TestBadOptions starts engines with options that can't be meant, and wants all of
// them named.
func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		opt  engine.Options
		want []string
	}{
		{engine.Options{Slots: -1, Lease: -time.Second, Poll: -1, SoftStop: -1, Grace: -1, Orphans: -1}, []string{
			"Options.Slots: -1 is negative", "Options.Lease: -1s is negative", "Options.Poll: -1ns", "Options.SoftStop: -1ns", "Options.Grace: -1ns", "Options.Orphans: -1ns",
		}},
		{engine.Options{Lease: 15, Poll: 5}, []string{"Options.Lease: 15ns is less than 10ms; give it a unit, such as 15*time.Second", "Options.Poll: 5ns is less than 1ms"}},
		{engine.Options{KeepLog: 16}, []string{"Options.KeepLog: 16 bytes is less than 1024; a negative number keeps nothing"}},
		{engine.Options{KeepLog: -1}, nil},
		{engine.Options{BaseURL: "ops.example.com/courier"}, []string{`Options.BaseURL: "ops.example.com/courier" must be an address such as`}},
		{engine.Options{BaseURL: "https://ops.example.com/courier?a=b"}, []string{"Options.BaseURL"}},
		{engine.Options{BaseURL: "javascript://x/"}, []string{"Options.BaseURL"}},
		{engine.Options{BaseURL: "https://ops.example.com/courier/"}, nil},
		{engine.Options{Lease: 10 * time.Millisecond, Poll: time.Millisecond, SoftStop: 1, Grace: 1, Orphans: 1}, nil},
	} {
		c.opt.Workspace = t.TempDir()
		e := engine.New(memstore.New(), nil, &c.opt)
		_, run := e.Run(t.Context(), courier.Job{Name: "j"}, nil)
		start := e.Start(t.Context())
		for _, want := range c.want {
			for call, err := range map[string]error{"Start": start, "Run": run} {
				if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, courier.ErrInvalid) {
					t.Errorf("%s: %v, want %q", call, err, want)
				}
			}
		}
		if c.want == nil && start != nil {
			t.Errorf("Start: %v", start)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A refusing store enqueues nothing, for a reason that stays.
type refusing struct {
	*memstore.Store
	err error
}

func (r refusing) Enqueue(context.Context, []store.NewExecution) ([]store.Enqueued, error) {
	return nil, r.err
}

// TestFinalErrorsAreToldAtOnce shows that a caller does not wait for what repeating
// can't cure, and that an error that may pass is tried again for ten seconds.
func TestFinalErrorsAreToldAtOnce(t *testing.T) {
	for _, c := range []struct {
		err  error
		want time.Duration
	}{{courier.Permanent(errors.New("permission denied")), 0}, {errors.New("no connection"), 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			h := newFleet(t, refusing{memstore.New(), c.err}, 1)
			begun := time.Now()
			if _, err := h.engines[0].Enqueue(t.Context(), "job", nil); !errors.Is(err, c.err) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begun); took != c.want {
				t.Errorf("%v: after %v, want %v", c.err, took, c.want)
			}
		})
	}
}

// TestDefineReportsAllAtOnce defines a job of which JSON does not take the policy
// and a duration, and that has other mistakes too.
func TestDefineReportsAllAtOnce(t *testing.T) {
	e := engine.New(memstore.New(), new(courier.Registry), &engine.Options{Workspace: t.TempDir()})
	negative := -time.Second
	_, err := e.Jobs().Define(t.Context(), courier.Job{
		Name: "j", Limit: -1, FailurePolicy: courier.FailurePolicy{Type: "retry"},
		Steps: []courier.StepSpec{{ID: "a b", Type: "demo.unknown", Timeout: &negative, Config: map[string]any{"n": 1}}},
	}, nil)
	var def *courier.DefinitionError
	if !errors.As(err, &def) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{
		`failure_policy.type: unknown policy "retry"`, "limit: -1", "timeout_seconds: -1 is negative; 0 means none", `unknown step type "demo.unknown"`, `id: "a b" is malformed`,
	} {
		if n := strings.Count(err.Error(), want); n != 1 {
			t.Errorf("%q stands there %d times:\n%v", want, n, err)
		}
	}
}

// TestWorkspaceThatCanNotBeMade names the option with which to choose another.
func TestWorkspaceThatCanNotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(), nil, &engine.Options{Workspace: filepath.Join(file, "below")})
	err := e.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "choose another in engine.Options.Workspace") {
		t.Errorf("error %v", err)
	}
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		t.Errorf("error %v wraps no PathError", err)
	}
}

// TestRelativeRoot reads a file below a root that was given relative to the working
// directory, by its absolute path.
func TestRelativeRoot(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("in", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("in/a.txt", []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.open", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		f, err := job.Files().Open(filepath.Join(dir, "in/a.txt"))
		if err == nil {
			err = f.Close()
		}
		return struct{}{}, err
	}, nil)
	roots := []string{"in"}
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir(), Roots: roots})
	t.Chdir(t.TempDir())
	if _, err := e.Run(t.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.open"}}}, nil); err != nil {
		t.Error(err)
	}
	if roots[0] != "in" {
		t.Errorf("the caller's list was changed to %q", roots)
	}
}

// TestLowSpace: a nearly full disk does not keep an engine from its start, and is not silent.
func TestLowSpace(t *testing.T) {
	for _, c := range []struct {
		least int64
		low   bool
	}{{1 << 62, true}, {1, false}, {-1, false}} {
		log := new(logbook)
		e := engine.New(memstore.New(), nil, &engine.Options{Workspace: t.TempDir(), MinFree: c.least, Log: log.logger()})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := e.Health().LowSpace
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(log.lines("little space for workspaces", "min_free_bytes")); c.low != (n == 1) || c.low != (h != nil) {
			t.Errorf("with MinFree %d: %d lines in the log, and Health has %+v", c.least, n, h)
		}
		if h != nil && (h.Free <= 0 || h.MinFree != c.least) {
			t.Errorf("Health has %+v", h)
		}
	}
}
