package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// elsewhere plans how the execution goes on without its workspace: at the last position
// from which no file is needed that lay there. Whole is set if there is none but the
// beginning. Failed items go on at the step that failed, or at their first step.
//
// A step needs a file if its configuration, or the list of a loop around it, refers to
// the step that left the file, has the file's path, a directory above it or a pattern
// that matches it, or refers to the workspace as a whole.
func (d *draft) elsewhere(ctx context.Context) error {
	if !d.opt.Elsewhere || len(d.problems) > 0 {
		return nil
	}
	reports, err := d.history.reports(ctx)
	if err != nil {
		return fmt.Errorf("read the files of execution %s: %w", d.x.ID, err)
	}
	d.plan.Change.Elsewhere = true
	if len(d.pending) > 0 {
		return d.elsewhereInPass(ctx, reports)
	}
	pos := d.now.Tree.Resume(d.x.Position)
	var restart []int
	for !d.plan.Whole {
		var n need
		var ok bool
		if n, ok = d.needs(pos, reports, nil); !ok {
			restart, n, ok = d.needsOfItems(d.failed, pos, reports)
		}
		if !ok {
			first, begins := d.beginsAgain(pos, restart)
			if !begins || d.opt.From != "" {
				break
			}
			pos = d.now.Tree.Resume(first)
			continue
		}
		why := d.why(n)
		if d.opt.From != "" {
			if !d.force() {
				d.problem("From %q: %s in the workspace that is gone; leave From out, or set Force", d.opt.From, why)
			}
			break
		}
		d.note("%s", why)
		back, ok := d.now.Tree.BackTo(n.file.Step, pos, d.recordedHere)
		d.plan.Whole = !ok
		pos = d.now.Tree.Resume(back)
	}
	d.leaveWorkspace(ctx, pos)
	d.restart(restart, reports)
	return nil
}

// why says that a step needs a file.
func (d *draft) why(n need) string {
	return fmt.Sprintf("%s needs %s, which %s left", d.label(d.now, n.step), n.file.Path, d.label(d.now, n.file.Step))
}

