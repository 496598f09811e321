package memstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/storetest"
)

// promises checks what Courier promises on the store's own data, whatever the
// model says, after an operation on the state of n.
func (r *rig) promises(n *node, p *prediction) error {
	running := 0
	for i, x := range r.x {
		before := n.frozen[i]
		if x.State == courier.Running {
			running++
		}
		if r.changed[i] {
			if err := kept(before, x); err != nil {
				return fmt.Errorf("execution %d: %w", i+1, err)
			}
		}
		switch cancelled := p.next.x[i].cancelled; {
		case r.changed[i] && (p.answer != accepted || before.State.Final()):
			return fmt.Errorf("execution %d was changed by a call that must not change it", i+1)
		case cancelled && !cancels(x):
			return fmt.Errorf("execution %d is %s with request %q after its cancel was acknowledged", i+1, x.State, x.Request)
		}
	}
	if limit := int(n.model.limit); limit > 0 && running > limit {
		return fmt.Errorf("%d executions run, %d may", running, limit)
	}
	if r.changed[0] || r.changed[1] {
		return r.s.check()
	}
	return nil
}

// cancels reports whether an execution is cancelled or will be.
func cancels(x *execution) bool {
	asked := x.Request == courier.RequestCancel || x.Request == courier.RequestAbort
	return x.State == courier.Cancelled || x.Finishing != nil && x.Finishing.Outcome == courier.Cancelled ||
		asked && (x.State == courier.Running || x.State == courier.Queued && x.HasFinally)
}

// same reports whether nothing of an execution has changed.
func same(a, b *execution) bool {
	if (a.Current == nil) != (b.Current == nil) || a.Current != nil && !sameCurrent(a.Current, b.Current) {
		return false
	}
	return a.State == b.State && a.Attempt == b.Attempt && a.Position.Equal(b.Position) && reflect.DeepEqual(a.counters, b.counters) &&
		a.token == b.token && a.first == b.first && a.last == b.last && a.RequestedBy == b.RequestedBy && a.Request == b.Request &&
		a.since.Equal(b.since) && a.clock.Equal(b.clock) && a.DueAt.Equal(b.DueAt) && a.StartedAt.Equal(b.StartedAt) &&
		a.EndedAt.Equal(b.EndedAt) && a.HeartbeatAt.Equal(b.HeartbeatAt) && a.LeaseExpiresAt.Equal(b.LeaseExpiresAt) && a.Failure == b.Failure && a.Worker == b.Worker &&
		a.Resumed == b.Resumed && a.finish == b.finish && a.FinallyError == b.FinallyError && a.Workspace == b.Workspace && a.FailedItems == b.FailedItems && a.Repairs == b.Repairs && a.Version == b.Version && len(a.audit) == len(b.audit) && len(a.steps) == len(b.steps)
}

func sameCurrent(a, b *courier.StepExecution) bool {
	return a.Step == b.Step && a.Attempt == b.Attempt && a.State == b.State && a.StartedAt.Equal(b.StartedAt) && a.EndedAt.Equal(b.EndedAt)
}

// kept checks what an execution became.
func kept(before, x *execution) error {
	if err := finalSteps(x); err != nil {
		return err
	}
	if err := keptFinish(before, x); err != nil {
		return err
	}
	if !latestOnly(x) {
		return fmt.Errorf("its latest records are %+v", x.latestSteps(0))
	}
	if x.State == courier.Running && before.State == courier.Running && x.token != before.token && x.seq() != before.seq()+2 {
		return errors.New("its lease was taken over without a reclaim in the audit")
	}
	if x.seq() == before.seq() {
		if x.State != before.State || x.Attempt != before.Attempt || !x.Position.Equal(before.Position) || x.token != before.token ||
			(x.Current == nil) != (before.Current == nil) || len(x.steps) != len(before.steps) {
			return errors.New("it has changed, but not its audit")
		}
		return nil
	}
	state := ""
	for j := len(x.audit) - 1; state == ""; j-- {
		if x.audit[j].step == nil {
			state = x.audit[j].to
		}
	}
	if state != string(x.State) {
		return fmt.Errorf("it is %s, but its audit ends with %s", x.State, state)
	}
	return lostWorkers(x)
}

// keptFinish checks that what was decided of an execution stays, and is what becomes of it.
func keptFinish(before, x *execution) error {
	f := before.finish
	switch {
	case f == nil || x.finish == f:
		return nil
	case x.finish != nil:
		return fmt.Errorf("%+v was decided again: %+v", f, x.finish)
	case x.State != f.Outcome || !x.Position.Equal(f.Position) || !reflect.DeepEqual(x.counters, f.Counters) || x.Request != "":
		return fmt.Errorf("%+v was decided, and it is %s at %+v with counters %+v and request %q", f, x.State, x.Position, x.counters, x.Request)
	case !reflect.DeepEqual(x.Failure, before.Failure) || string(x.Result) != string(before.Result):
		return fmt.Errorf("its finally part has changed its failure from %v to %v, or its result from %s to %s", before.Failure, x.Failure, before.Result, x.Result)
	}
	return nil
}

