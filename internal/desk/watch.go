package desk

import (
	"context"
	"fmt"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/watch"
)

// Watch begins to report the changes of an execution that the visitor may see, like
// [watch.Executions.Watch]. The error is a *[BusyError] if there are too many watches already.
// The caller must close the watch.
func (v *Visit) Watch(id courier.ExecutionID, after int64) (*watch.Watch, error) {
	left, err := v.Look()
	if err != nil {
		return nil, err
	}
	return v.d.watched.Watch(id, after, left), nil
}

// WatchExecutions begins to report the first page of the executions that a filter selects and
// that the visitor may see. Visitors who may see the whole page share one read. The error is a
// *[BusyError] if there are too many watches already. The caller must close the watch.
func (v *Visit) WatchExecutions(ctx context.Context, w filter.Filter, limit int) (*watch.ListWatch, error) {
	left, err := v.Look()
	if err != nil {
		return nil, err
	}
	return v.d.lists.Watch(ctx, func(ctx context.Context) watch.List { return v.d.list(ctx, v.Principal, w, limit) }, left), nil
}

// list returns the list of a filter as a viewer may see it now. Viewers who may see all of it
// share one list; any other viewer has its own.
func (d *Desk) list(ctx context.Context, viewer access.Principal, w filter.Filter, limit int) watch.List {
	v := d.Visitor(viewer)  // roles are requested again each time
	var of access.Principal // empty for all who may see all of it
	if may, err := v.mayAsk(ctx, &w); err != nil || may != nil || !v.Can(ctx, "", access.RightSee) {
		of = viewer
	}
	read := func(ctx context.Context) ([]courier.Execution, error) {
		if of == (access.Principal{}) {
			page, err := d.Executions(ctx, w, "", limit)
			return page.Items, err
		}
		page, err := d.Visitor(viewer).Executions(ctx, w, "", limit)
		return page.Items, err
	}
	return watch.List{Key: fmt.Sprintf("%q %d %s", of.ID, limit, w), Read: read}
}

// A BusyError says that there are too many watches, or that too much was examined for a visitor.
// It matches [watch.ErrBusy].
type BusyError struct{ Text string }

// Error returns the text.
func (e *BusyError) Error() string { return e.Text }

// Is reports whether target is [watch.ErrBusy].
func (e *BusyError) Is(target error) bool { return target == watch.ErrBusy }

// Look counts the visitor as a viewer until left is called. It is for views that the desk does
// not watch itself. The error is a *[BusyError] if there are too many watches already.
func (v *Visit) Look() (left func(), err error) { return v.d.viewers.enter(v.ID) }

// viewers counts the current views.
type viewers struct {
	most, mostOf int // in total, and of one visitor

	mu  sync.Mutex
	all int
	of  map[string]int
}

// enter counts one more view of a visitor, until left is called.
func (v *viewers) enter(id string) (left func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.all >= v.most:
		return nil, &BusyError{fmt.Sprintf("this process has %d streams already, and no more (Options.MaxStreams): poll instead, or try again later", v.most)}
	case v.of[id] >= v.mostOf:
		return nil, &BusyError{fmt.Sprintf("you have %d streams already, and no more (Options.MaxStreamsOf): close one, or poll instead", v.mostOf)}
	}
	if v.of == nil {
		v.of = make(map[string]int)
	}
	v.all++
	v.of[id]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all--
		if v.of[id]--; v.of[id] == 0 {
			delete(v.of, id)
		}
	}, nil
}
