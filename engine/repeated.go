package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
)

// repeated reports whether a step that is about to execute was started before in
// its iteration. In a loop that was started again attempts count on from the
// first pass, and in a job that was started again they begin anew, so the number
// alone does not tell: the first pass may not have come as far.
func (r *run) repeated(step, n int, cleanup bool) bool {
	again := r.marks.Base != 0 && n == r.marks.Base+1
	if cleanup && (r.handed || !again) {
		return true
	}
	if !again && r.x.Attempt == 1 {
		return false
	}
	if r.former == nil {
		r.former = make(map[string]bool)
		ctx, cancel := context.WithTimeout(r.lease, maxReading)
		defer cancel()
		err := r.e.eachStepEver(ctx, &r.x, func(s *courier.StepExecution) {
			if s.ExecutionAttempt < r.x.Attempt || s.Attempt <= r.marks.Base {
				r.former[stepPlace(s.Step, s.Iteration)] = true
			}
		})
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
