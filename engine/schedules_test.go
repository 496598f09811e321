package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
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

// TestBadSchedules shows what is said about schedules that can't be saved, and
// that none of them is.
func TestBadSchedules(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		f.define("invoices", `{"day": null}`)
		f.set(courier.Schedule{Name: "there", Every: time.Hour})
		for _, tt := range []struct {
			s    courier.Schedule
			want []string
		}{
			{courier.Schedule{Name: "x"}, []string{"job: there is neither a job nor a chain", "cron: there is none of cron, every_seconds and at"}},
			{courier.Schedule{Job: "job", Every: time.Hour}, []string{"name: it is missing"}},
			{courier.Schedule{Name: "a\nb", Job: "job", Every: time.Hour}, []string{"name: ", "control characters"}},
			{courier.Schedule{Name: strings.Repeat("x", 201), Job: "job", Every: time.Hour}, []string{"201 characters, more than 200"}},
			{courier.Schedule{Name: "x", Job: "invoice", Every: time.Hour}, []string{`there is no job "invoice"; did you mean "invoices"?`}},
			{courier.Schedule{Name: "x", Job: "job", Chain: "c", Every: time.Hour}, []string{"chain: there is a job too"}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Cron: "0 0 3 * * ?"}, []string{"more than one of cron, every_seconds and at"}},
			{courier.Schedule{Name: "x", Job: "job", Cron: "0 3 * * *"}, []string{"cron: ", "column", "0 0 3 * * ?"}},
			{courier.Schedule{Name: "x", Job: "job", Cron: "0 0 25 * * ?", Zone: "Europe/Berln"}, []string{"cron: ", "column 5", "time_zone: ", `"Europe/Berlin"`}},
			{courier.Schedule{Name: "x", Job: "job", Cron: "0 0 0 30 2 ?"}, []string{"cron: it never fires"}},
			{courier.Schedule{Name: "x", Job: "job", Cron: "0 0 0 1 1 ? 1999"}, []string{"cron: it never fires"}},
			{courier.Schedule{Name: "x", Job: "job", At: start.Add(-time.Second)}, []string{"at: ", "is in the past", "by the store's clock"}},
			{courier.Schedule{Name: "x", Job: "job", At: start}, []string{"is in the past"}},
			{courier.Schedule{Name: "x", Job: "job", At: start.Add(time.Hour), Ends: start.Add(time.Minute), Zone: "UTC"}, []string{"time_zone: ", "at: starts_at and ends_at"}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Ends: start.Add(-time.Hour)}, []string{"ends_at: there is no time to fire until"}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Ends: start, Starts: start.Add(time.Hour)}, []string{"ends_at: ", "is before starts_at"}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Millisecond}, []string{"every_seconds: 1ms is not at least 1s"}},
			{courier.Schedule{Name: "x", Job: "job", Every: -time.Hour}, []string{"every_seconds: "}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Minute, Jitter: time.Minute}, []string{"jitter_seconds: 1m0s is not less than every_seconds"}},
			{courier.Schedule{Name: "x", Job: "job", Cron: "0 0 3 * * ?", Jitter: -1}, []string{"jitter_seconds: "}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Overlap: "skipp", Misfire: "once"}, []string{`unknown policy "skipp"; did you mean "skip"?`, `misfire: unknown policy "once"; known are fire_once`}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Window: time.Hour}, []string{`window_seconds: it is for misfire "fire_all" only`}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, PauseAfter: -1}, []string{"pause_after: -1 is negative"}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Params: m{"dy": 1}}, []string{`params.dy: unknown parameter "dy"; did you mean "day"?`}},
			{courier.Schedule{Name: "x", Job: "job", Every: time.Hour, Params: m{"day": "\xff"}}, []string{"params: "}},
			{courier.Schedule{Name: "x", Job: "job", At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"at: ", "between the years 1970 and 2200"}},
		} {
			_, err := f.engines[0].Schedules().Set(f.t.Context(), tt.s, courier.By{})
			problems, ok := errors.AsType[*courier.ScheduleError](err)
			if !ok || !errors.Is(err, courier.ErrInvalid) || len(problems.Problems) == 0 {
				t.Errorf("%+v: %v", tt.s, err)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		}
		if list, err := f.engines[0].Schedules().List(f.t.Context(), store.ScheduleFilter{}); err != nil || len(list) != 1 {
			t.Errorf("saved: %v, %v", list, err)
		}
	})
}