// elsewhereInPass plans how a pass goes on without the workspace: where it stands, or with
// the first step of the item that is executed, and of those that wait. The pass is kept, so
// that no item is lost; where that is not enough the execution begins again.
func (d *draft) elsewhereInPass(ctx context.Context, reports []report) error {
	passes := d.repairs().Passes
	last := &passes[len(passes)-1]
	targets, err := d.history.Targets(ctx)
	if err != nil {
		return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	n, whole := d.needs(last.Then, reports, nil)
	var restart []int
	if !whole {
		restart, n, whole = d.needsOfItems(append(d.current(), d.failed...), last.Then, reports)
	}
	if whole {
		d.note("%s", d.why(n))
	}
	stays := !slices.Contains(restart, d.pending[0].Item.Loop) // the item that is executed
	switch {
	case whole:
	case stays: // the number of its target must not change
		whole = slices.ContainsFunc(targets[:len(targets)-len(d.pending)], func(f Failure) bool { return slices.Contains(restart, f.Item.Loop) })
	default: // what has failed since in the item would count, though the item begins again
		whole = slices.ContainsFunc(d.failed, func(f Failure) bool { return f.Record.Seq > last.Seq && inOutermost(d.x.Position, &f) })
	}
	if whole {
		d.leaveWorkspace(ctx, courier.Position{})
		return nil
	}
	d.restart(restart, reports)
	if stays {
		d.note("without the files of its workspace, where it stands")
		return nil
	}
	pass, err := d.history.Current(ctx)
	if err != nil {
		return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	target := slices.IndexFunc(pass.Targets, func(f Failure) bool { return SameItem(f.Item, d.pending[0].Item) })
	_, accepted := d.history.Count(d.failed, d.x.Position)
	d.move(pass.Position(target), 0, int(d.x.Seq))
	d.plan.Change.Items = &store.ItemCount{Failed: d.x.FailedItems, Accepted: accepted, Target: target + 1}
	d.pass = pass
	return d.read(ctx)
}

// current returns the targets of a pass under way that are not over, those of the item
// that is executed at its position.
func (d *draft) current() []Failure {
	list := slices.Clone(d.pending)
	for i := range list {
		if inOutermost(d.x.Position, &list[i]) {
			list[i].Position = d.x.Position
		}
	}
	return list
}

// restart takes note that the workspace is gone, and of the loops whose failed items are
// executed again from their first step, which may not find what later ones took away.
func (d *draft) restart(loops []int, reports []report) {
	if d.x.Repairs == nil || len(d.x.Repairs.Passes) == 0 {
		return
	}
	r := d.repairs()
	r.Passes = slices.Clone(r.Passes) // those of the execution belong to who read it
	p := &r.Passes[len(r.Passes)-1]
	p.FilesLost = d.x.Seq
	// Those of an earlier loss stay: items that wait need what is gone since then.
	p.Restart = slices.DeleteFunc(slices.Clone(p.Restart), func(r courier.LoopRestart) bool { return slices.Contains(loops, r.Loop) })
	for _, loop := range loops {
		p.Restart = append(p.Restart, courier.LoopRestart{Loop: loop, UpTo: d.x.Seq})
		d.note("each failed item of %s from its first step, since steps of it need files that are gone", d.label(d.now, loop))
	}
	// Their rescue does not begin, but what comes before it.
	p.Rescue = slices.DeleteFunc(slices.Clone(p.Rescue), func(item courier.ItemPath) bool {
		return slices.Contains(loops, item.Loop) && has(d.pending, item)
	})
	for _, rep := range reports {
		again := slices.ContainsFunc(d.failed, func(f Failure) bool { return slices.Contains(loops, f.Item.Loop) && inOutermost(rep.at, &f) })
		for _, f := range rep.record.Files {
			if again && f.Removed && !inWorkspace(f.Path) {
				d.plan.Consumed = append(d.plan.Consumed, courier.ConsumedFile{Step: rep.record.Step, Path: f.Path})
			}
		}
	}
}

// leaveWorkspace goes on at a position, without the files.
func (d *draft) leaveWorkspace(ctx context.Context, pos courier.Position) {
	if d.plan.Whole = d.plan.Whole || d.opt.From == "" && pos.Step == 0 && len(pos.Loops) == 0; d.plan.Whole {
		pos = courier.Position{}
		d.note("from the beginning, as the next attempt")
	}
	if d.opt.From == "" {
		d.returned = !pos.Equal(d.x.Position)
		d.consume(pos)
		d.back(ctx, pos)
	}
	if !d.plan.Whole {
		d.note("without the files of its workspace, from step %d", d.x.Position.Step)
	}
}

// A need is a step that needs a file which is gone.
type need struct {
	step int
	file leftFile
}

// needs returns a step that runs if the execution goes on at a position, and that needs a
// file which is gone: one for which gone is true, or any if gone is nil.
func (d *draft) needs(pos courier.Position, reports []report, gone func(leftFile) bool) (need, bool) {
	first := pos.Step
	if len(pos.Loops) > 0 {
		first = pos.Loops[0].Step + 1 // in later iterations, all of the loop
	}
	before := func(at courier.Position) bool { return flow.Compare(at, pos) < 0 }
	lost := lostFiles(left(reports, before), func(f leftFile) bool { return gone == nil || gone(f) })
	for i := first; i < d.now.Tree.Len(); i++ {
		f, ok := d.uses(i).of(lost, func(f leftFile) bool { return !leftAgain(pos.Step, pos.Loops, i, f.Step) })
		if ok {
			return need{i, f}, true
		}
	}
	return need{}, false
}

// needsOfItems is needs for items that have failed before a position. A file that a step of
// the same item left is no need: the failed items of its loop begin with their first step.
func (d *draft) needsOfItems(failed []Failure, pos courier.Position, reports []report) (restart []int, n need, ok bool) {
	all := left(reports, nil)
	for i := range failed {
		f := &failed[i]
		if flow.Compare(f.Position, pos) >= 0 || slices.Contains(restart, f.Item.Loop) {
			continue
		}
		own := lostFiles(all, func(file leftFile) bool { return flow.Compare(file.At, f.Position) < 0 && inOutermost(file.At, f) })
		if _, ok := d.usedIn(f.Position, f.Item, own); ok {
			restart = append(restart, f.Item.Loop)
		}
	}
	for i := range failed {
		f := &failed[i]
		if flow.Compare(f.Position, pos) >= 0 {
			continue
		}
		at, depth := f.Position, len(f.Item.Iteration)
		if slices.Contains(restart, f.Item.Loop) {
			at = courier.Position{Step: f.Item.Loop + 1, Loops: at.Loops[:depth]}
		}
		outer := lostFiles(all, func(file leftFile) bool {
			return flow.Compare(file.At, f.Position) < 0 && !(len(file.At.Loops) >= depth && file.At.Loops[depth-1].Step == f.Item.Loop)
		})
		if n, ok := d.usedIn(at, f.Item, outer); ok {
			return nil, n, true
		}
	}
	return restart, need{}, false
}

// beginsAgain reports whether a position lies in the middle of an item that has failed, and
// that a repair would execute from its first step, and returns that step. The execution then
// goes on there: what it would complete in the item until then would run again.
func (d *draft) beginsAgain(pos courier.Position, restart []int) (first courier.Position, ok bool) {
	for i := range d.failed {
		f := &d.failed[i]
		loop, n := f.Item.Loop, len(f.Item.Iteration)
		if slices.Contains(restart, loop) && inOutermost(pos, f) && pos.Step < d.now.Tree.End(loop) && flow.Compare(f.Position, pos) < 0 {
			return courier.Position{Step: loop + 1, Loops: slices.Clone(pos.Loops[:n])}, true
		}
	}
	return courier.Position{}, false
}

// usedIn returns a step that runs if an item goes on at a position, and that needs one of the
// files.
func (d *draft) usedIn(pos courier.Position, item courier.ItemPath, files []leftFile) (need, bool) {
	first := pos.Step
	inner := pos.Loops[min(len(item.Iteration), len(pos.Loops)):]
	if len(inner) > 0 {
		first = inner[0].Step + 1 // in later iterations, all of the loop
	}
	for step := first; step < d.now.Tree.End(item.Loop); step++ {
		file, ok := d.uses(step).of(files, func(f leftFile) bool { return !leftAgain(pos.Step, inner, step, f.Step) })
		if ok {
			return need{step, file}, true
		}
	}
	return need{}, false
}

// leftAgain reports whether a step before a position, which runs in later iterations of the
// open loops, has a file that another step leaves again before. It runs next in the innermost
// of the loops around it.
func leftAgain(pos int, loops []courier.LoopPosition, step, leaves int) bool {
	if step >= pos {
		return false
	}
	for _, l := range slices.Backward(loops) {
		if l.Step < step {
			return l.Step < leaves && leaves < step
		}
	}
	return false
}

// lostFiles returns those of the files that lay in the workspace and for which want is
// true, by path.
func lostFiles(files []leftFile, want func(leftFile) bool) []leftFile {
	files = slices.DeleteFunc(slices.Clone(files), func(f leftFile) bool { return !inWorkspace(f.Path) || !want(f) })
	for i := range files {
		files[i].Path = path.Clean(files[i].Path)
	}
	slices.SortFunc(files, func(a, b leftFile) int { return strings.Compare(a.Path, b.Path) })
	return files
}

// uses are what a step, and the loops around it, name in their configurations.
type uses struct {
	steps     map[int]bool
	workspace bool
	paths     []string
}

// uses returns what an entry names. It is kept for the next call.
func (d *draft) uses(i int) *uses {
	if u := d.used[i]; u != nil {
		return u
	}
	u, scope := &uses{steps: make(map[int]bool)}, d.scope()
	for _, entry := range append(d.now.Tree.Loops(i), i) {
		t := d.now.Tree.Template(entry)
		for _, r := range t.References() {
			u.workspace = u.workspace || r.Ref.Head == "job" && r.Ref.Name == "workspace"
			if step, ok := d.now.Tree.Head(r.Ref.Head); ok {
				u.steps[step] = true
			}
		}
		config, _, err := t.Partial(scope, func(_, _ string) (string, error) { return "", nil })
		var v any
		if err == nil && json.Unmarshal(config, &v) == nil {
			u.addPaths(v, string(d.x.ID))
		}
	}
	if d.used == nil {
		d.used = make(map[int]*uses)
	}
	d.used[i] = u
	return u
}

// addPaths adds the strings of a value that may be paths in the workspace of an execution.
func (u *uses) addPaths(v any, id string) {
	switch v := v.(type) {
	case string:
		if _, inside, ok := strings.Cut(strings.ReplaceAll(v, `\`, "/"), "/"+id+"/"); ok {
			v = inside // an absolute path on the host that is gone
		}
		if v != "" && inWorkspace(v) {
			u.paths = append(u.paths, path.Clean(v))
		}
	case []any:
		for _, e := range v {
			u.addPaths(e, id)
		}
	case map[string]any:
		for _, e := range v {
			u.addPaths(e, id)
		}
	}
}

// of returns the first of the files, which are sorted by path, that is named and for
// which want is true.
func (u *uses) of(files []leftFile, want func(leftFile) bool) (leftFile, bool) {
	for _, f := range files {
		if (u.workspace || u.steps[f.Step]) && want(f) {
			return f, true
		}
	}
	for _, p := range u.paths {
		for i := search(files, p); i < len(files) && named(p, files[i].Path); i++ {
			if want(files[i]) {
				return files[i], true
			}
		}
	}
	return leftFile{}, false
}

// search returns the index of the first file that a path may name.
func search(files []leftFile, p string) int {
	prefix := p
	if p == "." {
		prefix = ""
	} else if n := strings.IndexAny(p, "*?["); n >= 0 {
		prefix = p[:n]
	}
	i, _ := slices.BinarySearchFunc(files, prefix, func(f leftFile, p string) int { return strings.Compare(f.Path, p) })
	return i
}

// named reports whether a path names a file: it is its path, a directory above it, or a
// pattern that may match it.
func named(p, file string) bool {
	if n := strings.IndexAny(p, "*?["); n >= 0 {
		return strings.HasPrefix(file, p[:n])
	}
	return p == "." || file == p || strings.HasPrefix(file, p+"/")
}
