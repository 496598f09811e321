package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// inFleet runs a test with one engine, in virtual time, from a full hour on.
func inFleet(t *testing.T, run func(f *fleet, start time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, memstore.New(), 2)
		run(f, time.Now().UTC())
	})
}

func second(_ schedule.Schedule, err error) error { return err }

// TestBadTargets shows what is said about schedules that start what there is not, or what
// their parameters do not fit.
func TestBadTargets(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		f.define("invoices", `{"day": null}`)
		for _, tt := range []struct {
			s    schedule.Schedule
			want string
		}{
			{schedule.Schedule{Name: "x", Job: "invoice", Every: time.Hour}, `job: there is no job "invoice"; did you mean "invoices"?`},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Params: m{"dy": 1}}, `params.dy: unknown parameter "dy"; did you mean "day"?`},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Params: m{"day": "\xff"}}, "params: "},
		} {
			_, err := f.engines[0].Schedules().Set(f.t.Context(), tt.s, courier.By{})
			if _, ok := errors.AsType[*schedule.Error](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v, want %s", tt.s, err, tt.want)
			}
		}
	})
}

// TestFires fires schedules of all kinds.
func TestFires(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		f.set(schedule.Schedule{Name: "every", Every: time.Minute, Starts: start.Add(90 * time.Second), Ends: start.Add(210 * time.Second)})
		f.set(schedule.Schedule{Name: "cron", Cron: "0/40 * * * * ?", Zone: "Asia/Kolkata", Ends: start.Add(2 * time.Minute)})
		f.set(schedule.Schedule{Name: "at", At: start.Add(100 * time.Second), Params: m{"day": "friday"}, Priority: 7})
		f.set(schedule.Schedule{Name: "off", Every: time.Minute, Disabled: true})
		if at := f.schedule("at"); at.NextFire.IsZero() || at.Disabled {
			t.Errorf("before: %+v", at)
		}
		f.run(10 * time.Minute)
		f.want("every", start, 90, 150, 210)
		f.want("cron", start, 40, 60, 100, 120)
		f.want("at", start, 100)
		f.want("off", start)
		for _, x := range f.executions() {
			if x.State != courier.Completed {
				t.Errorf("%s is %s", x.IdempotencyKey, x.State)
			}
			if late := x.CreatedAt.Sub(mustTick(t, x)); late < 0 || late > 100*time.Millisecond {
				t.Errorf("%s was created %v after its tick", x.IdempotencyKey, late)
			}
			x, err := f.store.Execution(t.Context(), x.ID) // lists lack parameters
			if err != nil {
				t.Fatal(err)
			}
			if x.By == "schedule:at" && (string(x.Params) != `{"day":"friday"}` || x.Priority != 7) {
				t.Errorf("params %s, priority %d", x.Params, x.Priority)
			}
		}
		at := f.schedule("at")
		if !at.Disabled || at.Reason != "it has fired" || !at.NextFire.IsZero() || !at.LastFire.Equal(start.Add(100*time.Second)) || at.LastExecution == "" {
			t.Errorf("a one-shot that has fired: %+v", at)
		}
		if every := f.schedule("every"); !every.NextFire.IsZero() || every.Disabled || !every.LastFire.Equal(start.Add(210*time.Second)) {
			t.Errorf("one that has ended: %+v", every)
		}
		// The same one-shot is no other one, and another one is.
		f.set(schedule.Schedule{Name: "at", At: start.Add(100 * time.Second), Params: m{"day": "friday"}, Priority: 7})
		f.set(schedule.Schedule{Name: "at", At: start.Add(11 * time.Minute)})
		f.run(10 * time.Minute)
		f.want("at", start, 100, 660)
		if _, err := f.engines[0].Schedules().Enable(f.t.Context(), "at", courier.By{Actor: "ada"}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "in the past") {
			t.Errorf("enabling what has fired: %v", err)
		}
	})
}

