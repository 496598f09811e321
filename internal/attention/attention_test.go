package attention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A service has what an engine would answer.
type service struct {
	t             testing.TB
	incidents     []store.Incident
	queues        []store.QueueCensus
	stranded      []store.Stranded
	why           advice.Explanation
	kept, aside   []courier.Execution // those that keep files, and those that are held or paused
	lastBy        string              // in the audit of all executions
	schedules     []schedule.Schedule
	calendars     []calendar.Calendar
	monitors      []monitor.Monitor
	arrivals      []expectation.Arrival // the latest first
	expected      []expectation.Expectation
	subscriptions []notify.Subscription
	deliveries    []notify.Delivery
	journal       map[string][]store.Action // by name
	acknowledged  []store.Acknowledgement
	refused       []engine.RefusedWrite
	fails         map[string]error // by what is read
	sees          []string         // the jobs that the reader sees; nil means all
}

// read reads the list.
func (s *service) read() (attention.List, error) {
	return attention.Read(s.t.Context(), attention.Source{
		Executions: executions{s}, Schedules: schedules{s}, Calendars: calendars{s}, Monitors: monitors{s}, Subscriptions: subscriptions{s}, Expectations: expectations{s},
		Journal: func(_ context.Context, f store.ActionFilter) ([]store.Action, error) {
			return s.journal[f.Name], s.fails["journal"]
		},
		Refused: func() []engine.RefusedWrite { return s.refused },
	}, attention.Reader{
		Sees: func(job string) bool { return s.sees == nil || slices.Contains(s.sees, job) },
		Jobs: func() ([]string, error) { return s.sees, s.fails["jobs"] },
	})
}

// list is read without an error.
func (s *service) list() attention.List {
	s.t.Helper()
	got, err := s.read()
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// only returns the only entry.
func (s *service) only() attention.Entry {
	s.t.Helper()
	got := s.list()
	if len(got.Entries) != 1 {
		s.t.Fatalf("%d entries: %q", len(got.Entries), lines(got))
	}
	return got.Entries[0]
}

// lines are the entries as text: kind, count, and what is told apart.
func lines(l attention.List) (list []string) {
	for _, e := range l.Entries {
		words := slices.DeleteFunc([]string{e.Job, string(e.Reason), e.Queue, e.Name}, func(s string) bool { return s == "" })
		list = append(list, fmt.Sprintf("%s %d %s", e.Kind, e.Count, strings.Join(words, " ")))
	}
	return list
}

type (
	executions    struct{ *service }
	schedules     struct{ *service }
	calendars     struct{ *service }
	monitors      struct{ *service }
	subscriptions struct{ *service }
	expectations  struct{ *service }
)

func (s executions) Incidents(context.Context, int) (store.Incidents, error) {
	return store.Incidents{At: time.Now(), List: s.incidents}, s.fails["incidents"]
}

func (s executions) Census(context.Context, int) (store.Census, error) {
	return store.Census{At: time.Now(), Queues: s.queues, QueueCountLimit: 1000}, s.fails["census"]
}

func (s executions) Stranded(context.Context) ([]store.Stranded, error) {
	return s.stranded, s.fails["stranded"]
}

func (s executions) Explain(context.Context, courier.ExecutionID) (advice.Explanation, error) {
	return s.why, s.fails["explain"]
}

func (s executions) List(_ context.Context, f store.Filter) (list []courier.Execution, err error) {
	from := s.aside
	if f.Kept {
		from = s.kept
	}
	for _, x := range from {
		if len(list) < f.Limit && (len(f.Jobs) == 0 || slices.Contains(f.Jobs, x.Job)) {
			list = append(list, x)
		}
	}
	return list, s.fails["executions"]
}

func (s executions) AuditPage(context.Context, store.AuditFilter) ([]courier.AuditEntry, error) {
	return []courier.AuditEntry{{By: s.lastBy}}, s.fails["audit"]
}

func (s executions) Acknowledgements(context.Context) ([]store.Acknowledgement, error) {
	return s.acknowledged, s.fails["acknowledgements"]
}

func (s schedules) List(context.Context, schedule.Filter) ([]schedule.Schedule, error) {
	return s.schedules, s.fails["schedules"]
}

func (s calendars) List(context.Context, store.DefinitionFilter) ([]calendar.Calendar, error) {
	return s.calendars, s.fails["calendars"]
}

func (s schedules) Timetables(ctx context.Context) func(*schedule.Schedule) (*schedule.Timetable, error) {
	return schedule.New(schedule.Options{Calendar: func(_ context.Context, name string) (*calendar.Days, error) {
		for _, c := range s.calendars {
			if c.Name == name {
				return calendar.New(c)
			}
		}
		return nil, courier.Errorf(courier.ErrNotFound, "there is no calendar %q", name)
	}}).Timetables(ctx)
}

func (s expectations) Arrivals(_ context.Context, f expectation.ArrivalFilter) (list []expectation.Arrival, err error) {
	for _, a := range s.arrivals {
		if k := a.Kept(); f.Match(&k) && len(list) < f.Limit {
			list = append(list, a)
		}
	}
	return list, s.fails["arrivals"]
}

func (s monitors) List(context.Context, monitor.Filter) ([]monitor.Monitor, error) {
	return s.monitors, s.fails["monitors"]
}

func (s expectations) List(context.Context, expectation.Filter) ([]expectation.Expectation, error) {
	return s.expected, s.fails["expectations"]
}

func (s expectations) Told(context.Context) (func(string) bool, error) {
	return func(name string) bool { return name != "untold" }, s.fails["told"]
}

func (s subscriptions) List(context.Context, notify.Filter) ([]notify.Subscription, error) {
	return s.subscriptions, s.fails["subscriptions"]
}

func (s subscriptions) Deliveries(context.Context, notify.DeliveryFilter) ([]notify.Delivery, error) {
	return s.deliveries, s.fails["deliveries"]
}

// in runs f with a service, in virtual time.
func in(t *testing.T, f func(s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&service{t: t, fails: make(map[string]error)}) })
}

