package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
)

// Executions that fail twice, so that they are repaired twice. The ids of their steps are
// their indexes in the first version of the job.
var (
	twiceInSteps = behaviour{
		name: "steps", policy: `"stop"`, ends: completes, returns: 2,
		steps: `{"id": "s0", "type": "demo.a"}, {"id": "s1", "type": "demo.a"}, {"id": "s2", "type": "demo.a"}, {"id": "s3", "type": "demo.a"}`,
		falls: map[string]courier.Reason{"s1[]": courier.ReasonError, "s2[]": courier.ReasonError},
	}
	// Its last steps need a file of the second one.
	twiceWithFiles = behaviour{
		name: "files", policy: `"stop"`, ends: completes, returns: 2,
		steps: `{"id": "s0", "type": "demo.a", "config": {"write": "one"}}, {"id": "s1", "type": "demo.a", "config": {"write": "two"}},
			{"id": "s2", "type": "demo.a", "config": {"needs": "two"}}, {"id": "s3", "type": "demo.a", "config": {"needs": "two"}}`,
		falls: map[string]courier.Reason{"s2[]": courier.ReasonError, "s3[]": courier.ReasonError},
	}
	// Its first item fails again while it is repaired.
	twiceInItems = behaviour{
		name: "items", policy: `"stop"`, ends: completes, returns: 2,
		steps: `{"id": "s0", "type": "flow.foreach", "config": {"source": ["x", "y"], "on_item_failure": "continue"}},
			{"id": "s1", "type": "demo.a"}, {"id": "s2", "type": "demo.a"}, {"type": "flow.end"}, {"id": "s4", "type": "demo.a"}`,
		falls: map[string]courier.Reason{"s1[0]": courier.ReasonError, "s2[0]": courier.ReasonError},
	}
	// It fails in the middle of an item that has failed already, and once more behind it.
	twiceInAnItem = behaviour{
		name: "in a failed item", policy: `"stop"`, ends: completes, returns: 2,
		steps: `{"id": "s0", "type": "flow.foreach", "config": {"source": ["x"], "on_item_failure": "continue"}}, {"id": "s1", "type": "demo.a", "config": {"leave": true}},
			{"id": "s2", "type": "flow.foreach", "config": {"source": ["y"], "on_item_failure": "continue"}}, {"id": "s3", "type": "demo.a", "config": {"needs": "s1"}}, {"type": "flow.end"},
			{"id": "s5", "type": "demo.a"}, {"type": "flow.end"}, {"id": "s7", "type": "demo.a"}`,
		falls: map[string]courier.Reason{"s3[0 0]": courier.ReasonError, "s5[0]": courier.ReasonConnection, "s7[]": courier.ReasonError},
	}
)

// repairTwice has an operator repair an execution that has failed, and again when it has
// failed once more. If items are left then, they are executed again too. Engine a, which goes on after the first repair, loses its lease at some
// time, and another takes over.
func (p *play) repairTwice(t *testing.T, first, second courier.RequestKind) error {
	if err := errors.Join(p.failFirst(t), p.defineMoved(t)); err != nil {
		return err
	}
	p.deaf, p.crowd = true, true
	a, next, o := p.engine("a"), p.engine("b"), p.engine("o")
	p.act(func() error {
		for i, kind := range []courier.RequestKind{first, second, courier.RequestResume} {
			if _, err := request(o, kind)(context.Background(), p.id, courier.By{Actor: fmt.Sprint("operator ", i+1)}); err != nil {
				return fmt.Errorf("repair %d, %s: %w", i+1, kind, err)
			}
			if x, err := o.Wait(context.Background(), p.id); err != nil || x.State != courier.Failed {
				return err
			}
		}
		return nil
	})
	if err := a.Start(t.Context()); err != nil {
		return err
	}
	p.act(func() error {
		p.sleep("the lease ends", 16*time.Second)
		return next.Start(t.Context())
	})
	return nil
}

// TestInterleavingsOfTwoRepairs repairs executions twice, with a takeover between. No
// attempt may have the name of another one, no completed step runs again unless an operator
// has it run, and both repairs take effect.
func TestInterleavingsOfTwoRepairs(t *testing.T) {
	const resume, back, version, former = courier.RequestResume, courier.RequestKind("back"), courier.RequestKind("version"), courier.RequestKind("former")
	const set, elsewhere, items = courier.RequestKind("set"), courier.RequestKind("elsewhere"), courier.RequestKind("items")
	dir, total, start := t.TempDir(), 0, time.Now()
	for _, c := range []struct {
		kind  behaviour
		pairs [][2]courier.RequestKind
	}{
		{twiceInSteps, [][2]courier.RequestKind{
			{resume, version}, {version, former}, {version, back}, {back, version}, {version, skip}, {skip, version}, {back, back}, {version, set}, {set, back}, {skip, skip},
		}},
		{twiceWithFiles, [][2]courier.RequestKind{{elsewhere, elsewhere}, {version, elsewhere}, {elsewhere, version}, {back, elsewhere}, {elsewhere, back}}},
		{twiceInItems, [][2]courier.RequestKind{{resume, resume}, {items, items}, {items, resume}, {resume, items}, {version, former}, {resume, version}, {items, version}}},
		{twiceInAnItem, [][2]courier.RequestKind{{elsewhere, resume}, {elsewhere, elsewhere}, {resume, elsewhere}, {version, elsewhere}}},
	} {
		for i, pair := range c.pairs {
			if i%*everyPlay > 0 {
				continue
			}
			n := explore(t, raced.Or(2_000, 20_000), func(t *testing.T, s *interleaving) error {
				return perform(t, s, dir, c.kind, func(p *play) error { return p.repairTwice(t, pair[0], pair[1]) })
			})
			total += n
			t.Logf("%s, %s and %s: %d interleavings", c.kind.name, pair[0], pair[1], n)
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}
