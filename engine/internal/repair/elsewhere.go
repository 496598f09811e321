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
)

// elsewhere plans how the execution goes on without its workspace: at the last position
// from which no file is needed that lay there. Whole is set if there is none but the
// beginning.
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
	pos := d.now.Tree.Resume(d.x.Position)
	d.plan.Whole = d.pending > 0 // a return would lose the items that wait for their repair
	for !d.plan.Whole {
		n, ok := d.needs(pos, reports)
		if !ok {
			break
		}
		why := fmt.Sprintf("%s needs %s, which %s left", d.label(d.now, n.step), n.file.Path, d.label(d.now, n.file.Step))
		if d.opt.From != "" {
			if !d.opt.Force {
				d.problem("From %q: %s in the workspace that is gone; leave From out, or set Force", d.opt.From, why)
			}
			break
		}
		d.note("%s", why)
		back, ok := d.now.Tree.BackTo(n.file.Step, pos, d.recordedHere)
		d.plan.Whole = !ok
		pos = d.now.Tree.Resume(back)
	}
	return d.leaveWorkspace(ctx, pos)
}

// leaveWorkspace goes on at a position, without the files.
func (d *draft) leaveWorkspace(ctx context.Context, pos courier.Position) error {
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
	if r := d.x.Repairs; r != nil && len(r.Passes) > 0 {
		r.Passes[len(r.Passes)-1].FilesLost = true
	}
	d.plan.Change.Elsewhere = true
	return nil
}

// A need is a step that needs a file which is gone.
type need struct {
	step int
	file leftFile
}

// needs returns a step that runs if the execution goes on at a position, or if an item
// that has failed is executed again, and that needs a file which is gone.
func (d *draft) needs(pos courier.Position, reports []report) (need, bool) {
	first := pos.Step
	if len(pos.Loops) > 0 {
		first = pos.Loops[0].Step + 1 // in later iterations, all of the loop
	}
	before := func(at courier.Position) bool { return flow.Compare(at, pos) < 0 }
	lost := lostFiles(left(reports, before), func(leftFile) bool { return true })
	for i := first; i < d.now.Tree.Len(); i++ {
		f, ok := d.uses(i).of(lost, func(f leftFile) bool {
			again := i < pos.Step && f.Step >= first && f.Step < i // runs before i in each later iteration
			return !again
		})
		if ok {
			return need{i, f}, true
		}
	}
	return d.needsOfItems(pos, reports)
}

// needsOfItems is needs for the items that have failed before a position.
func (d *draft) needsOfItems(pos courier.Position, reports []report) (need, bool) {
	all := left(reports, nil)
	for i := range d.failed {
		f := &d.failed[i]
		if flow.Compare(f.Position, pos) >= 0 {
			continue
		}
		loops := len(f.Item.Iteration)
		lost := lostFiles(all, func(file leftFile) bool {
			inLoop := len(file.At.Loops) >= loops && file.At.Loops[loops-1].Step == f.Item.Loop
			return flow.Compare(file.At, f.Position) < 0 && (!inLoop || samePath(file.At.Loops[:loops], f.Position.Loops[:loops]))
		})
		for step := f.Position.Step; step < d.now.Tree.End(f.Item.Loop); step++ {
			if file, ok := d.uses(step).of(lost, func(leftFile) bool { return true }); ok {
				return need{step, file}, true
			}
		}
	}
	return need{}, false
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
		config, _, err := t.Partial(scope, func(string) (string, error) { return "", nil })
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
