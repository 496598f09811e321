package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// A match is a file that a path names or a pattern finds.
type match struct {
	place
	below string      // base name, or the path below the fixed part of the pattern
	info  fs.FileInfo // of itself, not of what a link leads to
}

// A search says what a pattern may find.
type search struct {
	job  *courier.Context
	kind func(fs.FileMode) bool // nil means regular files
	most int                    // matches; more are an error
}

// find returns what a path or pattern stands for, in the order of the paths,
// and whether it was taken for a pattern. A path that names nothing is an
// error that matches fs.ErrNotExist; a pattern may find nothing.
func (s search) find(ctx context.Context, given string, glob *bool) (found []match, pattern bool, err error) {
	if pattern, err = isPattern(s.job, given, glob); err != nil {
		return nil, pattern, err
	}
	if pattern {
		found, err = s.glob(ctx, given)
		return found, true, err
	}
	p, err := at(s.job, given)
	if err != nil {
		return nil, false, err
	}
	info, err := p.stat()
	if err != nil {
		if glob == nil && errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(given, "[{") {
			err = fmt.Errorf("%w; if this is a pattern, set glob to true", err)
		}
		return nil, false, err
	}
	return []match{{place: p, below: p.base(), info: info}}, false, nil
}

// isPattern decides whether a path is a pattern.
//
// Names come from partners, and a file called "*" or "a[1].csv" must not stand
// for others. So brackets and braces alone make no pattern, and what exists
// under exactly the given name is meant literally.
func isPattern(job *courier.Context, given string, glob *bool) (bool, error) {
	if glob != nil || !looksLikePattern(given, nil) {
		return looksLikePattern(given, glob), nil
	}
	base, _ := split(given)
	if _, err := job.Path(base); err != nil {
		return false, err
	}
	p, err := at(job, given)
	if err != nil {
		return true, nil
	}
	_, err = p.root.Lstat(p.rel)
	return err != nil, nil
}

// looksLikePattern is isPattern without a look at the files.
func looksLikePattern(given string, glob *bool) bool {
	if glob != nil {
		return *glob
	}
	return strings.ContainsAny(given, "*?")
}

// split divides a pattern into its fixed part, which is a path, and the rest.
func split(pattern string) (base, rest string) {
	if runtime.GOOS == "windows" {
		pattern = filepath.ToSlash(pattern)
	}
	return doublestar.SplitPattern(pattern)
}

// checkPattern refuses malformed patterns.
func checkPattern(pattern string) error {
	if _, rest := split(pattern); rest == "" || !doublestar.ValidatePattern(rest) || slices.Contains(strings.Split(rest, "/"), "..") {
		return courier.Permanent(fmt.Errorf("pattern %q is malformed: see whether its brackets and braces are closed and no .. follows a wildcard", pattern))
	}
	if err := safename.CheckPattern(pattern); err != nil {
		return courier.Permanent(err)
	}
	return nil
}

func (s search) glob(ctx context.Context, pattern string) ([]match, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, err
	}
	base, rest := split(pattern)
	p, err := at(s.job, base)
	if err != nil {
		return nil, err
	}
	return s.matches(ctx, p, rest, depth(rest), strings.Contains(rest, sideMark))
}

// depth is the number of levels at which a pattern can match, or -1.
func depth(pattern string) int {
	if strings.Contains(pattern, "**") {
		return -1
	}
	return strings.Count(pattern, "/") + 1
}

// matches returns what pattern matches below p, which need not exist.
func (s search) matches(ctx context.Context, p place, pattern string, depth int, side bool) ([]match, error) {
	if s.kind == nil {
		s.kind = fs.FileMode.IsRegular
	}
	var found []match
	err := walk(ctx, s.job, p, depth, func(below string, typ fs.FileMode) error {
		if !s.kind(typ) || !doublestar.MatchUnvalidated(pattern, below) || !side && strings.Contains(below, sideMark) {
			return nil
		}
		m := match{below: below}
		var err error
		if m.place, err = p.in(s.job, below); err != nil {
			return err
		}
		if own := s.job.StepDir(); own != "" && (m.holds(own) || place{name: own}.holds(m.name)) {
			return nil
		}
		m.info, err = m.stat()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since
		}
		if err == nil && len(found) == s.most {
			err = courier.Permanent(fmt.Errorf("%q: the pattern finds more than %d files; narrow it, or raise the limit in file.Options", path.Join(p.name, pattern), s.most))
		}
		if err == nil {
			err = checkText(below)
		}
		if err == nil && s.kind(m.info.Mode()) {
			found = append(found, m)
		}
		return err
	})
	if missing(err) {
		err = nil
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Compare(a.name, b.name) })
	return found, err
}

// checkText refuses names that no value could hold as they are.
func checkText(name string) error {
	if utf8.ValidString(name) {
		return nil
	}
	return courier.Permanent(fmt.Errorf("file name %q is not valid UTF-8, so no value can hold it; rename the file or narrow the pattern", name))
}

// sideMark is in the names of files that are under construction, and of the
// steps' own.
const sideMark = ".courier-tmp"

// walk calls visit for everything below the directory p, down to depth levels,
// or all for -1. A directory comes before what is in it. Links are not
// followed.
func walk(ctx context.Context, job *courier.Context, p place, depth int, visit func(below string, typ fs.FileMode) error) error {
	seen := 0
	var in func(below string, left int) error
	in = func(below string, left int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := place{name: filepath.Join(p.name, filepath.FromSlash(below)), root: p.root, rel: filepath.Join(p.rel, filepath.FromSlash(below))}
		d, err := dir.openDir()
		if err != nil {
			return err
		}
		entries, err := d.ReadDir(-1)
		d.Close()
		if err != nil {
			return fault(dir.name, err)
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if seen++; seen%1000 == 0 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				job.Progress(0, -1, p.name) // it is slow, not stalled
			}
			name := path.Join(below, e.Name())
			err := visit(name, e.Type())
			if err == nil && e.IsDir() && left != 1 {
				// What others remove meanwhile was never there.
				if err = in(name, left-1); errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return in("", depth)
}
