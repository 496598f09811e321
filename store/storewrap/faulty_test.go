package storewrap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// put sets a setting, for at most a second.
func put(t *testing.T, s store.Store, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return s.Set(ctx, key, "1")
}

// holds reports whether a setting was set.
func holds(t *testing.T, s store.Store, key string) bool {
	t.Helper()
	all, err := s.Settings(t.Context(), store.SettingFilter{Prefix: key})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(all, store.Setting{Name: key, Value: "1"})
}

func TestFaultyKinds(t *testing.T) {
	for _, want := range []struct {
		kind   storewrap.FaultKind
		err    error // of the second call
		effect bool  // of the second call
		third  error
	}{
		{storewrap.FailBefore, storewrap.ErrFault, false, nil},
		{storewrap.FailAfter, storewrap.ErrFault, true, nil},
		{storewrap.HangBefore, context.DeadlineExceeded, false, nil},
		{storewrap.HangAfter, context.DeadlineExceeded, true, nil},
		{storewrap.DieBefore, context.DeadlineExceeded, false, context.DeadlineExceeded},
		{storewrap.DieAfter, context.DeadlineExceeded, true, context.DeadlineExceeded},
	} {
		t.Run(want.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				f := storewrap.NewFaulty(s, storewrap.Fault{Kind: want.kind, N: 2})
				if err := put(t, f, "first"); err != nil || !holds(t, s, "first") || f.Hit() != "" {
					t.Errorf("the first call: %v, set: %v, hit: %q", err, holds(t, s, "first"), f.Hit())
				}
				begun := time.Now()
				err := put(t, f, "second")
				if !errors.Is(err, want.err) || holds(t, s, "second") != want.effect || f.Hit() != "Set" {
					t.Errorf("the second call: %v, set: %v, hit: %q", err, holds(t, s, "second"), f.Hit())
				}
				if hung := time.Since(begun) == time.Second; hung != errors.Is(want.err, context.DeadlineExceeded) {
					t.Errorf("the second call took %v", time.Since(begun))
				}
				if err := put(t, f, "third"); !errors.Is(err, want.third) || holds(t, s, "third") != (want.third == nil) {
					t.Errorf("the third call: %v, set: %v", err, holds(t, s, "third"))
				}
				if dies := want.third != nil; want.kind.Dies() != dies {
					t.Errorf("Dies is %v", !dies)
				}
			})
		})
	}
	if n := len(storewrap.FaultKinds); n != 6 {
		t.Errorf("%d kinds are listed", n)
	}
}

func TestFaultyErrorIsTheStoresOwn(t *testing.T) {
	fault := fmt.Errorf("apply: %w", storewrap.ErrFault)
	for _, answer := range []error{courier.ErrNotFound, courier.ErrConflict, courier.ErrLeaseLost, courier.ErrInvalid, context.Canceled} {
		if errors.Is(fault, answer) {
			t.Errorf("the error matches %v", answer)
		}
	}
}

func TestFaultyCounts(t *testing.T) {
	f := storewrap.NewFaulty(memstore.New(), storewrap.Fault{Kind: storewrap.FailBefore, N: 2, Method: "Request"})
	var failed []string
	for range 3 {
		for _, u := range uses {
			if _, err := u.call(t.Context(), f); errors.Is(err, storewrap.ErrFault) {
				failed = append(failed, fmt.Sprintf("%s %d", u.method, f.Calls(u.method)))
			}
		}
	}
	if got := fmt.Sprint(failed); got != "[Request 2]" {
		t.Errorf("failed: %s", got)
	}
	if all, asks, awaits := f.Calls(""), f.Calls("Request"), f.Calls("Await"); all != 3*(len(uses)-5) || asks != 3 || awaits != 3 {
		t.Errorf("%d calls, %d of Request, %d of Await", all, asks, awaits)
	}
	if got := (storewrap.Fault{Kind: storewrap.DieAfter, N: 3, Method: "Apply"}).String(); got != "die_after Apply 3" {
		t.Errorf("the fault is called %q", got)
	}
}

// TestFaultyAwait checks that faults do not count calls of Await, that Await hangs after
// a death, and that it returns without a fault.
func TestFaultyAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		f := storewrap.NewFaulty(s, storewrap.Fault{Kind: storewrap.DieBefore, N: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waits := func(since uint64) chan error {
			ended := make(chan error, 1)
			go func() { ended <- f.Await(ctx, []string{"q"}, since) }()
			synctest.Wait()
			return ended
		}
		ended := waits(0)
		if err := put(t, s, "job.concurrency_limit"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Errorf("a wait before the fault: %v", err)
		}
		ended = waits(1)
		if err := put(t, f, "job.concurrency_limit"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call that dies: %v", err)
		}
		if err := put(t, s, "job.concurrency_limit"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the dead heard of a change: %v", err)
		default:
		}
		f.Release()
		if err := <-ended; !errors.Is(err, courier.ErrLeaseLost) {
			t.Errorf("a released wait: %v", err)
		}
	})
}

// TestFaultyDiesDuringACall checks that a call under way at a death has its effect and
// does not return.
func TestFaultyDiesDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		slow := storewrap.Intercept(s, func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
			time.Sleep(time.Second / 2)
			return do(ctx)
		})
		f := storewrap.NewFaulty(slow, storewrap.Fault{Kind: storewrap.DieAfter, N: 2})
		var calls sync.WaitGroup
		for _, key := range []string{"first", "second", "third"} {
			calls.Go(func() {
				if err := put(t, f, key); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the %s call: %v", key, err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		if !holds(t, s, "first") || !holds(t, s, "second") || holds(t, s, "third") {
			t.Error("the calls that began before the death must have their effect, and no other")
		}
	})
}

func TestFaultyRelease(t *testing.T) {
	for _, kind := range storewrap.FaultKinds[2:] {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				f := storewrap.NewFaulty(s, storewrap.Fault{Kind: kind, N: 1})
				ended := make(chan error)
				go func() { ended <- f.Set(t.Context(), "key", "1") }()
				<-f.Fired()
				synctest.Wait()
				f.Release()
				f.Release() // as good as once
				if err := <-ended; !errors.Is(err, courier.ErrLeaseLost) {
					t.Errorf("the call that hung: %v", err)
				}
				err := put(t, f, "later")
				if kind.Dies() != errors.Is(err, courier.ErrLeaseLost) || kind.Dies() == holds(t, s, "later") {
					t.Errorf("a call after the release: %v, set: %v", err, holds(t, s, "later"))
				}
			})
		})
	}
}

func TestFaultyStrikesOnce(t *testing.T) {
	s := memstore.New()
	f := storewrap.NewFaulty(s, storewrap.Fault{Kind: storewrap.FailBefore, N: 50})
	var calls sync.WaitGroup
	failed := make(chan string, 100)
	for i := range 100 {
		calls.Go(func() {
			if key := fmt.Sprint(i); f.Set(t.Context(), key, "1") != nil {
				failed <- key
			}
		})
	}
	calls.Wait()
	close(failed)
	all, err := s.Settings(t.Context(), store.SettingFilter{})
	if err != nil || len(all) != 99 || len(failed) != 1 || slices.Contains(all, store.Setting{Name: <-failed, Value: "1"}) || f.Calls("") != 100 {
		t.Errorf("%d settings were set, %v; %d calls", len(all), err, f.Calls(""))
	}
}