// ago is an instant so long ago.
func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// says reports an error unless a text has all words.
func (s *service) says(text string, words ...string) {
	s.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			s.t.Errorf("%q lacks %q", text, word)
		}
	}
}

// full gives the service one of each kind.
func (s *service) full() {
	old := ago(time.Hour)
	s.incidents = []store.Incident{
		{Kind: store.IncidentFailed, Execution: "f1", Job: "few", Since: old, Reason: courier.ReasonLogin, Version: 1, Latest: 1},
		{Kind: store.IncidentFailed, Execution: "f2", Job: "many", Since: old, Reason: courier.ReasonTimeout, Version: 1, Latest: 1},
		{Kind: store.IncidentFailed, Execution: "f3", Job: "many", Since: old, Reason: courier.ReasonTimeout, Version: 1, Latest: 1},
		{Kind: store.IncidentFailed, Execution: "f4", Job: "few", Since: old, SupersededBy: "f9"},
		{Kind: store.IncidentLost, Execution: "l", Job: "few", Queue: "default", Worker: "w", Since: old},
		{Kind: store.IncidentPausing, Execution: "p", Job: "few", Worker: "w", Since: old},
		{Kind: store.IncidentCancelling, Execution: "c", Job: "few", Worker: "w", Since: old},
		{Kind: store.IncidentOverdue, Execution: "o", Job: "few", Since: old, Reason: "expected_by"},
	}
	s.queues = []store.QueueCensus{{Queue: "default", Queued: 3, Oldest: "q", DueAt: old}}
	s.why = advice.Explanation{Because: []advice.Cause{{Text: "All slots are busy.", Do: "Wait.", Call: "Limits.Set"}}}
	s.stranded = []store.Stranded{{Reason: store.StrandedStepTypes, Queue: "default", Missing: []string{"a.b"}, Count: 2, Oldest: "q", Since: old}}
	s.kept = []courier.Execution{{ID: "k", Job: "few", Workspace: "disk", EndedAt: old, OnlyCopies: &courier.OnlyCopies{Count: 1, Bytes: 7, Files: []courier.File{{Path: "in/a.csv", Size: 7}}}}}
	s.aside = []courier.Execution{{ID: "h", Job: "few", State: courier.Created, UpdatedAt: old, By: "ann"}}
	day := func(name, date string, state expectation.State) expectation.Arrival {
		return expectation.Arrival{Expectation: name, Date: date, State: state, Zone: "UTC", Until: old, Ends: old}
	}
	s.arrivals = []expectation.Arrival{
		day("payroll", "2000-01-01", expectation.Missing), day("rates", "2000-01-01", expectation.DueSoon), day("payroll", "1999-12-31", expectation.Incomplete),
		day("payroll", "1999-12-30", expectation.Late), day("payroll", "1999-12-20", expectation.Missing),
	}
	s.arrivals[3].ArrivedAt = old
	s.expected = []expectation.Expectation{
		{Name: "gone", SavedAt: old, Health: expectation.Health{Problem: "there is no monitor"}}, {Name: "off", SavedAt: old, Disabled: true, Health: expectation.Health{Problem: "p", Hint: "h"}},
		{Name: "path", SavedAt: old, From: expectation.From{Path: "/out"}, Health: expectation.Health{Problem: "connection refused"}},
		{Name: "quiet", SavedAt: old, Health: expectation.Health{Hint: "no file"}}, {Name: "quieter", SavedAt: old, Health: expectation.Health{Hint: "no file"}}, {Name: "untold", SavedAt: old},
	}
	s.schedules = []schedule.Schedule{{Name: "late", Job: "few", NextFire: old}}
	s.monitors = []monitor.Monitor{{Name: "m", Job: "few", State: monitor.Degraded, Health: monitor.Health{Failures: 2, Problem: "no such directory"}}}
	s.subscriptions = []notify.Subscription{{Name: "off", Disabled: true, Reason: "the receiver answered 410"}}
	s.deliveries = []notify.Delivery{{Notification: notify.Notification{Subscription: "sub"}, DueAt: old, LastErr: "no route"}}
	s.refused = []engine.RefusedWrite{{Execution: "r", Job: "few", Since: old, Error: "no right"}}
}

