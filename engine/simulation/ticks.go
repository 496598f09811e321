package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// newSchedule makes a definition of a schedule, about to begin.
func (w *world) newSchedule(r *rand.Rand, name string) schedule.Schedule {
	now := time.Now().UTC().Truncate(time.Millisecond)
	s := schedule.Schedule{
		Name: name, Job: fmt.Sprintf("job-%d", r.IntN(w.mix.jobs)), Priority: int16(r.IntN(3)),
		Params:  map[string]any{"partner": []string{"a", "b"}[r.IntN(2)]},
		Overlap: []schedule.Overlap{"", schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapCancel}[r.IntN(5)],
		Misfire: []schedule.Misfire{"", schedule.MisfireOnce, schedule.MisfireAll, schedule.MisfireSkip}[r.IntN(4)],
	}
	if n := w.plans.mix.chains; n > 0 && r.IntN(2) == 0 {
		s.Job, s.Chain = "", fmt.Sprintf("chain-%d", r.IntN(n))
	}
	if s.Misfire == schedule.MisfireAll && r.IntN(2) == 0 {
		s.Window = time.Minute + spread(r, time.Minute).Truncate(time.Millisecond)
	}
	if r.IntN(4) == 0 {
		s.PauseAfter = 1 + r.IntN(3)
	}
	every := (2*time.Second + spread(r, 8*time.Second)).Truncate(time.Millisecond)
	switch r.IntN(8) {
	case 0:
		s.At = now.Add(5*time.Second + spread(r, 20*time.Second))
		return s
	case 1, 2, 3:
		n := 2 + r.IntN(25)
		s.Cron = fmt.Sprintf("%d/%d * * * * ?", r.IntN(n), n)
		every = time.Duration(n) * time.Second
	case 4:
		a, b, c := r.IntN(20), 20+r.IntN(20), 40+r.IntN(20)
		s.Cron, every = fmt.Sprintf("%d,%d,%d * * * * ?", a, b, c), 20*time.Second
	default:
		s.Every = every
	}
	if s.Cron != "" {
		s.Zone = []string{"", "UTC", "Asia/Kolkata", "Europe/Berlin"}[r.IntN(4)]
	}
	if r.IntN(3) == 0 {
		s.Starts = now.Add(spread(r, 10*time.Second)).Truncate(time.Millisecond)
	}
	if r.IntN(2) == 0 {
		s.Jitter = (time.Duration(r.Int64N(int64(every))) / 2).Truncate(time.Millisecond)
	}
	if r.IntN(2) == 0 || w.mix.trouble/every > 6 {
		s.Ends = now.Add(12*time.Second + time.Duration(1+r.IntN(5))*every)
	}
	return s
}

// begin sets a schedule for the first time. One that is kept has no policy by
// which a tick could be left out.
func (w *world) begin(r *rand.Rand, p *planned) {
	if !w.wait(spread(r, w.mix.trouble/4)) {
		return
	}
	s := w.newSchedule(r, p.name)
	w.plans.calendars.choose(r, &s, p.kept)
	if p.kept {
		s.Overlap, s.Misfire, s.Window, s.PauseAfter = schedule.OverlapAllow, schedule.MisfireAll, 0, 0
		if s.At.IsZero() && s.Ends.IsZero() {
			s.Ends = time.Now().UTC().Truncate(time.Second).Add(40 * time.Second)
		}
	}
	err := w.tries(r, func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Schedules().Set(ctx, s, courier.By{})
		return err
	})
	w.mu.Lock()
	p.def, p.set = s, err == nil
	w.mu.Unlock()
}

// edit changes a schedule in some way, once.
func (w *world) edit(r *rand.Rand, p *process, name string) {
	w.through(p, func(ctx context.Context, e *engine.Engine) error {
		var err error
		switch r.IntN(7) {
		case 0, 1:
			s := w.newSchedule(r, name)
			w.plans.calendars.choose(r, &s, false)
			_, err = e.Schedules().Set(ctx, s, courier.By{})
		case 2:
			s, got := e.Schedules().Get(ctx, name)
			if err = got; err == nil {
				s.Overlap = schedule.OverlapSkip // with the same ticks
				_, err = e.Schedules().Set(ctx, s, courier.By{})
			}
		case 3:
			_, err = e.Schedules().Disable(ctx, name, courier.By{Actor: "operator"})
		case 4, 5:
			_, err = e.Schedules().Enable(ctx, name, courier.By{Actor: "operator"})
		case 6:
			err = e.Schedules().Remove(ctx, name, courier.By{})
		}
		return err
	})
}

