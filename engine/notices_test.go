package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// A mailbox is a subscriber that keeps what it is told.
type mailbox struct {
	mu   sync.Mutex
	list []notify.Notification
	at   []time.Time
	fail func(notify.Notification) error // nil: everything is accepted
}

func (m *mailbox) take(_ context.Context, n notify.Notification) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.at = append(m.list, n), append(m.at, time.Now())
	if m.fail != nil {
		return m.fail(n)
	}
	return nil
}

func (m *mailbox) got() []notify.Notification {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]notify.Notification(nil), m.list...)
}

// told starts an engine on s that has the mailbox as function "box".
func told(t *testing.T, s store.Store, m *mailbox, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	opt := &engine.Options{
		Workspace: t.TempDir(), WorkspaceID: "here",
		Subscribers: map[string]func(context.Context, notify.Notification) error{"box": m.take},
	}
	if change != nil {
		change(opt)
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.step", func(_ context.Context, _ *courier.Context, c struct {
		Fail string `json:"fail"`
	}) (struct{}, error) {
		if c.Fail != "" {
			return struct{}{}, courier.Permanent(errors.New(c.Fail))
		}
		return struct{}{}, nil
	}, nil)
	e := engine.New(s, reg, opt)
	for name, fail := range map[string]string{"good": "", "bad": "it broke"} {
		job := courier.Job{Name: name, Steps: []courier.StepSpec{{ID: "only", Type: "test.step", Config: map[string]any{"fail": fail}}}}
		if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

// subscribe saves a subscription of the mailbox.
func subscribe(t *testing.T, e *engine.Engine, change func(*notify.Subscription)) notify.Subscription {
	t.Helper()
	s := notify.Subscription{
		Name: "sub", Kind: notify.KindFunc, Func: "box",
		Events: []courier.EventType{courier.EventJobCompleted, courier.EventJobFailed},
	}
	if change != nil {
		change(&s)
	}
	got, err := e.Subscriptions().Set(t.Context(), s, courier.By{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Subscription
}

// left returns the notifications that have not been delivered.
func left(t *testing.T, e *engine.Engine) []notify.Delivery {
	t.Helper()
	list, err := e.Subscriptions().Deliveries(t.Context(), notify.DeliveryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func enqueued(t *testing.T, e *engine.Engine, job string) courier.Execution {
	t.Helper()
	x, err := e.Enqueue(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSubscriberIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		e := told(t, memstore.New(), &m, nil)
		subscribe(t, e, nil)
		good, bad := enqueued(t, e, "good"), enqueued(t, e, "bad")
		time.Sleep(time.Second)
		got := m.got()
		if len(got) != 2 {
			t.Fatalf("told %d times, want 2: %+v", len(got), got)
		}
		for _, n := range got {
			switch n.Type {
			case courier.EventJobCompleted:
				if n.Execution != good.ID || n.Job != "good" || n.Error != "" || n.Count != 1 || n.Subscription != "sub" {
					t.Errorf("completion: %+v", n)
				}
			case courier.EventJobFailed:
				if n.Execution != bad.ID || n.Job != "bad" || n.Error != "it broke" || n.Version != 1 {
					t.Errorf("failure: %+v", n)
				}
			}
		}
		list, err := e.Subscriptions().Deliveries(t.Context(), notify.DeliveryFilter{})
		if err != nil || len(list) != 0 {
			t.Errorf("left over: %+v, %v", list, err)
		}
	})
}

// TestDeliveryAfterLostReplies has each call of the outbox fail before or after
// its effect, or the whole engine die there: whoever comes next delivers, and
// nothing is lost.
func TestDeliveryAfterLostReplies(t *testing.T) {
	for _, method := range []string{"DueDeliveries", "RecordDeliveries"} {
		for _, kind := range storewrap.FaultKinds {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprint(method, n, kind), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := memstore.New()
						f := storewrap.NewFaulty(s, storewrap.Fault{Kind: kind, N: n, Method: method})
						var m mailbox
						first := told(t, f, &m, func(o *engine.Options) { o.Worker = "first"; o.Poll = time.Hour })
						subscribe(t, first, func(s *notify.Subscription) { s.Events = []courier.EventType{courier.EventJobCompleted} })
						second := told(t, s, &m, func(o *engine.Options) { o.Worker = "second" })
						var want []courier.ExecutionID
						for range 4 {
							want = append(want, enqueued(t, second, "good").ID)
							time.Sleep(2 * time.Second)
						}
						time.Sleep(10 * time.Minute)
						f.Release()
						times := make(map[courier.ExecutionID]int)
						for _, n := range m.got() {
							times[n.Execution]++
						}
						for _, id := range want {
							if times[id] == 0 {
								t.Errorf("nobody was told of %s", id)
							}
						}
						if list := left(t, second); len(list) != 0 {
							t.Errorf("left over: %+v", list)
						}
					})
				})
			}
		}
	}
}

