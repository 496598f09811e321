package figures_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/figures"
	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// A rig is the service of a store that can be cut off, and that counts its calls.
type rig struct {
	*figures.Service
	calls atomic.Int64
	cut   atomic.Bool
	takes atomic.Int64 // how long each call takes
	log   bytes.Buffer
}

func newRig() *rig {
	r := new(rig)
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		r.calls.Add(1)
		select {
		case <-time.After(time.Duration(r.takes.Load())):
		case <-ctx.Done():
			return ctx.Err()
		}
		if r.cut.Load() {
			return errors.New("the network is down")
		}
		return do(ctx)
	})
	r.Service = figures.New(core.Roles{Store: s, Behind: s}, []string{"night"}, slog.New(slog.NewTextHandler(&r.log, nil)))
	return r
}

// has returns the value of a figure, and whether it is there.
func has(list []metrics.Figure, m *metrics.Metric) (float64, bool) {
	for _, f := range list {
		if f.Metric == m {
			return f.Value, true
		}
	}
	return 0, false
}

// TestStore: the store is asked when somebody looks, at most every five seconds, and who looks
// waits only the first time.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.takes.Store(int64(time.Second))
		look := func(wait time.Duration, calls int64) []metrics.Figure {
			t.Helper()
			before, began := r.calls.Load(), time.Now()
			list := r.Store(t.Context())
			if took := time.Since(began); took != wait {
				t.Errorf("the look took %v, want %v", took, wait)
			}
			time.Sleep(2 * time.Second)
			if n := r.calls.Load() - before; n != calls {
				t.Errorf("%d calls, want %d", n, calls)
			}
			return list
		}
		list := look(time.Second, 5)
		if v, ok := has(list, metrics.QueueDepth); v != 0 || !ok || list[0].Value != 1 {
			t.Errorf("the figures are %v", list)
		}
		look(0, 0)
		time.Sleep(5 * time.Second)
		look(0, 3) // workers are kept for longer
		time.Sleep(40 * time.Second)
		look(0, 5)
		time.Sleep(time.Hour)
		look(time.Second, 5)
	})
}

// TestCutOff: a store that can't be reached, or hangs, is said in the log once, and a figure says
// so; figures that are there do not stay.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Store(t.Context())
		synctest.Wait()
		for range 3 {
			r.cut.Store(true)
			time.Sleep(time.Minute)
			list := r.Store(t.Context())
			synctest.Wait()
			if v, ok := has(list, metrics.StoreReachable); v != 0 || !ok || len(list) != 1 {
				t.Errorf("the figures are %v", list)
			}
		}
		if n := strings.Count(r.log.String(), "metrics lack the figures of the store"); n != 1 {
			t.Errorf("the log has %d lines:\n%s", n, r.log.String())
		}
		synctest.Wait() // workers are read after the look
		r.cut.Store(false)
		r.takes.Store(int64(time.Hour))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if list := r.Store(ctx); len(list) != 1 || list[0].Value != 0 || time.Since(began) != time.Second {
			t.Errorf("the figures are %v after %v", list, time.Since(began))
		}
		r.takes.Store(0)
		time.Sleep(2 * time.Minute)
		if list := r.Store(t.Context()); list[0].Value != 1 || len(list) < 10 {
			t.Errorf("the figures are %v", list)
		}
	})
}

// TestRoles: a store without the roles has no figures, and is reached.
func TestRoles(t *testing.T) {
	bare := struct{ store.Store }{memstore.New()}
	var log bytes.Buffer
	s := figures.New(core.Roles{Store: bare, Behind: bare}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if list := s.Store(t.Context()); len(list) != 1 || list[0].Metric != metrics.StoreReachable || list[0].Value != 1 || log.Len() > 0 {
		t.Errorf("the figures are %v, the log %q", list, log.String())
	}
}
