package promise

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
)

// A watched is a schedule, and what must be true of it.
type watched struct {
	schedule.Record
	def   schedule.Schedule
	began []begun
	// looked is when somebody first looked at the present revision, by the
	// store's clock.
	looked map[int64]time.Time
	// behind says that it was created with a tick that had passed: by a call that
	// was late. Its ticks may have started something before it was removed.
	behind bool
}

// begun is what a tick has started: an execution or a chain execution.
type begun struct {
	id string
	x  *shadow
	c  *watchedChain
}

// open reports whether it has never ended. One that did and was resumed since
// may be running without the schedule's knowing.
func (b *begun) open() bool {
	if b.c != nil {
		return !b.c.ended
	}
	return b.x != nil && !b.x.ended
}

func (b *begun) cancelled() bool {
	if b.c != nil {
		return b.c.ended || b.c.request == courier.RequestCancel
	}
	return b.x != nil && (b.x.ended || b.x.cancelled || b.x.Finishing != nil)
}

// late is how late a tick may be without having been missed.
const late = time.Minute

func (w *Witness) tickBreach(s *watched, format string, args ...any) {
	w.report(fmt.Errorf("P6: schedule %q: "+format, append([]any{s.Name}, args...)...))
}

// put notes that a schedule was set.
func (w *Witness) put(r *schedule.Record, got schedule.Record) {
	old := w.schedules[got.Name]
	s := &watched{Record: got, looked: make(map[int64]time.Time)}
	if old != nil && old.Kind == got.Kind && old.Target == got.Target {
		s.began = old.began
	}
	if s.behind = got.Next.Before(time.Now()); old != nil {
		s.behind = old.behind
	}
	if err := json.Unmarshal(got.Body, &s.def); err != nil {
		w.tickBreach(s, "its definition can't be read: %v", err)
	}
	switch {
	case old == nil && r.Revision != 0, old != nil && r.Revision != old.Revision:
		w.tickBreach(s, "it was put with revision %d, which is not the last", r.Revision)
	case old != nil && got.Revision <= old.Revision:
		w.tickBreach(s, "its revision has not been raised")
	}
	w.schedules[got.Name] = s
}

// due notes who looks at which schedules.
func (w *Witness) due(d *schedule.DueList) {
	for i := range d.List {
		got := &d.List[i]
		s := w.schedules[got.Name]
		if s == nil || s.Revision != got.Revision {
			w.report(fmt.Errorf("P6: schedule %q is due with revision %d, which it has not", got.Name, got.Revision))
			continue
		}
		if s.looked[got.Revision].IsZero() {
			s.looked[got.Revision] = d.Now
		}
	}
}

// fired notes what schedules have started and cancelled.
func (w *Witness) fired(list []schedule.Firing, got []schedule.Fired) {
	for i := range list {
		f, s := &list[i], w.schedules[list[i].Schedule]
		switch {
		case !got[i].Done:
			continue
		case s == nil || s.Revision != f.Revision || s.Disabled || s.Paused:
			w.report(fmt.Errorf("P6: schedule %q was fired with revision %d, though it is gone, changed, disabled or paused", f.Schedule, f.Revision))
		}
		for k := range f.Executions {
			w.jobLimits[f.Executions[k].ID] = f.Executions[k].JobLimit
		}
		for k := range got[i].Chains {
			w.chainStarted(&f.Chains[k], &got[i].Chains[k])
		}
	}
	for i := range list {
		if got[i].Done {
			w.cancelledBy(&list[i])
		}
	}
	w.adopt("FireSchedules")
	for i := range list {
		if got[i].Done && w.schedules[list[i].Schedule] != nil {
			w.carriedOut(w.schedules[list[i].Schedule], &list[i], &got[i])
		}
	}
	w.chains.check(w, "FireSchedules")
}

// cancelledBy notes what a firing asked to be cancelled.
func (w *Witness) cancelledBy(f *schedule.Firing) {
	for _, id := range f.Cancel {
		if x := w.executions[id]; x != nil && !x.State.Ended() {
			x.cancelled = x.cancelled || x.Finishing == nil
			w.look(x, "FireSchedules")
		}
		c := w.chains.all[courier.ChainExecutionID(id)]
		if c == nil || c.state.Ended() {
			continue
		}
		c.ask(&chain.Request{Chain: c.id, Kind: courier.RequestCancel})
		w.refresh(c, "FireSchedules")
		w.chains.touch(c.id)
	}
}

