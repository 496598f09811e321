package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/store"
)

// Explain says why an execution does not go on, and until when its files in the depot are
// kept if it has failed. What the visitor may not see is hidden.
func (v *Visit) Explain(ctx context.Context, x *courier.Execution) (store.Explanation, error) {
	e, err := v.d.e.Executions().Explain(ctx, x.ID)
	if err != nil {
		return e, err
	}
	if !v.SeesValues(ctx, x.Job) {
		for i := range e.Because {
			HideCause(&e.Because[i])
		}
	}
	if c, ok := v.d.kept(ctx, x); ok {
		e.Because = append(e.Because, c)
	}
	return e, nil
}

// kept returns what retention means for a failed execution; ok is false if it has no files.
// What the depot can't say is in the log, and no error: the rest is true without it.
func (d *Desk) kept(ctx context.Context, x *courier.Execution) (c store.Cause, ok bool) {
	if d.opt.Depot == nil || x.State != courier.Failed {
		return c, false
	}
	at, removed, err := depot.Removed(ctx, d.opt.Depot, x.ID)
	var files []depot.Info
	if err == nil && !removed {
		files, err = d.opt.Depot.List(ctx, string(x.ID))
	}
	if err != nil {
		d.log.Warn("the depot can't say whether the files of an execution are still there", "execution", x.ID, "error", err)
		return c, false
	}
	retention := depot.RetentionOf(d.e.Registry())
	until := depot.Until(*x, &retention)
	switch {
	case removed:
		return store.Cause{
			Kind: store.CauseFiles, Since: at, Text: fmt.Sprintf("Its files in the depot were removed at %s, when their time was over.", at.Format(time.RFC3339)),
			Do: "Start a new execution with the files. This one can be resumed if none of its remaining steps needs them.",
		}, true
	case len(files) == 0 || until.IsZero():
		return c, false
	}
	return store.Cause{
		Kind: store.CauseFiles, Until: until, Text: fmt.Sprintf("Its files in the depot are kept until %s.", until.Format(time.RFC3339)),
		Do: "Resume it before, or download what is there.", Call: "Engine.Resume",
	}, true
}
