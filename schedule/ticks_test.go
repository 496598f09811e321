package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
)

var noon = time.Date(2030, 5, 6, 12, 0, 0, 0, time.UTC)

// every is a calendar with a tick at noon and then every so often.
func every(d time.Duration) schedule.Ticks {
	return func(after time.Time) time.Time {
		if after.Before(noon) {
			return noon
		}
		return noon.Add((after.Sub(noon)/d + 1) * d)
	}
}

// once has a tick at noon only.
func once(after time.Time) time.Time {
	if after.Before(noon) {
		return noon
	}
	return time.Time{}
}

// minutes are the ticks of a plan, in minutes after noon.
func minutes(p schedule.TickPlan) string {
	var list []float64
	for _, t := range p.Ticks {
		list = append(list, t.Sub(noon).Minutes())
	}
	return fmt.Sprint(list)
}

// due is a schedule whose next tick is at noon.
func due(change func(*schedule.Due)) *schedule.Due {
	s := &schedule.Due{Outcomes: make(map[courier.ExecutionID]courier.State)}
	s.Name, s.Next, s.Due = "s", noon, noon
	if change != nil {
		change(s)
	}
	return s
}

func TestPlanMisfires(t *testing.T) {
	const (
		once = schedule.MisfireOnce
		all  = schedule.MisfireAll
		skip = schedule.MisfireSkip
	)
	for _, tt := range []struct {
		policy schedule.Misfire
		late   time.Duration
		every  time.Duration
		window time.Duration
		ticks  string
		next   float64 // minutes after noon
	}{
		{once, -time.Second, time.Hour, 0, "[]", 0},
		{once, 0, time.Hour, 0, "[0]", 60},
		{skip, time.Minute, time.Hour, 0, "[0]", 60},
		{skip, time.Minute + time.Microsecond, time.Hour, 0, "[]", 60},
		{"", 10 * time.Hour, time.Hour, 0, "[600]", 660},
		{once, 10*time.Hour + 59*time.Minute, time.Hour, 0, "[600]", 660},
		{skip, 10*time.Hour + 59*time.Minute, time.Hour, 0, "[]", 660},
		{skip, 10*time.Hour + 59*time.Second, time.Hour, 0, "[600]", 660},
		{all, 150 * time.Minute, time.Hour, 0, "[0 60 120]", 180},
		{all, 150 * time.Minute, time.Hour, 90 * time.Minute, "[60 120]", 180},
		{all, 150 * time.Minute, time.Hour, 89 * time.Minute, "[120]", 180},
		{all, 150 * time.Minute, time.Hour, 10 * time.Minute, "[]", 180},
		{all, 72 * time.Hour, 24 * time.Hour, 0, "[2880 4320]", 5760},
		// A burst that is not late fires tick by tick.
		{once, 30 * time.Second, 15 * time.Second, 0, "[0 0.25 0.5]", 0.75},
		{once, 90 * time.Second, 15 * time.Second, 0, "[1.5]", 1.75},
		{once, 20 * 365 * 24 * time.Hour, time.Second, 0, "[1.0512e+07]", 10512000 + 1.0/60},
	} {
		p := schedule.PlanTicks(due(nil), &schedule.Schedule{Misfire: tt.policy, Window: tt.window}, every(tt.every), noon.Add(tt.late))
		next := p.Status.Next.Sub(noon).Minutes()
		if got := minutes(p); got != tt.ticks || next < tt.next-1e-9 || next > tt.next+1e-9 {
			t.Errorf("%q, %v late, every %v, window %v: ticks %s, next %v; want %s, %v", tt.policy, tt.late, tt.every, tt.window, got, next, tt.ticks, tt.next)
		}
		if !p.Status.Due.Equal(p.Status.Next) {
			t.Errorf("%q, %v late: due %v, next %v", tt.policy, tt.late, p.Status.Due, p.Status.Next)
		}
	}
}

