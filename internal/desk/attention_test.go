package desk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func (w *world) attention() attention.List {
	w.Helper()
	got, err := w.ann().Attention(w.Context())
	w.ok(err)
	return got
}

// lines are the entries as text: kind, count, and what is told apart.
func lines(a attention.List) (list []string) {
	for _, e := range a.Entries {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d %s", e.Kind, e.Count, strings.Join(slices.DeleteFunc([]string{e.Job, e.StepID, string(e.Reason), e.Queue, e.Name}, func(s string) bool { return s == "" }), " "))))
	}
	return list
}

// TestAttention has one of everything that somebody must look at, besides what nobody must:
// it comes in the order of urgency, grouped, each with what can be done.
func TestAttention(t *testing.T) {
	in(t, func(w *world) {
		if got := w.attention(); len(got.Entries) != 0 || len(got.Missing) != 0 || got.At.IsZero() {
			t.Errorf("of nothing: %+v", got)
		}
		params := func(day string) courier.EnqueueOptions {
			return courier.EnqueueOptions{Params: map[string]any{"day": day}}
		}
		w.define(courier.Job{Name: "slow", MaxDuration: time.Minute, Steps: []courier.StepSpec{{Type: "demo.a"}}})
		w.define(courier.Job{Name: "odd", Queue: "nigth", Steps: []courier.StepSpec{{Type: "demo.a"}}})
		slow := w.add("slow", courier.EnqueueOptions{Hold: true})
		odd := w.add("odd", courier.EnqueueOptions{})
		lost := w.add("other", courier.EnqueueOptions{})
		w.claim(time.Second, lost)
		stuck := w.add("other", courier.EnqueueOptions{})
		w.claim(time.Hour, stuck)
		_, err := w.Engine.Cancel(w.Context(), stuck, &courier.CancelOptions{By: courier.By{Actor: "ann", Reason: "wrong day"}})
		w.ok(err)
		first := w.add("daily-a", params("1"))
		w.end(courier.Failed, courier.ReasonTimeout, first)
		time.Sleep(time.Second)
		for day := range 3 {
			w.end(courier.Failed, courier.ReasonLogin, w.add("daily-b", params(fmt.Sprint(day))))
		}
		second := w.add("daily-a", params("2"))
		w.end(courier.Failed, courier.ReasonTimeout, second)
		gone := w.add("daily-b", params("9"))
		w.end(courier.Failed, courier.ReasonLogin, gone)
		w.end(courier.Completed, "", w.add("daily-b", params("9")))
		_, err = w.Engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "late", Job: "other", Every: 6 * time.Minute}, courier.By{})
		w.ok(err)
		w.ok(w.Store.PutSubscription(w.Context(), notify.Record{
			Name: "s", Channel: "webhook", Events: []courier.EventType{courier.EventJobFailed}, Disabled: true, Reason: "the receiver answered 410",
			Body: []byte(`{"name":"s","kind":"webhook","events":["JobFailed"]}`),
		}))
		w.ok(w.Store.PutSubscription(w.Context(), notify.Record{Name: "by a person", Channel: "webhook", Disabled: true, Body: []byte(`{"name":"by a person","kind":"webhook"}`)}))
		_, err = w.Store.PutMonitor(w.Context(), monitor.Put{Record: monitor.Record{
			Name: "m", Lister: "file", Kind: store.Job, Target: "other", Body: []byte(`{"name":"m","path":"/in","job":"other"}`),
			Status: monitor.Status{State: monitor.Degraded, Health: []byte(`{"failures":2,"problem":"no such directory"}`)},
		}, After: time.Hour})
		w.ok(err)
		time.Sleep(10 * time.Minute)
		_, err = w.Store.Overdue(w.Context(), 0)
		w.ok(err)
		_, err = w.Store.Claim(w.Context(), store.ClaimRequest{Worker: "other", StepTypes: []string{"demo.a"}, Queues: []string{"night"}, Max: 1, Lease: time.Hour})
		w.ok(err)

		got := w.attention()
		want := []string{
			"lost 1 other default w", "stopping 1 other default w", "failed 3 daily-b get login default", "failed 2 daily-a get timeout default",
			"due 1 nigth", "overdue 1 slow max_duration default", "schedule 1 other late", "monitor 2 other m", "subscription 1 s", "stranded 1 nigth",
			"stranded 1 default", "superseded 1 daily-b", "put_away 1 by a person", "put_away 1 slow",
		}
		if list := lines(got); !slices.Equal(list, want) {
			t.Fatalf("%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
		}
		of := make(map[string]*attention.Entry)
		for i := range got.Entries {
			e := &got.Entries[i]
			if of[want[i]] = e; e.Title == "" || e.Do == "" || e.Since.IsZero() && e.Kind != attention.Subscription && e.Kind != attention.Monitor && e.Name != "by a person" {
				t.Errorf("incomplete: %+v", e)
			}
		}
		for line, ids := range map[string][]courier.ExecutionID{
			want[0]: {lost}, want[1]: {stuck}, want[3]: {second, first}, want[4]: {odd}, want[5]: {slow}, want[11]: {gone},
		} {
			if !slices.Equal(of[line].Executions, ids) {
				t.Errorf("%s: executions %v, want %v", line, of[line].Executions, ids)
			}
		}
		f := of[want[3]]
		if x, err := w.Engine.Executions().Get(w.Context(), first); err != nil || !f.Since.Equal(x.EndedAt) || f.Message != "it is timeout" || *f.Step != 0 || f.StepType != "demo.a" {
			t.Errorf("failed: %+v, %v", f, err)
		}
		if f.Title != `Job "daily-a": 2 executions failed at step 0 "get" (demo.a): it took too long.` || f.Call != "Engine.Resume" {
			t.Errorf("%q, %q", f.Title, f.Call)
		}
		if d := of[want[4]]; len(d.Because) != 1 || d.Because[0].Kind != advice.NoWorker || d.Do != d.Because[0].Do || !strings.Contains(d.Because[0].Text, `did you mean "night"`) && !strings.Contains(d.Because[0].Text, `Did you mean "night"`) {
			t.Errorf("due: %+v", d)
		}
		if m := of[want[7]]; m.Message != "no such directory" {
			t.Errorf("monitor: %+v", m)
		}

		// What is done about it is gone.
		_, err = w.ann().Bulk(w.Context(), bulk.Request{Action: bulk.Cancel, IDs: of[want[11]].Executions})
		w.ok(err)
		_, err = w.ann().Bulk(w.Context(), bulk.Request{Action: bulk.Resume, Where: w.where("state:failed")})
		w.ok(err)
		for _, e := range w.attention().Entries {
			if e.Kind == attention.Failed || e.Kind == attention.Superseded {
				t.Errorf("after it was mended: %+v", e)
			}
		}
	})
}

