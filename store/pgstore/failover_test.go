package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/storetest"
)

// TestFailoverThatForgets has a standby take over that lacks the last commits of the server, as
// one with asynchronous replication may. What it has goes on, and each of its audits is whole:
// steps that it knows as running are executed again. What it does not have is not there, and can
// be enqueued again under the same keys. TestFailover of package chaos has a standby that
// lacks nothing.
func TestFailoverThatForgets(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, nil)
	standby := primary.Standby(t)
	s := open(t, pgtest.FailoverURL("", primary, standby), nil)

	var executed atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.step", func(ctx context.Context, job *courier.Context, cfg struct {
		Wait bool `json:"wait"`
	}) (none struct{}, err error) {
		executed.Add(1)
		if cfg.Wait {
			select {
			case held <- struct{}{}:
			case <-release:
			}
			select {
			case <-release:
			case <-ctx.Done():
				return none, context.Cause(ctx)
			}
		}
		return none, nil
	}, nil)
	e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), Lease: 2 * time.Second, Poll: 200 * time.Millisecond})
	for _, wait := range []bool{false, true} {
		step := courier.StepSpec{Type: "test.step", Config: map[string]any{"wait": wait}}
		if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: fmt.Sprint("wait-", wait), Steps: []courier.StepSpec{{Type: "test.step"}, step, {Type: "test.step"}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	enqueue := func(job, key string) courier.ExecutionID {
		t.Helper()
		x, err := e.Enqueue(t.Context(), job, &courier.EnqueueOptions{IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	ends := func(id courier.ExecutionID) {
		t.Helper()
		var x courier.Execution
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if x, err = e.Executions().Get(t.Context(), id); err == nil && x.State == courier.Completed {
				return
			}
		}
		t.Fatalf("execution %s is %s, %v", id, x.State, err)
	}
	before, running := enqueue("wait-false", "before"), enqueue("wait-true", "running")
	ends(before)
	<-held
	primary.Reload(t, map[string]string{"synchronous_standby_names": "*"})
	enqueue("wait-false", "until here") // the standby has all that was committed before
	standby.Stop(t, "fast")
	primary.Reload(t, map[string]string{"synchronous_standby_names": ""})
	lost := enqueue("wait-false", "lost")
	ends(lost)

	primary.Kill(t)
	standby.Begin(t)
	standby.Promote(t)
	close(release)
	ends(running)
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, err = e.Executions().Get(t.Context(), lost); errors.Is(err, courier.ErrNotFound) {
			break
		}
	}
	if !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("what was committed after the standby was left behind: %v", err)
	}
	again := enqueue("wait-false", "lost")
	ends(again)
	for _, id := range []courier.ExecutionID{before, running, again} {
		if err := storetest.CheckExecution(t.Context(), s, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if same := enqueue("wait-false", "before"); same != before {
		t.Errorf("the key of %s is that of %s", before, same)
	}
	t.Logf("%d calls of steps", executed.Load())
}
