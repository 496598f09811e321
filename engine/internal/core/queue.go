package core

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
// worker that does may be started later. Without workers, as before the first deployment,
// there is a warning if the queue is nearly one that this engine serves when it is started.
func UnservedQueue(job *courier.Job, workers []store.Worker, own []string) (warnings []courier.Problem) {
	queue := cmp.Or(job.Queue, courier.DefaultQueue)
	known := append(slices.Clone(own), courier.DefaultQueue)
	if near := nearest.Name(queue, known); len(workers) == 0 && near != "" && !slices.Contains(known, queue) {
		return []courier.Problem{{Step: -1, Field: "queue", Message: fmt.Sprintf("no worker is present, and this engine does not serve the queue %q; did you mean %q?", queue, near)}}
	}
	for _, g := range store.FindStranded([]store.Stranded{{Queue: queue}}, workers) {
		if len(g.Served) > 0 {
			warnings = append(warnings, courier.Problem{
				Step: -1, Field: "queue", Message: fmt.Sprintf("no worker serves the queue %q; %s", queue, nearest.DidYouMean(queue, g.Served)),
			})
		}
	}
	return warnings
}