func TestPlanOverlaps(t *testing.T) {
	const (
		allow  = schedule.OverlapAllow
		skip   = schedule.OverlapSkip
		queue  = schedule.OverlapQueue
		cancel = schedule.OverlapCancel
	)
	for _, tt := range []struct {
		policy  schedule.Overlap
		state   courier.State // of the execution before
		late    time.Duration // the ticks are 20 s apart
		ticks   string
		cancels int
		waits   float64 // minutes after noon; -1: nothing waits
	}{
		{allow, courier.Running, 0, "[0]", 0, -1},
		{"", courier.Queued, 0, "[0]", 0, -1},
		{skip, courier.Running, 0, "[]", 0, -1},
		{skip, courier.Paused, 0, "[]", 0, -1},
		{skip, courier.Queued, 0, "[]", 0, -1},
		{skip, courier.Completed, 0, "[0]", 0, -1},
		{skip, courier.Failed, 0, "[0]", 0, -1},
		{skip, courier.Completed, 30 * time.Second, "[0.3333333333333333]", 0, -1},
		{queue, courier.Running, 0, "[]", 0, 0},
		{queue, courier.Running, 30 * time.Second, "[]", 0, 0},
		{queue, courier.Cancelled, 0, "[0]", 0, -1},
		{queue, courier.Completed, 30 * time.Second, "[0]", 0, 1.0 / 3},
		{cancel, courier.Running, 0, "[0]", 1, -1},
		{cancel, courier.Completed, 0, "[0]", 0, -1},
		{cancel, courier.Running, 30 * time.Second, "[0.3333333333333333]", 1, -1},
	} {
		s := due(func(s *schedule.Due) {
			s.Open, s.LastExecution, s.Outcomes["x"] = []courier.ExecutionID{"x"}, "x", tt.state
		})
		p := schedule.PlanTicks(s, &schedule.Schedule{Overlap: tt.policy}, every(20*time.Second), noon.Add(tt.late))
		waits := -1.0
		if p.Status.Waiting {
			waits = p.Status.Next.Sub(noon).Minutes()
		}
		if got := minutes(p); got != tt.ticks || len(p.Cancel) != tt.cancels || waits != tt.waits || (p.After > 0) != p.Status.Waiting {
			t.Errorf("%q, %s, %v late: ticks %s, cancels %v, waits %v, after %v; want %s, %d, %v", tt.policy, tt.state, tt.late,
				got, p.Cancel, waits, p.After, tt.ticks, tt.cancels, tt.waits)
		}
	}
}

// TestPlanWaits shows that what waits fires when there is room, however late,
// and that what came meanwhile is left out.
func TestPlanWaits(t *testing.T) {
	s := due(func(s *schedule.Due) {
		s.Waiting, s.Open, s.Outcomes["x"] = true, []courier.ExecutionID{"x"}, courier.Running
	})
	rule := &schedule.Schedule{Overlap: schedule.OverlapQueue, Misfire: schedule.MisfireSkip}
	p := schedule.PlanTicks(s, rule, every(time.Minute), noon.Add(10*time.Minute+30*time.Second))
	if len(p.Ticks) != 0 || !p.Status.Waiting || !p.Status.Next.Equal(noon) {
		t.Errorf("while it runs: %+v", p)
	}
	s.Outcomes["x"] = courier.Completed
	p = schedule.PlanTicks(s, rule, every(time.Minute), noon.Add(10*time.Minute+30*time.Second))
	if minutes(p) != "[0]" || p.Status.Waiting || !p.Status.Next.Equal(noon.Add(11*time.Minute)) || !p.Status.Last.Equal(noon) {
		t.Errorf("when it has ended: %+v", p)
	}
	// A policy that was set meanwhile decides whether it goes on waiting, and takes nothing for
	// missed that has waited.
	for _, policy := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapCancel} {
		p = schedule.PlanTicks(s, &schedule.Schedule{Overlap: policy, Misfire: schedule.MisfireSkip}, every(time.Minute), noon.Add(10*time.Minute+30*time.Second))
		if minutes(p) != "[0]" || p.Status.Waiting {
			t.Errorf("%s, when it has ended: %+v", policy, p)
		}
	}
	s.Outcomes["x"] = courier.Running
	p = schedule.PlanTicks(s, &schedule.Schedule{Overlap: schedule.OverlapSkip}, every(time.Minute), noon.Add(10*time.Minute+30*time.Second))
	if len(p.Ticks) != 0 || p.Status.Waiting {
		t.Errorf("skip, while it runs: %+v", p)
	}
}

// TestPlanCountsResumed has the last execution resumed after it was seen to have
// failed.
func TestPlanCountsResumed(t *testing.T) {
	s := due(func(s *schedule.Due) { s.LastExecution, s.Outcomes["x"] = "x", courier.Running })
	if p := schedule.PlanTicks(s, &schedule.Schedule{Overlap: schedule.OverlapSkip}, every(time.Hour), noon); len(p.Ticks) != 0 {
		t.Errorf("it fired %v beside one that was resumed", p.Ticks)
	}
}

