package repair

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A leftFile is a file that a completed step left, and that no later one has removed.
type leftFile struct {
	courier.File
	Step int // in the present version
	At   courier.Position
	Seq  int64 // of the record
}

// Files returns the files that completed steps of the execution's present attempt have
// left, in order. Left out are those of steps that run again since the execution went
// back, and those that were lost with its workspace.
//
// Steps at or behind the position run again too, in a loop that a resume has started again:
// an attempt that was lost may have left something else in place of their files. While failed
// items are executed again that is not so.
func (h *History) Files(ctx context.Context) (files []courier.File, err error) {
	reports, err := h.reports(ctx)
	at, passes := h.Execution.Position, h.passes()
	n := len(passes)
	all := h.Tree == nil || n > 0 && flow.Compare(at, passes[n-1].Then) < 0
	for _, f := range left(reports, nil) {
		if h.Tree != nil && h.Tree.InFinally(f.Step) {
			continue // it has its files again when it runs again
		}
		if all || flow.Compare(f.At, at) < 0 {
			files = append(files, f.File)
		}
	}
	return files, err
}

// Kept returns the paths that stay when what failed attempts of a step in an iteration
// left is removed: those of the files that completed steps have left, and "." for all if
// one of these attempts has removed a file, for it may have moved it.
func (h *History) Kept(ctx context.Context, step int, iteration []int) (paths []string, err error) {
	reports, err := h.reports(ctx)
	for _, f := range left(reports, nil) {
		paths = append(paths, f.Path)
	}
	for i := range reports {
		s := &reports[i].record
		removed := slices.ContainsFunc(s.Files, func(f courier.File) bool { return f.Removed })
		if removed && s.State != courier.StepCompleted && s.Step == step && slices.Equal(s.Iteration, iteration) {
			paths = append(paths, ".")
		}
	}
	return paths, err
}

// Files returns the files that completed steps of an execution have left; see
// [History.Files].
func (p *Planner) Files(ctx context.Context, x *courier.Execution) ([]courier.File, error) {
	program, err := p.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, err
	}
	h := &History{Archive: p.archive, Execution: x, Tree: program.Tree}
	return h.Files(ctx)
}

// A report is a record that names files.
type report struct {
	record courier.StepExecution
	at     courier.Position
}

// reports returns the records that name files which may be there.
func (h *History) reports(ctx context.Context) (list []report, err error) {
	list, err = h.allReports(ctx)
	lost := h.lostUpTo()
	for i := range list {
		if r := &list[i]; h.Tree != nil && r.record.Seq <= lost {
			r.record.Files = absolute(r.record.Files)
		}
	}
	return list, err
}

// lostUpTo is the number of the last record before the execution went on without its
// workspace; 0 if it never did.
func (h *History) lostUpTo() (seq int64) {
	for _, p := range h.passes() {
		seq = max(seq, p.FilesLost)
	}
	return seq
}

// allReports is reports with those of files that were lost.
func (h *History) allReports(ctx context.Context) (list []report, err error) {
	err = h.each(ctx, store.StepFilter{Files: true}, func(s *courier.StepExecution) {
		r := report{record: *s}
		if h.Tree != nil {
			var mapped, placed bool
			r.record, mapped = flow.MapRecord(s, h.changes())
			if r.at, placed = h.Tree.PositionOf(&r.record); !mapped || !placed {
				r.at = courier.Position{Step: -1} // of a step that is not in the version: before all
			}
		}
		for _, p := range h.passes() {
			if h.Tree == nil {
				continue
			}
			if p.From != nil && r.record.Seq <= p.Seq && flow.Compare(r.at, *p.From) >= 0 {
				return
			}
		}
		r.record.Files = local(r.record.Files)
		list = append(list, r)
	})
	return list, err
}

// local returns the files that are not on servers.
func local(files []courier.File) []courier.File {
	isRemote := func(f courier.File) bool { return f.Connection != "" }
	if !slices.ContainsFunc(files, isRemote) {
		return files
	}
	return slices.DeleteFunc(slices.Clone(files), isRemote)
}

// absolute returns the files that don't lie in the workspace.
func absolute(files []courier.File) (list []courier.File) {
	for _, f := range files {
		if !inWorkspace(f.Path) {
			list = append(list, f)
		}
	}
	return list
}

// inWorkspace reports whether a reported path lies in the workspace: it is relative then,
// with slashes. An absolute one of Windows begins with a drive, or with backslashes.
func inWorkspace(p string) bool {
	return !path.IsAbs(p) && !strings.HasPrefix(p, `\\`) && (len(p) < 2 || p[1] != ':')
}

// left returns the files that are left by the reports before a position; nil means by
// all of them.
func left(reports []report, before func(at courier.Position) bool) (files []leftFile) {
	live := make(map[string]leftFile)
	var order []string
	for i := range reports {
		r := &reports[i]
		if before != nil && !before(r.at) {
			continue
		}
		for _, f := range r.record.Files {
			if f.Removed {
				delete(live, f.Path)
			} else if r.record.State == courier.StepCompleted {
				if _, ok := live[f.Path]; !ok {
					order = append(order, f.Path)
				}
				live[f.Path] = leftFile{f, r.record.Step, r.at, r.record.Seq}
			}
		}
	}
	for _, p := range order {
		if f, ok := live[p]; ok {
			files = append(files, f)
			delete(live, p) // it may be in order twice
		}
	}
	return files
}