// endless reports whether a schedule never ends by itself.
func (w *world) endless(s *schedule.Record) bool {
	var def schedule.Schedule
	err := json.Unmarshal(s.Body, &def)
	return err != nil || def.Ends.IsZero() && def.At.IsZero()
}

// tick checks that a tick which has fired is one of the schedule's.
func (w *world) tick(s *schedule.Schedule, at time.Time) {
	if !w.plans.calendars.isTick(s, at) {
		w.wrong("P6: schedule %q (cron %q, every %v, at %v, from %v to %v, calendar %q, %q) has no tick %v", s.Name, s.Cron, s.Every, s.At, s.Starts, s.Ends, s.Calendar, s.OnClosed, at)
	}
}

// isTick works out, without package cron, whether a schedule has a tick as if all days were open.
func isTick(s *schedule.Schedule, at time.Time) bool {
	if !s.Starts.IsZero() && at.Before(s.Starts) || !s.Ends.IsZero() && at.After(s.Ends) {
		return false
	}
	switch {
	case !s.At.IsZero():
		return at.Equal(s.At)
	case s.Every > 0 && s.Starts.IsZero():
		return at.UnixNano()%int64(s.Every) == 0
	case s.Every > 0:
		return at.Sub(s.Starts)%s.Every == 0
	}
	seconds, _, _ := strings.Cut(s.Cron, " ")
	if from, step, ok := strings.Cut(seconds, "/"); ok {
		a, _ := strconv.Atoi(from)
		n, _ := strconv.Atoi(step)
		return at.Nanosecond() == 0 && at.Second() >= a && (at.Second()-a)%n == 0
	}
	return at.Nanosecond() == 0 && slices.Contains(strings.Split(seconds, ","), strconv.Itoa(at.Second()))
}

// checkTicks looks for ticks of schedules that nobody has changed which have
// started nothing, and for schedules that have not come to their end.
func (w *world) checkTicks(ctx context.Context) error {
	keys := make(map[string]bool)
	list, err := w.store.Executions(ctx, store.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for i := range list {
		keys[list[i].IdempotencyKey] = true
	}
	chains, err := w.store.(chain.Store).ChainExecutions(ctx, chain.Filter{Limit: 1000})
	if err != nil {
		return err
	}
	for i := range chains {
		keys[chains[i].IdempotencyKey] = true
	}
	t, err := w.store.(schedule.Store).Schedules(ctx, schedule.Filter{})
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	for i := range t.List {
		s := &t.List[i]
		there[s.Name] = true
		if !s.Next.IsZero() || s.Waiting {
			w.wrong("P6: schedule %q has not come to its end: next %v, waiting %t, problem %q", s.Name, s.Next, s.Waiting, s.Problem)
		}
		for _, p := range w.plans.schedules {
			if p.kept && p.name == s.Name {
				w.missing(s, keys)
			}
		}
	}
	for _, p := range w.plans.schedules {
		if p.kept && p.set && !there[p.name] {
			w.wrong("P6: schedule %q was set, and is gone", p.name)
		}
	}
	return nil
}

// missing reports ticks of a schedule that have started nothing.
func (w *world) missing(s *schedule.Record, keys map[string]bool) {
	var def schedule.Schedule
	if err := json.Unmarshal(s.Body, &def); err != nil {
		w.wrong("P6: schedule %q can't be read: %v", s.Name, err)
		return
	}
	end := def.Ends
	if end.IsZero() {
		end = def.At
	}
	at, step := s.SavedAt.Truncate(time.Second), time.Second
	if def.Cron == "" {
		step = time.Millisecond
	}
	if !def.At.IsZero() {
		at = def.At
	}
	for ; !at.After(end); at = at.Add(step) {
		if !at.After(s.SavedAt) || !w.plans.calendars.isTick(&def, at) {
			continue
		}
		w.counts["tick due"]++
		if def.Calendar != "" {
			w.counts["tick due by calendar"]++
		}
		if key := "schedule:" + s.Name + ":" + at.Format(time.RFC3339Nano); !keys[key] {
			w.wrong("P6: schedule %q, saved at %v: its tick %v has started nothing", s.Name, s.SavedAt, at)
		}
	}
}
