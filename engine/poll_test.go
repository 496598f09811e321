package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A watching store vouches for its news, and counts claims.
type watching struct {
	store.Store
	claims atomic.Int64
}

func (w *watching) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	w.claims.Add(1)
	c, err := w.Store.Claim(ctx, r)
	c.Watched = 20 * time.Second
	return c, err
}

// TestPolling shows how often an idle engine claims: as seldom as the store
// vouches for, unless the host asked for more.
func TestPolling(t *testing.T) {
	for _, c := range []struct {
		poll time.Duration
		want int64
	}{{0, 3}, {5 * time.Second, 12}, {30 * time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := &watching{Store: memstore.New()}
			e := engine.New(w, new(courier.Registry), &engine.Options{Workspace: t.TempDir(), Poll: c.poll})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - time.Second)
			if got := w.claims.Load(); got != c.want {
				t.Errorf("poll %v: %d claims in a minute, want %d", c.poll, got, c.want)
			}
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A telling store tells of what was enqueued and of nothing else, and may vouch for
// that. It counts claims.
type telling struct {
	watching
	vouches bool
	news    chan struct{} // has room for one
}

func (s *telling) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	c, err := s.watching.Claim(ctx, r)
	if !s.vouches {
		c.Watched = 0
	}
	return c, err
}

func (s *telling) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	got, err := s.Store.Enqueue(ctx, list)
	s.news <- struct{}{}
	return got, err
}

func (s *telling) Await(ctx context.Context, _ []string, _ uint64) error {
	select {
	case <-s.news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestFreedSlots counts claims while executions end one by one. A store that
// vouches for its news is not asked again because of a slot, unless the claim
// before took all that it could.
func TestFreedSlots(t *testing.T) {
	for _, c := range []struct {
		name    string
		vouches bool
		slots   int
		want    int64 // claims for five executions
	}{
		{"slots are free", true, 8, 5},
		{"all slots are taken", true, 1, 10},
		{"the store does not vouch", false, 8, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &telling{watching: watching{Store: memstore.New()}, vouches: c.vouches, news: make(chan struct{}, 1)}
				reg := new(courier.Registry)
				courier.RegisterFunc(reg, "demo.nap", func(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
					return struct{}{}, sleepOrEnd(ctx, time.Second)
				}, nil)
				e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), Slots: c.slots, Poll: time.Hour})
				if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "nap", Steps: []courier.StepSpec{{Type: "demo.nap"}}}, nil); err != nil {
					t.Fatal(err)
				}
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				before := s.claims.Load()
				for range 5 {
					x, err := e.Enqueue(t.Context(), "nap", nil)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
					if x, err = e.Executions().Get(t.Context(), x.ID); err != nil || x.State != courier.Completed {
						t.Fatalf("it is %s, %v", x.State, err)
					}
				}
				if got := s.claims.Load() - before; got != c.want {
					t.Errorf("%d claims, want %d", got, c.want)
				}
				if err := e.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestOneClaimForNews has an idle engine, which has looked in vain a few times,
// hear of an execution: it claims once.
func TestOneClaimForNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watching{Store: memstore.New()}
		reg := new(courier.Registry)
		courier.RegisterFunc(reg, "demo.nap", func(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
			return struct{}{}, sleepOrEnd(ctx, time.Minute)
		}, nil)
		e := engine.New(w, reg, &engine.Options{Workspace: t.TempDir()})
		if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "nap", Steps: []courier.StepSpec{{Type: "demo.nap"}}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Second)
		before := w.claims.Load()
		if _, err := e.Enqueue(t.Context(), "nap", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.claims.Load() - before; got != 1 {
			t.Errorf("%d claims, want one", got)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
