package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// A monitorKit is a kit for stores that keep monitors.
type monitorKit struct {
	*kit
	monitors
}

// monitors embeds the role under a name that does not hide its method Monitors.
type monitors = monitor.Store

// withMonitors returns a case that does nothing for stores without monitors.
func withMonitors(run func(*monitorKit)) func(*kit) {
	return func(k *kit) {
		if m, ok := k.Store.(monitor.Store); ok {
			run(&monitorKit{k, m})
		} else {
			k.Logf("%T keeps no monitors", k.Store)
		}
	}
}

// monitorOf is a monitor for the job "job" that can be put.
func monitorOf(name string) monitor.Record {
	return monitor.Record{
		Name: name, Lister: "file", Kind: store.Job, Target: "job", Body: json.RawMessage(`{"name": "` + name + `"}`),
		Status: monitor.Status{State: monitor.Active, Health: json.RawMessage(`{}`)},
	}
}

// put puts a monitor that is due after d; negative means never.
func (l *monitorKit) put(m monitor.Record, d time.Duration) monitor.Record {
	l.Helper()
	got, err := l.PutMonitor(l.Ctx(), monitor.Put{Record: m, After: d})
	l.OK(err)
	return got
}

func (l *monitorKit) list(f monitor.Filter) []monitor.Record {
	l.Helper()
	list, err := l.Monitors(l.Ctx(), f)
	l.OK(err)
	return list
}

// one returns a monitor that is there.
func (l *monitorKit) one(name string) monitor.Record {
	l.Helper()
	list := l.list(monitor.Filter{Name: name})
	if len(list) != 1 {
		l.Fatalf("%d monitors %q", len(list), name)
	}
	return list[0]
}

func (l *monitorKit) due(most int, lease time.Duration, early ...string) monitor.DueList {
	l.Helper()
	d, err := l.DueMonitors(l.Ctx(), monitor.DueRequest{Listers: []string{"file"}, Max: most, Lease: lease, Early: early})
	l.OK(err)
	return d
}

// names reports when what is due has other names than the wanted ones.
func (l *monitorKit) names(what string, d monitor.DueList, want ...string) {
	l.Helper()
	got := make([]string, len(d.List))
	for i := range d.List {
		got[i] = d.List[i].Name
	}
	l.Same(what, got, want)
}

// record writes a look.
func (l *monitorKit) record(r monitor.PollResult) monitor.Recorded {
	l.Helper()
	got, err := l.RecordPoll(l.Ctx(), r)
	l.OK(err)
	return got
}

func (l *monitorKit) seen(f monitor.SeenFilter) []monitor.SeenFile {
	l.Helper()
	list, err := l.SeenFiles(l.Ctx(), f)
	l.OK(err)
	return list
}

// look is the record of a look at which a file was handed over to a new
// execution.
func (l *monitorKit) look(m monitor.Record, file string) monitor.PollResult {
	l.Helper()
	n := l.With(func(n *store.NewExecution) { n.IdempotencyKey = "monitor:" + m.Name + ":" + file })
	return monitor.PollResult{
		Monitor: m.Name, Revision: m.Revision, Status: m.Status, After: long, Executions: []store.NewExecution{n},
		Changed: []monitor.SeenFile{{Name: file, Size: 1, Since: someday, Appeared: 1, Handed: 1, HandedSize: 1, HandedAt: someday, Execution: n.ID}},
	}
}

var someday = time.Date(2031, 1, 2, 3, 4, 5, 678901000, time.UTC)

// started reports when there is another number of executions.
func (l *monitorKit) started(want int) {
	l.Helper()
	list, err := l.Executions(l.Ctx(), store.Filter{Limit: 1000})
	l.OK(err)
	if len(list) != want {
		l.Errorf("%d executions, want %d", len(list), want)
	}
}

