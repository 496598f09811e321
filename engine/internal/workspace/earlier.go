package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// maxRecords is how many records of an execution are read at its end. Of one with more, files
// stay that may be the only copies, if it has gone back.
const maxRecords = 20_000

// LeftEarlier reports whether the workspace holds the only copy of a file that a step has
// reported before the execution went back, to an earlier step or for another attempt of the
// job, and that no step has reported since: the steps that would have delivered it have worked
// on something else. It reports true if that can't be found out. Ended are records that are
// not in the store yet.
func (w Tree) LeftEarlier(ctx context.Context, archive store.Archive, x *courier.Execution, ended []courier.StepExecution) bool {
	if !x.Resumed && x.Attempt <= 1 {
		return false
	}
	p := passes{files: make(map[string]report), places: make(map[string]*span)}
	for after, n := int64(0), 0; ; {
		call, cancel := context.WithTimeout(ctx, storecall.Timeout)
		page, err := archive.Steps(call, store.StepFilter{Execution: x.ID, After: after})
		cancel()
		if n += len(page); err != nil || n > maxRecords {
			return true
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			p.add(&page[i])
		}
		after = page[len(page)-1].Seq
	}
	for i := range ended {
		s := ended[i]
		s.Seq, s.ExecutionAttempt = 1<<62+int64(i), x.Attempt
		p.add(&s)
	}
	return w.holdsAny(x.ID, p.left(x.Attempt))
}

// passes are what the steps of an execution have reported, in the order of their ends.
type passes struct {
	files  map[string]report // the last of each path in the workspace
	places map[string]*span
}

type report struct {
	attempt int // of the execution
	seq     int64
}

// A span is the first and the last time that a step was completed in an iteration, in one
// attempt of the execution.
type span struct{ first, last int64 }

func (p *passes) add(s *courier.StepExecution) {
	for _, f := range s.Files {
		switch {
		case f.Connection != "" && !f.Received || filepath.IsAbs(f.Path):
		case f.Removed:
			delete(p.files, f.Path)
		default:
			p.files[f.Path] = report{s.ExecutionAttempt, s.Seq}
		}
	}
	if s.State != courier.StepCompleted {
		return
	}
	place := fmt.Sprint(s.ExecutionAttempt, s.Step, s.Iteration)
	if at := p.places[place]; at != nil {
		at.last = s.Seq
	} else {
		p.places[place] = &span{s.Seq, s.Seq}
	}
}

// left returns the files that were reported before the execution went back and not since: in
// an earlier attempt, or between two completions of one step.
func (p *passes) left(attempt int) (paths []string) {
	var again []span
	for _, s := range p.places {
		if s.last > s.first {
			again = append(again, *s)
		}
	}
	for path, r := range p.files {
		if r.attempt < attempt || slices.ContainsFunc(again, func(s span) bool { return s.first < r.seq && r.seq < s.last }) {
			paths = append(paths, path)
		}
	}
	return paths
}

// holdsAny reports whether one of the files is there, and may be the only copy.
func (w Tree) holdsAny(id courier.ExecutionID, paths []string) bool {
	if len(paths) == 0 {
		return false
	}
	root, err := os.OpenRoot(w.Of(id))
	if err != nil {
		return !os.IsNotExist(err)
	}
	defer root.Close()
	held, err := note.ReadHeld(root)
	if err != nil {
		return true
	}
	under := make(map[string]bool, len(held))
	for _, h := range held {
		under[h] = true
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		info, err := root.Lstat(filepath.FromSlash(path))
		if err != nil || info.Mode()&fs.ModeDir != 0 {
			return false
		}
		for at := path; ; at = at[:strings.LastIndexByte(at, '/')] {
			if under[at] || under["."] {
				return true
			}
			if !strings.Contains(at, "/") {
				return false
			}
		}
	})
}
