package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A world is a service that makes deliveries, on a store in memory with the jobs good and
// bad. It has the function "box".
type world struct {
	*notify.Service
	t     *testing.T
	store *memstore.Store
	stop  func() // ends Run
	log   lockedbuffer.Buffer

	mu      sync.Mutex
	ids     uuid7.Source
	got     []notify.Notification // by the function
	at      []time.Time           // when
	fail    func(notify.Notification) error
	mails   []notify.Mail
	changes []string // in words
	started []courier.EnqueueOptions
	refuses error // of all starts
}

// newWorld makes a world whose service runs until the end of the test.
func newWorld(t *testing.T, change func(*notify.Options)) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New()}
	opt := notify.Options{
		Store:   func() (notify.Store, error) { return w.store, nil },
		Catalog: w.store,
		Jobs:    w,
		Changed: func(_ context.Context, by courier.By, a store.Action, more ...slog.Attr) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes = append(w.changes, fmt.Sprint(a.Verb, " ", a.Name, by.String(), more))
		},
		Log:         slog.New(slog.NewTextHandler(&w.log, nil)),
		Subscribers: map[string]func(context.Context, notify.Notification) error{"box": w.take},
		Mailer:      w,
	}
	if change != nil {
		change(&opt)
	}
	w.Service = notify.New(opt)
	w.define("good")
	w.define("bad")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(w.stop)
	return w
}

// define saves a job.
func (w *world) define(name string) {
	w.t.Helper()
	if _, err := w.store.Save(w.t.Context(), store.Definition{Kind: store.Job, Name: name, Body: json.RawMessage(`{}`)}); err != nil {
		w.t.Fatal(err)
	}
}

// take is the function "box".
func (w *world) take(_ context.Context, n notify.Notification) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.at = append(w.got, n), append(w.at, time.Now())
	if w.fail != nil {
		return w.fail(n)
	}
	return nil
}

// Send keeps a message.
func (w *world) Send(_ context.Context, m notify.Mail) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mails = append(w.mails, m)
	return nil
}

// CheckStart accepts all parameters but wrong.
func (w *world) CheckStart(_ context.Context, job, chain string, params map[string]any) ([]courier.Problem, error) {
	if _, wrong := params["wrong"]; wrong {
		return []courier.Problem{{Step: -1, Field: "params.wrong", Message: "is not declared"}}, nil
	}
	return nil, nil
}

// Start keeps the options.
func (w *world) Start(_ context.Context, job string, opt *courier.EnqueueOptions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, *opt)
	return w.refuses
}

// Result is that of all executions of the job good.
func (w *world) Result(_ context.Context, job string, version int, x courier.ExecutionID) (json.RawMessage, error) {
	return json.RawMessage(`"the result"`), nil
}

// Items are those of no execution, but for the failed one of the job bad.
func (w *world) Items(_ context.Context, n *notify.Notification) error {
	if n.Job == "bad" {
		n.FailedItems, n.Failed = 2, []courier.ItemFailure{{Index: 27, Label: "inv-7.csv", Step: "get", Class: courier.ReasonInvalid, Message: "is bad"}}
	}
	return nil
}

// TraceOf is that of all executions.
func (w *world) TraceOf(context.Context, *notify.Notification) (string, error) { return theTrace, nil }

