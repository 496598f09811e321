package pgstore_test

import (
	"context"
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

const turnEvery = 300 * time.Millisecond

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

// six waits for six periods in a row, all after the present one, with one call each, and
// returns how many calls each engine has made in them.
func (r *turns) six(t *testing.T, when string) map[string]int {
	t.Helper()
	began := time.Now()
	first := began.UnixNano()/int64(turnEvery) + 1
	for time.Since(began) < time.Minute {
		time.Sleep(turnEvery)
		ended := time.Now().UnixNano() / int64(turnEvery)
		r.mu.Lock()
		var count map[string]int
		row := 0
		for p := first; p < ended && row < 6; p++ {
			if len(r.calls[p]) != 1 {
				row = 0
				continue
			}
			if row == 0 {
				count = make(map[string]int)
			}
			row++
			count[r.calls[p][0]]++
		}
		r.mu.Unlock()
		if row == 6 {
			return count
		}
	}
	t.Fatalf("%s: in a minute no six periods in a row had one call each: %v", when, r.calls)
	return nil
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
	check := func(when string, count map[string]int, each int, names ...string) {
		t.Helper()
		for _, name := range names {
			if count[name] != each {
				t.Errorf("%s: calls in six periods are %v, not %d of each of %q", when, count, each, names)
			}
		}
	}
	check("three engines", calls.six(t, "three engines"), 2, "a", "b", "c")

	if err := engines["b"].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("one has stopped", calls.six(t, "one has stopped"), 3, "a", "c")

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
	check("one has died", calls.six(t, "one has died"), 3, "a", "c")
}
