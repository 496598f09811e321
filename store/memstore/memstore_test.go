package memstore

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// open returns a store whose figures are recounted when the test is done.
func open(t *testing.T) store.Store {
	s := New()
	t.Cleanup(func() {
		if err := s.check(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	t.Run("virtual", func(t *testing.T) { storetest.Run(t, open, &storetest.Options{Virtual: true}) })
	t.Run("real", func(t *testing.T) {
		storetest.Run(t, open, &storetest.Options{Parallel: 8, Unit: 20 * time.Millisecond})
	})
	t.Run("eager", func(t *testing.T) {
		eager := func(t *testing.T) store.Store { return storewrap.NewEager(open(t)) }
		storetest.Run(t, eager, &storetest.Options{Virtual: true})
	})
}

// check counts what the store keeps count of anew.
func (s *Store) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := slots{job: make(map[string]int), key: make(map[string]int)}
	queued := 0
	for id, x := range s.executions {
		if waits := x.State == courier.Queued && len(x.waitsFor) > 0; waits != s.waiting.has(x) || waits && len(s.waits(x)) == 0 {
			return fmt.Errorf("execution %s is %s, waits for %v, among those that wait: %v", id, x.State, x.waitsFor, s.waiting.has(x))
		} else if waits {
			continue
		}
		switch {
		case id != x.ID:
			return fmt.Errorf("execution %s is kept as %s", x.ID, id)
		case (x.in != nil) != (x.State == courier.Running || x.State == courier.Queued):
			return fmt.Errorf("execution %s is %s, in a heap: %v", id, x.State, x.in != nil)
		case (x.class != nil) != (x.State == courier.Queued):
			return fmt.Errorf("execution %s is %s, in a class: %v", id, x.State, x.class != nil)
		case x.in != nil && x.in.list[x.index] != x:
			return fmt.Errorf("execution %s is not where it stands", id)
		case x.class != nil && (x.class.name != classOf(x) || s.queues[x.Queue][x.class.name] != x.class):
			return fmt.Errorf("execution %s stands in class %s", id, x.class.name)
		case x.State == courier.Running && x.in != &s.leases:
			return fmt.Errorf("execution %s runs, and is not among the leases", id)
		}
		switch x.State {
		case courier.Running:
			running.add(x, 1)
		case courier.Queued:
			queued++
		}
	}
	if running.all != s.running.all || !maps.Equal(running.job, s.running.job) || !maps.Equal(running.key, s.running.key) {
		return fmt.Errorf("counted %v, kept %v", running, s.running)
	}
	for _, q := range s.queues {
		if len(q) == 0 {
			return errors.New("a queue is empty")
		}
		for name, c := range q {
			n := len(c.ready.list) + len(c.waiting.list)
			if queued -= n; n == 0 {
				return fmt.Errorf("class %s is empty", name)
			}
			if err := errors.Join(c.ready.check(), c.waiting.check()); err != nil {
				return err
			}
		}
	}
	switch {
	case queued != 0:
		return fmt.Errorf("%d executions are queued and in no class", queued)
	case len(s.ids) != len(s.executions):
		return fmt.Errorf("%d ids of %d executions", len(s.ids), len(s.executions))
	case len(s.waiters) > 0:
		return fmt.Errorf("%d still wait", len(s.waiters))
	}
	return s.leases.check()
}

// check reports an execution that stands above one that comes before it.
func (h *heap) check() error {
	for i := 1; i < len(h.list); i++ {
		if h.before(h.list[i], h.list[(i-1)/2]) {
			return fmt.Errorf("execution %s stands too low", h.list[i].ID)
		}
	}
	return nil
}
