package pgstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
)

// turns are the calls of maintainers, by the period and the engine that has called.
type turns struct {
	mu    sync.Mutex
	calls map[int64][]string
}

const turnEvery = 500 * time.Millisecond

// A keeper is the maintainer of one engine.
type keeper struct {
	name  string
	turns *turns
}

func (k keeper) Maintain(context.Context, courier.Maintenance) error {
	period := time.Now().UnixNano() / int64(turnEvery)
	k.turns.mu.Lock()
	defer k.turns.mu.Unlock()
	k.turns.calls[period] = append(k.turns.calls[period], k.name)
	return nil
}

// row waits for six periods in a row, all after the present one, in each of which somebody has
// called, and each of names in one of them. One call more is allowed: an engine that is late
// on a busy machine calls in the period after its own.
func (r *turns) row(t *testing.T, when string, names ...string) {
	t.Helper()
	began := time.Now()
	first := began.UnixNano()/int64(turnEvery) + 1
	for time.Since(began) < 2*time.Minute {
		time.Sleep(turnEvery)
		r.mu.Lock()
		for p := first; p+6 <= time.Now().UnixNano()/int64(turnEvery); p++ {
			var row []string
			served := 0
			for in := p; in < p+6; in++ {
				row = append(row, r.calls[in]...)
				served += min(len(r.calls[in]), 1)
			}
			slices.Sort(row)
			if served == 6 && len(row) <= 7 && slices.Equal(slices.Compact(row), names) {
				r.mu.Unlock()
				return
			}
		}
		r.mu.Unlock()
	}
	t.Fatalf("%s: in two minutes there were no six periods in a row with the calls of %q and of no others: %v", when, names, r.calls)
}

// TestMaintenanceInTurns: of several engines on a database, each of which has a store of its
// own, one does the maintenance of a period. An engine that stops, or that has died and
// claims no more, is passed over.
func TestMaintenanceInTurns(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	calls := &turns{calls: make(map[int64][]string)}
	engines := make(map[string]*engine.Engine)
	_, pool := openPool(t, url, nil)
	for _, name := range []string{"a", "b", "c"} {
		var reg courier.Registry
		courier.RegisterFunc(&reg, "test.kept", func(context.Context, *courier.Context, struct{}) (none struct{}, err error) { return none, nil },
			&courier.TypeOptions{Maintainer: keeper{name, calls}, MaintainEvery: turnEvery})
		e := engine.New(open(t, url, nil), &reg, &engine.Options{Worker: name, Workspace: t.TempDir()})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(context.WithoutCancel(t.Context()))
		engines[name] = e
	}
	calls.row(t, "three engines", "a", "b", "c")

	if err := engines["b"].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls.row(t, "one has stopped", "a", "c")

	// To the others the third has claimed just now, and its process has died since.
	exec(t, pool, "update courier.workers set draining = false, seen_at = clock_timestamp() where name = 'b'")
	from := time.Now().UnixNano()/int64(turnEvery) + 1
	time.Sleep(6*turnEvery + turnEvery/2)
	calls.mu.Lock()
	made := 0
	for p := from; p < from+6; p++ {
		made += len(calls.calls[p])
	}
	calls.mu.Unlock()
	if made > 5 {
		t.Errorf("%d calls in six periods, two of which are those of an engine that has died", made)
	}
	exec(t, pool, "update courier.workers set seen_at = clock_timestamp() - interval '91 seconds' where name = 'b'")
	calls.row(t, "one has died", "a", "c")
}