var monitorCases = []testCase{
	// A monitor is kept with every field, its JSON byte by byte, and is due at the given time.
	{"put_keeps_every_field", withMonitors(func(l *monitorKit) {
		m := monitorOf("m")
		m.Kind, m.Target, m.Lister, m.Reason, m.State = store.Chain, "chain", "l", "r\n'", monitor.Failed
		m.Body, m.Health = json.RawMessage(`{ "odd" : 1.50,  "text":"\u00e9" }`), json.RawMessage(`{ "n":1.0 }`)
		got := l.put(m, long)
		if got.Revision == 0 || got.SavedAt.IsZero() || got.Due.Sub(got.SavedAt) != long {
			l.Errorf("put: revision %d, saved at %v, due at %v", got.Revision, got.SavedAt, got.Due)
		}
		l.Same("as it was put", l.one("m"), got)
		if string(got.Body) != string(m.Body) || string(got.Health) != string(m.Health) {
			l.Errorf("body %s, health %s", got.Body, got.Health)
		}
		m.SavedAt, m.Revision, m.Due = got.SavedAt, got.Revision, got.Due
		l.Same("what was put", got, m)
		if got = l.put(got, -1); !got.Due.IsZero() || !l.one("m").Due.IsZero() {
			l.Errorf("due at %v", got.Due)
		}
	})},
	{"put_of_another_revision_is_a_conflict", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), long)
		again := monitorOf("m")
		put := func(what string) {
			l.Helper()
			_, err := l.PutMonitor(l.Ctx(), monitor.Put{Record: again})
			l.Is(what, err, courier.ErrConflict)
		}
		put("a new one under a used name")
		again.Revision = m.Revision + 1
		put("another revision")
		again.Name, again.Revision = "n", m.Revision
		put("in place of one that is not there")
		l.Same("afterwards", l.list(monitor.Filter{}), []monitor.Record{m})
		if second := l.put(m, long); second.Revision <= m.Revision {
			l.Errorf("revision %d after %d", second.Revision, m.Revision)
		}
	})},
	{"ended_context_does_nothing", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		ctx, cancel := context.WithCancel(l.Ctx())
		cancel()
		if _, err := l.PutMonitor(ctx, monitor.Put{Record: monitorOf("n")}); err == nil {
			l.Error("PutMonitor: no error")
		}
		if err := l.RemoveMonitor(ctx, "m"); err == nil {
			l.Error("RemoveMonitor: no error")
		}
		if _, err := l.DueMonitors(ctx, monitor.DueRequest{Listers: []string{"file"}, Max: 1, Lease: long}); err == nil {
			l.Error("DueMonitors: no error")
		}
		if _, err := l.RecordPoll(ctx, l.look(m, "a")); err == nil {
			l.Error("RecordPoll: no error")
		}
		l.Same("afterwards", l.list(monitor.Filter{}), []monitor.Record{m})
		l.names("due", l.due(2, long), "m")
		l.started(0)
	})},
	// Of concurrent puts that create one name, one succeeds.
	{"put_is_of_one_only", withMonitors(func(l *monitorKit) {
		var put atomic.Int64
		l.At(16, func(int) {
			if _, err := l.PutMonitor(l.Ctx(), monitor.Put{Record: monitorOf("m")}); err == nil {
				put.Add(1)
			} else {
				l.Is("put", err, courier.ErrConflict)
			}
		})
		if n := put.Load(); n != 1 {
			l.Errorf("%d of 16 have created the monitor", n)
		}
	})},
	// A put keeps the files that the monitor has seen, unless it begins anew.
	{"put_keeps_or_removes_files", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		l.put(monitorOf("n"), 0)
		l.record(l.look(m, "a"))
		l.record(l.look(l.one("n"), "a"))
		l.put(l.one("m"), 0)
		if n := len(l.seen(monitor.SeenFilter{Monitor: "m"})); n != 1 {
			l.Errorf("%d files are known after a put", n)
		}
		_, err := l.PutMonitor(l.Ctx(), monitor.Put{Record: l.one("m"), Forget: true})
		l.OK(err)
		l.Same("afterwards", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
		if n := len(l.seen(monitor.SeenFilter{Monitor: "n"})); n != 1 {
			l.Errorf("%d files are known of the other monitor", n)
		}
	})},
	// A monitor is removed with its files; an unknown one is ErrNotFound; no revision comes twice.
	{"remove", withMonitors(func(l *monitorKit) {
		l.Is("remove what is not there", l.RemoveMonitor(l.Ctx(), "m"), courier.ErrNotFound)
		m := l.put(monitorOf("m"), 0)
		l.record(l.look(m, "a"))
		l.OK(l.RemoveMonitor(l.Ctx(), "m"))
		l.Same("afterwards", l.list(monitor.Filter{}), nil)
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
		l.names("due", l.due(10, long))
		if again := l.put(monitorOf("m"), 0); again.Revision == m.Revision {
			l.Error("the next of its name has the same revision")
		}
		l.Same("files of the next", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
	})},
	// Monitors come in byte order of their names, in pages.
	{"monitors_by_name_in_pages", withMonitors(func(l *monitorKit) {
		for _, name := range []string{"b", "É", "a", "B", "a b", "' or 1=1", "%"} {
			l.put(monitorOf(name), -1)
		}
		var got []string
		for after := ""; ; {
			page := l.list(monitor.Filter{After: after, Limit: 2})
			if len(page) == 0 {
				break
			}
			for i := range page {
				got = append(got, page[i].Name)
			}
			after = got[len(got)-1]
		}
		l.Same("names", got, []string{"%", "' or 1=1", "B", "a", "a b", "b", "É"})
		l.Same("one that is not there", l.list(monitor.Filter{Name: "c"}), nil)
		if m := l.one("É"); m.Name != "É" {
			l.Errorf("got %q", m.Name)
		}
	})},
	{"due_at_its_time_only", withMonitors(func(l *monitorKit) {
		l.put(monitorOf("never"), -1)
		l.put(monitorOf("later"), long)
		d := l.due(10, long)
		l.names("too early", d)
		if d.Next <= long/2 || d.Next > long || d.Now.IsZero() {
			l.Errorf("next after %v, want about %v; now %v", d.Next, long, d.Now)
		}
		l.put(monitorOf("soon"), l.Unit)
		l.Pass(l.Unit + l.Unit/10)
		d = l.due(10, long)
		l.names("in time", d, "soon")
		l.Same("as it is", d.List[0], l.one("soon"))
	})},
	{"due_earliest_first", withMonitors(func(l *monitorKit) {
		for i, name := range []string{"c", "a", "b"} {
			l.put(monitorOf(name), time.Duration(i)*l.Unit/10)
		}
		l.Pass(l.Unit)
		d := l.due(2, long)
		l.names("first", d, "c", "a")
		if d.Next != time.Microsecond {
			l.Errorf("next after %v", d.Next)
		}
		l.names("second", l.due(2, long), "b")
	})},
	// A leased monitor is not due again until its lease ends or it is put.
	{"due_is_leased", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		l.names("first", l.due(10, long), "m")
		d := l.due(10, long)
		l.names("leased", d)
		if d.Next <= long/2 || d.Next > long {
			l.Errorf("next after %v, want the end of the lease", d.Next)
		}
		l.names("leased, early", l.due(10, long, "m"))
		m = l.put(m, 0)
		l.names("second", l.due(10, l.Unit), "m")
		l.Pass(l.Unit + l.Unit/10)
		d = l.due(10, long)
		l.names("after the lease", d, "m")
		if d.List[0].Revision != m.Revision {
			l.Error("a lease has changed the revision")
		}
		l.put(l.one("m"), 0)
		l.names("put again", l.due(10, long), "m")
	})},
	// A monitor that is named in Early comes early, unless it is leased or never due.
	{"due_early", withMonitors(func(l *monitorKit) {
		l.put(monitorOf("m"), long)
		l.put(monitorOf("off"), -1)
		other := monitorOf("other")
		other.Lister = "sftp"
		l.put(other, long)
		l.names("early", l.due(10, long, "m", "off", "other", "unknown"), "m")
		l.names("leased", l.due(10, long, "m"))
	})},
	{"due_of_its_listers", withMonitors(func(l *monitorKit) {
		m := monitorOf("m")
		m.Lister = "sftp"
		l.put(m, 0)
		d := l.due(10, long)
		l.names("of another", d)
		if d.Next != 0 {
			l.Errorf("next after %v", d.Next)
		}
		d, err := l.DueMonitors(l.Ctx(), monitor.DueRequest{Listers: []string{"ftp", "sftp"}, Max: 1, Lease: long})
		l.OK(err)
		l.names("its own", d, "m")
	})},
	// A record keeps files, state and health, creates executions, and sets when the monitor is
	// due.
	{"record_keeps_every_field_and_starts", withMonitors(func(l *monitorKit) {
		l.put(monitorOf("m"), 0)
		m := l.due(1, long).List[0]
		r := l.look(m, "a")
		r.Status = monitor.Status{State: monitor.Degraded, Reason: "r", Health: json.RawMessage(`{ "n":1 }`)}
		full := monitor.SeenFile{
			Name: "b'\n\\é", Size: 1 << 60, Modified: someday.Add(1), Since: someday.Add(2 * time.Second), Done: true, MissingSince: someday.Add(time.Hour),
			Appeared: 4, Handed: 3, HandedSize: 1 << 59, HandedModified: someday.Add(2 * time.Hour), HandedAt: someday.Add(3 * time.Hour), Execution: r.Executions[0].ID,
		}
		r.Changed = append(r.Changed, full)
		got := l.record(r)
		if !got.Done || got.Revision <= m.Revision || len(got.Executions) != 1 || got.Executions[0].Existed {
			l.Fatalf("recorded: %s", storekit.Text(got))
		}
		full.Modified = someday
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), []monitor.SeenFile{r.Changed[0], full})
		after := l.one("m")
		l.Same("state", after.Status, r.Status)
		if after.Revision != got.Revision || string(after.Health) != `{ "n":1 }` {
			l.Errorf("afterwards %s", storekit.Text(after))
		}
		l.Same("execution", l.Get(r.Executions[0].ID), got.Executions[0].Execution)
		d := l.due(1, long)
		l.names("at once", d)
		if d.Next <= long/2 || d.Next > long {
			l.Errorf("next after %v, want %v", d.Next, long)
		}
		l.Claimed("claimed", l.ClaimRequest(2), r.Executions[0].ID)
	})},
	{"record_ends_the_lease", withMonitors(func(l *monitorKit) {
		l.put(monitorOf("m"), 0)
		m := l.due(1, long).List[0]
		l.record(monitor.PollResult{Monitor: "m", Revision: m.Revision, Status: m.Status})
		m = l.due(1, long).List[0]
		l.record(monitor.PollResult{Monitor: "m", Revision: m.Revision, Status: m.Status, After: -1})
		l.names("never", l.due(1, long, "m"))
	})},
	// Only if the monitor has not changed since it was read.
	{"record_compares_the_revision", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		l.record(l.look(m, "a"))
		again := l.look(m, "b")
		again.Removed = []string{"a"}
		refused := func(what string) {
			l.Helper()
			if got := l.record(again); got.Done || len(got.Executions) != 0 {
				l.Errorf("recorded %s: %s", what, storekit.Text(got))
			}
		}
		refused("twice")
		read := l.one("m")
		l.put(read, 0)
		again.Revision = read.Revision
		refused("what was put meanwhile")
		l.Same("files", len(l.seen(monitor.SeenFilter{Monitor: "m"})), 1)
		l.OK(l.RemoveMonitor(l.Ctx(), "m"))
		refused("what was removed")
		l.put(monitorOf("m"), 0)
		refused("what was removed and put again")
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
		l.started(1)
	})},
	// A used key takes the place of a new execution, and is no conflict.
	{"record_starts_nothing_twice", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		first := l.record(l.look(m, "a")).Executions[0].Execution
		l.OK(l.RemoveMonitor(l.Ctx(), "m"))
		r := l.look(l.put(monitorOf("m"), 0), "a")
		r.Executions[0].Params = json.RawMessage(`{"other":1}`)
		got := l.record(r)
		if !got.Done || len(got.Executions) != 1 || !got.Executions[0].Existed || got.Executions[0].Execution.ID != first.ID {
			l.Fatalf("recorded: %s", storekit.Text(got))
		}
		l.Same("execution", l.seen(monitor.SeenFilter{Monitor: "m"})[0].Execution, first.ID)
		l.started(1)
	})},
	// A record that can't be written changes nothing.
	{"record_whole_or_not_at_all", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		r := l.look(m, "a")
		bad := l.With(func(n *store.NewExecution) { n.Version = 7 })
		r.Executions = append(r.Executions, bad)
		_, err := l.RecordPoll(l.Ctx(), r)
		l.Is("of an unknown version", err, courier.ErrNotFound)
		l.Job("other")
		x := l.Add(l.New())[0]
		r.Executions[1] = l.With(func(n *store.NewExecution) { n.Job, n.ID = "other", x.ID })
		_, err = l.RecordPoll(l.Ctx(), r)
		l.Is("of an id of another job", err, courier.ErrConflict)
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
		l.Same("monitor", l.one("m"), m)
		l.started(1)
	})},
	{"record_replaces_and_removes_files", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		r := monitor.PollResult{Monitor: "m", Revision: m.Revision, Status: m.Status}
		for _, name := range []string{"a", "b", "c"} {
			r.Changed = append(r.Changed, monitor.SeenFile{Name: name, Size: 1, Since: someday, Appeared: 1})
		}
		r.Revision = l.record(r).Revision
		r.Changed = []monitor.SeenFile{{Name: "b", Size: 2, Since: someday.Add(time.Second), Appeared: 2}}
		r.Removed = []string{"c", "unknown"}
		l.record(r)
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), []monitor.SeenFile{{Name: "a", Size: 1, Since: someday, Appeared: 1}, r.Changed[0]})
	})},
	// Files come in byte order of their names, in pages.
	{"seen_by_name_in_pages", withMonitors(func(l *monitorKit) {
		m := l.put(monitorOf("m"), 0)
		l.put(monitorOf("n"), 0)
		r := monitor.PollResult{Monitor: "m", Revision: m.Revision, Status: m.Status}
		names := []string{"%", "' or 1=1", "B", "a", "a b", "b", "É"}
		for _, i := range []int{3, 1, 6, 0, 2, 5, 4} {
			r.Changed = append(r.Changed, monitor.SeenFile{Name: names[i], Since: someday, Appeared: 1})
		}
		l.record(r)
		var got []string
		for after := ""; ; {
			page := l.seen(monitor.SeenFilter{Monitor: "m", After: after, Limit: 3})
			if len(page) == 0 {
				break
			}
			for i := range page {
				got = append(got, page[i].Name)
			}
			after = got[len(got)-1]
		}
		l.Same("names", got, names)
		l.Same("of another", l.seen(monitor.SeenFilter{Monitor: "n"}), nil)
		l.Same("of none", l.seen(monitor.SeenFilter{Monitor: "unknown"}), nil)
	})},
	// Of concurrent records of one revision, one is written.
	{"many_record_the_same", withMonitors(func(l *monitorKit) {
		const looks = 10
		l.put(monitorOf("m"), 0)
		var done atomic.Int64
		l.At(8, func(i int) {
			for range looks {
				list, err := l.Monitors(l.Ctx(), monitor.Filter{Name: "m"})
				if err != nil || len(list) != 1 {
					l.Errorf("monitors: %v", err)
					return
				}
				r := l.look(list[0], fmt.Sprint(list[0].Revision))
				got, err := l.RecordPoll(l.Ctx(), r)
				if err != nil {
					l.Errorf("record: %v", err)
				}
				if got.Done {
					done.Add(1)
					if got.Executions[0].Existed {
						l.Error("recorded twice at one revision")
					}
				}
			}
		})
		if n := len(l.seen(monitor.SeenFilter{Monitor: "m"})); n != int(done.Load()) || n == 0 {
			l.Errorf("%d files are known, after %d records", n, done.Load())
		}
		l.started(int(done.Load()))
	})},
}
