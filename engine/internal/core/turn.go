package core

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Turn reports whether the present period of a task that one engine does for all is that of
// a worker. Periods go round among the workers that serve the task, have claimed lately and do
// not drain. So an engine that fails or hangs does not stop the task for long. If none has
// claimed, this one is just starting. Where the store does not record workers, it is always the
// turn of each.
func (r Roles) Turn(ctx context.Context, worker string, every time.Duration, serves func(*store.Worker) bool) (bool, error) {
	workers, err := r.Workers()
	if err != nil {
		return true, nil // the store does not record them
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	period := uint64(time.Now().UnixNano()) / uint64(every) // also right for a clock before 1970
	list, err := workers.Workers(ctx, PresentFor)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // by the store in a wrapper
		return true, nil
	case err != nil:
		return false, err
	}
	list = slices.DeleteFunc(list, func(w store.Worker) bool { return w.Draining || !serves(&w) })
	return len(list) == 0 || list[period%uint64(len(list))].Name == worker, nil
}

// NextTurn is how long it takes until who asks looks again whose turn it is: until the next
// period begins, and a part of a quarter of it, so that not all do at the same instant. Periods
// begin at the same instants in all engines whose clocks agree.
func NextTurn(who string, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(who))
	return every - time.Duration(time.Now().UnixNano()%int64(every)) + every/256*time.Duration(h.Sum32()%64)
}
