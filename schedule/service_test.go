package schedule_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A world is a service on a store in memory, with one job, named job.
type world struct {
	*schedule.Service
	t       *testing.T
	store   *memstore.Store
	ids     uuid7.Source
	changes []string // what was changed, in words
	mu      sync.Mutex
	fired   int   // firings that were carried out
	refuses error // of all executions
	// calendars are those that there are; unread is the error of reading them.
	calendars map[string]calendar.Calendar
	unread    error
	log       bytes.Buffer
}

// newWorld makes a world.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New()}
	w.Service = schedule.New(schedule.Options{
		Store:   func() (schedule.Store, error) { return w.store, nil },
		Targets: w,
		Calendar: func(_ context.Context, name string) (*calendar.Days, error) {
			c, ok := w.calendars[name]
			if !ok || w.unread != nil {
				return nil, cmp.Or(w.unread, courier.Errorf(courier.ErrNotFound, "there is no calendar %q; there are none", name))
			}
			return calendar.New(c)
		},
		Changed: func(_ context.Context, by courier.By, a store.Action, _ ...slog.Attr) {
			change := a.Verb + " " + a.Name + by.String()
			if a.Verb == "moved" {
				change += " " + string(a.Now)
			}
			w.changes = append(w.changes, change)
		},
		Fired: func(list []schedule.Fired) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, f := range list {
				if f.Done {
					w.fired++
				}
			}
		},
		Awaited: func() {},
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)),
		Poll:    time.Minute,
	})
	if _, err := w.store.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{"name": "job"}`)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// inWorld runs a test in virtual time, from a full hour on.
func inWorld(t *testing.T, run func(w *world, start time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newWorld(t), time.Now().UTC()) })
}

// CheckStart knows the job by its name.
func (w *world) CheckStart(_ context.Context, job, chain string, _ map[string]any) ([]courier.Problem, error) {
	if job != "job" {
		return []courier.Problem{{Step: -1, Field: "job", Message: fmt.Sprintf("there is no job %q", job)}}, nil
	}
	return nil, nil
}

// Prepare adds an execution of a job.
func (w *world) Prepare(_ context.Context, f *schedule.Firing, d *store.Definition, s *schedule.Schedule, key string) (courier.ExecutionID, error) {
	if w.refuses != nil {
		return "", w.refuses
	}
	n := store.NewExecution{
		ID: courier.ExecutionID(w.ids.New()), Job: d.Name, Version: d.Version, Priority: s.Priority,
		Queue: courier.DefaultQueue, StepTypes: []string{"demo.a"}, IdempotencyKey: key, By: f.By,
	}
	f.Executions = append(f.Executions, n)
	return n.ID, nil
}

func (w *world) set(s schedule.Schedule) schedule.Schedule {
	w.t.Helper()
	if s.Job == "" {
		s.Job = "job"
	}
	got, err := w.Set(w.t.Context(), s, courier.By{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) get(name string) schedule.Schedule {
	w.t.Helper()
	s, err := w.Get(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// run lets the service fire schedules for a time.
func (w *world) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	w.Run(ctx)
}

// keys returns the idempotency keys of all executions, the oldest first.
func (w *world) keys() (keys []string) {
	w.t.Helper()
	list, err := w.store.Executions(w.t.Context(), store.Filter{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range list {
		keys = append(keys, x.IdempotencyKey)
	}
	slices.Reverse(keys)
	return keys
}

// TestBadSchedules shows what is said about schedules that can't be saved, and that none
// of them is.
func TestBadSchedules(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.set(schedule.Schedule{Name: "there", Every: time.Hour})
		for _, tt := range []struct {
			s    schedule.Schedule
			want []string
		}{
			{schedule.Schedule{Name: "x", Job: "other", Every: time.Minute, PauseAfter: -1}, []string{"2 problems (nothing was saved)", `job: there is no job "other"`, "pause_after: "}},
			{schedule.Schedule{Name: "x"}, []string{"job: there is neither a job nor a chain", "cron: there is none of cron, every_seconds and at"}},
			{schedule.Schedule{Job: "job", Every: time.Hour}, []string{"name: it is missing"}},
			{schedule.Schedule{Name: "a\nb", Job: "job", Every: time.Hour}, []string{"name: ", "control characters"}},
			{schedule.Schedule{Name: strings.Repeat("x", 201), Job: "job", Every: time.Hour}, []string{"201 characters, more than 200"}},
			{schedule.Schedule{Name: "x", Job: "job", Chain: "c", Every: time.Hour}, []string{"chain: there is a job too"}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Cron: "0 0 3 * * ?"}, []string{"more than one of cron, every_seconds and at"}},
			{schedule.Schedule{Name: "x", Job: "job", Cron: "0 3 * * *"}, []string{"cron: ", "column", "0 0 3 * * ?"}},
			{schedule.Schedule{Name: "x", Job: "job", Cron: "0 0 25 * * ?", Zone: "Europe/Berln"}, []string{"cron: ", "column 5", "time_zone: ", `"Europe/Berlin"`}},
			{schedule.Schedule{Name: "x", Job: "job", Cron: "0 0 0 30 2 ?"}, []string{"cron: it never fires"}},
			{schedule.Schedule{Name: "x", Job: "job", Cron: "0 0 0 1 1 ? 1999"}, []string{"cron: it never fires"}},
			{schedule.Schedule{Name: "x", Job: "job", At: start.Add(-time.Second)}, []string{"at: ", "is in the past", "by the store's clock"}},
			{schedule.Schedule{Name: "x", Job: "job", At: start}, []string{"is in the past"}},
			{schedule.Schedule{Name: "x", Job: "job", At: start.Add(time.Hour), Ends: start.Add(time.Minute), Zone: "UTC"}, []string{"time_zone: ", "at: starts_at and ends_at"}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Ends: start.Add(-time.Hour)}, []string{"ends_at: there is no time to fire until"}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Ends: start, Starts: start.Add(time.Hour)}, []string{"ends_at: ", "is before starts_at"}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Millisecond}, []string{"every_seconds: 1ms is not at least 1s"}},
			{schedule.Schedule{Name: "x", Job: "job", Every: -time.Hour}, []string{"every_seconds: "}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Minute, Jitter: time.Minute}, []string{"jitter_seconds: 1m0s is not less than every_seconds"}},
			{schedule.Schedule{Name: "x", Job: "job", Cron: "0 0 3 * * ?", Jitter: -1}, []string{"jitter_seconds: "}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Overlap: "skipp", Misfire: "once"}, []string{`unknown policy "skipp"; did you mean "skip"?`, `misfire: unknown policy "once"; known are fire_once`}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, Window: time.Hour}, []string{`window_seconds: it is for misfire "fire_all" only`}},
			{schedule.Schedule{Name: "x", Job: "job", Every: time.Hour, PauseAfter: -1}, []string{"pause_after: -1 is negative"}},
			{schedule.Schedule{Name: "x", Job: "job", At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"at: ", "between the years 1970 and 2200"}},
		} {
			_, err := w.Set(w.t.Context(), tt.s, courier.By{})
			problems, ok := errors.AsType[*schedule.Error](err)
			if !ok || !errors.Is(err, courier.ErrInvalid) || len(problems.Problems) == 0 {
				t.Errorf("%+v: %v", tt.s, err)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if found, doubtful, err := w.Check(w.t.Context(), tt.s); err != nil || len(found)+len(doubtful) != len(problems.Problems) {
				t.Errorf("Check found %v and %v, %v; Set %v", found, doubtful, err, problems.Problems)
			}
		}
		if list, err := w.List(w.t.Context(), schedule.Filter{}); err != nil || len(list) != 1 {
			t.Errorf("saved: %v, %v", list, err)
		}
	})
}

// TestSetAgain sets schedules that are there: what is the same stays as it is,
// and a change keeps what it can.
func TestSetAgain(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		ctx := w.t.Context()
		s := schedule.Schedule{Name: "s", Job: "job", Every: time.Hour, Params: map[string]any{"day": "monday"}}
		first := w.set(s)
		if !first.NextFire.Equal(start.Truncate(time.Hour).Add(time.Hour)) || first.SavedAt.IsZero() {
			t.Errorf("set: %+v", first)
		}
		time.Sleep(time.Minute)
		if again := w.set(s); !reflect.DeepEqual(again, first) {
			t.Errorf("set again: %+v, was %+v", again, first)
		}
		if off, err := w.Disable(ctx, "s", courier.By{Actor: "ada"}); err != nil || !off.Disabled || off.Reason != "it was disabled by ada" || !off.NextFire.IsZero() {
			t.Errorf("disabled: %+v, %v", off, err)
		}
		if again := w.set(s); !again.Disabled {
			t.Error("setting it again has enabled it")
		}
		s.Params = map[string]any{"day": "tuesday"}
		if again := w.set(s); !again.Disabled || !again.NextFire.IsZero() {
			t.Errorf("changing it has enabled it: %+v", again)
		}
		if on, err := w.Enable(ctx, "s", courier.By{Actor: "bob"}); err != nil || on.Disabled || on.Reason != "" || !on.NextFire.Equal(first.NextFire) {
			t.Errorf("enabled: %+v, %v", on, err)
		}
		s.Params = map[string]any{"day": "sunday"}
		if again := w.set(s); !again.NextFire.Equal(first.NextFire) || again.Params["day"] != "sunday" {
			t.Errorf("with other params: %+v", again)
		}
		s.Every = 10 * time.Minute
		if again := w.set(s); !again.NextFire.Equal(start.Truncate(time.Hour).Add(10 * time.Minute)) {
			t.Errorf("with other ticks: %+v", again)
		}
		s.Disabled = true
		if again := w.set(s); !again.Disabled || again.Reason == "" || !again.NextFire.IsZero() {
			t.Errorf("set disabled: %+v", again)
		}
		if got := w.get("s"); !got.Disabled {
			t.Errorf("it is %+v", got)
		}
		if err := w.Remove(ctx, "s", courier.By{}); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			w.Remove(ctx, "s", courier.By{}), second(w.Get(ctx, "s")), second(w.Enable(ctx, "s", courier.By{})), second(w.Disable(ctx, "s", courier.By{})),
		} {
			if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `there is no schedule "s"`) {
				t.Errorf("of one that is not there: %v", err)
			}
		}
		want := "set s; disabled s by ada; set s; enabled s by bob; set s; set s; set s; removed s"
		if got := strings.Join(w.changes, "; "); got != want {
			t.Errorf("changes: %s\nwant: %s", got, want)
		}
	})
}

func second(_ schedule.Schedule, err error) error { return err }

// TestNextTick goes by the definition of a schedule alone.
func TestNextTick(t *testing.T) {
	w := newWorld(t)
	after := time.Date(2027, 3, 28, 0, 0, 0, 0, time.UTC)
	for want, s := range map[string]schedule.Schedule{
		"2027-03-28T01:30:00Z": {Cron: "0 30 2 ? * *", Zone: "Europe/Berlin", Disabled: true},
		"2027-03-28T06:00:00Z": {Every: 6 * time.Hour},
		"2027-04-01T00:00:00Z": {At: time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC)},
		"0001-01-01T00:00:00Z": {Every: time.Hour, Ends: after},
	} {
		if got, err := w.Next(t.Context(), s, after); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	for _, s := range []schedule.Schedule{{}, {Cron: "0 0 25 ? * *"}, {Cron: "0 0 2 ? * *", Zone: "Berlin"}} {
		if _, err := w.Next(t.Context(), s, after); !errors.As(err, new(*schedule.Error)) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestRun fires schedules: each tick starts one execution, a schedule that can't fire says
// why and holds up no other one, and a tick that comes while the execution before it is
// queued is left out if the schedule says so.
func TestRun(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.set(schedule.Schedule{Name: "every", Every: time.Minute, Ends: start.Add(3 * time.Minute)})
		w.set(schedule.Schedule{Name: "once", At: start.Add(90 * time.Second)})
		w.set(schedule.Schedule{Name: "skips", Every: time.Minute, Starts: start.Add(time.Second), Overlap: schedule.OverlapSkip})
		bad := schedule.Record{Name: "bad", Kind: store.Job, Target: "gone", Body: json.RawMessage(`{"name": "bad", "job": "gone", "every_seconds": 60}`)}
		bad.Next, bad.Due = start.Add(time.Minute), start.Add(time.Minute)
		if _, err := w.store.PutSchedule(w.t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		w.run(10 * time.Minute)
		want := []string{
			schedule.TickKey("skips", start.Add(time.Second)), schedule.TickKey("every", start.Add(time.Minute)), schedule.TickKey("once", start.Add(90*time.Second)),
			schedule.TickKey("every", start.Add(2*time.Minute)), schedule.TickKey("every", start.Add(3*time.Minute)),
		}
		if got := w.keys(); !slices.Equal(got, want) {
			t.Errorf("executions %q, want %q", got, want)
		}
		if s := w.get("once"); !s.Disabled || s.Reason != "it has fired" || !s.LastFire.Equal(start.Add(90*time.Second)) {
			t.Errorf("a schedule that fires once: %+v", s)
		}
		if s := w.get("bad"); !strings.Contains(s.Problem, `there is no job "gone"`) || !s.LastFire.IsZero() {
			t.Errorf("a schedule without its job: %+v", s)
		}
		if n := strings.Count(w.log.String(), "schedule can't fire"); n != 1 || w.fired < 5 {
			t.Errorf("%d firings, and the log:\n%s", w.fired, &w.log)
		}
	})
}

// TestRefused refuses all executions for a time: then the missed ticks are those of the
// policy.
func TestRefused(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.set(schedule.Schedule{Name: "s", Every: time.Minute, Misfire: schedule.MisfireAll, Ends: start.Add(3 * time.Minute)})
		w.refuses = errors.New("the parameters do not fit")
		w.run(150 * time.Second)
		if s := w.get("s"); !strings.Contains(s.Problem, `job "job" version 1: the parameters do not fit`) || len(w.keys()) != 0 {
			t.Errorf("while it is refused: %+v", s)
		}
		w.refuses = nil
		w.run(2 * time.Minute)
		if s := w.get("s"); s.Problem != "" || len(w.keys()) != 3 {
			t.Errorf("afterwards: %+v, %v", s, w.keys())
		}
	})
}

// TestReports reports on the schedules of a job.
func TestReports(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.set(schedule.Schedule{Name: "a", Cron: "0 30 5 ? * MON-FRI", Zone: "Europe/Berlin", Jitter: time.Minute})
		w.set(schedule.Schedule{Name: "b", Every: 90 * time.Minute, Disabled: true})
		w.set(schedule.Schedule{Name: "c", At: start.Add(time.Minute), Params: map[string]any{"x": 1}})
		w.set(schedule.Schedule{Name: "d", Every: time.Hour})
		check := func(params map[string]any) error {
			if params["x"] != nil {
				return courier.Errorf(courier.ErrInvalid, "there is no parameter x")
			}
			return nil
		}
		list, more, err := w.Reports(w.t.Context(), store.Job, "job", 3, 2, check)
		if err != nil || !more || len(list) != 3 {
			t.Fatalf("%+v, %v, %v", list, more, err)
		}
		a, b, c := list[0], list[1], list[2]
		if a.Words != "At 05:30:00 on weekdays (Monday to Friday)" || a.Zone != "Europe/Berlin" || len(a.Next) != 2 || !strings.Contains(strings.Join(a.Notes, "; "), "jitter") {
			t.Errorf("%+v", a)
		}
		if b.Words != "Every 1h30m" || b.Reason != "it was disabled" || b.Next == nil || len(b.Next) != 0 {
			t.Errorf("%+v", b)
		}
		if c.Words != "Once" || c.Problem != "there is no parameter x" || len(c.Next) != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestNoStore has a store that keeps no schedules.
func TestNoStore(t *testing.T) {
	v := schedule.New(schedule.Options{Store: func() (schedule.Store, error) { return nil, errors.ErrUnsupported }})
	_, listed := v.List(t.Context(), schedule.Filter{})
	for _, err := range []error{
		second(v.Set(t.Context(), schedule.Schedule{Name: "s", Job: "job", Every: time.Hour}, courier.By{})), second(v.Get(t.Context(), "s")), listed,
		second(v.Enable(t.Context(), "s", courier.By{})), second(v.Disable(t.Context(), "s", courier.By{})), v.Remove(t.Context(), "s", courier.By{}),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("error %v", err)
		}
	}
	if list, more, err := v.Reports(t.Context(), store.Job, "job", 1, 1, nil); list != nil || more || err != nil {
		t.Errorf("reports %v, %v, %v", list, more, err)
	}
	v.Run(t.Context()) // returns
}

// TestNoName checks that no method takes an empty name for that of the first schedule.
func TestNoName(t *testing.T) {
	w := newWorld(t)
	w.set(schedule.Schedule{Name: "hourly", Cron: "0 0 * * * ?"})
	ctx, by := t.Context(), courier.By{}
	_, get := w.Get(ctx, "")
	_, disable := w.Disable(ctx, "", by)
	_, enable := w.Enable(ctx, "", by)
	for name, err := range map[string]error{"get": get, "disable": disable, "enable": enable, "remove": w.Remove(ctx, "", by)} {
		if !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if s := w.get("hourly"); s.Disabled {
		t.Errorf("hourly is disabled: %s", s.Reason)
	}
}