// theTrace is the trace context of who enqueued the executions.
const theTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// all returns what the function was called with.
func (w *world) all() []notify.Notification {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

func (w *world) left() []notify.Delivery {
	w.t.Helper()
	list, err := w.Deliveries(w.t.Context(), notify.DeliveryFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// end lets an execution of a job begin and end, as the name of the job says.
func (w *world) end(job string) courier.ExecutionID {
	w.t.Helper()
	return w.endWith(job, "it broke")
}

// endWith does so with the message of the failure.
func (w *world) endWith(job, message string) courier.ExecutionID {
	w.t.Helper()
	id := courier.ExecutionID(w.ids.New())
	_, err := w.store.Enqueue(w.t.Context(), []store.NewExecution{{ID: id, Job: job, Version: 1, Queue: courier.DefaultQueue, StepTypes: []string{"demo.a"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	claims, err := w.store.Claim(w.t.Context(), store.ClaimRequest{Worker: "w", Queues: []string{courier.DefaultQueue}, StepTypes: []string{"demo.a"}, Max: 1, Lease: time.Hour})
	if err != nil || len(claims.List) != 1 {
		w.t.Fatal(claims, err)
	}
	c := claims.List[0]
	x := store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed}
	if job != "good" {
		x.To, x.Failure = courier.Failed, &courier.Failure{Step: 0, Reason: courier.ReasonError, Message: message}
	}
	if err := w.store.Apply(w.t.Context(), x); err != nil {
		w.t.Fatal(err)
	}
	w.Wake()
	return id
}

// subscribe saves a subscription of the function.
func (w *world) subscribe(change func(*notify.Subscription)) notify.Subscription {
	w.t.Helper()
	s := notify.Subscription{Name: "sub", Kind: notify.KindFunc, Func: "box", Events: []courier.EventType{courier.EventJobCompleted, courier.EventJobFailed}}
	if change != nil {
		change(&s)
	}
	got, err := w.Set(w.t.Context(), s, courier.By{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Subscription
}

// TestRetries follows a delivery from its first attempt to its last, and its replay.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fail = func(notify.Notification) error { return errors.New("not today") }
		w.subscribe(nil)
		w.end("good")
		time.Sleep(100 * time.Hour)
		w.mu.Lock()
		times := w.at
		w.mu.Unlock()
		if len(times) != 10 {
			t.Fatalf("%d attempts, want 10", len(times))
		}
		wants := []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		}
		for i, want := range wants {
			if wait := times[i+1].Sub(times[i]); wait < want-time.Second || wait > want*6/5+3*time.Second {
				t.Errorf("wait %d was %v, want %v to a fifth more", i+1, wait, want)
			}
		}
		list, err := w.Deliveries(t.Context(), notify.DeliveryFilter{State: notify.Failed})
		if err != nil || len(list) != 1 || list[0].Attempts != 10 || list[0].LastErr != "not today" || len(w.all()) != 10 {
			t.Fatalf("in the end %+v, %v; told %d times", list, err, len(w.all()))
		}
		id := list[0].ID
		for _, n := range w.all() {
			if n.ID != id || string(n.Result) != `"the result"` {
				t.Errorf("told of %s with %s, want %s in every attempt", n.ID, n.Result, id)
			}
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		n, err := w.Replay(t.Context(), "sub", []string{id}, courier.By{Actor: "ops"})
		if err != nil || n != 1 {
			t.Fatalf("replayed %d, %v", n, err)
		}
		time.Sleep(time.Second)
		if got := w.all(); len(got) != 11 || got[10].ID != id {
			t.Errorf("told %d times after the replay", len(got))
		}
		if _, err = w.Replay(t.Context(), "sub", []string{"x.y"}, courier.By{}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("replay of no event: %v", err)
		}
		if want := []string{"set sub[]", "replayed sub by ops[deliveries=1]"}; !slices.Equal(w.changes, want) {
			t.Errorf("changes %q, want %q", w.changes, want)
		}
	})
}

func TestSubscriberThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  func(notify.Notification) error
		state notify.DeliveryState
		says  string
	}{
		"permanent": {func(notify.Notification) error { return courier.Permanent(errors.New("never")) }, notify.Failed, "never"},
		"panics":    {func(notify.Notification) error { panic("oh no") }, notify.Pending, "panicked: oh no"},
		"exits":     {func(notify.Notification) error { runtime.Goexit(); return nil }, notify.Pending, "runtime.Goexit"},
		"says odd":  {func(notify.Notification) error { return errors.New("a\x00b\xff") }, notify.Pending, "a\ufffdb\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.fail = tt.fail
				w.subscribe(nil)
				w.end("good")
				time.Sleep(time.Second)
				if list := w.left(); len(list) != 1 || list[0].State != tt.state || !strings.Contains(list[0].LastErr, tt.says) {
					t.Errorf("it stands as %+v", list)
				}
			})
		})
	}
}