// Roles are embedded under names that are not those of other fields.
type (
	schedules     = schedule.Store
	monitors      = monitor.Store
	subscriptions = notify.Store
	expectations  = expectation.Store
)

// A counted store has the roles of a memory store, and counts the calls that read.
type counted struct {
	store.Store
	store.Overview
	schedules
	monitors
	subscriptions
	expectations
	store.Workers
	calls []string
}

func (s *counted) note(name string) { s.calls = append(s.calls, name) }

func (s *counted) Executions(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	s.note("Executions")
	return s.Store.Executions(ctx, f)
}

func (s *counted) Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	s.note("Execution")
	return s.Store.Execution(ctx, id)
}

func (s *counted) Incidents(ctx context.Context, n int) (store.Incidents, error) {
	s.note("Incidents")
	return s.Overview.Incidents(ctx, n)
}

func (s *counted) Census(ctx context.Context, n int) (store.Census, error) {
	s.note("Census")
	return s.Overview.Census(ctx, n)
}

func (s *counted) Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (store.Circumstances, error) {
	s.note("Circumstances")
	return s.Overview.Circumstances(ctx, id, age)
}

func (s *counted) Stranded(ctx context.Context, age time.Duration) ([]store.Stranded, error) {
	s.note("Stranded")
	return s.Workers.Stranded(ctx, age)
}

type counter struct{ *counted }

func (s counter) Schedules(ctx context.Context, f schedule.Filter) (schedule.List, error) {
	s.note("Schedules")
	return s.counted.schedules.Schedules(ctx, f)
}

func (s counter) Monitors(ctx context.Context, f monitor.Filter) ([]monitor.Record, error) {
	s.note("Monitors")
	return s.counted.monitors.Monitors(ctx, f)
}

func (s counter) Expectations(ctx context.Context, f expectation.Filter) (expectation.List, error) {
	s.note("Expectations")
	return s.expectations.Expectations(ctx, f)
}

func (s counter) Arrivals(ctx context.Context, f expectation.ArrivalFilter) ([]expectation.Kept, error) {
	s.note("Arrivals")
	return s.counted.expectations.Arrivals(ctx, f)
}

func (s counter) Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error) {
	s.note("Deliveries")
	return s.subscriptions.Deliveries(ctx, f)
}

func (s counter) Subscriptions(ctx context.Context, f notify.Filter) ([]notify.Record, error) {
	s.note("Subscriptions")
	return s.subscriptions.Subscriptions(ctx, f)
}

func (s counter) Workers(ctx context.Context, age time.Duration) ([]store.Worker, error) {
	s.note("Workers")
	return s.counted.Workers.Workers(ctx, age)
}

