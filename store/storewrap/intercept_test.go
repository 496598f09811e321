package storewrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

const id = courier.ExecutionID("11111111-1111-7111-8111-111111111111")

// A use is a call of a store's method. It returns the result, as a pointer is
// none, and the error.
type use struct {
	method string
	call   func(context.Context, store.Store) (any, error)
}

// result makes the two results of a method those of a use.
func result[T any](v T, err error) (any, error) { return v, err }

// uses is a call of each method, in an order in which all succeed.
var uses = []use{
	{"Save", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Save(ctx, store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(`{}`)}))
	}},
	{"Load", func(ctx context.Context, s store.Store) (any, error) { return result(s.Load(ctx, store.Job, "job", 0)) }},
	{"List", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.List(ctx, store.DefinitionFilter{Kind: store.Job}))
	}},
	{"Set", func(ctx context.Context, s store.Store) (any, error) { return nil, s.Set(ctx, "key", "value") }},
	{"Settings", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Settings(ctx, store.SettingFilter{}))
	}},
	{"Enqueue", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Enqueue(ctx, []store.NewExecution{{ID: id, Job: "job", Version: 1, Queue: "q"}}))
	}},
	{"Await", func(ctx context.Context, s store.Store) (any, error) { return nil, s.Await(ctx, []string{"q"}, 0) }},
	{"Claim", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Claim(ctx, store.ClaimRequest{Worker: "w", Queues: []string{"q"}, Only: []courier.ExecutionID{id}, Max: 1, Lease: time.Hour}))
	}},
	{"Apply", func(ctx context.Context, s store.Store) (any, error) {
		// The token is random, so this is refused whatever the store.
		return nil, s.Apply(ctx, store.Transition{Execution: id, Lease: "other", Seq: 3, To: courier.Completed})
	}},
	{"Renew", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Renew(ctx, store.RenewRequest{Worker: "w", For: time.Hour}))
	}},
	{"Request", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Request(ctx, store.Request{Execution: id, Kind: courier.RequestPause, By: "ann"}))
	}},
	{"Execution", func(ctx context.Context, s store.Store) (any, error) { return result(s.Execution(ctx, id)) }},
	{"Executions", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Executions(ctx, store.Filter{}))
	}},
	{"Steps", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Steps(ctx, store.StepFilter{Execution: id}))
	}},
	{"Latest", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Latest(ctx, store.LatestFilter{Execution: id}))
	}},
	{"Transfers", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Overview).Transfers(ctx, store.TransferFilter{Steps: []store.TransferStep{{Execution: id, Attempt: 1}}}))
	}},
	{"Audit", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.Audit(ctx, store.AuditFilter{Execution: id}))
	}},
	{"Census", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Overview).Census(ctx, 3))
	}},
	{"Stats", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Statistics).Stats(ctx, 3))
	}},
	{"CountHours", func(ctx context.Context, s store.Store) (any, error) {
		return nil, s.(store.Figures).CountHours(ctx, time.Minute)
	}},
	{"Hours", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Figures).Hours(ctx, 3))
	}},
	{"Circumstances", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Overview).Circumstances(ctx, id, time.Minute))
	}},
	{"Incidents", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Overview).Incidents(ctx, 3))
	}},
	{"Find", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Trail).Find(ctx, store.TrailFilter{Key: "partner", Value: "acme"}))
	}},
	{"Reports", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Trail).Reports(ctx, []store.TrailEntry{{Execution: id, Seq: 1}}))
	}},
	{"Note", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Journal).Note(ctx, store.Action{Verb: "set", Kind: "limit"}))
	}},
	{"Actions", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Journal).Actions(ctx, store.ActionFilter{}))
	}},
	{"Acknowledge", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Acknowledgements).Acknowledge(ctx, store.Acknowledgement{Key: "k", Until: time.Now().Add(time.Hour)}))
	}},
	{"Acknowledgements", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Acknowledgements).Acknowledgements(ctx))
	}},
	{"Withdraw", func(ctx context.Context, s store.Store) (any, error) {
		return nil, s.(store.Acknowledgements).Withdraw(ctx, "k")
	}},
	{"Workers", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Workers).Workers(ctx, time.Hour))
	}},
	{"StoreID", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Identity).StoreID(ctx))
	}},
	{"Stranded", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Workers).Stranded(ctx, time.Hour))
	}},
	{"Drain", func(ctx context.Context, s store.Store) (any, error) {
		return nil, s.(store.Workers).Drain(ctx, "w")
	}},
	{"Overdue", func(ctx context.Context, s store.Store) (any, error) {
		return result(s.(store.Deadlines).Overdue(ctx, 3))
	}},
}

