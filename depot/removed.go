package depot

import (
	"context"
	"time"

	"github.com/courierhq/courier"
)

// An ExecutionLister is a [Depot] that can list its executions without listing their files.
// [Clean] uses it in each run, if the depot implements it.
type ExecutionLister interface {
	// Executions returns the executions that have, or had, files in the depot, each once and in
	// order.
	Executions(ctx context.Context) ([]courier.ExecutionID, error)
}

// executions returns the executions of any depot.
func executions(ctx context.Context, d Depot) ([]courier.ExecutionID, error) {
	if l, ok := d.(ExecutionLister); ok {
		return l.Executions(ctx)
	}
	all, err := d.List(ctx, "")
	if err != nil {
		return nil, err
	}
	var ids []courier.ExecutionID
	for _, info := range all {
		if x, _ := SplitKey(info.Key); len(ids) == 0 || ids[len(ids)-1] != x {
			ids = append(ids, x)
		}
	}
	return ids, nil
}

// Removed reports whether retention has removed the files of an execution, and when.
func Removed(ctx context.Context, d Depot, x courier.ExecutionID) (at time.Time, removed bool, err error) {
	all, err := d.List(ctx, RemovedKey(x))
	if err != nil || len(all) == 0 {
		return time.Time{}, false, err
	}
	return all[0].Time, true, nil
}

// A RemovedError says that retention has removed the files of an execution. It matches
// [courier.ErrNotFound].
type RemovedError struct {
	Execution courier.ExecutionID
	Time      time.Time // when
}

// Error says which files were removed, and what to do.
func (e *RemovedError) Error() string {
	return "depot: the files of execution " + string(e.Execution) + " were removed by retention at " + e.Time.Format(time.RFC3339) + "; start a new execution with new files"
}

// Is reports whether target is [courier.ErrNotFound].
func (e *RemovedError) Is(target error) bool { return target == courier.ErrNotFound }
