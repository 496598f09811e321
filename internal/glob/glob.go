// Package glob finds the files that the patterns of definitions stand for. It is
// the one place that says what is a pattern, and that patterns follow no links.
package glob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Whole returns p with all of its text as a pattern, values included, if the
// field glob of a configuration says so, otherwise p as it is.
func Whole(p courier.Pattern, glob *bool) courier.Pattern {
	if glob != nil && *glob {
		return courier.Pattern(p.String())
	}
	return p
}

// Looks reports whether p is a pattern unless a file has that very name: as glob
// says, or if it is nil whether the definition has written * or ?. Brackets and
// braces alone are frequent in names.
func Looks(p courier.Pattern, glob *bool) bool {
	if glob != nil {
		return *glob
	}
	return p.ContainsAny("*?")
}

// Split divides a pattern into its fixed part, which is a path, and the rest in
// the syntax of doublestar. The fixed part may lead through links, since it
// holds no wildcard.
func Split(p courier.Pattern) (base, rest string) {
	text := string(p)
	if runtime.GOOS == "windows" {
		text = filepath.ToSlash(text)
	}
	const mark = 0 // around literal text
	var fixed strings.Builder
	literal, cut, length, inside := false, -1, 0, false
scan:
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == mark:
			literal = !literal
			continue
		case c == '/':
			cut, length, inside = i, fixed.Len(), literal
		case literal:
		case c == '\\' && i+1 < len(text):
			i++
		case strings.IndexByte("*?[{", c) >= 0:
			break scan
		}
		fixed.WriteByte(text[i])
	}
	if cut < 0 {
		return ".", courier.Pattern(text).Escaped()
	}
	after := text[cut+1:]
	if inside {
		after = "\x00" + after
	}
	return cmp.Or(fixed.String()[:length], "/"), courier.Pattern(after).Escaped()
}

// Check refuses malformed patterns, those that lead upwards behind a wildcard, and
// those whose braces stand for very many alternatives.
func Check(p courier.Pattern) error {
	_, rest := Split(p)
	if rest == "" || !doublestar.ValidatePattern(rest) || slices.Contains(strings.Split(rest, "/"), "..") {
		return courier.Permanent(fmt.Errorf("pattern %q is malformed: see whether its brackets and braces are closed and no .. follows a wildcard", p))
	}
	if err := safename.CheckPattern(rest); err != nil {
		return courier.Permanent(err)
	}
	return nil
}

// Depth is the number of levels at which the rest of a pattern can match, or -1
// for any number.
func Depth(rest string) int {
	if strings.Contains(rest, "**") {
		return -1
	}
	return strings.Count(rest, "/") + 1
}

// Match reports whether the rest of a valid pattern stands for a path below its
// fixed part.
func Match(rest, below string) bool { return doublestar.MatchUnvalidated(rest, below) }

// A Dir is a directory that is searched.
type Dir struct {
	Root *os.Root // which confines it
	Rel  string   // below Root, "." for Root itself
	Name string   // for Progress
	// Fault makes err the error about the directory below, which is empty for
	// this one; nil leaves errors as they are.
	Fault func(below string, err error) error
}

// Walk calls visit for everything below a directory, down to depth levels, or all
// for -1, with the path below it and what it is: a link is a link, whatever it
// leads to, and isn't followed. A directory comes before what is in it. What others
// remove meanwhile was never there.
func Walk(ctx context.Context, job *courier.Context, dir Dir, depth int, visit func(below string, typ fs.FileMode) error) error {
	w := walker{ctx: ctx, job: job, dir: dir, visit: visit}
	return w.in("", depth)
}

type walker struct {
	ctx   context.Context
	job   *courier.Context
	dir   Dir
	visit func(below string, typ fs.FileMode) error
	seen  int
}

func (w *walker) in(below string, left int) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	entries, err := w.read(below)
	if err != nil && w.dir.Fault != nil {
		err = w.dir.Fault(below, err)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.seen++; w.seen%1000 == 0 {
			if w.ctx.Err() != nil {
				return context.Cause(w.ctx)
			}
			w.job.Progress(0, -1, w.dir.Name) // it is slow, not stalled
		}
		name := path.Join(below, e.Name())
		err := w.visit(name, e.Type())
		if err == nil && e.IsDir() && left != 1 {
			if err = w.in(name, left-1); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read lists the directory below. What was a directory in the listing above and
// is a link by now has changed, and counts as gone.
func (w *walker) read(below string) ([]fs.DirEntry, error) {
	rel := filepath.Join(w.dir.Rel, filepath.FromSlash(below))
	d, err := w.dir.Root.OpenFile(rel, os.O_RDONLY|openDirectory, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if below != "" {
		open, err := d.Stat()
		if err != nil {
			return nil, err
		}
		if now, err := w.dir.Root.Lstat(rel); err != nil || !os.SameFile(open, now) {
			return nil, &fs.PathError{Op: "open", Path: rel, Err: fs.ErrNotExist}
		}
	}
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}
