package desk

import (
	"context"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/depot"
)

// Explain says why an execution does not continue, and, if it has failed, until when its files in
// the depot are kept. It hides what the visitor may not see: a visitor who sees the execution
// only because it is its own gets a short reason, without what belongs to others.
func (v *Visit) Explain(ctx context.Context, x *courier.Execution) (advice.Explanation, error) {
	e, err := v.d.e.Executions().Explain(ctx, x.ID)
	if err != nil {
		return e, err
	}
	sees := v.Can(ctx, x.Job, access.RightSee)
	if !sees && e.Status == "lost" {
		e.Status = string(courier.Running)
	}
	for i := range e.Because {
		c := &e.Because[i]
		switch {
		case !sees, c.Job != "" && c.Job != x.Job && !v.Can(ctx, c.Job, access.RightSee), c.Chain != "" && !v.Can(ctx, "", access.RightSee):
			*c = advice.Short(c)
		case !v.SeesValues(ctx, x.Job):
			HideCause(c)
		}
	}
	if !sees {
		e.Because = slices.CompactFunc(e.Because, func(a, b advice.Cause) bool { return a == b })
	}
	if c, ok := v.d.kept(ctx, x); ok {
		e.Because = append(e.Because, c)
	}
	return e, nil
}

// kept returns the effect of retention on a failed execution; ok is false if it has no files. An
// error of the depot is only logged, because the rest of the explanation is still true.
func (d *Desk) kept(ctx context.Context, x *courier.Execution) (c advice.Cause, ok bool) {
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
		return advice.FilesRemoved(at), true
	case len(files) == 0 || until.IsZero():
		return c, false
	}
	return advice.FilesKept(until), true
}
