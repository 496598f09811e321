package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
)

// A subscriber is told of the end once, when the finally part is over, and that it has failed.
func TestNotificationOfFinally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []notify.Notification
		h := couriertest.New(t, &engine.Options{Subscribers: map[string]func(context.Context, notify.Notification) error{
			"page": func(_ context.Context, n notify.Notification) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, n)
				return nil
			},
		}})
		w := &doings{deeds: map[string]deed{"tell": func(context.Context, *courier.Context) error {
			time.Sleep(time.Minute)
			return courier.Errorf(courier.ErrInvalid, "the desk is away")
		}}}
		events := []courier.EventType{courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobCancelled}
		h.Start()
		if _, err := h.Engine.Subscriptions().Set(t.Context(), notify.Subscription{Name: "page", Kind: notify.KindFunc, Func: "page", Events: events}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		id := w.begin(t, h, fmt.Sprintf(shortFinally, "", ""))
		time.Sleep(30 * time.Second)
		mu.Lock()
		n := len(told)
		mu.Unlock()
		if x := got(t, h, id); n != 0 || x.Status(time.Now()) != "finishing" {
			t.Errorf("in its finally part: %d notifications, it is %s", n, x.Status(time.Now()))
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || told[0].Type != courier.EventJobCompleted || !strings.Contains(told[0].FinallyError, "the desk is away") {
			t.Errorf("%+v", told)
		}
	})
}

// A member of a chain has ended when its finally part is over: what depends on it starts then,
// and not before. A cancel of the chain leads into the finally part, and the second one ends it.
func TestFinallyInChain(t *testing.T) {
	for cancels, want := range []struct {
		state  chain.State
		a, b   chain.MemberState
		didEnd bool
	}{{chain.Completed, "completed", "completed", true}, {chain.Cancelled, "cancelled", "", true}, {chain.Cancelled, "cancelled", "", false}} {
		synctest.Test(t, func(t *testing.T) {
			h := couriertest.New(t, nil)
			w := &doings{deeds: map[string]deed{"work": lasting(time.Minute), "tell": lasting(time.Minute)}}
			w.stub(h)
			h.Start()
			for _, text := range []string{
				fmt.Sprintf(shortFinally, "", ""),
				`{"name": "b", "steps": [{"type": "demo.do", "config": {"what": "next"}}]}`,
			} {
				if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(text), nil); err != nil {
					t.Fatal(err)
				}
			}
			c := chain.Chain{Name: "c", Members: []chain.Member{{Job: "a"}, {Job: "b", DependsOn: []chain.Dependency{{Member: "a"}}}}}
			if _, err := h.Engine.Chains().Define(t.Context(), c, nil); err != nil {
				t.Fatal(err)
			}
			x, err := h.Engine.Chains().Start(t.Context(), "c", nil)
			if err != nil {
				t.Fatal(err)
			}
			for range cancels {
				time.Sleep(20 * time.Second)
				if _, err := h.Engine.Chains().Cancel(t.Context(), x.ID, courier.By{Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
			}
			if cancels == 0 {
				time.Sleep(90 * time.Second)
				if done := w.did(); done != "work|tell" {
					t.Errorf("in the finally part: %s", done)
				}
			}
			time.Sleep(10 * time.Minute)
			if x, err = h.Engine.Chains().Execution(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
			if x.State != want.state || x.Members[0].State != want.a || cancels == 0 && x.Members[1].State != want.b {
				t.Errorf("%d cancels: %s", cancels, chainText(&x))
			}
			if done := w.did(); strings.Contains(done, "tidy") != want.didEnd || strings.Contains(done, "next") != (cancels == 0) {
				t.Errorf("%d cancels: %s", cancels, done)
			}
		})
	}
}
