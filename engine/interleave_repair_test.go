package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// ofItems is an execution of which the first of two items fails once, so that it can be
// repaired.
var ofItems = behaviour{
	name: "items", policy: `"stop"`, fails: true, ends: completes,
	steps: `{"type": "flow.foreach", "config": {"source": ["x", "y"], "on_item_failure": "continue"}}, {"type": "demo.a"}, {"type": "demo.a"}, {"type": "flow.end"}, {"type": "demo.a"}`,
}

// failFirst executes the execution to its first end, with no other actor.
func (p *play) failFirst(t *testing.T) error {
	p.setOpen(true)
	defer p.setOpen(false)
	first := p.engine("first")
	if err := first.Start(t.Context()); err != nil {
		return err
	}
	x, err := first.Wait(t.Context(), p.id)
	if err != nil {
		return err
	}
	if x.State != courier.Failed || x.FailedItems != 1 {
		return fmt.Errorf("before the repair: %s with %d failed items", x.State, x.FailedItems)
	}
	return first.Stop(t.Context())
}

// setOpen says whether actors pass the gates without waiting.
func (s *schedule) setOpen(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

// TestInterleavingsOfRepair has operators resume an execution with a failed item, while the
// engine that repairs it is lost or stopped, or others pause or cancel it: a completed step
// is never executed again, and the item ends as repaired once.
func TestInterleavingsOfRepair(t *testing.T) {
	const pause, resume, cancel = courier.RequestPause, courier.RequestResume, courier.RequestCancel
	dir, total, start := t.TempDir(), 0, time.Now()
	for _, c := range []struct {
		name      string
		operators [][]courier.RequestKind
		lost      bool // the leases of engine a end, and another takes over
		stopped   bool // engine a stops, and another goes on
	}{
		{name: "lost", operators: [][]courier.RequestKind{{resume}}, lost: true},
		{name: "lost, and paused", operators: [][]courier.RequestKind{{resume, pause}}, lost: true},
		{name: "stopped", operators: [][]courier.RequestKind{{resume}}, stopped: true},
		{name: "resumed twice", operators: [][]courier.RequestKind{{resume}, {resume}}},
		{name: "paused and resumed", operators: [][]courier.RequestKind{{resume, pause, resume}}},
		{name: "cancelled", operators: [][]courier.RequestKind{{resume, cancel}}},
	} {
		n := explore(t, 20_000, func(t *testing.T, s *schedule) error {
			return perform(t, s, dir, ofItems, func(p *play) error {
				if err := p.failFirst(t); err != nil {
					return err
				}
				p.deaf, p.crowd = c.lost, true
				a, next, o := p.engine("a"), p.engine("b"), p.engine("o")
				for i, kinds := range c.operators {
					p.ask(o, fmt.Sprintf("operator %d", i+1), kinds...)
				}
				if err := a.Start(t.Context()); err != nil {
					return err
				}
				switch {
				case c.lost:
					p.act(func() error {
						p.sleep("the lease ends", 16*time.Second)
						return next.Start(t.Context())
					})
				case c.stopped:
					p.act(func() error {
						p.pass("stop")
						return errors.Join(a.Stop(t.Context()), next.Start(t.Context()))
					})
				}
				return nil
			})
		})
		if total += n; t.Failed() {
			t.Fatal(c.name)
		}
		t.Logf("%s: %d interleavings", c.name, n)
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}
