package chaos

import (
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
)

// Workers stand still until their executions are another's, half of them when
// they are about to write something, and then go on. What they write is refused.
func TestZombies(t *testing.T) {
	t.Parallel()
	rounds(t, 1, 1, func(t *testing.T, _ int) {
		w := newWorld(t, pgtest.URL(t), nil)
		w.zombies = true
		begun := time.Now()
		healthy := ordinary
		healthy.Slots = 16
		w.spawn(healthy)
		stop := w.load(20)
		const each = 6
		todo := make(chan plan, 2*each)
		for range each {
			point := []string{"first start", "progress", "completion"}[rand.IntN(3)]
			todo <- plan{Point: point, Phase: before, N: 1 + rand.IntN(3), Freeze: true}
			todo <- plan{}
		}
		close(todo)
		var lanes sync.WaitGroup
		for range 3 {
			lanes.Go(func() {
				for p := range todo {
					w.freeze(p)
				}
			})
		}
		lanes.Wait()
		stop()
		w.settle()
		r, _ := w.check()
		t.Logf("%d workers stood still in %v: %v", 2*each, time.Since(begun).Round(time.Millisecond), r)
		if r.refusals < each {
			t.Errorf("%d writes were refused, of %d that came too late", r.refusals, each)
		}
	})
}

// freeze lets a worker stand still at a point, or at any time if that is empty,
// until others have all that it had.
func (w *world) freeze(at plan) {
	o := ordinary
	o.Plan = at
	p := w.spawn(o)
	if at.Point != "" {
		w.until("it stands still", func() bool { return w.reached(p) })
	} else {
		w.begins(p)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		w.signal(p, syscall.SIGSTOP)
	}
	w.until("others have what it had", func() bool {
		list, err := w.in(courier.Running)
		return err == nil && !slices.ContainsFunc(list, func(x courier.Execution) bool { return x.Worker == p.name })
	})
	w.signal(p, syscall.SIGCONT)
	if at.Point != "" {
		var answer string
		w.until("its write is answered", func() bool {
			var ok bool
			answer, ok = w.spanned(p)
			return ok
		})
		if answer != leaseLost {
			w.Errorf("worker %s: the answer to what it wrote too late is %q", p.name, answer)
		}
	}
	time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
	w.signal(p, syscall.SIGTERM)
	<-p.ended
}

// spanned returns the answer to the write before which a worker stood still, if
// there is one yet.
func (w *world) spanned(p *process) (answer string, ok bool) {
	var at note
	err := readJournals(w.dir, p.name+".reached", func(_ string, n *note) { at = *n })
	if err != nil {
		w.Error(err)
	}
	var call int64
	err = readJournals(w.dir, p.name+".calls", func(_ string, e *entry) {
		switch {
		case e.Method == "Apply" && e.At <= at.At && e.Asked[0].Execution == at.Execution:
			call = e.Call // the last one that began before
		case e.Method == "" && e.Call == call && e.At > at.At:
			answer, ok = e.Error, true
		}
	})
	if err != nil {
		w.Error(err)
	}
	return answer, ok
}