// TestAttentionReadsLittle counts the calls of the store, with 100 queues, failed jobs and
// schedules.
func TestAttentionReadsLittle(t *testing.T) {
	in(t, func(w *world) {
		for i := range 100 {
			name := fmt.Sprintf("job-%d", i)
			w.define(courier.Job{Name: name, Queue: "q" + name, Steps: []courier.StepSpec{{Type: "demo.a"}}})
			w.add(name, courier.EnqueueOptions{})
			_, err := w.Engine.Schedules().Set(w.Context(), schedule.Schedule{Name: name, Job: name, Every: time.Minute}, courier.By{})
			w.ok(err)
		}
		w.end(courier.Failed, courier.ReasonError, w.many(100, "other", courier.EnqueueOptions{})...)
		time.Sleep(10 * time.Minute)
		_, err := w.Store.Claim(w.Context(), store.ClaimRequest{Worker: "other", StepTypes: []string{"demo.b"}, Queues: []string{"qjob-0"}, Max: 1, Lease: time.Hour})
		w.ok(err)
		s := &counted{Store: w.Store, Overview: w.Store, schedules: w.Store, monitors: w.Store, subscriptions: w.Store, expectations: w.Store, Workers: w.Store}
		w.desk = desk.New(engine.New(counter{s}, nil, nil), nil)
		got := w.attention()
		if len(got.Entries) != 301 || len(got.Missing) != 0 {
			t.Errorf("%d entries, missing %v: %v", len(got.Entries), got.Missing, lines(got))
		}
		slices.Sort(s.calls)
		if want := []string{"Census", "Circumstances", "Deliveries", "Executions", "Executions", "Expectations", "Incidents", "Monitors", "Schedules", "Stranded", "Subscriptions"}; !slices.Equal(s.calls, want) {
			t.Errorf("calls %v", s.calls)
		}
	})
}

// TestAttentionWithoutRoles leaves out what the store can't tell, and names the roles.
func TestAttentionWithoutRoles(t *testing.T) {
	in(t, func(w *world) {
		w.end(courier.Failed, courier.ReasonError, w.add("other", courier.EnqueueOptions{}))
		w.desk = desk.New(engine.New(struct{ store.Store }{w.Store}, nil, nil), nil)
		got := w.attention()
		if want := []string{"store.Overview", "schedule.Store", "monitor.Store", "store.Workers", "notify.Store", "expectation.Store"}; !slices.Equal(got.Missing, want) || len(got.Entries) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A statementCounter counts the statements that a pool sends.
type statementCounter struct{ n int }

func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if strings.Contains(d.SQL, "courier") || strings.Contains(d.SQL, "select") {
		c.n++
	}
	return ctx
}

func (*statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAttentionOnPostgres counts the statements, also those of a process that knows nothing
// yet.
func TestAttentionOnPostgres(t *testing.T) {
	u := pgtest.URL(t)
	statements := new(statementCounter)
	open := func(tracer pgx.QueryTracer) *pgstore.Store {
		config, err := pgxpool.ParseConfig(u)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.Tracer = tracer
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pgstoretest.On(t, pool, &pgstore.Options{PollOnly: true})
	}
	s := open(nil)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.a", func(context.Context, *courier.Context, struct{}) (none struct{}, err error) { return none, nil }, nil)
	e := engine.New(s, reg, nil)
	for i := range 5 {
		name := fmt.Sprintf("job-%d", i)
		if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: name, Queue: name, Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Enqueue(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "update courier.job_executions set due_at = due_at - interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	// Why an execution does not begin is asked only if a worker serves its queue.
	_, err = pool.Exec(t.Context(), `insert into courier.workers (name, workspace, queues, step_types, slots, version, seen_at, draining)
		values ('served', '', '{job-4}', '{demo.a}', 64, '', now(), false)`)
	if err != nil {
		t.Fatal(err)
	}
	d := desk.New(engine.New(open(statements), nil, nil), nil)
	for _, when := range []string{"at first", "afterwards"} {
		statements.n = 0
		got, err := d.Visitor(access.Principal{ID: "ann"}).Attention(t.Context())
		if err != nil || len(got.Missing) > 0 || len(lines(got)) != 9 || len(got.Entries[0].Because) == 0 {
			t.Fatalf("%v, %+v, %v", err, got, lines(got))
		}
		if t.Logf("%s: %d statements", when, statements.n); statements.n > 14 || statements.n < 5 {
			t.Errorf("%s: %d statements", when, statements.n)
		}
	}
}

// A failed execution of a job that was edited since is led to the newer version.
func TestAttentionNewerVersion(t *testing.T) {
	in(t, func(w *world) {
		w.end(courier.Failed, courier.ReasonSecret, w.add("other", courier.EnqueueOptions{}))
		for version := range 2 {
			if got := w.attention(); len(got.Entries) != 1 || got.Entries[0].Version != 2*version {
				t.Errorf("after %d changes: %+v", version, got.Entries)
			}
			w.define(courier.Job{Name: "other", Queue: "night", Steps: []courier.StepSpec{{Type: "demo.a"}}})
		}
	})
}
