package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/store/storewrap"
)

// An interleaving decides who goes on. Whoever comes to a gate waits there; pick
// lets one go once all are blocked. It belongs in a bubble of synctest.
type interleaving struct {
	mu      sync.Mutex
	waiting []*arrival
	open    bool // nobody waits any more
	taken   []branch
	plan    []branch // what to choose first: a way that was gone before, but for its last choice
	strayed string   // how this way differs from the plan, if it does
}

// An arrival is somebody at a gate.
type arrival struct {
	label string
	sleep time.Duration // until it may go on, while all others stand still
	free  chan struct{}
}

// A branch is a place where one of several could go on.
type branch struct {
	options []string
	picked  int
}

// arrive makes the caller one of those that wait; it may go on when the channel
// is closed.
func (s *interleaving) arrive(label string, sleep time.Duration) *arrival {
	a := &arrival{label, sleep, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		close(a.free)
	} else {
		s.waiting = append(s.waiting, a)
	}
	return a
}

// leave takes back an arrival, if it still waits.
func (s *interleaving) leave(a *arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *arrival) bool { return w == a })
}

// pass waits at a gate.
func (s *interleaving) pass(label string) { <-s.arrive(label, 0).free }

// sleep waits at a gate; when it may go on, d passes first.
func (s *interleaving) sleep(label string, d time.Duration) { <-s.arrive(label, d).free }

// options are those who wait, in an order that does not depend on chance.
func (s *interleaving) options() []*arrival {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.waiting, func(a, b *arrival) int { return strings.Compare(a.label, b.label) })
	return slices.Clone(s.waiting)
}

// pick chooses one of several, as planned or the first.
func (s *interleaving) pick(options []string) int {
	b := branch{options: options}
	if d := len(s.taken); d < len(s.plan) && s.strayed == "" {
		if p := s.plan[d]; slices.Equal(p.options, options) {
			b.picked = p.picked
		} else {
			s.strayed = fmt.Sprintf("choice %d is among %q, but was among %q before", d, options, p.options)
		}
	}
	s.taken = append(s.taken, b)
	return b.picked
}

// release lets a go on.
func (s *interleaving) release(a *arrival) {
	if a.sleep > 0 {
		time.Sleep(a.sleep)
	}
	s.leave(a)
	close(a.free)
}

// openAll ends all waiting.
func (s *interleaving) openAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	for _, a := range s.waiting {
		close(a.free)
	}
	s.waiting = nil
}

// way is what was chosen, in order.
func (s *interleaving) way() string {
	var b strings.Builder
	for _, t := range s.taken {
		fmt.Fprintf(&b, "\n  %s", t.options[t.picked])
		if n := len(t.options); n > 1 {
			fmt.Fprintf(&b, "   (one of %d: %s)", n, strings.Join(t.options, ", "))
		}
	}
	return b.String()
}

// gated makes calls of a store wait before they are carried out and before
// they are answered. Label names a call; an empty one does not wait, and one
// with a dot at its end only before it is carried out. A caller whose context
// ends gets its error at once, and its call is carried out all the same when its
// turn comes, like a write that is still in the network. After is told of the
// answer.
func (s *interleaving) gated(label func(*storewrap.Call) string, after func(*storewrap.Call, error)) storewrap.Interceptor {
	return func(c context.Context, call *storewrap.Call, do func(context.Context) error) error {
		name := label(call)
		if name == "" {
			return do(c)
		}
		answer := make(chan error, 1)
		go func() {
			s.pass(name + ": carried out")
			err := do(context.WithoutCancel(c))
			after(call, err)
			if c.Err() == nil && !strings.HasSuffix(name, ".") {
				s.pass(name + ": answered")
			}
			answer <- err
		}()
		select {
		case err := <-answer:
			return err
		case <-c.Done():
			return c.Err()
		}
	}
}

// explore runs f, each time in a bubble of its own, with every sequence of
// choices there is, and at most so many. F returns what is wrong with how it
// went. It returns the number of runs.
func explore(t *testing.T, most int, f func(t *testing.T, s *interleaving) error) int {
	t.Helper()
	var plan []branch
	for n := 1; ; n++ {
		s := &interleaving{plan: plan}
		var err error
		synctest.Test(t, func(t *testing.T) { err = f(t, s) })
		if s.strayed != "" {
			t.Errorf("the same choices led elsewhere: %s; so far:%s", s.strayed, s.way())
			return n
		}
		if err != nil {
			t.Errorf("after %d other ways, this one: %v\nthe way:%s", n-1, err, s.way())
			return n
		}
		plan = s.taken
		for len(plan) > 0 && plan[len(plan)-1].picked == len(plan[len(plan)-1].options)-1 {
			plan = plan[:len(plan)-1]
		}
		if len(plan) == 0 {
			return n
		}
		plan = slices.Clone(plan)
		plan[len(plan)-1].picked++
		if n == most {
			t.Errorf("there are more than %d ways", most)
			return n
		}
	}
}