// text is a value as JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInterceptPassesAllOn(t *testing.T) {
	var seen []storewrap.Call
	var replies []string
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Result != nil {
			t.Errorf("%s has a result before it was called", c.Method)
		}
		err := do(ctx)
		seen = append(seen, *c)
		replies = append(replies, text(t, c.Result))
		return err
	})
	about := []string{"Enqueue", "Claim", "Apply", "Request", "Execution", "Steps", "Latest", "Audit", "Circumstances"}
	for i, u := range uses {
		got, err := u.call(t.Context(), s)
		refused := u.method == "Apply"
		if refused != errors.Is(err, courier.ErrLeaseLost) || !refused && err != nil {
			t.Errorf("%s: %v", u.method, err)
		}
		if len(seen) != i+1 || seen[i].Method != u.method {
			t.Fatalf("the call of %s was seen as %v", u.method, seen[i:])
		}
		if c := seen[i]; (c.Execution == id) != slices.Contains(about, u.method) {
			t.Errorf("%s is about %q", u.method, c.Execution)
		}
		if text(t, got) != replies[i] {
			t.Errorf("%s returned\n%s, but its result was\n%s", u.method, text(t, got), replies[i])
		}
	}
	if text(t, seen[5].Result) == "null" || seen[7].Result.(store.Claims).List[0].Execution.ID != id {
		t.Error("the results are not those of the store")
	}
}

func TestInterceptReturnsNothingWithAnError(t *testing.T) {
	boom := errors.New("boom")
	s := memstore.New()
	failing := storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if err := do(ctx); err != nil && c.Method != "Apply" {
			t.Errorf("%s: %v", c.Method, err)
		}
		return boom
	})
	for _, u := range uses {
		got, err := u.call(t.Context(), failing)
		if !errors.Is(err, boom) {
			t.Errorf("%s: error %v, want that of the interceptor", u.method, err)
		}
		if !zero(t, got) {
			t.Errorf("%s returned %s with an error", u.method, text(t, got))
		}
	}
	if x, err := s.Execution(t.Context(), id); err != nil || x.Request != courier.RequestPause {
		t.Errorf("the calls had no effect: %s, %v", text(t, x), err)
	}
}

func TestInterceptWithoutACall(t *testing.T) {
	silent := storewrap.Intercept(memstore.New(), func(context.Context, *storewrap.Call, func(context.Context) error) error { return nil })
	for _, u := range uses {
		if got, err := u.call(t.Context(), silent); err != nil || !zero(t, got) {
			t.Errorf("%s returned %s, %v, though the store was not called", u.method, text(t, got), err)
		}
	}
}

// zero reports whether a result is that of a call that did not happen.
func zero(t *testing.T, v any) bool {
	t.Helper()
	return v == nil || reflect.ValueOf(v).IsZero()
}

// TestInterceptLateCall makes the call after the interceptor has returned its
// error.
func TestInterceptLateCall(t *testing.T) {
	begin, ended := make(chan struct{}), make(chan error)
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		go func() {
			<-begin
			ended <- do(ctx)
		}()
		return context.DeadlineExceeded
	})
	for _, u := range uses {
		got, err := u.call(t.Context(), s)
		begin <- struct{}{}
		if !errors.Is(err, context.DeadlineExceeded) || !zero(t, got) {
			t.Errorf("%s returned %s, %v", u.method, text(t, got), err)
		}
		if err := <-ended; err != nil && u.method != "Apply" {
			t.Errorf("%s, when it was called late: %v", u.method, err)
		}
	}
}

// TestRolesOfNone wraps a store without roles: their calls are errors that name the role.
func TestRolesOfNone(t *testing.T) {
	bare := struct{ store.Store }{memstore.New()}
	for name, s := range map[string]store.Store{
		"eager": storewrap.NewEager(bare), "faulty": storewrap.NewFaulty(bare, storewrap.Fault{}), "refusing": storewrap.NewRefusing(bare),
	} {
		_, counted := s.(store.Overview).Census(t.Context(), 0)
		_, measured := s.(store.Statistics).Stats(t.Context(), 0)
		_, figures := s.(store.Figures).Hours(t.Context(), 0)
		_, found := s.(store.Trail).Find(t.Context(), store.TrailFilter{})
		_, noted := s.(store.Journal).Note(t.Context(), store.Action{})
		_, acknowledged := s.(store.Acknowledgements).Acknowledgements(t.Context())
		_, overdue := s.(store.Deadlines).Overdue(t.Context(), 0)
		for role, err := range map[string]error{
			"store.Overview": counted, "store.Statistics": measured, "store.Figures": figures, "store.Trail": found, "store.Journal": noted, "store.Acknowledgements": acknowledged, "store.Deadlines": overdue, "store.Workers": s.(store.Workers).Drain(t.Context(), "w"),
		} {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), role) {
				t.Errorf("%s, %s: %v", name, role, err)
			}
		}
	}
}