// TestDeliveryOfManyEngines stops engines while others go on, with a receiver
// that refuses now and then: nothing is lost.
func TestDeliveryOfManyEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var m mailbox
		refused := make(map[string]int)
		m.fail = func(n notify.Notification) error {
			if refused[n.ID] < 2 && rand.IntN(4) == 0 {
				refused[n.ID]++
				return errors.New("chance")
			}
			return nil
		}
		var engines []*engine.Engine
		for i := range 4 {
			engines = append(engines, told(t, s, &m, func(o *engine.Options) { o.Worker = fmt.Sprint("worker", i) }))
		}
		subscribe(t, engines[0], nil)
		if err := engines[0].Limits().Set(t.Context(), "", 0, courier.By{}); err != nil {
			t.Fatal(err)
		}
		want := make(map[courier.ExecutionID]bool)
		for i := range 200 {
			want[enqueued(t, engines[i%4], []string{"good", "bad"}[i%2]).ID] = true
			time.Sleep(20 * time.Millisecond)
			if i%50 == 49 && i/50 < 3 {
				if err := engines[i/50].Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Hour)
		for _, n := range m.got() {
			delete(want, n.Execution)
		}
		if list := left(t, engines[0]); len(want) != 0 || len(list) != 0 {
			t.Errorf("nobody was told of %d; left over %+v", len(want), list)
		}
	})
}

// TestStopReturnsDeliveries shows that a stop waits for a delivery under way,
// but not for ever, and that one it interrupts does not count.
func TestStopReturnsDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		reg := new(courier.Registry)
		entered, heard := 0, 0
		sub := func(ctx context.Context, _ notify.Notification) error {
			if entered++; entered == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			heard++
			return nil
		}
		opt := &engine.Options{Workspace: t.TempDir(), WorkspaceID: "here", Subscribers: map[string]func(context.Context, notify.Notification) error{"box": sub}}
		e := engine.New(s, reg, opt)
		var m mailbox
		other := told(t, s, &m, func(o *engine.Options) { o.Subscribers = nil })
		subscribe(t, other, nil)
		enqueued(t, other, "good")
		time.Sleep(time.Second)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		begun := time.Now()
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 7*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if list := left(t, other); len(list) != 1 || list[0].Attempts != 0 {
			t.Errorf("after the stop %+v, want one without attempts", list)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if heard != 1 || len(left(t, other)) != 0 {
			t.Errorf("heard %d times, left %+v", heard, left(t, other))
		}
	})
}

// TestIdleEnginesAskSeldom counts the calls of an engine with nothing to do.
func TestIdleEnginesAskSeldom(t *testing.T) {
	for subscribed, most := range map[bool]int64{false: 2, true: 21} {
		synctest.Test(t, func(t *testing.T) {
			var takes atomic.Int64
			s := storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
				if c.Method == "DueDeliveries" {
					takes.Add(1)
				}
				return do(ctx)
			})
			var m mailbox
			e := told(t, s, &m, nil)
			if subscribed {
				subscribe(t, e, nil)
			}
			time.Sleep(5 * time.Minute)
			takes.Store(0)
			time.Sleep(10 * time.Minute)
			if n := takes.Load(); n > most {
				t.Errorf("subscribed %v: %d calls in ten idle minutes, want at most %d", subscribed, n, most)
			}
		})
	}
}

