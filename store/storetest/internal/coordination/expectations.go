package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// hasExpectations reports whether a store keeps expectations, and what they are about.
func hasExpectations(s store.Store) bool {
	_, ok := s.(expectation.Store)
	_, monitored := s.(monitor.Store)
	return ok && monitored && hasOutbox(s) && hasTrail(s)
}

// awaited is the role.
func (k *kit) awaited() expectation.Store { return k.Store.(expectation.Store) }

// expectationOf is an expectation of files of the monitor "m" that can be put.
func expectationOf(name string) expectation.Record {
	return expectation.Record{
		Name: name, Monitor: "m", Prefix: "a", Body: json.RawMessage(`{"name": "` + name + `"}`),
		Progress: expectation.Progress{SeenFrom: someday, ArrivalsFrom: "2031-01-01", Memory: json.RawMessage(`{}`)},
	}
}

// expect puts an expectation that is due after d; negative means never.
func (k *kit) expect(r expectation.Record, d time.Duration) expectation.Record {
	k.Helper()
	got, err := k.awaited().PutExpectation(k.Ctx(), expectation.Put{Record: r, After: d})
	k.OK(err)
	return got
}

func (k *kit) expectations(f expectation.Filter) []expectation.Record {
	k.Helper()
	l, err := k.awaited().Expectations(k.Ctx(), f)
	k.OK(err)
	if l.Now.IsZero() {
		k.Error("there is no time")
	}
	return l.List
}

// awaits returns what is due, and reports others than those of the names.
func (k *kit) awaits(what string, most int, lease time.Duration, want ...string) expectation.DueList {
	k.Helper()
	d, err := k.awaited().DueExpectations(k.Ctx(), expectation.DueRequest{Max: most, Lease: lease})
	k.OK(err)
	got := make([]string, len(d.List))
	for i := range d.List {
		got[i] = d.List[i].Name
	}
	k.Same(what, got, append([]string{}, want...))
	return d
}

// lookAt is a check an expectation.
func lookAt(r expectation.Record, after time.Duration, arrivals ...expectation.Kept) expectation.Look {
	return expectation.Look{Expectation: r.Name, Revision: r.Revision, Progress: r.Progress, After: after, Arrivals: arrivals}
}

// looks writes looks, and reports others than the wanted results.
func (k *kit) looks(what string, want []bool, list ...expectation.Look) {
	k.Helper()
	got, err := k.awaited().RecordLooks(k.Ctx(), list)
	k.OK(err)
	k.Same(what, got, want)
}

func (k *kit) arrivals(f expectation.ArrivalFilter) []expectation.Kept {
	k.Helper()
	list, err := k.awaited().Arrivals(k.Ctx(), f)
	k.OK(err)
	return list
}

// dayOf is an arrival.
func dayOf(name, date string, n int) expectation.Kept {
	return expectation.Kept{
		ID: fmt.Sprintf("0193a000-0000-7000-8000-%012d", n), Expectation: name, Date: date, State: expectation.Missing, Body: json.RawMessage(fmt.Sprintf(`{ "n": %d.0 }`, n)),
	}
}

// happens is an event of an arrival.
func happens(a expectation.Kept, seq int64, t courier.EventType) expectation.Event {
	return expectation.Event{Expectation: a.Expectation, ID: a.ID, Seq: seq, Type: t, At: someday, Text: "it's \"odd\": ü", Payload: json.RawMessage(`{ "a":1.0}`)}
}

