package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// payroll is an expectation of the files that the monitor "m" of a tower sees.
func payroll() expectation.Expectation {
	return expectation.Expectation{
		Name: "payroll", From: expectation.From{Monitor: "m"}, Pattern: "PAY_{date:20060102}*.csv", DueSoon: "30m",
		Window: expectation.Window{From: "06:00", Until: "08:00", Grace: "15m"},
	}
}

// expect sets an expectation.
func (w *tower) expect(e expectation.Expectation) expectation.Saved {
	w.t.Helper()
	got, err := w.engines[0].Expectations().Set(w.t.Context(), e, courier.By{Actor: "ann"})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// until lets time pass until an instant of January 2000, in which the virtual clock begins.
func (w *tower) until(text string) {
	w.t.Helper()
	at, err := time.Parse("2006-01-02 15:04", "2000-01-"+text)
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// days are the arrivals of an expectation, the earliest first, such as "01 missing".
func (w *tower) days(name string) (list []string) {
	w.t.Helper()
	got, err := w.engines[0].Expectations().Arrivals(context.WithoutCancel(w.t.Context()), expectation.ArrivalFilter{Expectations: []string{name}})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range got {
		list = append(list, got[i].Date[8:]+" "+string(got[i].State))
	}
	slices.Reverse(list)
	return list
}

func (w *tower) wantDays(name string, want ...string) {
	w.t.Helper()
	if got := w.days(name); !slices.Equal(got, want) {
		w.t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// told are the notifications that wait for a subscription, such as "FileMissing payroll".
func (w *tower) told() (list []string) {
	w.t.Helper()
	got, err := w.engines[0].Subscriptions().Deliveries(context.WithoutCancel(w.t.Context()), notify.DeliveryFilter{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortStableFunc(got, func(a, b notify.Delivery) int { return a.At.Compare(b.At) })
	for i := range got {
		list = append(list, fmt.Sprintf("%s %s %s", got[i].At.Format("02 15:04"), got[i].Type, got[i].Expectation))
	}
	return list
}

var fileEvents = []courier.EventType{
	courier.EventFileDueSoon, courier.EventFileArrived, courier.EventFileIncomplete, courier.EventFileMissing, courier.EventFileLate, courier.EventFileUnexpected,
}

// subscribe keeps all events of expectations, which nobody delivers.
func (w *tower) subscribe() {
	w.t.Helper()
	if _, err := w.engines[0].Subscriptions().Set(w.t.Context(), notify.Subscription{Name: "ops", Kind: notify.KindFunc, Func: "nobody", Events: fileEvents}, courier.By{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestExpectation: a file that comes, one that comes too late, and one that does not come, as a
// monitor sees them.
func TestExpectation(t *testing.T) {
	inTower(t, 2, func(w *tower) {
		var seen []string
		stop := w.engines[0].Observe(func(e courier.Event) {
			if e.Type.OfExpectation() {
				seen = append(seen, fmt.Sprint(e.Type, " ", e.Expectation, ": ", e.Error))
			}
		})
		defer stop()
		w.subscribe()
		w.set(monitor.Monitor{})
		if got := w.expect(payroll()); got.Expectation.SavedAt.IsZero() || len(got.Warnings) != 0 {
			t.Errorf("%+v", got)
		}
		w.expect(payroll()) // the same
		w.start(0)
		w.until("01 07:00")
		w.shelf.put(5, "PAY_20000101_1.csv")
		w.until("01 12:00")
		w.wantDays("payroll", "01 arrived")
		w.until("02 07:45")
		w.wantDays("payroll", "01 arrived", "02 due_soon")
		w.until("02 09:00")
		w.wantDays("payroll", "01 arrived", "02 missing")
		w.shelf.put(5, "PAY_20000102.csv")
		w.until("02 09:05")
		w.wantDays("payroll", "01 arrived", "02 late")
		w.shelf.put(5, "PAY_19991224.csv")
		w.until("02 09:10")
		if _, err := w.engines[0].Expectations().Excuse(t.Context(), "payroll", "2000-01-03", courier.By{Actor: "ann", Reason: "closed today"}); err != nil {
			t.Fatal(err)
		}
		w.until("03 12:00")
		w.wantDays("payroll", "01 arrived", "02 late", "03 excused")
		w.stop(0)
		told := w.told()
		for i := range told {
			told[i] = told[i][9:]
		}
		if want := []string{"FileArrived payroll", "FileDueSoon payroll", "FileMissing payroll", "FileLate payroll", "FileUnexpected payroll"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", w.told(), want)
		}
		if len(seen) != 5 || !strings.HasPrefix(seen[2], `FileMissing payroll: expectation "payroll" on 2 January 2000: missing since 08:15`) ||
			!strings.Contains(seen[3], "late by 1h") || !strings.Contains(seen[4], "PAY_19991224.csv is of no day: there is no record of 24 December 1999") {
			t.Errorf("observed %q", seen)
		}
		list, err := w.engines[0].Journal(context.WithoutCancel(t.Context()), store.ActionFilter{Kind: "expectation"})
		if err != nil || len(list) != 2 || list[0].Verb != "excused" || list[0].Reason != "closed today" || string(list[0].Now) != `{"date":"2000-01-03"}` || list[0].By != "ann" {
			t.Errorf("%+v, %v", list, err)
		}
		e, err := w.engines[0].Expectations().Get(context.WithoutCancel(t.Context()), "payroll")
		if err != nil || e.Health.LookedAt.IsZero() || e.Health.MatchedAt.IsZero() || e.Health.Problem != "" {
			t.Errorf("%+v, %v", e.Health, err)
		}
	})
}

// receiving registers a step that receives a file.
func (w *tower) receiving() {
	courier.RegisterFunc(w.reg, "demo.receive", func(_ context.Context, job *courier.Context, cfg struct {
		Path string `json:"path"`
	}) (struct{}, error) {
		return struct{}{}, job.Files().ReportRemote(courier.File{Path: cfg.Path, Size: 7, Connection: "acme", Received: true})
	}, nil)
}

// TestExpectationOfAJob: files are matched from what steps have received.
func TestExpectationOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTower(t, memstore.New(), 1)
		w.receiving()
		w.defineJob(`{"name": "fetch", "params": {"path": null}, "steps": [{"type": "demo.receive", "config": {"path": "context:params.path"}}]}`)
		e := payroll()
		e.From, e.Pattern = expectation.From{Job: "fetch"}, "PAY_*.csv"
		w.expect(e)
		w.start(0)
		w.until("01 07:00")
		if _, err := w.engines[0].Enqueue(t.Context(), "fetch", &courier.EnqueueOptions{Params: map[string]any{"path": "/out/PAY_1.csv"}}); err != nil {
			t.Fatal(err)
		}
		w.until("01 07:05")
		w.wantDays("payroll", "01 arrived")
		w.until("02 09:00")
		w.wantDays("payroll", "01 arrived", "02 missing")
		w.stop(0)
	})
}

// TestExpectationOfAPath: an expectation that looks into a directory itself is polled as a monitor is,
// starts nothing, and says so while its partner is away. Its monitor comes and goes with it.
func TestExpectationOfAPath(t *testing.T) {
	inTower(t, 2, func(w *tower) {
		w.subscribe()
		e := payroll()
		e.From = expectation.From{Path: "/in/out", Every: "2m"}
		w.shelf.put(5, "PAY_19991231.csv", "PAY_20000101.csv") // which is there before its time
		w.expect(e)
		w.start(0)
		w.start(1)
		w.until("01 00:10")
		w.wantDays("payroll", "01 arrived")
		m, err := w.engines[1].Monitors().Get(t.Context(), monitor.LookName("payroll"))
		if err != nil || m.Expectation != "payroll" || m.Every != 2*time.Minute || m.Lister != "file" || m.Health.Files != 2 || m.Health.Triggered != 0 || m.State != monitor.Active {
			t.Errorf("%+v, %v", m, err)
		}
		w.until("02 07:00")
		if n := w.shelf.looks(); n < 900 || n > 1000 { // each two minutes for 31 hours
			t.Errorf("%d polls", n)
		}
		w.shelf.put(5, "PAY_20000102.csv", "other.csv")
		w.until("02 07:05")
		w.wantDays("payroll", "01 arrived", "02 arrived")
		w.shelf.fail(errors.New("connection refused"))
		w.until("03 07:00")
		list, err := w.engines[0].Expectations().Arrivals(t.Context(), expectation.ArrivalFilter{From: "2000-01-03", To: "2000-01-03"})
		if err != nil || len(list) != 1 || list[0].Words() != "expected from 06:00 to 08:00; nobody could look since 07:04 on 2 January: connection refused" {
			t.Errorf("%+v, %v", list, err)
		}
		w.until("03 09:00")
		w.wantDays("payroll", "01 arrived", "02 arrived", "03 missing")
		if m, err = w.engines[0].Monitors().Get(t.Context(), m.Name); err != nil || m.State != monitor.Failed {
			t.Errorf("%+v, %v", m, err)
		}
		w.shelf.put(5, "PAY_20000103.csv")
		w.shelf.fail(nil)
		w.shelf.touch("PAY_20000103.csv", time.Date(2000, 1, 3, 7, 30, 0, 0, time.UTC))
		if _, err := w.engines[0].Monitors().Acknowledge(t.Context(), m.Name, courier.By{}); err != nil {
			t.Error(err)
		}
		w.until("03 09:10") // its own time decides
		w.wantDays("payroll", "01 arrived", "02 arrived", "03 arrived")
		if err := w.engines[0].Monitors().Remove(t.Context(), m.Name, courier.By{}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `it belongs to expectation "payroll"`) {
			t.Errorf("%v", err)
		}
		m.Path = "/in/else"
		if _, err := w.engines[0].Monitors().Set(t.Context(), m, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "change the expectation instead") {
			t.Errorf("%v", err)
		}
		if m, err = w.engines[0].Monitors().Get(t.Context(), m.Name); err != nil {
			t.Fatal(err)
		}
		e.Count.Least = 1 // another definition, of the same files
		w.expect(e)
		if again, err := w.engines[0].Monitors().Get(t.Context(), m.Name); err != nil || !again.SavedAt.Equal(m.SavedAt) {
			t.Errorf("%+v, %v", again, err)
		}
		e.Disabled = true
		w.expect(e)
		if _, err := w.engines[0].Monitors().Get(t.Context(), m.Name); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%v", err)
		}
		e.Disabled = false
		w.expect(e)
		w.until("03 09:20")
		w.wantDays("payroll", "01 arrived", "02 arrived", "03 arrived")
		if err := w.engines[0].Expectations().Remove(t.Context(), "payroll", courier.By{}); err != nil {
			t.Error(err)
		}
		if list, err := w.engines[0].Monitors().List(t.Context(), monitor.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		w.stop(0)
		w.stop(1)
		told := w.told()
		for i := range told {
			told[i] = told[i][9:]
		}
		if want := []string{"FileArrived payroll", "FileArrived payroll", "FileDueSoon payroll", "FileMissing payroll", "FileArrived payroll"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", w.told(), want)
		}
	})
}

// TestLookOfUnknownConnection: the lister of a connection is found by the connection, and one that
// nobody knows, or nobody can list, is told with the nearest names.
func TestLookOfUnknownConnection(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		servers := func(ids ...string) sftp.Map {
			m := make(sftp.Map)
			for _, id := range ids {
				m[id] = sftp.Connection{Host: id}
			}
			return m
		}
		reg := new(courier.Registry)
		e := engine.New(s, reg, &engine.Options{Listers: map[string]courier.Lister{
			"file": file.NewLister([]string{"/srv"}, nil), "sftp": sftp.NewLister(servers("globex", "acme")), "inside": sftp.NewLister(servers("acme")),
		}})
		x := payroll()
		for want, from := range map[string]expectation.From{
			`inside: no such connection; known are acme; sftp: no such connection; did you mean "globex"?`:                                               {Connection: "globx", Path: "out"},
			`from.lister: inside and sftp can list connection "acme"; name one of them`:                                                                  {Connection: "acme", Path: "out"},
			`from.connection_id: no lister can list connection "globex": inside: no such connection`:                                                     {Connection: "globex", Path: "out", Lister: "inside"},
			`from.connection_id: no lister can list connection "globex": file: "globex" is given, but the directory is one of the machine; leave it out`: {Connection: "globex", Path: "out", Lister: "file"},
			`from.lister: this engine has no lister "sftpp"; did you mean "sftp"?`:                                                                       {Connection: "globex", Path: "out", Lister: "sftpp"},
			`from.path: path: "/etc" lies outside the allowed directories (allowed are /srv)`:                                                            {Path: "/etc"},
			`from.every: 10s is less than 30s, the least with the lister "sftp"`:                                                                         {Connection: "globex", Path: "out", Every: "10s"},
		} {
			x.From = from
			_, err := e.Expectations().Set(t.Context(), x, courier.By{})
			if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if problems, _, err := e.Expectations().Check(t.Context(), x, false); err != nil || len(problems) != 0 {
				t.Errorf("%v, %v: without listers", problems, err)
			}
		}
		x.From = expectation.From{Connection: "globex", Path: "out"}
		if _, err := e.Expectations().Set(t.Context(), x, courier.By{}); err != nil {
			t.Fatal(err)
		}
		m, err := e.Monitors().Get(t.Context(), monitor.LookName("payroll"))
		if err != nil || m.Lister != "sftp" || m.Connection != "globex" || !slices.Equal(m.Patterns, []string{"PAY_**.csv"}) {
			t.Errorf("%+v, %v", m, err)
		}
		bare := engine.New(s, reg, nil)
		if _, err := bare.Expectations().Set(t.Context(), payrollFrom(expectation.From{Connection: "x", Path: "out"}), courier.By{}); err == nil || !strings.Contains(err.Error(), "this engine has no listers") {
			t.Errorf("%v", err)
		}
	})
}

// payrollFrom is payroll of files from elsewhere.
func payrollFrom(f expectation.From) expectation.Expectation {
	e := payroll()
	e.Name, e.From = "other", f
	return e
}

// TestPatternThatMatchesNothing: an expectation says when no file has matched it for 30 days.
func TestPatternThatMatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		w := newTower(t, s, 1)
		w.receiving()
		w.defineJob(`{"name": "fetch", "params": {"path": null}, "steps": [{"type": "demo.receive", "config": {"path": "context:params.path"}}]}`)
		e := payroll()
		e.From, e.Pattern = expectation.From{Job: "fetch"}, "PAY_*.csv"
		w.expect(e)
		w.start(0)
		hint := func(want string) {
			t.Helper()
			got, err := w.engines[0].Expectations().Get(t.Context(), "payroll")
			if err != nil || got.Health.Hint != want {
				t.Errorf("%q, %v, want %q", got.Health.Hint, err, want)
			}
		}
		time.Sleep(time.Minute)
		s.Advance(30*24*time.Hour - 2*time.Minute)
		time.Sleep(time.Second)
		hint("")
		time.Sleep(time.Minute)
		hint("no file of the pattern PAY_*.csv was seen in 30 days; compare it with the names of the files that come")
		if _, err := w.engines[0].Enqueue(t.Context(), "fetch", &courier.EnqueueOptions{Params: map[string]any{"path": "/out/PAY_1.csv"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		hint("")
		w.stop(0)
	})
}

// TestBadExpectations: unknown names are told with the nearest ones, and what looks doubtful is a
// warning.
func TestBadExpectations(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		if _, err := e.Apply(ctx, definitionsOf(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		x := payroll()
		for want, change := range map[string]func(*expectation.Expectation){
			`from.monitor: there is no monitor "inn"; did you mean "in"?`: func(x *expectation.Expectation) { x.From.Monitor = "inn" },
			`from.job: there is no job "fetsh"; did you mean "fetch"?`:    func(x *expectation.Expectation) { x.From, x.Pattern = expectation.From{Job: "fetsh"}, "abc*" },
			`calendar: there is no calendar "week"; there are none`:       func(x *expectation.Expectation) { x.From.Monitor, x.Calendar = "in", "week" },
			`window: the window of one day, from 06:00 to 05:00 with grace`: func(x *expectation.Expectation) {
				x.From.Monitor, x.Window = "in", expectation.Window{From: "06:00", Until: "05:00", Grace: "2h"}
			},
			`pattern: "x" begins with a wildcard or a date; what steps of a job`: func(x *expectation.Expectation) { x.From, x.Pattern = expectation.From{Job: "fetch"}, "x" },
		} {
			bad := x
			change(&bad)
			if _, err := e.Expectations().Set(ctx, bad, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		x.From.Monitor, x.Window.From, x.Zone = "in", "02:30", "Europe/Berlin"
		got, err := e.Expectations().Set(ctx, x, courier.By{})
		if err != nil {
			t.Fatal(err)
		}
		var warnings []string
		for _, w := range got.Warnings {
			warnings = append(warnings, w.String())
		}
		if text := strings.Join(warnings, "\n"); len(warnings) != 2 || !strings.Contains(text, "02:30 does not exist on ") || !strings.Contains(text, "nobody is told if a file does not come") {
			t.Errorf("%q", warnings)
		}
		if _, err := e.Expectations().Get(ctx, "payrol"); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "payroll"?`) {
			t.Errorf("%v", err)
		}
		for reason, want := range map[string]error{"": courier.ErrInvalid, "closed": courier.ErrConflict} {
			if _, err := e.Expectations().Excuse(ctx, "payroll", "1999-01-01", courier.By{Reason: reason}); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if err := e.Expectations().Remove(ctx, "payroll", courier.By{}); err != nil {
			t.Error(err)
		}
		if list, err := e.Expectations().List(ctx, expectation.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestBundleWithExpectations: expectations are checked, applied and removed with the other
// definitions of a bundle, and a calendar that one goes by can't be removed.
func TestBundleWithExpectations(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		expected := `{"name": "payroll", "from": {"monitor": "in"}, "pattern": "PAY_*.csv", "window": {"from": "06:00", "until": "07:50", "grace": "20m"}, "calendar": "week"}`
		week := `{"name": "week", "weekend": ["saturday", "sunday"]}`
		b := engine.Check([]courier.Source{{Text: []byte(`[` + strings.Replace(expected, `"in"`, `"ni"`, 1) + `, {"name": "in", "path": "/in", "job": "send"}]`)}}, exampleRegistry(), nil)
		if err := b.Err(); err == nil || !strings.Contains(err.Error(), `there is no monitor "ni"; did you mean "in"?`) || !strings.Contains(err.Error(), `there is no calendar "week"`) {
			t.Errorf("%v", err)
		}
		looks := `{"name": "looks", "from": {"path": "/in/out"}, "pattern": "PAY_*.csv", "window": {"from": "06:00", "until": "07:50"}}`
		outside := engine.Check([]courier.Source{{Text: []byte(`[` + strings.Replace(looks, "/in", "/etc", 1) + `]`)}}, exampleRegistry(), &engine.Options{Listers: map[string]courier.Lister{"file": new(shelf)}})
		if err := outside.Err(); err == nil || !strings.Contains(err.Error(), `"/etc/out" is not below /in`) {
			t.Errorf("%v", err)
		}
		opt := &engine.ApplyOptions{Name: "files", Prune: true}
		first, err := e.Apply(ctx, definitionsOf(t, "a", expected, looks, week), opt)
		if err != nil || !strings.Contains(actions(first), "create expectation payroll") || !strings.Contains(actions(first), "create expectation looks") {
			t.Fatalf("%s, %v", actions(first), err)
		}
		if m, err := e.Monitors().Get(ctx, monitor.LookName("looks")); err != nil || m.Path != "/in/out" {
			t.Errorf("%+v, %v", m, err)
		}
		again, err := e.Apply(ctx, definitionsOf(t, "a", expected, looks, week), opt)
		if err != nil || again.Changes() {
			t.Errorf("%s, %v", actions(again), err)
		}
		if err := e.Calendars().Remove(ctx, "week", courier.By{}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `is used by expectation "payroll"`) {
			t.Errorf("%v", err)
		}
		last, err := e.Apply(ctx, definitionsOf(t, "a"), opt)
		if err != nil || !strings.Contains(actions(last), "remove expectation payroll") || !strings.Contains(actions(last), "remove calendar week") {
			t.Errorf("%s, %v", actions(last), err)
		}
		if _, err := e.Monitors().Get(ctx, monitor.LookName("looks")); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

// TestChangedCalendarOfAnExpectation: a day that is closed today is not missed.
func TestChangedCalendarOfAnExpectation(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.subscribe()
		w.set(monitor.Monitor{})
		week := calendar.Calendar{Name: "week", Weekend: []string{"saturday", "sunday"}} // 1 January 2000 is a Saturday
		set := func() {
			t.Helper()
			if _, err := w.engines[0].Calendars().Set(t.Context(), week, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		set()
		e := payroll()
		e.Calendar, e.DueSoon = "week", ""
		w.expect(e)
		w.start(0)
		w.until("03 05:00")
		w.wantDays("payroll", "03 upcoming")
		week.Closed = []calendar.Closing{{Date: "2000-01-03", Title: "Bank holiday"}}
		set()
		w.until("04 09:00")
		w.wantDays("payroll", "03 excused", "04 missing")
		w.stop(0)
		if told := w.told(); len(told) != 1 {
			t.Errorf("%q", told)
		}
	})
}

// TestExpectationsThroughRestarts: on several engines that are started and stopped at random, whose
// store fails for them now and then and whose clock jumps, each day has one record, no file counts for
// two days, and each event happens once.
func TestExpectationsThroughRestarts(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { tryRestarts(t, seed) })
	}
}

func tryRestarts(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(170_000_000+seed, 1))
		s := memstore.New()
		w := newTower(t, s, 3)
		var mu sync.Mutex
		broken := storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			mu.Lock()
			fate := r.IntN(20)
			mu.Unlock()
			if c.Method != "DueExpectations" && c.Method != "RecordLooks" {
				fate = 2
			}
			if fate == 0 {
				return errors.New("the network is down")
			}
			err := do(ctx)
			if fate == 1 && err == nil {
				return errors.New("the answer is lost")
			}
			return err
		})
		for i := range w.engines { // the store answers them not always
			w.store = broken
			w.engines[i] = w.engine(fmt.Sprint("w", i))
		}
		w.store = s
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return r.IntN(n)
		}
		w.subscribe()
		w.set(monitor.Monitor{Every: 5 * time.Minute})
		dated, plain, night := payroll(), payroll(), payroll()
		plain.Name, plain.Pattern, plain.Early = "plain", "rates_*.csv", "1h"
		night.Name, night.Pattern, night.Window, night.DueSoon = "night", "night_*.csv", expectation.Window{From: "22:00", Until: "02:00", Grace: "1h"}, ""
		for _, e := range []expectation.Expectation{dated, plain, night} {
			w.expect(e)
		}
		started := make([]bool, len(w.engines))
		for hour := range 24 * 6 {
			for i := range w.engines {
				switch {
				case !started[i] && draw(6) == 0:
					w.start(i)
					started[i] = true
				case started[i] && draw(8) == 0:
					w.stop(i)
					started[i] = false
				}
			}
			if draw(3) == 0 {
				day := s.Now().AddDate(0, 0, draw(3)-1).Format("20060102")
				w.shelf.put(int64(draw(3)), []string{"PAY_" + day + ".csv", fmt.Sprintf("rates_%d.csv", hour), fmt.Sprintf("night_%d.csv", hour)}[draw(3)])
			}
			if draw(10) == 0 {
				s.Advance(time.Duration(draw(7200)) * time.Second) // the clock is put forward
			}
			time.Sleep(time.Hour)
		}
		if !started[0] {
			w.start(0)
			started[0] = true
		}
		time.Sleep(2 * time.Hour)
		for i := range started {
			if started[i] {
				w.stop(i)
			}
		}
		if err := promise.CheckArrivals(context.WithoutCancel(t.Context()), s, s.Now(), nil); err != nil {
			t.Error(err)
		}
	})
}

var manyExpectations = flag.Int("many-expectations", 1500, "how many TestManyExpectations has")

// TestManyExpectations: a look is one statement for up to 1,000 expectations that are due, and one that
// writes the results.
func TestManyExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := *manyExpectations
		s := memstore.New()
		var mu sync.Mutex
		calls := make(map[string]int)
		w := newTower(t, s, 1)
		w.set(monitor.Monitor{})
		w.store = storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			mu.Lock()
			calls[c.Method]++
			mu.Unlock()
			return do(ctx)
		})
		w.engines[0] = w.engine("w")
		for i := range count {
			e := payroll()
			e.Name = fmt.Sprintf("e%05d", i)
			w.expect(e)
		}
		w.until("01 06:30")
		w.start(0)
		w.until("01 06:32")
		mu.Lock()
		clear(calls)
		mu.Unlock()
		w.until("01 06:42") // ten looks at each
		w.stop(0)
		mu.Lock()
		defer mu.Unlock()
		looks := 10 * ((count + 999) / 1000)
		if n := calls["DueExpectations"]; n < looks*3/4 || n > 2*looks || calls["RecordLooks"] > n || calls["RecordLooks"] < looks*3/4 {
			t.Errorf("%v", calls)
		}
		for _, method := range []string{"Arrivals", "Expectations", "PutExpectation", "SeenFiles", "Find", "Reports", "Load"} {
			if calls[method] > 0 {
				t.Errorf("%d calls of %s", calls[method], method)
			}
		}
	})
}

// TestCheckpointsDoNothingForExpectations: while a job runs whose files are expected, no call is made for
// that, whatever it receives: what it calls is what it calls without expectations.
func TestCheckpointsDoNothingForExpectations(t *testing.T) {
	run := func(count int) (calls map[string]int) {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			w := newTower(t, s, 1)
			var mu sync.Mutex
			calls = make(map[string]int)
			w.store = storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
				mu.Lock()
				calls[c.Method]++
				mu.Unlock()
				return do(ctx)
			})
			w.receiving()
			w.engines[0] = w.engine("w")
			steps := strings.Repeat(`{"type": "demo.receive", "config": {"path": "/out/PAY_1.csv"}},`, 50)
			w.defineJob(`{"name": "fetch", "steps": [` + strings.TrimSuffix(steps, ",") + `]}`)
			for i := range count {
				e := payroll()
				e.Name, e.From, e.Pattern = fmt.Sprint("e", i), expectation.From{Job: "fetch"}, "PAY_*.csv"
				w.expect(e)
			}
			w.start(0)
			time.Sleep(time.Second) // the first look at each
			synctest.Wait()
			mu.Lock()
			clear(calls)
			mu.Unlock()
			x, err := w.engines[0].Enqueue(t.Context(), "fetch", nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			mu.Lock()
			calls = maps.Clone(calls)
			mu.Unlock()
			if x, err = s.Execution(t.Context(), x.ID); err != nil || x.State != courier.Completed {
				t.Errorf("%s, %v", x.State, err)
			}
			w.stop(0)
		})
		return calls
	}
	without, with := run(0), run(100)
	if without["Apply"] < 50 || !maps.Equal(without, with) {
		t.Errorf("%v with expectations, %v without", with, without)
	}
}
