package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
)

// TestFullLimits has one engine execute what a limit lets run one by one: of a job, of a key and of
// a prefix of keys. The next one begins when the one before has ended, and not with the next poll.
func TestFullLimits(t *testing.T) {
	s := open(t, pgtest.URL(t), nil)
	for scope, n := range map[string]string{"": "0", "key:one": "1", "key:p:*": "1"} {
		if err := s.Set(t.Context(), store.LimitSetting(scope), n); err != nil {
			t.Fatal(err)
		}
	}
	const nap = 100 * time.Millisecond
	type span struct{ from, to time.Time }
	spans := make(chan span, 10)
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.nap", func(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
		from := time.Now()
		time.Sleep(nap)
		spans <- span{from, time.Now()}
		return struct{}{}, ctx.Err()
	}, nil)
	e := engine.New(s, &reg, &engine.Options{Workspace: t.TempDir()})
	for name, limit := range map[string]int{"limited": 1, "free": 0} {
		if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: name, Limit: limit, Steps: []courier.StepSpec{{Type: "test.nap"}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	watched(t, s)
	for what, opt := range map[string]struct {
		job  string
		keys []string
	}{"job": {"limited", nil}, "key": {"free", []string{"one"}}, "prefix": {"free", []string{"p:x"}}} {
		for range 5 {
			if _, err := e.Enqueue(t.Context(), opt.job, &courier.EnqueueOptions{LimitKeys: opt.keys}); err != nil {
				t.Fatal(err)
			}
		}
		var last time.Time
		var waits []time.Duration
		for range 5 {
			select {
			case got := <-spans:
				if !last.IsZero() {
					waits = append(waits, got.from.Sub(last))
				}
				last = got.to
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: nothing begins; waits %v", what, waits)
			}
		}
		slow := 0
		for _, w := range waits {
			if w < 0 {
				t.Errorf("%s: two ran at once: %v", what, waits)
			}
			if w > time.Second { // a poll comes after 5 s
				slow++
			}
		}
		t.Logf("%s: waits %v", what, waits)
		if slow > 0 {
			t.Errorf("%s: %d begin late: %v", what, slow, waits)
		}
	}
}
