package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/localfile"
)

// A match is a file that a path names or a pattern finds.
type match struct {
	place
	below string      // base name, or the path below the fixed part of the pattern
	info  fs.FileInfo // of itself, not of what a link leads to
}

// A search limits what a pattern may find.
type search struct {
	job  *courier.Context
	kind func(fs.FileMode) bool // nil means regular files
	most int                    // matches; more are an error
	// paths is the maximum total length of the paths of all matches.
	paths int
}

// find returns the matches of a path or pattern, sorted by path, and whether
// given was treated as a pattern. A path that does not exist is an error that
// matches fs.ErrNotExist; a pattern may find nothing.
func (s search) find(ctx context.Context, given courier.Pattern, as *bool) (found []match, pattern bool, err error) {
	if pattern, err = isPattern(s.job, given, as); err != nil {
		return nil, pattern, err
	}
	if pattern {
		found, err = s.glob(ctx, given)
		return found, true, err
	}
	p, err := at(s.job, given.String())
	if err != nil {
		return nil, false, err
	}
	info, err := p.stat()
	if err != nil {
		if as == nil && errors.Is(err, fs.ErrNotExist) && given.ContainsAny("[{") {
			err = fmt.Errorf("%w; if this is a pattern, set glob to true", err)
		}
		return nil, false, err
	}
	return []match{{place: p, below: p.base(), info: info}}, false, nil
}

// isPattern decides whether a path is a pattern.
//
// Names come from partners, and a file called "*" or "a[1].csv" must not stand
// for others. So wildcards count only where the definition has written them,
// brackets and braces alone make no pattern, and the name of an existing file
// is taken literally.
func isPattern(job *courier.Context, given courier.Pattern, as *bool) (bool, error) {
	if as != nil || !glob.Looks(given, nil) {
		return glob.Looks(given, as), nil
	}
	base, _ := glob.Split(given)
	if _, err := job.Files().Path(base); err != nil {
		return false, err
	}
	p, err := at(job, given.String())
	if err != nil {
		return true, nil
	}
	_, err = p.root.Lstat(p.rel)
	return err != nil, nil
}

func (s search) glob(ctx context.Context, pattern courier.Pattern) ([]match, error) {
	if err := globmatch.Check(pattern); err != nil {
		return nil, err
	}
	base, rest := glob.Split(pattern)
	p, err := at(s.job, base)
	if err != nil {
		return nil, err
	}
	return s.matches(ctx, p, rest, glob.Depth(rest), strings.Contains(pattern.String(), sideMark))
}

// matches returns the matches of pattern below p, which need not exist.
func (s search) matches(ctx context.Context, p place, pattern string, depth int, side bool) ([]match, error) {
	if s.kind == nil {
		s.kind = fs.FileMode.IsRegular
	}
	var found []match
	paths := 0
	err := walk(ctx, s.job, p, depth, func(below string, typ fs.FileMode) error {
		if !s.kind(typ) || !globmatch.Match(pattern, below) || !side && strings.Contains(below, sideMark) {
			return nil
		}
		m := match{below: below}
		var err error
		if m.place, err = p.in(s.job, below); err != nil {
			return err
		}
		if isNotes(s.job, m.name) || s.job.Files().StepDir() != "" && m.holds(s.job.Files().StepDir()) {
			return nil
		}
		m.info, err = m.stat()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since
		}
		if err == nil && len(found) == s.most {
			err = courier.Permanent(fmt.Errorf("%q: the pattern finds more than %d files; narrow it, or raise the limit in file.Options", path.Join(p.name, pattern), s.most))
		}
		if paths += len(m.name); err == nil && paths > s.paths {
			err = courier.Permanent(fmt.Errorf("%q: the paths of what the pattern finds have more than %d bytes; narrow it, or raise MaxPathBytes in file.Options", path.Join(p.name, pattern), s.paths))
		}
		if err == nil {
			err = checkText(below)
		}
		if err == nil && s.kind(m.info.Mode()) {
			found = append(found, m)
		}
		return err
	})
	if localfile.Missing(err) {
		err = nil
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Compare(a.name, b.name) })
	return found, err
}

// checkText refuses names that a value cannot hold unchanged.
func checkText(name string) error {
	if utf8.ValidString(name) {
		return nil
	}
	return courier.Permanent(fmt.Errorf("file name %q is not valid UTF-8, so no value can hold it; rename the file or narrow the pattern", name))
}

// sideMark is part of the names of unfinished files and of the steps' own
// files.
const sideMark = ".courier-tmp"

// walk is [glob.Walk] for everything below the directory p.
func walk(ctx context.Context, job *courier.Context, p place, depth int, visit func(below string, typ fs.FileMode) error) error {
	dir := glob.Dir{Root: p.root, Rel: p.rel, Name: p.name, Fault: func(below string, err error) error {
		return localfile.Error(filepath.Join(p.name, filepath.FromSlash(below)), err)
	}}
	return glob.Walk(ctx, job, dir, depth, visit)
}