// TestScheduleJSON writes a schedule and reads it back.
func TestScheduleJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := courier.Schedule{
		Name: "s", Job: "j", Chain: "c", Cron: "0 0 3 * * ?", Zone: "UTC", Every: 1500 * time.Millisecond, At: at, Starts: at, Ends: at,
		Params: map[string]any{"a": "b"}, Priority: -3, Overlap: courier.OverlapQueue, Misfire: courier.MisfireAll, Window: time.Hour,
		Jitter: time.Minute, PauseAfter: 4, Disabled: true, Paused: true, Reason: "r", NextFire: at, Waiting: true, LastFire: at,
		LastExecution: "x", Failures: 2, Problem: "p", SavedAt: at,
	}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tried", v.Type().Field(i).Name)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back courier.Schedule
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%s\nread as %+v, %v", text, back, err)
	}
	if d := s.Definition(); d.Problem != "" || d.Disabled || !d.NextFire.IsZero() || d.Cron == "" || d.PauseAfter == 0 {
		t.Errorf("definition %+v", d)
	}
	for text, want := range map[string]string{
		`{"name": "s", "crn": ""}`:           `unknown field "crn"; did you mean "cron"?`,
		`{"name": "s", "every_seconds": -1}`: "negative",
		`{"name": "s", "at": "tomorrow"}`:    `must be an instant such as "2030-01-31T08:00:00Z", not "tomorrow"`,
		`[]`:                                 "must be an object",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSetAgain sets schedules that are there: what is the same stays as it is,
// and a change keeps what it can.
func TestSetAgain(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		e, ctx := f.engines[0], f.t.Context()
		s := courier.Schedule{Name: "s", Job: "job", Every: time.Hour, Params: m{"day": "monday"}}
		first := f.set(s)
		if !first.NextFire.Equal(start.Truncate(time.Hour).Add(time.Hour)) || first.SavedAt.IsZero() {
			t.Errorf("set: %+v", first)
		}
		time.Sleep(time.Minute)
		if again := f.set(s); !reflect.DeepEqual(again, first) {
			t.Errorf("set again: %+v, was %+v", again, first)
		}
		if off, err := e.Schedules().Disable(ctx, "s", courier.By{Actor: "ada"}); err != nil || !off.Disabled || off.Reason != "it was disabled by ada" || !off.NextFire.IsZero() {
			t.Errorf("disabled: %+v, %v", off, err)
		}
		if again := f.set(s); !again.Disabled {
			t.Error("setting it again has enabled it")
		}
		s.Params = m{"day": "tuesday"}
		if again := f.set(s); !again.Disabled || !again.NextFire.IsZero() {
			t.Errorf("changing it has enabled it: %+v", again)
		}
		if on, err := e.Schedules().Enable(ctx, "s", courier.By{Actor: "bob"}); err != nil || on.Disabled || on.Reason != "" || !on.NextFire.Equal(first.NextFire) {
			t.Errorf("enabled: %+v, %v", on, err)
		}
		s.Params = m{"day": "sunday"}
		if again := f.set(s); !again.NextFire.Equal(first.NextFire) || again.Params["day"] != "sunday" {
			t.Errorf("with other params: %+v", again)
		}
		s.Every = 10 * time.Minute
		if again := f.set(s); !again.NextFire.Equal(start.Truncate(time.Hour).Add(10 * time.Minute)) {
			t.Errorf("with other ticks: %+v", again)
		}
		s.Disabled = true
		if again := f.set(s); !again.Disabled || again.Reason == "" || !again.NextFire.IsZero() {
			t.Errorf("set disabled: %+v", again)
		}
		if got := f.schedule("s"); !got.Disabled {
			t.Errorf("it is %+v", got)
		}
		if err := e.Schedules().Remove(ctx, "s", courier.By{}); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			e.Schedules().Remove(ctx, "s", courier.By{}), second(e.Schedules().Get(ctx, "s")), second(e.Schedules().Enable(ctx, "s", courier.By{})), second(e.Schedules().Disable(ctx, "s", courier.By{})),
		} {
			if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `there is no schedule "s"`) {
				t.Errorf("of one that is not there: %v", err)
			}
		}
	})
}

