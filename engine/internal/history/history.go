// Package history reads what the store has recorded of an execution's steps.
package history

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Each calls f with all records of the steps of an execution, in the order in which they
// ended. Its error is one of the store, or of ctx.
func Each(ctx context.Context, archive store.Archive, id courier.ExecutionID, f func(*courier.StepExecution)) error {
	for after := int64(0); ; {
		call, cancel := context.WithTimeout(ctx, storecall.Timeout)
		page, err := archive.Steps(call, store.StepFilter{Execution: id, After: after})
		cancel()
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			after = page[i].Seq
			f(&page[i])
		}
	}
}

// Place returns a name for a step in an iteration of the loops around it.
func Place(step int, iteration []int) string { return fmt.Sprint(step, iteration) }

// Failed returns the record among the latest of an execution that is of a step in an
// iteration and did not complete it, or nil.
func Failed(latest []courier.StepExecution, step int, iteration []int) *courier.StepExecution {
	for i := range latest {
		if s := &latest[i]; s.Step == step && s.State != courier.StepCompleted && slices.Equal(s.Iteration, iteration) {
			return s
		}
	}
	return nil
}

// FirstFailure returns the last failed step of the first attempt of a job, or nil.
func FirstFailure(ctx context.Context, archive store.Archive, id courier.ExecutionID) (first *courier.StepExecution, err error) {
	err = Each(ctx, archive, id, func(s *courier.StepExecution) {
		if s.ExecutionAttempt == 1 && s.State == courier.StepFailed {
			last := *s
			first = &last
		}
	})
	return first, err
}

// MissingFailure returns the failure of an execution that can't be resumed, since files
// that completed steps left are gone.
func MissingFailure(missing []string) *courier.Failure {
	const most = 20
	list := missing
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(missing)-most))
	}
	return &courier.Failure{
		Step: -1, Reason: courier.ReasonFiles,
		Message: fmt.Sprintf("files that completed steps left are missing or changed; put them back and resume again, or start a new execution: %s", strings.Join(list, ", ")),
	}
}