// Of everything that an operator has to look at there is an entry, the most urgent first, with
// what can be done.
func TestEachKind(t *testing.T) {
	in(t, func(s *service) {
		if got := s.list(); len(got.Entries) != 0 || len(got.Missing) != 0 || got.At.IsZero() {
			t.Errorf("of nothing: %+v", got)
		}
		s.full()
		got := s.list()
		want := []string{
			"lost 1 few default w", "stopping 1 few w", "stopping 1 few w", "failed 2 many timeout", "failed 1 few login", "due 3 default", "overdue 1 few expected_by",
			"missing_file 1 payroll", "missing_file 1 payroll", "due_file 1 rates", "schedule 1 few late", "expectation 1 gone", "expectation 2 ", "expectation 1 untold", "monitor 2 few m", "delivery 1 sub", "subscription 1 off", "stranded 2 default", "refusal 1 few", "kept 1 few", "superseded 1 few", "put_away 1 few",
		}
		if list := lines(got); !slices.Equal(list, want) {
			t.Fatalf("%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
		}
		for _, e := range got.Entries {
			if e.Title == "" || e.Do == "" || e.Since.IsZero() && e.Kind != attention.Subscription && e.Kind != attention.Monitor && e.Kind != attention.DueFile {
				t.Errorf("incomplete: %+v", e)
			}
		}
		if due := got.Entries[5]; len(due.Because) != 1 || due.Do != "Wait." || due.Call != "Limits.Set" {
			t.Errorf("due: %+v", due)
		}
	})
}

// Files that are missing since somebody has disabled what fetches or finds them are not the sender's.
func TestMissingSinceDisabled(t *testing.T) {
	in(t, func(s *service) {
		s.arrivals = []expectation.Arrival{{Expectation: "ledger", Date: "2000-01-01", State: expectation.Missing, Zone: "UTC", Until: ago(time.Hour), Ends: ago(time.Hour)}}
		s.schedules = []schedule.Schedule{{Name: "nightly", Job: "fetch", Disabled: true, NextFire: ago(-time.Hour)}, {Name: "often", Job: "fetch", NextFire: ago(-time.Hour)}}
		s.monitors = []monitor.Monitor{{Name: "in", Job: "load", State: monitor.Paused}}
		const ask = "Ask the sender."
		for _, c := range []struct {
			from     expectation.From
			disabled bool
			want     string
		}{
			{expectation.From{Job: "fetch"}, false, ask}, // another schedule starts it
			{expectation.From{Job: "fetch"}, true, `The schedule "nightly" is disabled. It starts the job "fetch", which fetches the files: enable it first. ` + ask},
			{expectation.From{Job: "load"}, true, ask},
			{expectation.From{Monitor: "in"}, true, `The monitor "in" is paused. It looks for the files: enable it first. ` + ask},
			{expectation.From{Path: "/out"}, true, ask},
		} {
			s.expected = []expectation.Expectation{{Name: "ledger", From: c.from, SavedAt: ago(time.Hour)}}
			s.schedules[1].Disabled = c.disabled
			e := s.list().Entries[0]
			if e.Kind != attention.MissingFile || !strings.HasPrefix(e.Do, c.want) {
				t.Errorf("%+v, disabled %t: %s: %s, want %s", c.from, c.disabled, e.Kind, e.Do, c.want)
			}
		}
	})
}

// Who sees one job is told of what belongs to it, and of nothing that belongs to no job.
func TestOneJob(t *testing.T) {
	in(t, func(s *service) {
		s.full()
		s.sees = []string{"many"}
		s.aside = append(s.aside, courier.Execution{ID: "p", Job: "many", State: courier.Paused, UpdatedAt: ago(time.Hour)})
		if got := lines(s.list()); !slices.Equal(got, []string{"failed 2 many timeout", "put_away 1 many"}) {
			t.Errorf("%q", got)
		}
		s.sees = []string{"few"}
		s.stranded, s.queues = nil, nil
		for _, e := range s.list().Entries {
			if e.Job != "few" {
				t.Errorf("%+v", e)
			}
		}
		s.fails["jobs"] = errors.New("the server is down")
		if _, err := s.read(); !errors.Is(err, s.fails["jobs"]) {
			t.Errorf("without the jobs: %v", err)
		}
	})
}

// What has not lasted long enough is no entry.
func TestNotYet(t *testing.T) {
	for _, c := range []struct {
		what  string
		after time.Duration // the last instant without an entry
		is    func(s *service, since time.Time)
	}{
		{"lost", time.Minute, func(s *service, since time.Time) {
			s.incidents = []store.Incident{{Kind: store.IncidentLost, Since: since}}
		}},
		{"stopping", 5 * time.Minute, func(s *service, since time.Time) {
			s.incidents = []store.Incident{{Kind: store.IncidentPausing, Since: since}}
		}},
		{"due", 5 * time.Minute, func(s *service, since time.Time) {
			s.queues = []store.QueueCensus{{Queue: "q", Queued: 1, Oldest: "x", DueAt: since}}
		}},
		{"schedule", 90*time.Second + 1, func(s *service, since time.Time) {
			s.schedules = []schedule.Schedule{{Name: "s", NextFire: since, Jitter: 30 * time.Second}}
		}},
		{"monitor", 5*time.Minute + 1, func(s *service, since time.Time) {
			s.monitors = []monitor.Monitor{{Name: "m", State: monitor.Active, NextPoll: since}}
		}},
	} {
		in(t, func(s *service) {
			if c.is(s, ago(c.after-1)); len(s.list().Entries) != 0 {
				t.Errorf("%s: too early", c.what)
			}
			if c.is(s, ago(c.after)); string(s.only().Kind) != c.what {
				t.Errorf("%s: too late", c.what)
			}
		})
	}
}

// Parts of which more than a thousand were read say so.
func TestCut(t *testing.T) {
	in(t, func(s *service) {
		for i := range 1000 {
			s.incidents = append(s.incidents, store.Incident{Kind: store.IncidentFailed, Execution: courier.ExecutionID(fmt.Sprint(i)), Job: "j", Since: time.Now(), Version: 1, Latest: 1})
		}
		got := s.list()
		if e := got.Entries[0]; e.Count != 1000 || !e.More || !strings.Contains(e.Title, "1000 executions or more") || len(e.Executions) != 5 || len(got.Cut) != 1 {
			t.Errorf("%+v, %v", e, got.Cut)
		}
		s.sees = []string{"other"}
		if got := s.list(); len(got.Entries) != 0 || len(got.Cut) != 1 {
			t.Errorf("of a job of which none was read: %+v", got)
		}
	})
}

// What a store can't tell is left out, and its role named; that it fails is an error.
func TestRoles(t *testing.T) {
	in(t, func(s *service) {
		s.full()
		for _, what := range []string{"incidents", "census", "stranded", "schedules", "monitors", "deliveries", "arrivals", "expectations"} {
			s.fails[what] = fmt.Errorf("it has none: %w", errors.ErrUnsupported)
		}
		got := s.list()
		if want := []string{"store.Overview", "schedule.Store", "monitor.Store", "store.Workers", "notify.Store", "expectation.Store"}; !slices.Equal(got.Missing, want) {
			t.Errorf("missing: %q", got.Missing)
		}
		if got := lines(got); !slices.Equal(got, []string{"refusal 1 few", "kept 1 few", "put_away 1 few"}) {
			t.Errorf("%q", got)
		}
		for _, what := range []string{"incidents", "census", "stranded", "schedules", "monitors", "deliveries", "subscriptions", "executions", "arrivals", "expectations", "told"} {
			down := errors.New("the server is down")
			s.fails = map[string]error{what: down}
			if got, err := s.read(); !errors.Is(err, down) || len(got.Entries) != 0 {
				t.Errorf("without %s: %+v, %v", what, got, err)
			}
		}
		s.fails = map[string]error{"explain": errors.New("it was removed")}
		if e := s.list().Entries[5]; e.Kind != attention.Due || e.Call != "Executions.Explain" {
			t.Errorf("of what can't be explained: %+v", e)
		}
	})
}
