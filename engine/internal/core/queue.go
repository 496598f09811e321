package core

import (
	"cmp"
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// PresentWorkers returns the workers that are present. There are none in a store that does
// not record them, for which w is nil.
func PresentWorkers(ctx context.Context, w store.Workers) ([]store.Worker, error) {
	if w == nil {
		return nil, nil
	}
	list, err := w.Workers(ctx, PresentFor)
	if err != nil {
		return nil, fmt.Errorf("read the present workers: %w", err)
	}
	return list, nil
}

// UnservedQueue warns if none of the workers serves the queue of a job. It is no problem: a
// worker that does may be started later. Without workers there is no warning.
func UnservedQueue(job *courier.Job, workers []store.Worker) (warnings []courier.Problem) {
	queue := cmp.Or(job.Queue, courier.DefaultQueue)
	for _, g := range store.FindStranded([]store.Stranded{{Queue: queue}}, workers) {
		if len(g.Served) > 0 {
			warnings = append(warnings, courier.Problem{
				Step: -1, Field: "queue", Message: fmt.Sprintf("no worker serves the queue %q; %s", queue, nearest.DidYouMean(queue, g.Served)),
			})
		}
	}
	return warnings
}