// finalSteps checks that the steps before the position have ended once in this
// attempt of the execution, and none of those behind. Those before an operator last went back to
// the first step do not count.
func finalSteps(x *execution) error {
	var ended, rescued [len(modelPositions)]int
	var back int64
	if x.Repairs != nil {
		back = x.Repairs.Passes[len(x.Repairs.Passes)-1].Seq
	}
	for _, s := range x.steps {
		passed := s.State == courier.StepCompleted || s.State == courier.StepSkipped || s.FailedLoop != nil || s.Rescue != nil
		if passed && s.ExecutionAttempt == x.Attempt && s.Seq > back {
			i := positionOf(s.Step, s.Iteration)
			switch {
			case int(i) >= len(modelPositions) || i == modelEnd:
				return fmt.Errorf("step %d iteration %v is none of the job", s.Step, s.Iteration)
			case i == modelFinally && (x.Finishing == nil || s.Seq < x.Finishing.Seq):
				continue // of an earlier pass
			}
			ended[i]++
			if s.Rescue != nil {
				rescued[i]++
			}
		}
	}
	pos := int(positionOf(x.Position.Step, x.Position.Iteration()))
	came := pos // before the finally part
	if f := x.Finishing; f != nil {
		came = int(positionOf(f.Position.Step, f.Position.Iteration()))
	}
	for i, n := range ended {
		want := min(1, max(0, came-i))
		switch {
		case i == int(modelFinally):
			if want = 0; x.Finishing != nil && pos == int(modelEnd) {
				want = 1
			}
		case want > 0 && modelPositions[i].Step == modelRescue:
			want = rescued[i-1]
		}
		if n != want {
			return fmt.Errorf("it stands at position %d, %d before its finally part, and the step at position %d was completed %d times", pos, came, i, n)
		}
	}
	if c := x.Current; c != nil && int(positionOf(c.Step, c.Iteration)) != pos {
		return fmt.Errorf("it stands at position %d, but step %d iteration %v is under way", pos, c.Step, c.Iteration)
	}
	if x.State == courier.Completed && pos != int(modelEnd) {
		return fmt.Errorf("it is completed at position %d", pos)
	}
	return nil
}

// latestOnly reports whether the latest records are those of the present
// attempt. A search relies on it: it does not carry them from state to state.
func latestOnly(x *execution) bool {
	n := 0
	for i, s := range x.steps {
		newest := s.ExecutionAttempt == x.Attempt
		for _, later := range x.steps[i+1:] {
			newest = newest && later.Step != s.Step
		}
		if newest {
			n++
			if records := x.present[s.Step]; records[len(records)-1] != s {
				return false
			}
		}
	}
	for _, records := range x.present {
		if len(records) > 0 {
			n--
		}
	}
	return n == 0
}

// lostWorkers counts the workers that were lost since a step last ended, and
// checks that not too many were when one was started.
func lostWorkers(x *execution) error {
	n, decided := 0, -1 // and how many when the finally part began
	for i := range x.audit {
		switch e := &x.audit[i]; {
		case e.step == nil && e.note != nil && e.note.err == modelDecided:
			if decided, n = n, 0; e.note.reason != "" {
				decided = 0 // it has failed
			}
		case e.step == nil && decided >= 0 && courier.State(e.to).Ended():
			n, decided = decided, -1
		case e.step == nil && e.note != nil && e.note.reason == courier.ReasonCancelled: // and is queued for its finally part
		case e.step == nil && e.note != nil && e.note.reason == courier.ReasonWorkerLost && e.to == string(courier.Queued):
			n++
		case e.step != nil && e.to == string(courier.StepRunning):
			if n >= 3 {
				return fmt.Errorf("audit entry %d starts a step after %d workers were lost there", i+1, n)
			}
		case e.step != nil && (e.to == string(courier.StepCompleted) || e.to == string(courier.StepSkipped) || e.to == string(courier.StepFailed) && (e.step.FailedLoop != nil || e.step.Rescue != nil)),
			e.step == nil && (e.to == string(courier.Failed) && e.note.reason != courier.ReasonFiles || e.to == string(courier.Queued) && e.note != nil):
			n = 0 // an execution that is put back for missing files keeps its counters
		}
	}
	if x.counters.Reclaims != n {
		return fmt.Errorf("%d workers were lost since a step last ended, the counter says %d", n, x.counters.Reclaims)
	}
	return nil
}

// audited checks everything that the store knows of its executions.
func (r *rig) audited() error {
	for _, x := range r.x {
		if err := storetest.CheckExecution(context.Background(), r.s, x.ID); err != nil {
			return err
		}
	}
	return nil
}