var expectationCases = []testCase{
	{"put_keeps_every_field", func(k *kit) {
		r := expectationOf("e")
		r.Monitor, r.Job, r.Prefix = "", "job", "é'%"
		r.Body, r.Memory = json.RawMessage(`{ "odd" : 1.50,  "text":"\u00e9" }`), json.RawMessage(`{ "n":1.0 }`)
		got := k.expect(r, long)
		if got.Revision == 0 || got.SavedAt.IsZero() || got.Due.Sub(got.SavedAt) != long {
			k.Errorf("put: revision %d, saved at %v, due at %v", got.Revision, got.SavedAt, got.Due)
		}
		k.Same("as it was put", k.expectations(expectation.Filter{Name: "e"}), []expectation.Record{got})
		r.SavedAt, r.Revision, r.Due = got.SavedAt, got.Revision, got.Due
		k.Same("what was put", got, r)
		if got = k.expect(got, -1); !got.Due.IsZero() {
			k.Errorf("due at %v", got.Due)
		}
	}},
	{"put_of_another_revision_is_a_conflict", func(k *kit) {
		r := k.expect(expectationOf("e"), long)
		again := expectationOf("e")
		put := func(what string) {
			k.Helper()
			_, err := k.awaited().PutExpectation(k.Ctx(), expectation.Put{Record: again})
			k.Is(what, err, courier.ErrConflict)
		}
		put("a new one under a used name")
		again.Revision = r.Revision + 1
		put("another revision")
		again.Name, again.Revision = "n", r.Revision
		put("in place of one that is not there")
		k.Same("afterwards", k.expectations(expectation.Filter{}), []expectation.Record{r})
		k.looks("a look", []bool{true}, lookAt(r, long))
		again = r
		put("after a look")
	}},
	{"put_is_of_one_only", func(k *kit) {
		var put atomic.Int64
		k.At(16, func(int) {
			if _, err := k.awaited().PutExpectation(k.Ctx(), expectation.Put{Record: expectationOf("e")}); err == nil {
				put.Add(1)
			} else {
				k.Is("put", err, courier.ErrConflict)
			}
		})
		if n := put.Load(); n != 1 {
			k.Errorf("%d of 16 have created the expectation", n)
		}
	}},
	{"ended_context_does_nothing", func(k *kit) {
		r := k.expect(expectationOf("e"), 0)
		ctx, cancel := context.WithCancel(k.Ctx())
		cancel()
		if _, err := k.awaited().PutExpectation(ctx, expectation.Put{Record: expectationOf("n")}); err == nil {
			k.Error("PutExpectation: no error")
		}
		if err := k.awaited().RemoveExpectation(ctx, "e"); err == nil {
			k.Error("RemoveExpectation: no error")
		}
		if _, err := k.awaited().DueExpectations(ctx, expectation.DueRequest{Max: 1, Lease: long}); err == nil {
			k.Error("DueExpectations: no error")
		}
		if _, err := k.awaited().RecordLooks(ctx, []expectation.Look{lookAt(r, long, dayOf("e", "2031-01-02", 1))}); err == nil {
			k.Error("RecordLooks: no error")
		}
		k.Same("afterwards", k.expectations(expectation.Filter{}), []expectation.Record{r})
		k.Same("arrivals", len(k.arrivals(expectation.ArrivalFilter{})), 0)
		k.awaits("due", 2, long, "e")
	}},
	{"remove", func(k *kit) {
		k.Is("what is not there", k.awaited().RemoveExpectation(k.Ctx(), "e"), courier.ErrNotFound)
		r := k.expect(expectationOf("e"), 0)
		k.looks("a look", []bool{true}, lookAt(r, 0, dayOf("e", "2031-01-02", 1)))
		k.OK(k.awaited().RemoveExpectation(k.Ctx(), "e"))
		k.Same("afterwards", len(k.expectations(expectation.Filter{})), 0)
		k.Same("arrivals", len(k.arrivals(expectation.ArrivalFilter{})), 0)
		k.awaits("due", 10, long)
		if again := k.expect(expectationOf("e"), 0); again.Revision == r.Revision {
			k.Error("the next of its name has the same revision")
		}
	}},
	{"by_name_and_source_in_pages", func(k *kit) {
		for i, name := range []string{"b", "É", "a", "B", "a b", "' or 1=1", "%"} {
			r := expectationOf(name)
			if i%2 == 1 {
				r.Monitor, r.Job = "", "job"
			}
			k.expect(r, -1)
		}
		names := func(f expectation.Filter) (got []string) {
			for {
				page := k.expectations(f)
				for i := range page {
					f.After = page[i].Name
					got = append(got, f.After)
				}
				if len(page) == 0 {
					return got
				}
			}
		}
		k.Same("names", names(expectation.Filter{Limit: 2}), []string{"%", "' or 1=1", "B", "a", "a b", "b", "É"})
		k.Same("of the monitor", names(expectation.Filter{Monitor: "m"}), []string{"%", "a", "a b", "b"})
		k.Same("of the job", names(expectation.Filter{Job: "job"}), []string{"' or 1=1", "B", "É"})
		k.Same("of names", names(expectation.Filter{Names: []string{"É", "c", "a"}, Limit: 1}), []string{"a", "É"})
		k.Same("of no name", names(expectation.Filter{Names: []string{}}), nil)
		k.Same("one that is not there", len(k.expectations(expectation.Filter{Name: "c"})), 0)
	}},
	{"due_at_its_time_and_leased", func(k *kit) {
		k.expect(expectationOf("never"), -1)
		k.expect(expectationOf("later"), long)
		d := k.awaits("too early", 10, long)
		if d.Next <= long/2 || d.Next > long || d.Now.IsZero() {
			k.Errorf("next after %v, want about %v; now %v", d.Next, long, d.Now)
		}
		for i, name := range []string{"c", "a", "b"} {
			k.expect(expectationOf(name), time.Duration(i)*k.Unit/10)
		}
		k.Pass(k.Unit)
		if d = k.awaits("first", 2, long, "c", "a"); d.Next != time.Microsecond {
			k.Errorf("next after %v", d.Next)
		}
		k.awaits("second", 2, k.Unit, "b")
		k.awaits("leased", 10, long)
		k.Pass(k.Unit + k.Unit/10)
		d = k.awaits("when the lease has ended", 10, long, "b")
		k.looks("a look", []bool{true}, lookAt(d.List[0].Record, 0))
		k.awaits("after a look", 10, long, "b")
	}},
	{"a_look_is_written_once", func(k *kit) {
		k.subscribe("sub", courier.EventFileMissing)
		r := k.expect(expectationOf("e"), 0)
		var written atomic.Int64
		k.At(16, func(int) {
			a := dayOf("e", "2031-01-02", 1)
			l := lookAt(r, long, a)
			l.Events = []expectation.Event{happens(a, 1, courier.EventFileMissing)}
			done, err := k.awaited().RecordLooks(k.Ctx(), []expectation.Look{l})
			if err == nil && done[0] {
				written.Add(1)
			}
		})
		if n := written.Load(); n != 1 {
			k.Errorf("%d of 16 were written", n)
		}
		k.Same("arrivals", k.arrivals(expectation.ArrivalFilter{}), []expectation.Kept{dayOf("e", "2031-01-02", 1)})
		k.Same("deliveries", len(k.deliveries(notify.Pending)), 1)
	}},
	{"a_date_has_one_arrival", func(k *kit) {
		r := k.expect(expectationOf("e"), 0)
		k.looks("a look", []bool{true}, lookAt(r, long, dayOf("e", "2031-01-02", 1)))
		r = k.expectations(expectation.Filter{})[0]
		other := dayOf("e", "2031-01-02", 2)
		other.State = expectation.Late
		k.looks("another one", []bool{true}, lookAt(r, long, other))
		other.ID = dayOf("e", "2031-01-02", 1).ID
		k.Same("arrivals", k.arrivals(expectation.ArrivalFilter{}), []expectation.Kept{other})
	}},
	{"looks_are_written_each_as_a_whole", func(k *kit) {
		k.subscribe("sub", courier.EventFileMissing)
		a, b := k.expect(expectationOf("a"), 0), k.expect(expectationOf("b"), 0)
		stale := lookAt(a, long, dayOf("a", "2031-01-02", 1))
		stale.Revision--
		stale.Events = []expectation.Event{happens(stale.Arrivals[0], 1, courier.EventFileMissing)}
		good := lookAt(b, long, dayOf("b", "2031-01-02", 2), dayOf("b", "2031-01-03", 3))
		good.Events = []expectation.Event{happens(good.Arrivals[0], 1, courier.EventFileMissing)}
		good.Progress = expectation.Progress{SeenFrom: someday.Add(time.Hour), ArrivalsFrom: "2031-01-03", Memory: json.RawMessage(`{ "x": 2.0}`)}
		k.looks("two", []bool{false, true}, stale, good)
		k.looks("none", []bool{})
		k.Same("arrivals", k.arrivals(expectation.ArrivalFilter{}), []expectation.Kept{good.Arrivals[1], good.Arrivals[0]})
		list := k.taken(nil)
		k.Same("events", len(list), 1)
		want := notify.OfExpectation("b", good.Arrivals[0].ID, 1, courier.EventFileMissing, someday, "it's \"odd\": ü", json.RawMessage(`{ "a":1.0}`))
		want.Subscription = "sub"
		k.Same("the event", list[0].Notification, want)
		got := k.expectations(expectation.Filter{Name: "b"})[0]
		k.Same("progress", got.Progress, good.Progress)
		if got.Revision <= b.Revision || got.Due.IsZero() || !got.SavedAt.Equal(b.SavedAt) {
			k.Errorf("%+v", got)
		}
		k.Same("of the other one", k.expectations(expectation.Filter{Name: "a"}), []expectation.Record{a})
	}},
	{"events_for_those_who_want_them", func(k *kit) {
		of := k.subscription("of b", courier.EventFileMissing, courier.EventJobFailed)
		of.Expectations = []string{"b"}
		off := k.subscription("off", courier.EventFileMissing)
		off.Disabled = true
		jobs := k.subscription("of a job", courier.EventFileMissing, courier.EventJobCompleted)
		jobs.Jobs = []string{"job"}
		for _, s := range []notify.Record{of, off, jobs, k.subscription("late", courier.EventFileLate)} {
			k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		}
		for i, name := range []string{"a", "b"} {
			r := k.expect(expectationOf(name), 0)
			l := lookAt(r, long, dayOf(name, "2031-01-02", i+1))
			l.Events = []expectation.Event{happens(l.Arrivals[0], 1, courier.EventFileMissing), happens(l.Arrivals[0], 2, courier.EventFileLate)}
			k.looks("a look", []bool{true}, l)
		}
		h := k.Start()
		h.Must(h.To(courier.Failed))
		var got []string
		for _, d := range k.deliveries("") {
			got = append(got, fmt.Sprint(d.Subscription, ": ", d.Type, " ", d.Expectation, d.Job))
		}
		k.Same("kept", got, []string{"late: FileLate a", "late: FileLate b", "of a job: FileMissing a", "of a job: FileMissing b", "of b: FileMissing b"})
	}},
	{"pages_of_arrivals", func(k *kit) {
		n := 0
		for _, name := range []string{"a", "b", "É"} {
			l := lookAt(k.expect(expectationOf(name), 0), long)
			for _, date := range []string{"2031-01-02", "2031-01-03", "2030-12-31"} {
				n++
				l.Arrivals = append(l.Arrivals, dayOf(name, date, n))
				l.Arrivals[len(l.Arrivals)-1].State = expectation.States[n%len(expectation.States)]
			}
			k.looks("a look", []bool{true}, l)
		}
		names := func(f expectation.ArrivalFilter) (got []string) {
			for {
				page := k.arrivals(f)
				for i := range page {
					got = append(got, page[i].Date[5:]+" "+page[i].Expectation)
				}
				if len(page) == 0 {
					return got
				}
				f.After = &page[len(page)-1]
			}
		}
		k.Same("all", names(expectation.ArrivalFilter{Limit: 2}), []string{"01-03 a", "01-03 b", "01-03 É", "01-02 a", "01-02 b", "01-02 É", "12-31 a", "12-31 b", "12-31 É"})
		k.Same("of a day", names(expectation.ArrivalFilter{From: "2031-01-02", To: "2031-01-02"}), []string{"01-02 a", "01-02 b", "01-02 É"})
		k.Same("of two", names(expectation.ArrivalFilter{Expectations: []string{"a", "É", "x"}, From: "2031-01-01"}), []string{"01-03 a", "01-03 É", "01-02 a", "01-02 É"})
		k.Same("of none", names(expectation.ArrivalFilter{Expectations: []string{}}), nil)
		k.Same("by state", names(expectation.ArrivalFilter{States: []expectation.State{expectation.DueSoon, expectation.Arrived}}), []string{"01-03 a", "01-03 É", "01-02 a", "12-31 É"})
		counts, err := k.awaited().CountArrivals(k.Ctx(), "2031-01-02", "2031-01-03")
		k.OK(err)
		sum := 0
		for _, n := range counts {
			sum += n
		}
		k.Same("counted", sum, 6)
		k.Same("due soon", counts[expectation.DueSoon], 2)
		r := k.expectations(expectation.Filter{Name: "a"})[0]
		l := lookAt(r, long)
		l.Forget = "2031-01-02"
		k.looks("one that forgets", []bool{true}, l)
		k.Same("left", names(expectation.ArrivalFilter{To: "2031-01-01"}), []string{"12-31 b", "12-31 É"})
	}},
	{"due_has_what_a_monitor_has_seen", func(k *kit) {
		m := k.Store.(monitor.Store)
		put, err := m.PutMonitor(k.Ctx(), monitor.Put{Record: monitorOf("m"), After: long})
		k.OK(err)
		file := func(name string, since time.Time, n int) monitor.SeenFile {
			return monitor.SeenFile{Name: name, Size: int64(n), Modified: someday.Add(-time.Hour), Since: since, Done: n%2 == 0, Appeared: n, Handed: n}
		}
		seen := []monitor.SeenFile{
			file("a2", someday, 1), file("a1", someday.Add(time.Second), 2), file("a0", someday.Add(-time.Microsecond), 3), file("b", someday, 4), file("a%", someday.Add(time.Second), 5),
		}
		seen[1].MissingSince = someday.Add(time.Minute)
		health := json.RawMessage(`{ "files":1.0 }`)
		_, err = m.RecordPoll(k.Ctx(), monitor.PollResult{Monitor: "m", Revision: put.Revision, Status: monitor.Status{State: monitor.Active, Health: health}, After: long, Changed: seen})
		k.OK(err)
		r := k.expect(expectationOf("e"), 0)
		k.looks("a look", []bool{true}, lookAt(r, 0, dayOf("e", "2030-12-31", 1), dayOf("e", "2031-01-02", 2), dayOf("e", "2031-01-01", 3)))
		other := expectationOf("of another one")
		other.Monitor = "x"
		k.expect(other, k.Unit/10)
		k.Pass(k.Unit / 5)
		d := k.awaits("due", 10, long, "e", "of another one")
		got := d.List[0]
		k.Same("expectation", got.Record, k.expectations(expectation.Filter{Name: "e"})[0])
		k.Same("arrivals", got.Arrivals, []expectation.Kept{dayOf("e", "2031-01-01", 3), dayOf("e", "2031-01-02", 2)})
		k.Same("monitor", got.Watch, &expectation.Watch{Body: put.Body, Health: health})
		for i := range got.Seen { // what a look does not need
			got.Seen[i].HandedSize, got.Seen[i].HandedModified, got.Seen[i].HandedAt = 0, time.Time{}, time.Time{}
		}
		k.Same("files", got.Seen, []monitor.SeenFile{seen[0], seen[4], seen[1]})
		k.Same("received", len(got.Received), 0)
		k.Same("of another one", d.List[1].Watch, (*expectation.Watch)(nil))
		k.Same("of another one", len(d.List[1].Seen)+len(d.List[1].Arrivals), 0)
	}},
	{"look_of_its_own_is_put_and_removed_with_it", func(k *kit) {
		m := k.Store.(monitor.Store)
		monitors := func(want ...string) (list []monitor.Record) {
			k.Helper()
			list, err := m.Monitors(k.Ctx(), monitor.Filter{})
			k.OK(err)
			got := []string{}
			for i := range list {
				got = append(got, list[i].Name)
			}
			k.Same("monitors", got, append([]string{}, want...))
			return list
		}
		_, err := m.PutMonitor(k.Ctx(), monitor.Put{Record: monitorOf("m"), After: -1})
		k.OK(err)
		name := monitor.LookName("e")
		look := monitorOf(name)
		look.Kind, look.Target = "expectation", "e"
		r := expectationOf("e")
		r.Monitor = name
		put := func(what string, look *monitor.Put) {
			k.Helper()
			got, err := k.awaited().PutExpectation(k.Ctx(), expectation.Put{Record: r, After: long, Look: look})
			k.OK(err)
			r = got
		}
		put("with a look", &monitor.Put{Record: look})
		first := monitors(name, "m")[0]
		if first.Revision == 0 || first.SavedAt.IsZero() || first.Due.IsZero() || first.Due.After(first.SavedAt) {
			k.Errorf("%+v", first)
		}
		want := look
		want.Revision, want.SavedAt, want.Due = first.Revision, first.SavedAt, first.Due
		k.Same("the look", first, want)
		done, err := m.RecordPoll(k.Ctx(), monitor.PollResult{Monitor: name, Revision: first.Revision, Status: first.Status, After: long, Changed: []monitor.SeenFile{{Name: "a", Since: someday, Appeared: 1}}})
		k.OK(err)
		files := func(want int) {
			k.Helper()
			list, err := m.SeenFiles(k.Ctx(), monitor.SeenFilter{Monitor: name})
			k.OK(err)
			k.Same("files", len(list), want)
		}
		put("the same", nil)
		k.Same("left as it is", monitors(name, "m")[0].Revision, done.Revision)
		files(1)
		put("another one", &monitor.Put{Record: look, Forget: true})
		if again := monitors(name, "m")[0]; again.Revision <= done.Revision || again.Due.IsZero() || again.Due.After(again.SavedAt) {
			k.Errorf("%+v", again)
		}
		files(0)
		late, err := m.RecordPoll(k.Ctx(), monitor.PollResult{Monitor: name, Revision: done.Revision, Status: first.Status})
		k.OK(err)
		k.Same("a poll of the one before", late.Done, false)
		r.Revision++
		_, err = k.awaited().PutExpectation(k.Ctx(), expectation.Put{Record: r, Look: &monitor.Put{Record: look}})
		k.Is("a conflict", err, courier.ErrConflict)
		r.Revision--
		r.Monitor = "m"
		put("from a monitor", nil)
		monitors("m")
		r.Monitor = name
		put("with a look again", &monitor.Put{Record: look, After: -1})
		k.OK(k.awaited().RemoveExpectation(k.Ctx(), "e"))
		monitors("m")
		files(0)
	}},
	{"due_has_what_steps_have_received", func(k *kit) {
		h := k.Start()
		first := k.report(h, courier.File{Path: "/out/Ab", Size: 3, Connection: "acme", Received: true}, courier.File{Path: "in/ab", Size: 3}, courier.File{Path: "/out/b", Received: true})
		second := k.report(h, courier.File{Path: "/out/aB", Connection: "acme"}, courier.File{Path: "a1", Received: true})
		r := expectationOf("e")
		r.Monitor, r.Job, r.Prefix, r.SeenFrom = "", "job", "A", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		k.expect(r, 0)
		other := r
		other.Name, other.Job = "of another one", "x"
		k.expect(other, 0)
		later := r
		later.Name, later.SeenFrom = "since later", someday.AddDate(200, 0, 0)
		k.expect(later, 0)
		k.Pass(k.Unit / 10)
		d := k.awaits("due", 10, long, "e", "of another one", "since later")
		records := k.Records(h.ID())
		k.Same("received", d.List[0].Received, []expectation.Received{
			{Path: "/out/Ab", Size: 3, At: records[0].EndedAt, Execution: h.ID(), Seq: first}, {Path: "a1", At: records[1].EndedAt, Execution: h.ID(), Seq: second},
		})
		k.Same("of others", len(d.List[1].Received)+len(d.List[2].Received)+len(d.List[0].Seen), 0)
	}},
}