// TestInterruptedDelivery ends Run during a delivery: it is interrupted after 5 seconds, does
// not count, and the next Run makes it.
func TestInterruptedDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := 0
		w := newWorld(t, func(o *notify.Options) {
			o.Subscribers["box"] = func(ctx context.Context, _ notify.Notification) error {
				if entered++; entered == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		w.subscribe(nil)
		w.end("good")
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		w.stop()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		if list := w.left(); len(list) != 1 || list[0].Attempts != 0 {
			t.Errorf("after the end %+v, want one without attempts", list)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Run(ctx)
		if entered != 2 || len(w.left()) != 0 {
			t.Errorf("called %d times, left %+v", entered, w.left())
		}
	})
}

// TestSetAndRemove saves, reads, repeats and removes subscriptions.
func TestSetAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		minute := func(s *notify.Subscription) { s.Window = new(time.Minute) }
		want := w.subscribe(minute)
		list, err := w.List(t.Context(), notify.Filter{})
		if err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], want) {
			t.Errorf("subscriptions %+v, %v; want %+v", list, err, want)
		}
		w.subscribe(minute) // as it is
		if got, err := w.Get(t.Context(), "sub"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		got, err := w.Set(t.Context(), notify.Subscription{Name: "far", Kind: notify.KindFunc, Func: "bx", Events: []courier.EventType{courier.EventJobFailed}}, courier.By{Actor: "ann"})
		if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].Message, `did you mean "box"?`) || *got.Subscription.Window != 0 {
			t.Errorf("a function that this service does not have: %+v, %v", got, err)
		}
		if err := w.Remove(t.Context(), "sub", courier.By{}); err != nil {
			t.Error(err)
		}
		w.subscribe(func(s *notify.Subscription) { s.Name = "subs" })
		_, err = w.Get(t.Context(), "sub")
		_, err2 := w.Replay(t.Context(), "sub", nil, courier.By{})
		for _, err := range []error{err, err2, w.Remove(t.Context(), "sub", courier.By{})} {
			if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "subs"?`) {
				t.Errorf("a subscription that was removed: %v", err)
			}
		}
		if want := []string{"set sub[]", "set far by ann[]", "removed sub[]", "set subs[]"}; !slices.Equal(w.changes, want) {
			t.Errorf("changes %q, want %q", w.changes, want)
		}
	})
}

// TestStartedJob has the parameters of the subscription and the event, and is not started
// again if its parameters are refused.
func TestStartedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		sub := notify.Subscription{
			Name: "repair", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"bad"},
			Job: &notify.JobTarget{Name: "good", Params: map[string]any{"big": json.Number("12345678901234567890")}, Priority: 3},
		}
		if _, err := w.Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		x := w.end("bad")
		time.Sleep(time.Second)
		synctest.Wait()
		if len(w.started) != 1 {
			t.Fatalf("started %+v", w.started)
		}
		got := w.started[0]
		event, _ := got.Params["event"].(map[string]any)
		if got.Priority != 3 || got.By.Actor != "subscription repair" || got.Params["big"] != json.Number("12345678901234567890") || event["execution_id"] != string(x) || event["error"] != "it broke" ||
			got.IdempotencyKey != fmt.Sprint(event["id"], " repair") || got.Trace != theTrace {
			t.Errorf("started as %+v", got)
		}
		for _, tt := range []struct {
			err  error
			left int
		}{{courier.ErrConflict, 0}, {errors.New("the store is down"), 1}, {courier.ErrInvalid, 2}} {
			w.refuses = tt.err
			w.end("bad")
			time.Sleep(time.Second)
			synctest.Wait()
			if list := w.left(); len(list) != tt.left || len(list) == 2 && list[1].State != notify.Failed {
				t.Errorf("after %v left %+v", tt.err, list)
			}
		}
		back := notify.Subscription{
			Name: "back", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobCompleted}, Jobs: []string{"good"},
			Job: &notify.JobTarget{Name: "bad"},
		}
		if _, err := w.Set(t.Context(), back, courier.By{}); err == nil || !strings.Contains(err.Error(), "good -> bad -> good") {
			t.Errorf("jobs that start each other: %v", err)
		}
	})
}

// TestNoRole: without the role, every call says so, and Run returns.
func TestNoRole(t *testing.T) {
	none := fmt.Errorf("the store keeps none: %w", errors.ErrUnsupported)
	v := notify.New(notify.Options{Store: func() (notify.Store, error) { return nil, none }, Log: slog.New(slog.DiscardHandler)})
	v.Run(t.Context())
	ctx, by := t.Context(), courier.By{}
	_, set := v.Set(ctx, notify.Subscription{Name: "a"}, by)
	_, get := v.Get(ctx, "a")
	_, list := v.List(ctx, notify.Filter{})
	_, deliveries := v.Deliveries(ctx, notify.DeliveryFilter{})
	_, replay := v.Replay(ctx, "a", nil, by)
	for i, err := range []error{set, get, list, deliveries, replay, v.Remove(ctx, "a", by)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestBadSubscriptions shows what is said about subscriptions that can't be saved, and that
// none of them is.
func TestBadSubscriptions(t *testing.T) {
	w := newWorld(t, loopback)
	negative := -time.Second
	for _, tt := range []struct {
		s    notify.Subscription
		want []string
	}{
		{notify.Subscription{}, []string{"name: it is missing", `kind: "" is unknown`, "events: there are none"}},
		{
			notify.Subscription{
				Name: "a\nb", Kind: "webhok", Events: []courier.EventType{"JobFaild", "StepProgress", "JobFailed", "JobFailed"}, Window: &negative,
				Jobs: []string{"baad", "good", "good"}, Chains: []string{"night"}, Func: "box",
			},
			[]string{
				"control characters", `did you mean "webhook"?`, `"JobFaild" is unknown; did you mean "JobFailed"?`, "for observers alone", "given twice",
				"window_seconds: -1s is negative", `there is no job "baad"; did you mean "bad"?`, `"good" is given twice`, `there is no chain "night"`, "func: is for subscriptions of kind",
			},
		},
		{
			notify.Subscription{Name: "x", Kind: notify.KindWebhook, Events: []courier.EventType{"JobFailed"}, Webhook: &notify.WebhookTarget{
				URL: "https://10.0.0.1/", Secrets: []string{secrets["one"], "secret:none", "secret:short"}, Headers: map[string]string{"Webhook-Id": "1", "a b": "", "X-A": "1\n2"},
			}},
			[]string{
				"webhook.url: the address 10.0.0.1 is not public", `webhook.secrets[0]: must be a reference "secret:NAME"`, `webhook.secrets[1]: secret "none"`,
				"webhook.secrets[2]: webhook: the secret has 3 bytes", `"Webhook-Id" is set by the webhook itself`, `"a b" is not the name of a header`, `value of "X-A"`,
			},
		},
		{
			notify.Subscription{Name: "x", Kind: notify.KindWebhook, Events: []courier.EventType{"JobFailed"}, Webhook: &notify.WebhookTarget{URL: "https://93.184.216.34"}},
			[]string{"webhook.secrets: there are none"},
		},
		{notify.Subscription{Name: "x", Kind: notify.KindFunc, Events: []courier.EventType{"JobFailed"}}, []string{"func: is missing"}},
		{notify.Subscription{Name: "x", Kind: notify.KindEmail, Events: []courier.EventType{"JobFailed"}}, []string{"email: is missing"}},
		{
			notify.Subscription{Name: "x", Kind: notify.KindEmail, Events: []courier.EventType{"JobFailed"}, Email: &notify.EmailTarget{To: []string{"ops", "a@b.example\r\nBcc: c@d.example"}, Subject: "a\nb"}},
			[]string{`email.to[0]: "ops"`, "contains control characters", "email.subject: must be one line"},
		},
		{
			notify.Subscription{Name: "x", Kind: notify.KindJob, Events: []courier.EventType{"JobFailed"}, Job: &notify.JobTarget{Name: "goood", Params: map[string]any{"event": 1}}},
			[]string{"jobs: there are none", `"event" is the notification`, `job.name: there is no job "goood"; did you mean "good"?`},
		},
		{
			notify.Subscription{Name: "x", Kind: notify.KindJob, Events: []courier.EventType{"JobFailed"}, Jobs: []string{"bad"}, Job: &notify.JobTarget{Name: "bad"}},
			[]string{"start each other for ever: bad -> bad"},
		},
		{
			notify.Subscription{Name: "x", Kind: notify.KindJob, Events: []courier.EventType{"JobFailed"}, Jobs: []string{"bad"}, Job: &notify.JobTarget{Name: "good", Params: map[string]any{"wrong": 1}}},
			[]string{"job.params.wrong: is not declared"},
		},
	} {
		_, err := w.Set(t.Context(), tt.s, courier.By{})
		d, ok := errors.AsType[*notify.Error](err)
		if !ok {
			t.Errorf("%+v: error %v", tt.s, err)
			continue
		}
		if len(d.Problems) != len(tt.want) {
			t.Errorf("%d problems, want %d: %v", len(d.Problems), len(tt.want), err)
			continue
		}
		for _, text := range tt.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %q in %v", text, err)
			}
		}
		for name, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows secret %q: %v", name, err)
			}
		}
	}
	if list, err := w.List(t.Context(), notify.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("saved: %v, %v", list, err)
	}
}

// TestNoName checks that no method takes an empty name for that of the first subscription.
func TestNoName(t *testing.T) {
	w := newWorld(t, nil)
	w.subscribe(nil)
	ctx, by := t.Context(), courier.By{}
	_, get := w.Get(ctx, "")
	_, replay := w.Replay(ctx, "", nil, by)
	for name, err := range map[string]error{"get": get, "replay": replay, "remove": w.Remove(ctx, "", by)} {
		if !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}