// mustTick is the tick in an execution's key.
func mustTick(t *testing.T, x courier.Execution) time.Time {
	t.Helper()
	parts := strings.SplitN(x.IdempotencyKey, ":", 3)
	at, err := time.Parse(time.RFC3339Nano, parts[len(parts)-1])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestFiresAtOnce has a schedule that is set while the engine waits for
// something much later.
func TestFiresAtOnce(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		f.start(0)
		time.Sleep(time.Second)
		f.set(schedule.Schedule{Name: "s", At: start.Add(2 * time.Second)})
		time.Sleep(1500 * time.Millisecond)
		f.want("s", start, 2)
		f.stop(0)
	})
}

// TestMissedTicks has no engine for three hours.
func TestMissedTicks(t *testing.T) {
	inFleet(t, func(f *fleet, _ time.Time) {
		start := time.Now().UTC()
		for name, s := range map[string]schedule.Schedule{
			"once": {}, "skip": {Misfire: schedule.MisfireSkip}, "all": {Misfire: schedule.MisfireAll},
			"some": {Misfire: schedule.MisfireAll, Window: 100 * time.Minute},
		} {
			s.Name, s.Every, s.Starts = name, time.Hour, start.Add(time.Minute)
			f.set(s)
		}
		f.set(schedule.Schedule{Name: "at", At: start.Add(time.Minute)})
		f.set(schedule.Schedule{Name: "never", At: start.Add(time.Minute), Misfire: schedule.MisfireSkip})
		time.Sleep(3 * time.Hour)
		f.run(90 * time.Minute)
		minutes := func(list ...float64) []float64 {
			for i := range list {
				list[i] *= 60
			}
			return list
		}
		f.want("once", start, minutes(121, 181, 241)...)
		f.want("skip", start, minutes(181, 241)...)
		f.want("all", start, minutes(1, 61, 121, 181, 241)...)
		f.want("some", start, minutes(121, 181, 241)...)
		f.want("at", start, minutes(1)...)
		f.want("never", start)
		if s := f.schedule("never"); !s.Disabled || !strings.Contains(s.Reason, "did not fire") {
			t.Errorf("a one-shot that was left out: %+v", s)
		}
	})
}

