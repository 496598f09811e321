package engine

import (
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/workspace"
	"github.com/courierhq/courier/store"
)

// cancelled ends the execution on request.
func (r *run) cancelled() bool {
	pos := r.x.Position
	if r.walk != nil {
		pos = r.walk.Position()
	}
	t := &store.Transition{To: courier.Cancelled, Position: pos, DiskBytes: r.diskBytes()}
	if r.apply(t) == nil {
		r.letGo(t.OnlyCopies)
	}
	return true
}

func (r *run) diskBytes() int64 {
	if !r.used {
		return 0
	}
	return r.e.work.Size(r.x.ID)
}

// holdReported keeps what an attempt has written that reports to have removed the source.
func (r *run) holdReported(files []courier.File) {
	if err := r.e.work.HoldReported(r.x.ID, files); err != nil {
		r.log.Error("note down files that may be the only copies", "error", err)
	}
}

// onlyCopies returns the files in the workspace that may exist nowhere else; nil if the
// execution has no workspace.
func (r *run) onlyCopies() *courier.OnlyCopies {
	c := r.e.work.OnlyCopies(r.x.ID)
	switch {
	case c == nil && r.used:
		return new(courier.OnlyCopies)
	case c == nil:
		return nil
	}
	r.used = true // also if a lost worker has not said so, or the workspace was taken for lost
	all := len(c.Files)
	c.Files = slices.DeleteFunc(c.Files, func(f courier.File) bool { return r.secrets.Clean(f.Path) != f.Path })
	if n := all - len(c.Files); n > 0 {
		c.Problem = fmt.Sprintf("%d of the names contain a secret %s", n, c.Problem)
	}
	return c
}

// leftBehind returns the files that a completion leaves, of those that may exist nowhere
// else: none if all steps have completed, for then the job has done with them what its
// author wanted.
func (r *run) leftBehind(c *courier.OnlyCopies) *courier.OnlyCopies {
	if c == nil || !c.Any() {
		return nil
	}
	if r.items > 0 || slices.ContainsFunc(r.ended, func(s courier.StepExecution) bool { return s.State == courier.StepSkipped }) {
		return c
	}
	skipped, err := workspace.Skipped(r.lease, r.e.store, r.x.ID, r.x.Attempt)
	if err != nil {
		r.log.Error("look for skipped steps; the workspace stays", "error", err)
	}
	if skipped || err != nil {
		return c
	}
	return nil
}

// letGo removes the workspace of an execution that has ended, unless it holds files that
// may exist nowhere else.
func (r *run) letGo(kept *courier.OnlyCopies) {
	if !r.used && !r.reclaimed {
		return
	}
	r.closeResources()
	r.e.letGo(&r.x, kept)
}

// letGo removes the workspace of an execution that has ended, unless files are kept.
func (e *Engine) letGo(x *courier.Execution, kept *courier.OnlyCopies) {
	if kept != nil && kept.Any() {
		e.kept.Note(x.ID, kept)
		e.log.Warn("the workspace stays: it holds files that may exist nowhere else", "execution", x.ID, "job", x.Job,
			"files", kept.Count, "bytes", kept.Bytes, "workspace", e.work.Of(x.ID), "problem", kept.Problem)
		return
	}
	if err := e.work.Remove(x.ID); err != nil {
		e.log.Warn("remove workspace", "execution", x.ID, "job", x.Job, "error", err)
	}
}