func second(_ courier.Schedule, err error) error { return err }

// TestFires fires schedules of all kinds.
func TestFires(t *testing.T) {
	inFleet(t, func(f *fleet, start time.Time) {
		f.set(courier.Schedule{Name: "every", Every: time.Minute, Starts: start.Add(90 * time.Second), Ends: start.Add(210 * time.Second)})
		f.set(courier.Schedule{Name: "cron", Cron: "0/40 * * * * ?", Zone: "Asia/Kolkata", Ends: start.Add(2 * time.Minute)})
		f.set(courier.Schedule{Name: "at", At: start.Add(100 * time.Second), Params: m{"day": "friday"}, Priority: 7})
		f.set(courier.Schedule{Name: "off", Every: time.Minute, Disabled: true})
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
		f.set(courier.Schedule{Name: "at", At: start.Add(100 * time.Second), Params: m{"day": "friday"}, Priority: 7})
		f.set(courier.Schedule{Name: "at", At: start.Add(11 * time.Minute)})
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
		f.set(courier.Schedule{Name: "s", At: start.Add(2 * time.Second)})
		time.Sleep(1500 * time.Millisecond)
		f.want("s", start, 2)
		f.stop(0)
	})
}

// TestMissedTicks has no engine for three hours.
func TestMissedTicks(t *testing.T) {
	inFleet(t, func(f *fleet, _ time.Time) {
		start := time.Now().UTC()
		for name, s := range map[string]courier.Schedule{
			"once": {}, "skip": {Misfire: courier.MisfireSkip}, "all": {Misfire: courier.MisfireAll},
			"some": {Misfire: courier.MisfireAll, Window: 100 * time.Minute},
		} {
			s.Name, s.Every, s.Starts = name, time.Hour, start.Add(time.Minute)
			f.set(s)
		}
		f.set(courier.Schedule{Name: "at", At: start.Add(time.Minute)})
		f.set(courier.Schedule{Name: "never", At: start.Add(time.Minute), Misfire: courier.MisfireSkip})
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
		for _, o := range []courier.Overlap{courier.OverlapAllow, courier.OverlapSkip, courier.OverlapQueue, courier.OverlapCancel} {
			f.set(courier.Schedule{Name: string(o), Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(5 * time.Minute), Overlap: o})
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
			if wait := began[i].Sub(began[i-1]); wait < 0 || wait > store.WaitAgain+time.Second {
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
		f.set(courier.Schedule{Name: "s", Every: time.Minute, Starts: start.Add(time.Minute), PauseAfter: 3})
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
		a, ok := f.store.(store.Schedules)
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
			s := store.Schedule{Name: name, Kind: store.Job, Target: target, Body: json.RawMessage(body)}
			s.Next = start.Add(time.Minute)
			s.Due = s.Next
			if _, err := a.PutSchedule(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		f.set(courier.Schedule{Name: "good", Every: time.Minute, Starts: start.Add(time.Minute), Ends: start.Add(5 * time.Minute)})
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
	_, err := e.Schedules().Set(t.Context(), courier.Schedule{Name: "s", Job: "j", Every: time.Hour}, courier.By{})
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

func TestExplainCron(t *testing.T) {
	x, err := engine.ExplainCron("0 30 2 * * ?", "Europe/Berlin", time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC), 3)
	if err != nil || len(x.Next) != 3 || len(x.Notes) == 0 || x.Words == "" {
		t.Fatalf("%+v, %v", x, err)
	}
	if got := fmt.Sprint(x.Next[1]); got != "2027-03-28 03:30:00 +0200 CEST" {
		t.Errorf("in the gap it fires at %s", got)
	}
	for _, want := range []string{x.Words, "next: Sat 2027-03-27 02:30:00 CET\n", "note: " + x.Notes[0]} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("%q lacks %q", x, want)
		}
	}
	if x, err := engine.ExplainCron("0 0 0 30 2 ?", "", time.Time{}, 0); err != nil || len(x.Next) != 0 || !strings.Contains(x.String(), "never fires") {
		t.Errorf("%+v, %v", x, err)
	}
	for _, bad := range [][2]string{{"0 3 * * *", ""}, {"0 0 3 * * ?", "Berlin/Europe"}} {
		if _, err := engine.ExplainCron(bad[0], bad[1], time.Time{}, 0); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