// carriedOut checks the ticks of a firing, and notes how the schedule stands.
func (w *Witness) carriedOut(s *watched, f *schedule.Firing, got *schedule.Fired) {
	looked := s.looked[f.Revision]
	if looked.IsZero() {
		w.tickBreach(s, "it was fired, and nobody was told that it is due")
	}
	n := len(got.Executions) + len(got.Chains)
	for k := range got.Executions {
		x := &got.Executions[k]
		w.tick(s, f.Executions[k].IdempotencyKey, begun{id: string(x.Execution.ID), x: w.executions[x.Execution.ID]}, x.Existed)
		w.inTime(s, f.Executions[k].IdempotencyKey, looked, k == n-1)
	}
	for k := range got.Chains {
		x := &got.Chains[k]
		w.tick(s, f.Chains[k].IdempotencyKey, begun{id: string(x.Execution.ID), c: w.chains.all[x.Execution.ID]}, x.Existed)
		w.inTime(s, f.Chains[k].IdempotencyKey, looked, k == n-1)
	}
	t, err := w.agenda.Schedules(context.Background(), schedule.Filter{Name: s.Name})
	if err != nil || len(t.List) != 1 {
		w.tickBreach(s, "it was fired, and is gone: %v", err)
		return
	}
	was := s.Record
	s.Record = t.List[0]
	if w.ticks[s.key(was.Next)] == "" && was.Waiting && s.def.Overlap == schedule.OverlapQueue && !s.Next.Equal(was.Next) && !s.Paused {
		w.tickBreach(s, "its tick %v waited, and neither fired nor waits any more", was.Next)
	}
	if s.Revision == f.Revision {
		w.tickBreach(s, "it was fired, and its revision has not been raised")
	}
}

// target is the job or chain that it starts.
func (s *watched) target() string { return string(s.Kind) + " " + s.Target }

// key is the idempotency key of a tick.
func (s *watched) key(tick time.Time) string {
	return "schedule:" + s.Name + ":" + tick.UTC().Format(time.RFC3339Nano)
}

// instant is the tick that a key names.
func (s *watched) instant(key string) (time.Time, error) {
	text, ok := strings.CutPrefix(key, "schedule:"+s.Name+":")
	if !ok {
		return time.Time{}, fmt.Errorf("the key %q is none of its ticks'", key)
	}
	return time.Parse(time.RFC3339Nano, text)
}

// tick checks what a tick has started.
func (w *Witness) tick(s *watched, key string, b begun, existed bool) {
	at, err := s.instant(key)
	if err != nil {
		w.tickBreach(s, "%v", err)
		return
	}
	first, known := w.ticks[key]
	switch {
	case known && first != b.id && s.behind && w.startedBy[first] != s.target():
		// One of that name started another job or chain before it was removed.
	case known && first != b.id:
		w.tickBreach(s, "its tick %v has started %s, and before that %s", at, b.id, first)
	case existed && known && s.behind:
		return
	case existed:
		w.tickBreach(s, "its tick %v was fired again", at)
	case at.Before(s.Next):
		w.tickBreach(s, "it fired its tick %v, though %v was the next", at, s.Next)
	case at.After(time.Now()):
		w.tickBreach(s, "it fired its tick %v before it came", at)
	}
	w.ticks[key] = b.id
	w.startedBy[b.id] = s.target()
	for i := range s.began {
		old := &s.began[i]
		switch {
		case !old.open():
		case s.def.Overlap == schedule.OverlapSkip || s.def.Overlap == schedule.OverlapQueue:
			w.tickBreach(s, "its overlap is %s, and it started %s while %s had not ended", s.def.Overlap, b.id, old.id)
		case s.def.Overlap == schedule.OverlapCancel && !old.cancelled():
			w.tickBreach(s, "its overlap is %s, and it started %s, and did not cancel %s", s.def.Overlap, b.id, old.id)
		}
	}
	s.began = append(s.began, b)
	if w.OnTick != nil {
		w.OnTick(&s.def, at)
	}
}

// inTime checks that a tick fires which has not been missed, or which the misfire
// policy makes up for. Looked is when it was decided, at the earliest.
func (w *Witness) inTime(s *watched, key string, looked time.Time, last bool) {
	at, err := s.instant(key)
	missed := at.Add(s.def.Jitter + late).Before(looked)
	switch {
	case err != nil || !missed || s.def.Overlap == schedule.OverlapQueue: // which waits, however late
	case s.Waiting && at.Equal(s.Next): // it has waited before the policy was changed
	case s.def.Misfire == schedule.MisfireSkip:
		w.tickBreach(s, "it fired its tick %v, which had been missed at %v", at, looked)
	case s.def.Misfire != schedule.MisfireAll && !last:
		w.tickBreach(s, "it fired its tick %v and later ones, though it had been missed at %v", at, looked)
	}
}
