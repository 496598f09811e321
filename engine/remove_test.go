package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// TestRemoveJob: a job that nothing uses is removed from lists and can't be started, by any
// engine; its history stays, and Define makes it again.
func TestRemoveJob(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, other, ctx := applyEngine(s), applyEngine(s), t.Context()
		job := courier.Job{Name: "convert", Params: map[string]any{"event": nil, "files": nil}, Steps: []courier.StepSpec{{Type: "demo.show", Config: map[string]any{"text": "a"}}}}
		define := func(e *engine.Engine, job courier.Job, opt *courier.DefineOptions) (int, error) {
			d, err := e.Jobs().Define(ctx, job, opt)
			return d.Job.Version, err
		}
		if _, err := define(e, job, nil); err != nil {
			t.Fatal(err)
		}
		x, err := other.Enqueue(ctx, "convert", nil) // which remembers the version
		if err != nil {
			t.Fatal(err)
		}
		ann := courier.By{Actor: "ann", Reason: "not needed"}
		refused := func(err error, kind error, texts ...string) {
			t.Helper()
			for _, text := range texts {
				if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v; want %q", err, text)
				}
			}
		}
		refused(e.Jobs().Remove(ctx, "convrt", ann), courier.ErrNotFound, `did you mean "convert"?`)
		refused(e.Jobs().Remove(ctx, "convert", ann), courier.ErrConflict, `remove job "convert": `, "execution "+string(x.ID)+" is queued; cancel what has not ended")
		if _, err := e.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		down := courier.Job{Name: "down", DependsOn: []courier.JobDependency{{Job: "convert"}}, Steps: job.Steps}
		_, err = define(e, down, nil)
		_, err2 := e.Chains().Define(ctx, chain.Chain{Name: "daily", Members: []chain.Member{{Job: "convert"}}}, nil)
		_, err3 := e.Schedules().Set(ctx, schedule.Schedule{Name: "hourly", Job: "convert", Every: time.Hour}, courier.By{})
		_, err4 := e.Monitors().Set(ctx, monitor.Monitor{Name: "in", Path: "/in", Job: "convert"}, courier.By{})
		_, err5 := e.Subscriptions().Set(ctx, notify.Subscription{Name: "starts", Kind: notify.KindJob, Job: &notify.JobTarget{Name: "convert"}, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"down"}}, courier.By{})
		if err := errors.Join(err, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		refused(e.Jobs().Remove(ctx, "convert", ann), courier.ErrConflict, `schedule "hourly"`, `monitor "in"`, `subscription "starts"`, `chain "daily"`, `job "down"`, "change or remove them first")
		if err := errors.Join(e.Schedules().Remove(ctx, "hourly", ann), e.Monitors().Remove(ctx, "in", ann), e.Subscriptions().Remove(ctx, "starts", ann), e.Chains().Remove(ctx, "daily", ann), e.Jobs().Remove(ctx, "down", ann)); err != nil {
			t.Fatal(err)
		}
		if err := e.Jobs().Remove(ctx, "convert", ann); err != nil {
			t.Fatal(err)
		}
		const gone = `job "convert" was removed by ann, in version 2; define it again to use it`
		refused(e.Jobs().Remove(ctx, "convert", ann), courier.ErrNotFound, gone)
		for _, e := range []*engine.Engine{e, other} {
			_, err := e.Enqueue(ctx, "convert", nil)
			refused(err, courier.ErrNotFound, gone)
			_, err = e.Enqueue(ctx, "convert", &courier.EnqueueOptions{Version: 1})
			refused(err, courier.ErrNotFound, gone)
			_, err = e.Jobs().Get(ctx, "convert", 0)
			refused(err, courier.ErrNotFound, gone)
			if names, err := e.Jobs().Names(ctx, store.DefinitionFilter{}); err != nil || len(names) != 0 {
				t.Errorf("names %v, %v", names, err)
			}
		}
		_, err = e.Rerun(ctx, x.ID, nil)
		refused(err, courier.ErrNotFound, gone)
		_, err = e.Jobs().Get(ctx, "convert", 2)
		refused(err, courier.ErrNotFound, "is its removal")
		if j, err := e.Jobs().Get(ctx, "convert", 1); err != nil || j.Version != 1 {
			t.Errorf("version %d, %v", j.Version, err)
		}
		if list, err := e.Jobs().Versions(ctx, "convert", store.VersionFilter{}); err != nil || len(list) != 1 {
			t.Errorf("%d versions, %v", len(list), err)
		}
		if x, err := e.Executions().Get(ctx, x.ID); err != nil || x.State != courier.Cancelled {
			t.Errorf("%+v, %v", x, err)
		}
		list, err := e.Journal(ctx, store.ActionFilter{Kind: "job", Name: "convert"})
		if err != nil || len(list) != 1 || list[0].Verb != "removed" || list[0].By != "ann" || list[0].Reason != "not needed" || !strings.Contains(string(list[0].Was), "demo.show") {
			t.Errorf("the journal has %+v, %v", list, err)
		}
		_, err = define(e, down, nil)
		if d, ok := errors.AsType[*courier.DefinitionError](err); !ok || !strings.Contains(d.Error(), `"convert"`) {
			t.Errorf("a job that depends on it: %v", err)
		}
		_, err = define(other, job, &courier.DefineOptions{KeepNewer: true})
		refused(err, courier.ErrConflict, gone)
		if v, err := define(e, job, nil); err != nil || v != 3 {
			t.Errorf("version %d, %v", v, err)
		}
		for _, e := range []*engine.Engine{e, other} {
			if x, err := e.Enqueue(ctx, "convert", nil); err != nil || x.Version != 3 {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}

// TestRemoveChain: a chain is removed as a job is.
func TestRemoveChain(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		if _, err := e.Apply(ctx, definitionsOf(t, "a", `{"name": "hourly", "chain": "daily", "every_seconds": 3600}`), nil); err != nil {
			t.Fatal(err)
		}
		remove := func() error { return e.Chains().Remove(ctx, "daily", courier.By{Actor: "ann"}) }
		if err := remove(); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `schedule "hourly"`) {
			t.Errorf("%v", err)
		}
		x, err := e.Chains().Start(ctx, "daily", nil)
		if err := errors.Join(err, e.Schedules().Remove(ctx, "hourly", courier.By{})); err != nil {
			t.Fatal(err)
		}
		if err := remove(); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "chain execution "+string(x.ID)+" is running") {
			t.Errorf("%v", err)
		}
		if _, err := e.Chains().Cancel(ctx, x.ID, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Chains().Start(ctx, "daily", nil); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `chain "daily" was removed by ann`) {
			t.Errorf("%v", err)
		}
		if list, err := e.Chains().List(ctx, store.DefinitionFilter{}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if x, err := e.Chains().Execution(ctx, x.ID); err != nil || x.State != chain.Cancelled {
			t.Errorf("%+v, %v", x, err)
		}
	})
}
