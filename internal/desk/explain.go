package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/store"
)

// Explain says why an execution does not go on, and until when its files in the depot are
// kept if it has failed. What the visitor may not see is hidden: who sees only that the
// execution is its own is told a short reason, without what belongs to others.
func (v *Visit) Explain(ctx context.Context, x *courier.Execution) (store.Explanation, error) {
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
			*c = shortCause(c)
		case !v.SeesValues(ctx, x.Job):
			HideCause(c)
		}
	}
	if !sees {
		e.Because = slices.CompactFunc(e.Because, func(a, b store.Cause) bool { return a == b })
	}
	if c, ok := v.d.kept(ctx, x); ok {
		e.Because = append(e.Because, c)
	}
	return e, nil
}

// short has the sentences of causes for who may not see what they are about.
var short = map[store.CauseKind]string{
	store.CauseHeld:        "It is held until it is released.",
	store.CausePaused:      "It is paused.",
	store.CauseChain:       "It is paused with others.",
	store.CauseFailed:      "It has failed.",
	store.CauseDependency:  "It waits for something else to end.",
	store.CauseDue:         "It is due later.",
	store.CauseBackoff:     "A step has failed, and is tried again later.",
	store.CauseRequest:     "It was asked for something, and has not reached it yet.",
	store.CauseNoWorker:    "No worker can execute it now.",
	store.CauseLimit:       "As many executions run as may at once.",
	store.CauseQueueBehind: "Others come before it.",
}

// shortCause returns a cause without what belongs to others. That a worker is lost, or which
// one has the files, is a matter of the service.
func shortCause(c *store.Cause) store.Cause {
	kind := c.Kind
	if kind == store.CauseLost || kind == store.CauseWorkspace {
		kind = store.CauseNoWorker
	}
	return store.Cause{Kind: kind, Text: short[kind], Until: c.Until, Do: "Wait, or cancel it."}
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
