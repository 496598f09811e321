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
