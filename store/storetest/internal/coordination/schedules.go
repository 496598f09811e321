package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// A scheduleKit is a kit for stores that keep schedules.
type scheduleKit struct {
	*kit
	schedules
}

// schedules embeds the role under a name that does not hide its method Schedules.
type schedules = schedule.Store

// withSchedules returns a case that does nothing for stores without schedules.
func withSchedules(run func(*scheduleKit)) func(*kit) {
	return func(k *kit) {
		if a, ok := k.Store.(schedule.Store); ok {
			run(&scheduleKit{k, a})
		} else {
			k.Logf("%T keeps no schedules", k.Store)
		}
	}
}

// daily is a schedule of the job "job" that can be put.
func daily(name string) schedule.Record {
	return schedule.Record{Name: name, Kind: store.Job, Target: "job", Body: json.RawMessage(`{"name": "` + name + `"}`)}
}

// put puts a schedule that is due after d; negative means never.
func (p *scheduleKit) put(s schedule.Record, d time.Duration) schedule.Record {
	p.Helper()
	if s.Due = (time.Time{}); d >= 0 {
		s.Due = p.now().Add(d)
		s.Next = s.Due
	}
	got, err := p.PutSchedule(p.Ctx(), s)
	p.OK(err)
	return got
}

// now is the instant by the store's clock.
func (p *scheduleKit) now() time.Time {
	p.Helper()
	t, err := p.Schedules(p.Ctx(), schedule.Filter{Limit: 1})
	p.OK(err)
	return t.Now
}

func (p *scheduleKit) list(f schedule.Filter) []schedule.Record {
	p.Helper()
	t, err := p.Schedules(p.Ctx(), f)
	p.OK(err)
	return t.List
}

// one returns a schedule that is there.
func (p *scheduleKit) one(name string) schedule.Record {
	p.Helper()
	list := p.list(schedule.Filter{Name: name})
	if len(list) != 1 {
		p.Fatalf("%d schedules %q", len(list), name)
	}
	return list[0]
}

func (p *scheduleKit) due(most int, lease time.Duration) schedule.DueList {
	p.Helper()
	d, err := p.DueSchedules(p.Ctx(), most, lease)
	p.OK(err)
	return d
}

// names reports when what is due has other names than the wanted ones.
func (p *scheduleKit) names(what string, d schedule.DueList, want ...string) {
	p.Helper()
	got := make([]string, len(d.List))
	for i := range d.List {
		got[i] = d.List[i].Name
	}
	p.Same(what, got, want)
}

// fire carries out firings.
func (p *scheduleKit) fire(list ...schedule.Firing) []schedule.Fired {
	p.Helper()
	got, err := p.FireSchedules(p.Ctx(), list)
	p.OK(err)
	if len(got) != len(list) {
		p.Fatalf("%d results of %d firings", len(got), len(list))
	}
	return got
}

// tick is a firing that starts an execution at a schedule's next tick.
func (p *scheduleKit) tick(s schedule.Record) schedule.Firing {
	p.Helper()
	n := p.With(func(n *store.NewExecution) { n.IdempotencyKey = schedule.TickKey(s.Name, s.Next) })
	f := schedule.Firing{Schedule: s.Name, Revision: s.Revision, Status: s.Status}
	f.Executions = []store.NewExecution{n}
	f.Status.Last, f.Status.LastExecution, f.Status.Open = s.Next, n.ID, []courier.ExecutionID{n.ID}
	f.Status.Next, f.Status.Due = s.Next.Add(long), s.Next.Add(long)
	return f
}

// started reports when there is another number of executions.
func (p *scheduleKit) started(want int) {
	p.Helper()
	list, err := p.Executions(p.Ctx(), store.Filter{Limit: 1000})
	p.OK(err)
	if len(list) != want {
		p.Errorf("%d executions, want %d", len(list), want)
	}
}