// bare is a store without further roles.
type bare struct{ store.Store }

func TestStoreWithoutOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		e := told(t, bare{memstore.New()}, &m, nil)
		_, err := e.Subscriptions().Set(t.Context(), notify.Subscription{Name: "sub"}, courier.By{})
		for _, err := range []error{err, e.Subscriptions().Remove(t.Context(), "sub", courier.By{})} {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "notify.Store") {
				t.Errorf("error %v, want one that names what is missing", err)
			}
		}
		x := enqueued(t, e, "good")
		if got, err := e.Wait(t.Context(), x.ID); err != nil || got.State != courier.Completed {
			t.Errorf("the execution is %s, %v", got.State, err)
		}
	})
}

// TestSubscribedJob starts a job for each event, once, however often the event
// is delivered.
func TestSubscribedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		begun, refused := time.Now(), 0
		f := storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if c.Method == "RecordDeliveries" && time.Since(begun) < 5*time.Minute {
				refused++
				return errors.New("the store is down")
			}
			return do(ctx)
		})
		var m mailbox
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		e := told(t, f, &m, func(o *engine.Options) { o.Trace = func(context.Context) string { return trace } })
		sub := notify.Subscription{
			Name: "repair", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"bad"},
			Job: &notify.JobTarget{Name: "good", Params: map[string]any{"big": json.Number("12345678901234567890")}, Priority: 3},
		}
		if _, err := e.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		x := enqueued(t, e, "bad")
		time.Sleep(10 * time.Minute)
		list, err := e.Executions().List(t.Context(), store.Filter{Job: "good"})
		if err != nil || len(list) != 1 {
			t.Fatalf("started %d times, %v", len(list), err)
		}
		got, err := e.Executions().Get(t.Context(), list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		var params struct {
			Big   json.Number
			Event notify.Notification
		}
		if err := json.Unmarshal(got.Params, &params); err != nil {
			t.Fatal(err)
		}
		if params.Event.Execution != x.ID || params.Event.Error != "it broke" || params.Big != "12345678901234567890" || got.Priority != 3 || got.By != "subscription repair" || got.Trace != trace || got.State != courier.Completed {
			t.Errorf("started as %+v with %s", got, got.Params)
		}
		if list := left(t, e); len(list) != 0 || refused == 0 {
			t.Errorf("left over: %+v; RecordDeliveries was refused %d times", list, refused)
		}
		back := notify.Subscription{
			Name: "back", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobCompleted}, Jobs: []string{"good"},
			Job: &notify.JobTarget{Name: "bad"},
		}
		if _, err := e.Subscriptions().Set(t.Context(), back, courier.By{}); err == nil || !strings.Contains(err.Error(), "good -> bad -> good") {
			t.Errorf("jobs that start each other: %v", err)
		}
	})
}

// TestSubscribedJobThatCantStart: what would be refused again is not tried again.
func TestSubscribedJobThatCantStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		e := told(t, memstore.New(), &m, func(o *engine.Options) { o.MaxParams = 64 }) // too little for an event
		sub := notify.Subscription{
			Name: "repair", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"bad"},
			Job: &notify.JobTarget{Name: "good"},
		}
		if _, err := e.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		enqueued(t, e, "bad")
		time.Sleep(time.Hour)
		list, err := e.Subscriptions().Deliveries(t.Context(), notify.DeliveryFilter{State: notify.Failed})
		if err != nil || len(list) != 1 || list[0].Attempts != 1 || !strings.Contains(list[0].LastErr, "MaxParams") {
			t.Errorf("after an hour %+v, %v", list, err)
		}
	})
}
