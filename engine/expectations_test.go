package engine_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
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

// TestExpectationOfAJob: files are matched from what steps have received.
func TestExpectationOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTower(t, memstore.New(), 1)
		courier.RegisterFunc(w.reg, "demo.receive", func(_ context.Context, job *courier.Context, cfg struct {
			Path string `json:"path"`
		}) (struct{}, error) {
			return struct{}{}, job.Files().ReportRemote(courier.File{Path: cfg.Path, Size: 7, Connection: "acme", Received: true})
		}, nil)
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
		opt := &engine.ApplyOptions{Name: "files", Prune: true}
		first, err := e.Apply(ctx, definitionsOf(t, "a", expected, week), opt)
		if err != nil || !strings.Contains(actions(first), "create expectation payroll") {
			t.Fatalf("%s, %v", actions(first), err)
		}
		again, err := e.Apply(ctx, definitionsOf(t, "a", expected, week), opt)
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
		checkArrivals(t, w, s.Now())
	})
}

// checkArrivals checks all records and what subscribers are told.
func checkArrivals(t *testing.T, w *tower, now time.Time) {
	ctx := context.WithoutCancel(t.Context())
	deliveries, err := w.engines[0].Subscriptions().Deliveries(ctx, notify.DeliveryFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]int)
	for i := range deliveries {
		told[deliveries[i].ID]++
	}
	n := 0
	for _, name := range []string{"payroll", "plain", "night"} {
		list, err := w.engines[0].Expectations().Arrivals(ctx, expectation.ArrivalFilter{Expectations: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(list)
		counted := make(map[string]string)
		for i := range list {
			a := &list[i]
			if i > 0 && a.Day() <= list[i-1].Day() || i > 0 && a.Day() > list[i-1].Day()+1 && a.Opens.Before(now) {
				t.Errorf("%s: %s follows %s", name, a.Date, list[i-1].Date)
			}
			for _, f := range a.Files {
				key := fmt.Sprint(f.Name, f.Appeared, f.Size, f.ModifiedAt)
				if counted[key] != "" {
					t.Errorf("%s: %s counts for %s and %s", name, f.Name, counted[key], a.Date)
				}
				counted[key] = a.Date
			}
			if a.Ends.Before(now.Add(-time.Hour)) && a.DecidedAt.IsZero() {
				t.Errorf("%s: %s is not decided: %s", name, a.Date, a.State)
			}
			for seq := range a.Events {
				n++
				if id := notify.EventID(courier.ExecutionID(a.ID), int64(seq+1)); told[id] != 1 {
					t.Errorf("%s: %s of %s was told %d times", name, a.Events[seq], a.Date, told[id])
				}
			}
			want := map[expectation.State]courier.EventType{
				expectation.Missing: courier.EventFileMissing, expectation.Incomplete: courier.EventFileIncomplete, expectation.Late: courier.EventFileLate, expectation.Arrived: courier.EventFileArrived,
			}[a.State]
			if want != "" && !slices.Contains(a.Events, want) {
				t.Errorf("%s: %s is %s, and has only the events %v", name, a.Date, a.State, a.Events)
			}
		}
		if first, last := list[0].Day(), list[len(list)-1].Day(); last < calendar.DateOf(now.UTC())-1 || first > calendar.DateOf(list[0].Opens)+1 {
			t.Errorf("%s: from %s to %s, now %v", name, first, last, now)
		}
	}
	for i := range deliveries {
		if deliveries[i].Type == courier.EventFileUnexpected {
			n++
		}
	}
	if n != len(deliveries) {
		t.Errorf("%d events, and %d were told", n, len(deliveries))
	}
}

// TestManyExpectations: a look is one statement for all expectations that are due, and one that writes
// the results.
func TestManyExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 1500
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
			e.Name = fmt.Sprintf("e%04d", i)
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
		if n := calls["DueExpectations"]; n < 15 || n > 40 || calls["RecordLooks"] > n || calls["RecordLooks"] < 15 {
			t.Errorf("%v", calls)
		}
		for _, method := range []string{"Arrivals", "Expectations", "PutExpectation", "SeenFiles", "Find", "Reports", "Load"} {
			if calls[method] > 0 {
				t.Errorf("%d calls of %s", calls[method], method)
			}
		}
	})
}
