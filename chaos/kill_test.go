package chaos

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
)

// ordinary are the orders of workers that nothing special is asked of.
var ordinary = orders{Lease: time.Second, Poll: 200 * time.Millisecond, Slots: 4}

var someLimits = map[string]int{"": 12, "key:k0": 1, "key:k1": 2}

// plans returns n plans to end a process, each point, which is a call, and each
// spot, which is none, about as often as any other. Those of one kind differ in
// how often the point is passed before.
func plans(n int, points, spots []string) []plan {
	var all []plan
	for rep := 0; len(all) < n; rep++ {
		var some []plan
		for _, point := range points {
			for _, when := range []phase{before, during, after} {
				some = append(some, plan{Point: point, Phase: when, N: 1})
			}
		}
		for _, spot := range spots {
			some = append(some, plan{Point: spot, Phase: at, N: 1})
		}
		for i := range some {
			if !slices.Contains(rare, some[i].Point) {
				some[i].N += rep % 4
			}
		}
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		all = append(all, some...)
	}
	return all[:n]
}

// Workers kill themselves at named points, one after the other, four at a time;
// each leaves what it had to the others.
func TestCrashPoints(t *testing.T) {
	rounds(t, *kills, 200, func(t *testing.T, n int) {
		w := newWorld(t, pgtest.URL(t), someLimits)
		begun := time.Now()
		stop := w.load(30)
		todo := make(chan plan, n)
		for _, p := range plans(n, points, spots) {
			todo <- p
		}
		close(todo)
		var reached atomic.Int64
		var lanes sync.WaitGroup
		for range 4 {
			lanes.Go(func() {
				for p := range todo {
					if !w.crash(p) {
						return
					}
					reached.Add(1)
				}
			})
		}
		lanes.Wait()
		stop()
		for range 2 {
			w.spawn(ordinary)
		}
		w.settle()
		r, _ := w.check()
		r.lossy(t)
		t.Logf("%d of %d points reached in %v: %v", reached.Load(), n, time.Since(begun).Round(time.Millisecond), r)
	})
}

// crash lets a worker end itself at a point, and reports whether it has.
func (w *world) crash(at plan) bool {
	const tries, wait = 5, time.Minute
	o := w.orders
	o.Plan = at
	for range tries {
		p := w.spawn(o)
		select {
		case <-p.ended:
		case <-time.After(wait):
			w.Errorf("worker %s has not reached its point within %v: %v", p.name, wait, at)
			w.kill(p)
			return false
		}
		for i := range at.N + 1 {
			switch at.Point {
			case "enqueue":
				w.enqueue("plain", courier.EnqueueOptions{IdempotencyKey: keyOf(p.name, i)})
			case "start chain":
				w.startChain(startedByWorkers, keyOf(p.name, i))
			}
		}
		if w.reached(p) {
			p.expected.Store(true)
			return true
		}
		if p.err != nil {
			w.Errorf("worker %s: %v\n%s", p.name, p.err, w.written(p))
			return false
		}
		// It has stopped, and had nothing to hand over.
	}
	w.Errorf("no worker has reached its point: %v", at)
	return false
}

// reached reports whether a worker has come to the point of its plan.
func (w *world) reached(p *process) bool {
	text, err := os.ReadFile(filepath.Join(w.dir, p.name+".reached"))
	return err == nil && len(text) > 0
}

// slowest is how long a worker may take to begin to work, on average, where the
// machine has much else to do.
const slowest = 4 * time.Second

// enough kills leave something of every kind in the histories.
const enough = 40

// Workers are killed at any time when they have begun to work, three of them
// under load; others take their place at once.
func TestKills(t *testing.T) {
	rounds(t, *kills, 200, func(t *testing.T, n int) {
		w := newWorld(t, pgtest.URL(t), someLimits)
		begun := time.Now()
		workers := make([]*process, 3)
		for i := range workers {
			workers[i] = w.spawn(ordinary)
		}
		stop := w.load(30)
		for killed := 0; killed < n; {
			if time.Since(begun) > time.Duration(n)*slowest {
				t.Fatalf("only %d workers have begun to work within %v", killed, time.Since(begun))
			}
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			if i := rand.IntN(len(workers)); w.working(workers[i]) {
				w.kill(workers[i])
				workers[i] = w.spawn(ordinary)
				killed++
			}
		}
		stop()
		w.settle()
		r, c := w.check()
		r.lossy(t)
		t.Logf("%d workers killed in %v: %v", n, time.Since(begun).Round(time.Millisecond), r)
		if n >= enough {
			c.corrupt(t)
		}
	})
}
