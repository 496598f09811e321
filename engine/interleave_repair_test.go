package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
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
	if x.State != courier.Failed {
		return fmt.Errorf("before the repair it is %s", x.State)
	}
	return first.Stop(t.Context())
}

// setOpen says whether actors pass the gates without waiting.
func (s *interleaving) setOpen(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

// ofSteps is an execution whose second step fails once.
var ofSteps = behaviour{name: "steps", policy: `"stop"`, steps: oneStep + "," + oneStep + "," + oneStep, fails: true, failsAt: 1, ends: completes}

// ofFiles is an execution whose third step fails once, and needs a file that the second left.
var ofFiles = behaviour{
	name: "files", policy: `"stop"`, fails: true, failsAt: 2, ends: completes,
	steps: `{"type": "demo.a", "config": {"write": "one"}}, {"type": "demo.a", "config": {"write": "two"}}, {"type": "demo.a", "config": {"needs": "two"}}, ` + oneStep,
}

// Executions that fail in the rescue of an item, with an item that an operator may rescue, and
// before a finally part.
var (
	ofRescue = behaviour{
		name: "failed rescue", policy: `"stop"`, ends: completes, falls: map[string]courier.Reason{"1[0]": courier.ReasonError, "3[0]": courier.ReasonError},
		steps: `{"type": "flow.foreach", "config": {"source": ["x"]}}, ` + rescuedStep + ", " + oneStep,
	}
	ofBadItem = behaviour{
		name: "bad item", policy: `"stop"`, ends: completes, fails: true,
		steps: `{"type": "flow.foreach", "config": {"source": ["x", "y"]}}, ` + strings.Replace(rescuedStep, `"flow.rescue"`, `"flow.rescue", "config": {"no_rescue_on": ["error"]}`, 1),
	}
	ofFinally = behaviour{name: "finally", policy: `"stop"`, steps: oneStep + finallyStep, last: 2, fails: true, ends: completes}
)

// A repairing is how an execution that has failed is repaired.
type repairing struct {
	name      string
	kind      behaviour
	operators [][]courier.RequestKind
	lost      bool // the leases of engine a end, and another takes over
	stopped   bool // engine a stops, and another goes on
}

// begin has the execution fail, then sets the actors going.
func (c *repairing) begin(t *testing.T, p *play) error {
	if err := errors.Join(p.failFirst(t), p.define(t, "tuesday")); err != nil {
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
}

// TestInterleavingsOfRepair has operators resume an execution that has failed, with each
// change that there is, while the engine that goes on is lost or stopped, or others do the
// same, resume, pause or cancel it: a change takes effect once, a completed step is not
// executed again unless From says so, and an item ends as repaired once.
func TestInterleavingsOfRepair(t *testing.T) {
	const pause, resume, cancel = courier.RequestPause, courier.RequestResume, courier.RequestCancel
	var cases []repairing
	for _, kind := range []behaviour{ofItems, ofRescue, ofFinally} {
		cases = append(cases,
			repairing{name: kind.name + ": lost", kind: kind, operators: [][]courier.RequestKind{{resume}}, lost: true},
			repairing{name: kind.name + ": lost, and paused", kind: kind, operators: [][]courier.RequestKind{{resume, pause}}, lost: true},
			repairing{name: kind.name + ": stopped", kind: kind, operators: [][]courier.RequestKind{{resume}}, stopped: true},
			repairing{name: kind.name + ": resumed twice", kind: kind, operators: [][]courier.RequestKind{{resume}, {resume}}},
			repairing{name: kind.name + ": paused and resumed", kind: kind, operators: [][]courier.RequestKind{{resume, pause, resume}}},
			repairing{name: kind.name + ": cancelled", kind: kind, operators: [][]courier.RequestKind{{resume, cancel}}},
		)
	}
	for _, k := range []courier.RequestKind{skip, "from", "set", "version", "elsewhere", "items", "rescue", "accept"} {
		kind := ofSteps
		switch k {
		case "items":
			kind = ofItems
		case "elsewhere":
			kind = ofFiles
		case "rescue", "accept":
			kind = ofBadItem
		}
		cases = append(cases,
			repairing{name: string(k) + ": lost", kind: kind, operators: [][]courier.RequestKind{{k}}, lost: true},
			repairing{name: string(k) + ": stopped", kind: kind, operators: [][]courier.RequestKind{{k}}, stopped: true},
			repairing{name: string(k) + ": twice", kind: kind, operators: [][]courier.RequestKind{{k}, {k}}},
			repairing{name: string(k) + ": twice, and paused", kind: kind, operators: [][]courier.RequestKind{{k, pause}, {k}}},
			repairing{name: string(k) + ": and a resume", kind: kind, operators: [][]courier.RequestKind{{k}, {resume}}},
			repairing{name: string(k) + ": paused and resumed", kind: kind, operators: [][]courier.RequestKind{{k, pause, resume}}},
			repairing{name: string(k) + ": and a cancel", kind: kind, operators: [][]courier.RequestKind{{k}, {cancel}}},
		)
	}
	dir, total, start := t.TempDir(), 0, time.Now()
	for i, c := range cases {
		if i%*everyPlay > 0 {
			continue
		}
		n := explore(t, 20_000, func(t *testing.T, s *interleaving) error {
			return perform(t, s, dir, c.kind, func(p *play) error { return c.begin(t, p) })
		})
		if total += n; t.Failed() {
			t.Fatal(c.name)
		}
		t.Logf("%s: %d interleavings", c.name, n)
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestInterleavingsOfRerun has two operators start an execution that has failed again, with
// one key, while a third resumes or cancels it: there is one new execution, see check.
func TestInterleavingsOfRerun(t *testing.T) {
	dir, total, start := t.TempDir(), 0, time.Now()
	for _, kind := range []courier.RequestKind{courier.RequestResume, courier.RequestCancel} {
		total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
			return perform(t, s, dir, ofSteps, func(p *play) error {
				if err := p.failFirst(t); err != nil {
					return err
				}
				p.crowd = true
				o := p.engine("o")
				p.ask(o, "operator", kind, courier.RequestCancel) // so that it has an end
				for i := range 2 {
					p.act(func() error {
						by := courier.By{Actor: fmt.Sprintf("rerun %d", i+1)}
						x, err := o.Rerun(t.Context(), p.id, &engine.RerunOptions{IdempotencyKey: "again", By: by})
						if err == nil && (x.ID == p.id || x.RerunOf != p.id) {
							err = fmt.Errorf("%s is a rerun of %q", x.ID, x.RerunOf)
						}
						return err
					})
				}
				return nil
			})
		})
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}