// TestOverlappingTicks has executions that take 150 s and ticks every minute.
func TestOverlappingTicks(t *testing.T) {
	inFleet(t, func(f *fleet, _ time.Time) {
		start := time.Now().UTC()
		f.work = func(ctx context.Context, _ *courier.Context) error {
			select {
			case <-time.After(150 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := f.store.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
			t.Fatal(err)
		}
		for _, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapCancel} {
			f.set(schedule.Schedule{Name: string(o), Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(5 * time.Minute), Overlap: o})
		}
		f.run(20 * time.Minute)
		f.want("allow", start, 60, 120, 180, 240, 300)
		f.want("skip", start, 60, 240)
		// That of 120 waits until 210, and that of 180 is left out; that of 240 waits
		// until 360, and that of 300 is left out.
		f.want("queue_one", start, 60, 120, 240)
		f.want("cancel_running", start, 60, 120, 180, 240, 300)
		states := make(map[string]int)
		var began []time.Time
		for _, x := range f.executions() {
			states[x.By+" "+string(x.State)]++
			if x.By == "schedule:queue_one" {
				began = append(began, x.StartedAt, x.EndedAt)
			}
		}
		want := map[string]int{
			"schedule:allow completed": 5, "schedule:skip completed": 2, "schedule:queue_one completed": 3,
			"schedule:cancel_running cancelled": 4, "schedule:cancel_running completed": 1,
		}
		if !reflect.DeepEqual(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
		for i := 2; i+1 < len(began); i += 2 {
			if wait := began[i].Sub(began[i-1]); wait < 0 || wait > schedule.WaitAgain+time.Second {
				t.Errorf("execution %d began %v after the one before it ended", i/2, wait)
			}
		}
		if s := f.schedule("queue_one"); s.Waiting {
			t.Errorf("it still waits: %+v", s)
		}
	})
}

// TestPausesAfterFailures has a job that fails while it is told to.
func TestPausesAfterFailures(t *testing.T) {
	inFleet(t, func(f *fleet, _ time.Time) {
		start := time.Now().UTC()
		fails := true
		f.work = func(context.Context, *courier.Context) error {
			if fails {
				return errors.New("no")
			}
			return nil
		}
		f.set(schedule.Schedule{Name: "s", Every: time.Minute, Starts: start.Add(time.Minute), PauseAfter: 3})
		f.run(10*time.Minute + time.Second)
		f.want("s", start, 60, 120, 180)
		s := f.schedule("s")
		if !s.Paused || s.Disabled || s.Failures != 3 || !s.NextFire.IsZero() || s.Reason != "3 executions in a row have failed" {
			t.Errorf("after three failures: %+v", s)
		}
		fails = false
		if s, err := f.engines[0].Schedules().Enable(t.Context(), "s", courier.By{Actor: "ada"}); err != nil || s.Paused || s.Failures != 0 || !s.NextFire.Equal(start.Add(11*time.Minute)) {
			t.Errorf("enabled: %+v, %v", s, err)
		}
		f.run(2 * time.Minute)
		f.want("s", start, 60, 120, 180, 660, 720)
		fails = true
		f.run(time.Minute)
		fails = false
		f.run(3 * time.Minute)
		if s := f.schedule("s"); s.Paused || s.Failures != 0 {
			t.Errorf("after a failure and more successes: %+v", s)
		}
	})
}

// TestProblemsStayAlone has schedules that can't be fired beside one that can.
func TestProblemsStayAlone(t *testing.T) {
	inFleet(t, func(f *fleet, _ time.Time) {
		start := time.Now().UTC()
		a, ok := f.store.(schedule.Store)
		if !ok {
			t.Fatal("the store keeps no schedules")
		}
		bad := map[string]string{ // as another version of the program may have saved it, or somebody by hand
			"gone":   `{"name": "gone", "job": "gone", "every_seconds": 60}`,
			"cron":   `{"name": "cron", "job": "job", "cron": "0 0 99 * * ?"}`,
			"zone":   `{"name": "zone", "job": "job", "cron": "0 0 9 * * ?", "time_zone": "Mars/Base"}`,
			"json":   `{"name": "json", "job": `,
			"params": `{"name": "params", "job": "job", "every_seconds": 60, "params": {"unknown": 1}}`,
		}
		for name, body := range bad {
			target := "job"
			if name == "gone" {
				target = name
			}
			s := schedule.Record{Name: name, Kind: store.Job, Target: target, Body: json.RawMessage(body)}
			s.Next = start.Add(time.Minute)
			s.Due = s.Next
			if _, err := a.PutSchedule(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		f.set(schedule.Schedule{Name: "good", Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(5 * time.Minute)})
		f.run(150 * time.Second)
		for name, want := range map[string]string{
			"gone": `there is no job "gone"`, "cron": "hour", "zone": "Mars/Base", "json": "can't be read", "params": `unknown parameter "unknown"`,
		} {
			if s := f.schedule(name); !strings.Contains(s.Problem, want) || s.Name != name || !s.NextFire.Equal(start.Add(time.Minute)) || !s.LastFire.IsZero() {
				t.Errorf("%s: %+v", name, s)
			} else if want := map[bool]string{true: "gone", false: "job"}[name == "gone"]; s.Job != want || s.Chain != "" {
				t.Errorf("%s is of job %q and chain %q, want job %q", name, s.Job, s.Chain, want)
			}
		}
		f.define("gone", "null") // and there it is
		f.run(155 * time.Second)
		f.want("good", start, 60, 120, 180, 240, 300)
		if s := f.schedule("gone"); s.Problem != "" || s.LastFire.IsZero() {
			t.Errorf("its job is there now: %+v", s)
		}
	})
}

// TestNoAgenda has a store that keeps no schedules.
func TestNoAgenda(t *testing.T) {
	type bare struct{ store.Store }
	e := engine.New(bare{memstore.New()}, new(courier.Registry), &engine.Options{Workspace: t.TempDir()})
	_, err := e.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Job: "j", Every: time.Hour}, courier.By{})
	for _, err := range []error{err, e.Schedules().Remove(t.Context(), "s", courier.By{}), second(e.Schedules().Get(t.Context(), "s")), second(e.Schedules().Enable(t.Context(), "s", courier.By{}))} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "keeps no schedules") {
			t.Errorf("error %v", err)
		}
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
