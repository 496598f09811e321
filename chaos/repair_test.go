package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/promise"
)

// step is does with an id.
func step(id string, c config) courier.StepSpec {
	s := does(c)
	s.ID = id
	return s
}

// mendable is a job whose second step fails at first, and then each item of its loop: an
// execution has to be repaired twice at least. In some versions another step comes first, so
// that all steps have other indexes.
func mendable(version int) courier.Job {
	loop := foreach([]int{10, 20, 30})
	loop.Config["on_item_failure"] = "continue"
	list := []courier.StepSpec{
		step("a", config{"add": 1}), step("b", config{"in": "context:a.value", "add": 1, "fails": "first"}),
		loop, step("c", config{"add": item}), step("d", config{"in": "context:c.value", "add": 1, "fails": "first"}), end,
		step("e", config{"in": "context:b.value", "add": 1}),
	}
	if version%2 > 0 {
		list = append([]courier.StepSpec{step("first", config{"add": version})}, list...)
	}
	return courier.Job{Name: "mendable", MaxDuration: time.Duration(version) * time.Hour, Steps: list}
}

// mended are the values of a mendable execution that is completed, whatever was done to it.
var mended = map[string]int{"a[]": 1, "b[]": 2, "c[0]": 10, "c[1]": 20, "c[2]": 30, "d[0]": 11, "d[1]": 21, "d[2]": 31, "e[]": 3}

// Operators repair executions in all ways, again and again, while workers are killed. Every
// execution completes with the values of its plan; no completed step runs again unless
// somebody has it run, and no two attempts have the same directory.
func TestRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t), nil)
	for version := range 4 {
		if _, err := w.people.Jobs().Define(t.Context(), mendable(version), nil); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	workers := make([]*process, 3)
	for i := range workers {
		workers[i] = w.spawn(ordinary)
	}
	var left sync.WaitGroup
	lanes := make(chan struct{}, 20)
	left.Go(func() {
		for range *repairs {
			lanes <- struct{}{}
			id := w.enqueue("mendable", courier.EnqueueOptions{})
			left.Go(func() {
				defer func() { <-lanes }()
				w.mend(id)
			})
		}
	})
	over := make(chan struct{})
	go func() {
		left.Wait()
		close(over)
	}()
	killed := 0
	for alive := true; alive; {
		select {
		case <-over:
			alive = false
		case <-time.After(time.Duration(200+rand.IntN(1200)) * time.Millisecond):
			if i := rand.IntN(len(workers)); w.working(workers[i]) {
				w.kill(workers[i])
				workers[i] = w.spawn(ordinary)
				killed++
			}
		}
	}
	took := time.Since(begun)
	w.stopAll()
	w.faults()
	c, err := w.gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for id, x := range c.executions {
		n += len(x.Repairs.Passes) + len(x.Repairs.Versions)
		if err := c.mendedWell(x); err != nil {
			t.Errorf("execution %s: %v", id, err)
		}
	}
	wentBack := func(x *courier.Execution, _ int) bool { return x.Repairs != nil } // see mendedWell
	if err := promise.Check(context.WithoutCancel(t.Context()), c, w.acked, promise.Rules{Restarts: wentBack}); err != nil {
		t.Error(shorten(err))
	}
	t.Logf("%d executions with %d repairs, %d workers killed, in %v", len(c.executions), n, killed, took.Round(time.Millisecond))
}

// mend repairs an execution until it is completed.
func (w *world) mend(id courier.ExecutionID) {
	for deadline := time.Now().Add(patience + time.Duration(*repairs)*time.Second); time.Now().Before(deadline) && w.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
		x, err := w.people.Executions().Get(w.Context(), id)
		switch {
		case err != nil:
		case x.State == courier.Completed:
			return
		case x.State == courier.Failed, x.State == courier.Paused:
			opt := w.repair(&x)
			if _, err := w.people.Resume(w.Context(), id, opt); errors.Is(err, courier.ErrInvalid) { // what was chosen does not fit
				_, _ = w.people.Resume(w.Context(), id, &courier.ResumeOptions{By: opt.By})
			}
		case rand.IntN(10) == 0:
			_, _ = w.people.Pause(w.Context(), id, courier.By{Actor: "operator"})
		}
	}
	w.Errorf("execution %s is not completed", id)
}

// repair chooses how an execution is repaired.
func (w *world) repair(x *courier.Execution) *courier.ResumeOptions {
	opt := &courier.ResumeOptions{By: courier.By{Actor: "operator", Reason: "it was looked at"}}
	if rand.IntN(2) == 0 {
		opt.Version = 1 + rand.IntN(4)
	}
	switch rand.IntN(5) {
	case 0:
		opt.From = []string{"a", "b", "c", "d"}[rand.IntN(4)]
	case 1:
		if list, err := w.people.Executions().FailedItems(w.Context(), x.ID); err == nil && len(list) > 0 && opt.Version == 0 {
			for _, i := range rand.Perm(len(list))[:1+rand.IntN(len(list))] {
				opt.Items = append(opt.Items, list[i].ItemPath)
			}
		}
	case 2:
		if f := x.Failure; f != nil && f.ID == "b" {
			opt.Skip, opt.Outputs = true, map[string]any{"value": mended["b[]"]}
		}
	}
	return opt
}

// mendedWell checks an execution that was repaired: the last values of its steps are those of
// the plan, a step that was completed has a later record only behind a pass that has it run
// again, and its attempts had directories of their own.
func (c *evidence) mendedWell(x *courier.Execution) error {
	if x.State != courier.Completed || x.Repairs == nil {
		return fmt.Errorf("it is %s, with repairs %+v", x.State, x.Repairs)
	}
	values, done := make(map[string]int), make(map[string]int64)
	for i := range c.records[x.ID] {
		r, ok := flow.MapRecord(&c.records[x.ID][i], x.Repairs.Versions)
		at := r.ID + "[" + courier.FormatIteration(r.Iteration) + "]"
		if before := done[at]; before > 0 && ok && !ranAgain(x.Repairs.Passes, &r, before) {
			return fmt.Errorf("%s was completed with record %d, and nobody has had it run again, but record %d is %s", at, before, r.Seq, r.State)
		}
		if r.State != courier.StepCompleted && r.State != courier.StepSkipped {
			continue
		}
		v, err := valueOf(r.Outputs)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		values[at], done[at] = v, r.Seq
	}
	for at, want := range mended {
		if values[at] != want {
			return fmt.Errorf("%s is %d, want %d", at, values[at], want)
		}
	}
	owners := make(map[string]string)
	for _, n := range c.notes[x.ID] {
		if n.Dir == "" {
			continue
		}
		own := fmt.Sprintf("%s[%s], start %d of attempt %d", n.ID, n.Iteration, n.Start, n.Of)
		if other := owners[n.Dir]; other != "" && other != own {
			return fmt.Errorf("%s is the directory of %s and of %s", n.Dir, other, own)
		}
		owners[n.Dir] = own
	}
	return nil
}

// ranAgain reports whether a step that was completed before runs again because the execution
// went back to it, or in front of it, since.
func ranAgain(passes []courier.RepairPass, r *courier.StepExecution, before int64) bool {
	return slices.ContainsFunc(passes, func(p courier.RepairPass) bool {
		if p.From == nil || p.Seq < before || p.Seq > r.Seq {
			return false
		}
		at := courier.Position{Step: r.Step}
		for i, l := range p.From.Loops {
			if i < len(r.Iteration) {
				at.Loops = append(at.Loops, courier.LoopPosition{Step: l.Step, Index: r.Iteration[i]})
			}
		}
		return flow.Compare(at, *p.From) >= 0
	})
}
