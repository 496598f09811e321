package repair

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// elsewhere goes back to the first step from which no file of the workspace is needed:
// its files are gone.
func (d *draft) elsewhere(ctx context.Context) error {
	if !d.opt.Elsewhere {
		return nil
	}
	if d.opt.From != "" || d.opt.Skip || len(d.opt.Items) > 0 {
		d.problem("Elsewhere says where the execution goes on, so From, Skip and Items can't be given with it")
		return nil
	}
	lost := d.lost()
	for step := min(d.x.Position.Step, d.now.Tree.Len()-1); step >= 0; step-- {
		pos := d.x.Position
		if step != pos.Step {
			if !d.now.Tree.Works(step) {
				continue
			}
			var err error
			if pos, err = d.now.Tree.Before(step, d.x.Position, d.recorded); err != nil {
				continue
			}
		}
		if d.needs(pos, lost) {
			continue
		}
		if step != d.x.Position.Step {
			d.back(ctx, pos)
			d.note("without the files of the workspace, from %s", d.label(d.now, step))
		}
		return nil
	}
	d.back(ctx, courier.Position{})
	return nil
}

// lost returns the files in the workspace that completed steps left, by step.
func (d *draft) lost() map[int][]string {
	removed := make(map[string]int64)
	for _, r := range d.latest {
		for _, f := range r.Files {
			if f.Removed {
				removed[f.Path] = max(removed[f.Path], r.Seq)
			}
		}
	}
	lost := make(map[int][]string)
	for _, r := range d.latest {
		for _, f := range r.Files {
			if !f.Removed && !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, "/") && removed[f.Path] <= r.Seq {
				lost[r.Step] = append(lost[r.Step], f.Path)
			}
		}
	}
	return lost
}

// needs reports whether a step that runs from a position on needs a file that a step
// before it left.
func (d *draft) needs(pos courier.Position, lost map[int][]string) bool {
	from, loop := pos.Step, -1
	if len(pos.Loops) > 0 {
		loop = pos.Loops[0].Step
		from = loop + 1
	}
	for t := from; t < d.now.Tree.Len(); t++ {
		for y, files := range lost {
			if y >= pos.Step || t < pos.Step && y > loop {
				continue // it runs again before
			}
			if d.refers(t, y, files) {
				return true
			}
		}
	}
	return false
}

// refers reports whether a step refers to outputs of another one, or names one of its
// files.
func (d *draft) refers(t, y int, files []string) bool {
	for _, ref := range d.now.Tree.Template(t).References() {
		if i, ok := d.now.Tree.Head(ref.Ref.Head); ok && i == y {
			return true
		}
	}
	raw, err := jsontext.Append(nil, d.now.Tree.Spec(t).Config)
	if err != nil {
		return true
	}
	for _, name := range files {
		if strings.Contains(string(raw), name) {
			return true
		}
	}
	return false
}
