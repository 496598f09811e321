package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
)

// repeated reports whether a step of which attempt n is about to execute was
// started before in its iteration. Where a loop or the job was started again, attempts
// are counted anew, so the number alone does not tell: the first pass may not have
// come as far. A record of a step's place is of an earlier pass then, for in one
// pass a place is come to once.
func (r *run) repeated(step, n int) bool {
	if n > 1 || r.handed {
		return true
	}
	if r.marks.Base == 0 && r.x.Attempt == 1 {
		return false
	}
	if r.former == nil {
		r.former = make(map[string]bool)
		ctx, cancel := context.WithTimeout(r.lease, maxReading)
		defer cancel()
		err := r.e.eachStepEver(ctx, &r.x, func(s *courier.StepExecution) { r.former[stepPlace(s.Step, s.Iteration)] = true })
		if err != nil {
			r.log.Error("read the steps of a loop or job that was started again; its steps are told that they are repeated", "error", err)
			r.former = nil
			return true
		}
	}
	return r.former[stepPlace(step, r.walk.Iteration())]
}

// firstCause adds to the error of a job that was begun again why its first
// attempt failed, which is often what the later ones only follow from.
func (r *run) firstCause(err error) error {
	if r.x.Attempt == 1 {
		return err
	}
	ctx, cancel := context.WithTimeout(r.lease, maxReading)
	defer cancel()
	var first *courier.StepExecution
	read := r.e.eachStepEver(ctx, &r.x, func(s *courier.StepExecution) {
		if s.ExecutionAttempt == 1 && s.State == courier.StepFailed {
			last := *s
			first = &last
		}
	})
	if read != nil {
		r.log.Error("read why the first attempt of the job failed", "error", read)
	}
	if first == nil || first.Error == r.secrets.message(err) {
		return err
	}
	return fmt.Errorf("%w; attempt 1 of the job had failed in step %d (%s) with: %s", err, first.Step, first.Type, first.Error)
}

// stepPlace is a step in its iteration.
func stepPlace(step int, iteration []int) string {
	return fmt.Sprint(step, iteration)
}