func TestPlanPauses(t *testing.T) {
	outcomes := map[courier.ExecutionID]courier.State{
		"f1": courier.Failed, "f2": courier.Failed, "c": courier.Completed, "x": courier.Cancelled, "r": courier.Running,
	}
	for _, tt := range []struct {
		before   int
		open     []courier.ExecutionID
		after    int
		failures int
		pauses   bool
	}{
		{0, []courier.ExecutionID{"f1"}, 2, 1, false},
		{1, []courier.ExecutionID{"f1"}, 2, 2, true},
		{0, []courier.ExecutionID{"f1", "f2"}, 2, 2, true},
		{1, []courier.ExecutionID{"f1", "c", "f2"}, 2, 1, false},
		{1, []courier.ExecutionID{"x", "r", "gone"}, 2, 1, false},
		{5, []courier.ExecutionID{"f1"}, 0, 6, false},
		{2, nil, 2, 2, true},
		{0, []courier.ExecutionID{"f1"}, 1, 1, true},
	} {
		s := due(func(s *schedule.Due) { s.Failures, s.Open, s.Outcomes = tt.before, tt.open, outcomes })
		p := schedule.PlanTicks(s, &schedule.Schedule{PauseAfter: tt.after}, every(time.Hour), noon)
		if p.Status.Failures != tt.failures || p.Status.Paused != tt.pauses || (len(p.Ticks) == 0) != tt.pauses || (p.Status.Reason != "") != tt.pauses {
			t.Errorf("%d failures, then %v: %+v", tt.before, tt.open, p)
		}
		if tt.pauses && (!p.Status.Due.IsZero() || !p.Status.Next.IsZero()) {
			t.Errorf("paused, and due again: %+v", p)
		}
		if tt.pauses && (tt.failures == 1) != (p.Status.Reason == "an execution has failed") {
			t.Errorf("%d failures: %s", tt.failures, p.Status.Reason)
		}
	}
}

func TestPlanOnce(t *testing.T) {
	p := schedule.PlanTicks(due(nil), &schedule.Schedule{At: noon}, once, noon.Add(time.Hour))
	if minutes(p) != "[0]" || !p.Status.Disabled || p.Status.Reason != "it has fired" || !p.Status.Due.IsZero() {
		t.Errorf("one that fires late: %+v", p)
	}
	p = schedule.PlanTicks(due(nil), &schedule.Schedule{At: noon, Misfire: schedule.MisfireSkip}, once, noon.Add(time.Hour))
	if len(p.Ticks) != 0 || !p.Status.Disabled || p.Status.Reason == "" || !p.Status.Last.IsZero() {
		t.Errorf("one that is left out: %+v", p)
	}
	p = schedule.PlanTicks(due(func(s *schedule.Due) { s.Disabled = true }), &schedule.Schedule{}, once, noon)
	if len(p.Ticks) != 0 || !p.Status.Due.IsZero() {
		t.Errorf("a disabled one: %+v", p)
	}
}

// TestPlanManyTicks takes a hundred at a time.
func TestPlanManyTicks(t *testing.T) {
	s, n := due(nil), 0
	now := noon.Add(999 * time.Minute)
	for range 20 {
		p := schedule.PlanTicks(s, &schedule.Schedule{Misfire: schedule.MisfireAll, Window: 30 * time.Hour}, every(time.Minute), now)
		for i, tick := range p.Ticks {
			if want := noon.Add(time.Duration(n+i) * time.Minute); !tick.Equal(want) {
				t.Fatalf("tick %v, want %v", tick, want)
			}
		}
		if n += len(p.Ticks); len(p.Ticks) > 100 {
			t.Errorf("%d at once", len(p.Ticks))
		}
		s.Status = p.Status
	}
	if n != 1000 {
		t.Errorf("%d ticks, want 1000", n)
	}
}

// TestPlanJitter plans a schedule again and again, sometimes late: every tick
// fires once, in order, and none before its time.
func TestPlanJitter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rule := &schedule.Schedule{Jitter: 50 * time.Second, Misfire: schedule.MisfireAll, Window: 1000 * time.Hour}
	s, now, want := due(nil), noon, noon
	spread := make(map[time.Duration]bool)
	for range 3000 {
		now = now.Add(time.Duration(random.Int64N(int64(2 * time.Minute))))
		p := schedule.PlanTicks(s, rule, every(time.Minute), now)
		for _, tick := range p.Ticks {
			at := schedule.TickAt("s", tick, rule.Jitter)
			if !tick.Equal(want) || at.After(now) || at.Before(tick) || at.Sub(tick) >= rule.Jitter {
				t.Fatalf("tick %v at %v, due at %v; want tick %v", tick, now, at, want)
			}
			spread[at.Sub(tick)/(10*time.Second)] = true
			want = want.Add(time.Minute)
		}
		if s.Status = p.Status; !s.Due.After(now) {
			t.Fatalf("due %v is not after %v", s.Due, now)
		}
	}
	if len(spread) != 5 {
		t.Errorf("the jitter is spread over %d of 5 parts", len(spread))
	}
	if schedule.TickAt("s", noon, time.Hour).Equal(schedule.TickAt("t", noon, time.Hour)) {
		t.Error("two schedules have the same jitter")
	}
	late := schedule.PlanTicks(due(nil), &schedule.Schedule{Jitter: 50 * time.Second}, every(time.Minute), noon.Add(1000*time.Hour))
	if n := len(late.Ticks); n != 1 || now.Before(noon) || noon.Add(1000*time.Hour).Sub(late.Ticks[0]) > 2*time.Minute {
		t.Errorf("after a long time it fires %v", late.Ticks)
	}
}

func TestTickKey(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	if got := schedule.TickKey("a:b", at); got != "schedule:a:b:2030-01-02T02:04:05Z" {
		t.Errorf("key %q", got)
	}
}