var scheduleCases = []testCase{
	// A schedule is kept with every field, its body byte by byte.
	{"put_keeps_every_field", withSchedules(func(p *scheduleKit) {
		s := daily("s")
		s.Body = json.RawMessage(`{ "odd" : 1.50,  "text":"\u00e9" }`)
		s.Status = schedule.Status{
			Disabled: true, Paused: true, Waiting: true, Reason: "r\n", Failures: 3, Problem: "'p'",
			Next: time.Date(2031, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 3600)), Due: time.Date(2031, 1, 2, 3, 4, 6, 0, time.UTC),
			Last: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), LastExecution: p.New().ID, Open: []courier.ExecutionID{p.New().ID, p.New().ID},
			MovesFrom: time.Date(2031, 1, 1, 20, 0, 0, 0, time.UTC),
		}
		got, err := p.PutSchedule(p.Ctx(), s)
		p.OK(err)
		if got.Revision == 0 || got.SavedAt.IsZero() {
			p.Errorf("put: revision %d, saved at %v", got.Revision, got.SavedAt)
		}
		p.Same("as it was put", p.one("s"), got)
		if string(got.Body) != string(s.Body) {
			p.Errorf("body %s, want %s", got.Body, s.Body)
		}
		s.SavedAt, s.Revision, s.Next = got.SavedAt, got.Revision, time.Date(2031, 1, 2, 2, 4, 5, 678901000, time.UTC)
		p.Same("what was put", got, s)
	})},
	{"put_replaces_what_was_read", withSchedules(func(p *scheduleKit) {
		first := p.put(daily("s"), long)
		change := first
		change.Body, change.Target = json.RawMessage(`{"v":2}`), "other"
		second := p.put(change, long)
		if second.Revision <= first.Revision {
			p.Errorf("revision %d after %d", second.Revision, first.Revision)
		}
		p.Same("replaced", p.one("s"), second)
	})},
	{"put_of_another_revision_is_a_conflict", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), long)
		again := daily("s")
		_, err := p.PutSchedule(p.Ctx(), again)
		p.Is("put of a new one under a used name", err, courier.ErrConflict)
		again.Revision = s.Revision + 1
		_, err = p.PutSchedule(p.Ctx(), again)
		p.Is("put of another revision", err, courier.ErrConflict)
		again.Name, again.Revision = "t", s.Revision
		_, err = p.PutSchedule(p.Ctx(), again)
		p.Is("put in place of one that is not there", err, courier.ErrConflict)
		p.Same("afterwards", p.list(schedule.Filter{}), []schedule.Record{s})
	})},
	// A put can change the target from a job to a chain.
	{"put_changes_the_kind", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), 0)
		s.Kind, s.Target = store.Chain, "chain"
		s = p.put(s, 0)
		p.Same("the only one", p.list(schedule.Filter{}), []schedule.Record{s})
		d := p.due(10, long)
		p.names("due", d, "s")
		if d.List[0].Kind != store.Chain || d.List[0].Definition != nil {
			p.Errorf("kind %q, definition %v", d.List[0].Kind, d.List[0].Definition)
		}
		fired := p.fire(schedule.Firing{Schedule: "s", Revision: d.List[0].Revision, Status: schedule.Status{Problem: "x"}})
		if !fired[0].Done || p.one("s").Problem != "x" {
			p.Errorf("fired: %s, then %s", storekit.Text(fired), storekit.Text(p.one("s")))
		}
	})},
	{"firing_keeps_from_when_ticks_move", withSchedules(func(p *scheduleKit) {
		for _, kind := range []store.Kind{store.Job, store.Chain} {
			s := daily(string(kind))
			s.Kind, s.MovesFrom = kind, time.Date(2031, 1, 1, 20, 0, 0, 0, time.UTC)
			s = p.put(s, 0)
			d := p.due(10, long)
			p.names("due", d, s.Name)
			p.Same("of what is due", d.List[0].MovesFrom, s.MovesFrom)
			status := d.List[0].Status
			status.Next, status.Due = time.Time{}, time.Time{}
			fired := p.fire(schedule.Firing{Schedule: s.Name, Revision: d.List[0].Revision, Status: status})
			p.Same("fired", fired[0].Done, true)
			p.Same("after it was fired", p.one(s.Name).MovesFrom, s.MovesFrom)
		}
	})},
	// Of concurrent puts that create one name, one succeeds.
	{"put_is_of_one_only", withSchedules(func(p *scheduleKit) {
		var put atomic.Int64
		p.At(16, func(int) {
			if _, err := p.PutSchedule(p.Ctx(), daily("s")); err == nil {
				put.Add(1)
			} else {
				p.Is("put", err, courier.ErrConflict)
			}
		})
		if n := put.Load(); n != 1 {
			p.Errorf("%d of 16 have created the schedule", n)
		}
	})},
	// A schedule is removed; an unknown one is ErrNotFound; no revision comes twice.
	{"remove", withSchedules(func(p *scheduleKit) {
		p.Is("remove what is not there", p.RemoveSchedule(p.Ctx(), "s"), courier.ErrNotFound)
		s := p.put(daily("s"), 0)
		p.OK(p.RemoveSchedule(p.Ctx(), "s"))
		p.Same("afterwards", p.list(schedule.Filter{}), nil)
		p.names("due", p.due(10, long))
		if again := p.put(daily("s"), 0); again.Revision == s.Revision {
			p.Error("the next of its name has the same revision")
		}
	})},
	// Schedules come in byte order of their names, in pages, over both kinds.
	{"schedules_by_name_in_pages", withSchedules(func(p *scheduleKit) {
		for _, name := range []string{"b", "É", "a", "B", "a b", "' or 1=1", "%"} {
			s := daily(name)
			if name == "B" {
				s.Kind = store.Chain
			}
			p.put(s, -1)
		}
		var got []string
		for after := ""; ; {
			page := p.list(schedule.Filter{After: after, Limit: 2})
			if len(page) == 0 {
				break
			}
			for i := range page {
				got = append(got, page[i].Name)
			}
			after = got[len(got)-1]
		}
		p.Same("names", got, []string{"%", "' or 1=1", "B", "a", "a b", "b", "É"})
		p.Same("one that is not there", p.list(schedule.Filter{Name: "c"}), nil)
		names := func(f schedule.Filter) (names []string) {
			for _, s := range p.list(f) {
				names = append(names, s.Name)
			}
			return names
		}
		p.Same("of chains", names(schedule.Filter{Kind: store.Chain}), []string{"B"})
		p.Same("of jobs, the next two", names(schedule.Filter{Kind: store.Job, After: "a", Limit: 2}), []string{"a b", "b"})
		other := daily("c")
		other.Target = "another"
		p.put(other, -1)
		p.Same("of one job", names(schedule.Filter{Kind: store.Job, Target: "another"}), []string{"c"})
		p.Same("of a chain of that name", names(schedule.Filter{Kind: store.Chain, Target: "another"}), []string(nil))
		p.Same("that one, of another target", names(schedule.Filter{Name: "c", Target: "job"}), []string(nil))
		if s := p.one("É"); s.Name != "É" {
			p.Errorf("got %q", s.Name)
		}
	})},
	// A due schedule comes with the latest definition and the states of its executions.
	{"due_returns_definition_and_states", withSchedules(func(p *scheduleKit) {
		x := p.Add(p.New(), p.New(), p.New())
		_, err := p.Save(p.Ctx(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{"v":2}`)})
		p.OK(err)
		_, err = p.Request(p.Ctx(), store.Request{Execution: x[0].ID, Kind: courier.RequestCancel})
		p.OK(err)
		s := daily("s")
		s.Open, s.LastExecution = []courier.ExecutionID{x[0].ID, x[1].ID, courier.ExecutionID(p.IDs.New())}, x[2].ID
		s = p.put(s, 0)
		p.put(schedule.Record{Name: "t", Kind: store.Job, Target: "gone", Body: json.RawMessage(`{}`)}, 0)
		d := p.due(10, long)
		p.names("due", d, "s", "t")
		if def := d.List[0].Definition; def == nil || def.Version != 2 || string(def.Body) != `{"v":2}` || def.Name != "job" || def.SavedAt.IsZero() {
			p.Errorf("definition %+v", def)
		}
		p.Same("outcomes", d.List[0].Outcomes, map[courier.ExecutionID]courier.State{
			x[0].ID: courier.Cancelled, x[1].ID: courier.Queued, x[2].ID: courier.Queued,
		})
		got := d.List[0].Record
		got.Due = s.Due // the end of its lease
		p.Same("as it is", got, s)
		if def := d.List[1].Definition; def != nil {
			p.Errorf("of a job that is not there: %+v", def)
		}
	})},
	{"due_at_its_time_only", withSchedules(func(p *scheduleKit) {
		p.put(daily("never"), -1)
		p.put(daily("later"), long)
		d := p.due(10, long)
		p.names("too early", d)
		if d.Next <= long/2 || d.Next > long {
			p.Errorf("next after %v, want about %v", d.Next, long)
		}
		p.put(daily("soon"), p.Unit)
		p.Pass(p.Unit + p.Unit/10)
		p.names("in time", p.due(10, long), "soon")
	})},
	{"due_earliest_first", withSchedules(func(p *scheduleKit) {
		for i, name := range []string{"c", "a", "b"} {
			s := daily(name)
			if name == "a" {
				s.Kind = store.Chain
			}
			p.put(s, time.Duration(i)*p.Unit/10)
		}
		p.Pass(p.Unit)
		d := p.due(2, long)
		if len(d.List) != 2 || d.Next != time.Microsecond {
			p.Errorf("%d of 3, next after %v", len(d.List), d.Next)
		}
		d.List = append(d.List, p.due(2, long).List...)
		slices.SortFunc(d.List, func(a, b schedule.Due) int { return a.Next.Compare(b.Next) })
		p.names("all", d, "c", "a", "b")
	})},
	{"due_is_leased", withSchedules(func(p *scheduleKit) {
		p.put(daily("r"), 0)
		p.names("first", p.due(10, long), "r")
		d := p.due(10, long)
		p.names("leased", d)
		if d.Next <= long/2 || d.Next > long {
			p.Errorf("next after %v, want the end of the lease", d.Next)
		}
		s := p.put(daily("s"), 0)
		p.names("second", p.due(10, p.Unit), "s")
		p.Pass(p.Unit + p.Unit/10)
		d = p.due(10, long)
		p.names("after the lease", d, "s")
		if d.List[0].Revision != s.Revision {
			p.Error("a lease has changed the revision")
		}
	})},
	// A firing creates executions and replaces the state.
	{"fire_starts_and_goes_on", withSchedules(func(p *scheduleKit) {
		p.put(daily("s"), 0)
		s := p.due(1, long).List[0].Record
		f := p.tick(s)
		fired := p.fire(f)[0]
		if !fired.Done || fired.Err != nil || len(fired.Executions) != 1 || fired.Executions[0].Existed {
			p.Fatalf("fired: %s", storekit.Text(fired))
		}
		x := p.Get(f.Executions[0].ID)
		p.Same("execution", x, fired.Executions[0].Execution)
		p.Same("key", x.IdempotencyKey, "schedule:s:"+s.Next.Format(time.RFC3339Nano))
		got := p.one("s")
		if got.Revision <= s.Revision {
			p.Error("the revision is the same")
		}
		p.Same("state", got.Status, f.Status)
		p.Claimed("claimed", p.ClaimRequest(2), x.ID)
	})},
	// Only if the schedule has not changed since it was read.
	{"fire_compares_the_revision", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), 0)
		f := p.tick(s)
		p.fire(f)
		again := p.tick(s)
		again.Executions[0].IdempotencyKey = "" // only the revision stands in the way
		late := p.fire(again)[0]
		if late.Done || late.Err != nil {
			p.Errorf("fired twice: %s", storekit.Text(late))
		}
		read := p.one("s")
		p.put(read, long)
		again.Revision = read.Revision
		if p.fire(again)[0].Done {
			p.Error("fired what was put meanwhile")
		}
		p.OK(p.RemoveSchedule(p.Ctx(), "s"))
		if p.fire(again)[0].Done {
			p.Error("fired what was removed")
		}
		p.put(daily("s"), 0)
		if p.fire(again)[0].Done {
			p.Error("fired what was removed and put again")
		}
		p.started(1)
	})},
	// A used key takes the place of a new execution, and is no conflict.
	{"fire_no_tick_twice", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), 0)
		f := p.tick(s)
		first := p.fire(f)[0].Executions[0].Execution
		p.OK(p.RemoveSchedule(p.Ctx(), "s"))
		again := p.put(daily("s"), 0)
		again.Next = s.Next
		f = p.tick(again)
		f.Executions[0].Params = json.RawMessage(`{"other":1}`)
		fired := p.fire(f)[0]
		if !fired.Done || fired.Err != nil || len(fired.Executions) != 1 || !fired.Executions[0].Existed || fired.Executions[0].Execution.ID != first.ID {
			p.Fatalf("fired: %s", storekit.Text(fired))
		}
		got := p.one("s")
		p.Same("last execution", got.LastExecution, first.ID)
		p.Same("open ones", got.Open, []courier.ExecutionID{first.ID})
		p.started(1)
	})},
	// A firing that can't be carried out does nothing, and does not stop the others.
	{"fire_each_alone", withSchedules(func(p *scheduleKit) {
		var list []schedule.Firing
		for i := range 4 {
			list = append(list, p.tick(p.put(daily(fmt.Sprint("s", i)), 0)))
		}
		list[1].Executions[0].Version = 7
		list[2].Executions = append(list[2].Executions, list[2].Executions[0])
		list[2].Executions[1].ID = courier.ExecutionID(p.IDs.New())
		list[2].Executions[1].IdempotencyKey, list[2].Executions[1].Job = "", "unknown"
		got := p.fire(list...)
		p.Is("of an unknown version", got[1].Err, courier.ErrNotFound)
		p.Is("of an unknown job", got[2].Err, courier.ErrNotFound)
		for i, done := range []bool{true, false, false, true} {
			if got[i].Done != done {
				p.Errorf("firing %d: %s", i, storekit.Text(got[i]))
			}
			if s := p.one(list[i].Schedule); s.Last.IsZero() == done {
				p.Errorf("schedule %d last fired at %v", i, s.Last)
			}
		}
		p.started(2)
	})},
	// A firing cancels executions that have not ended.
	{"fire_cancels", withSchedules(func(p *scheduleKit) {
		queued, running, over := p.Add(p.New())[0], p.Start(), p.Start()
		over.Must(over.To(courier.Failed))
		s := p.put(daily("s"), 0)
		f := p.tick(s)
		f.Cancel = []courier.ExecutionID{queued.ID, running.ID(), over.ID(), courier.ExecutionID(p.IDs.New())}
		f.By = "schedule:s"
		if fired := p.fire(f)[0]; !fired.Done {
			p.Fatalf("fired: %s", storekit.Text(fired))
		}
		p.Same("queued", p.Get(queued.ID).State, courier.Cancelled)
		if x := p.Get(running.ID()); x.State != courier.Running || x.Request != courier.RequestCancel {
			p.Errorf("the running one is %s, with request %q", x.State, x.Request)
		}
		p.Same("failed before", p.Get(over.ID()).State, courier.Failed)
		audit, err := p.Audit(p.Ctx(), store.AuditFilter{Execution: queued.ID})
		p.OK(err)
		p.Same("who asked", audit[len(audit)-1].By, "schedule:s")
	})},
	{"fire_later", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), 0)
		f := schedule.Firing{Schedule: "s", Revision: s.Revision, Status: s.Status, After: long}
		f.Status.Problem = "later"
		p.fire(f)
		d := p.due(1, long)
		p.names("at once", d)
		if d.Next <= long/2 || d.Next > long {
			p.Errorf("next after %v, want %v", d.Next, long)
		}
		f.Revision, f.After = p.one("s").Revision, p.Unit
		p.fire(f)
		p.Pass(p.Unit + p.Unit/10)
		p.names("later", p.due(1, long), "s")
	})},
	{"put_wakes", withSchedules(func(p *scheduleKit) {
		mark := p.due(1, long).Mark
		p.put(daily("s"), long)
		p.OK(p.AwaitSchedules(p.Ctx(), mark)) // at once
		mark = p.due(1, long).Mark
		ctx, cancel := context.WithTimeout(p.Ctx(), p.Unit)
		defer cancel()
		if err := p.AwaitSchedules(ctx, mark); err != nil {
			p.Is("nothing changed", err, context.DeadlineExceeded)
		}
	})},
	// However many fire the same at once, each firing is carried out once.
	{"many_fire_the_same", withSchedules(func(p *scheduleKit) {
		const schedules, ticks = 5, 8
		for i := range schedules {
			p.put(daily(fmt.Sprint("s", i)), 0)
		}
		var done atomic.Int64
		p.At(8, func(int) {
			for range 3 * ticks {
				list, err := p.Schedules(p.Ctx(), schedule.Filter{})
				if err != nil {
					p.Errorf("schedules: %v", err)
					return
				}
				var firings []schedule.Firing
				for _, s := range list.List {
					if s.Failures == ticks {
						continue
					}
					f := p.tick(s)
					f.Status.Failures++ // counts the ticks
					firings = append(firings, f)
				}
				fired, err := p.FireSchedules(p.Ctx(), firings)
				if err != nil {
					p.Errorf("fire: %v", err)
				}
				for i := range fired {
					if fired[i].Done {
						done.Add(1)
					}
				}
			}
		})
		p.Same("firings that were carried out", done.Load(), schedules*ticks)
		for i := range schedules {
			if s := p.one(fmt.Sprint("s", i)); s.Failures != ticks {
				p.Errorf("schedule %d fired %d times, want %d", i, s.Failures, ticks)
			}
		}
		p.started(schedules * ticks)
	})},
}
