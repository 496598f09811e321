// Package glob finds the files that the patterns of definitions stand for. It is
// the one place that says what is a pattern, what in it is literal text, and that
// patterns follow no links.
package glob

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/courierhq/courier/internal/localfile"
)

// Mark stands before and after literal text in a pattern.
const Mark = "\x00"

// Meta are the characters that have a meaning in a pattern.
const Meta = `*?[]{}\,-^!`

// Literal returns text in the form in which a pattern holds what was put in, with
// no wildcards in it. NUL characters are removed.
func Literal(text string) string {
	text = strings.ReplaceAll(text, Mark, "")
	if !strings.ContainsAny(text, Meta) {
		return text
	}
	return Mark + text + Mark
}

// A pattern is a [courier.Pattern], whose package imports this one.
type pattern interface {
	~string
	String() string
	ContainsAny(chars string) bool
	Escaped() string
}

// Whole returns p with all of its text as a pattern, values included, if the
// field glob of a configuration says so, otherwise p as it is.
func Whole[P pattern](p P, glob *bool) P {
	if glob != nil && *glob {
		return P(p.String())
	}
	return p
}

// Looks reports whether p is a pattern unless a file has that very name: as glob
// says, or if it is nil whether the definition has written * or ?. Brackets and
// braces alone are frequent in names.
func Looks[P pattern](p P, glob *bool) bool {
	if glob != nil {
		return *glob
	}
	return p.ContainsAny("*?")
}

// Split divides a pattern into its fixed part, which is a path, and the rest in
// the syntax of doublestar. The fixed part may lead through links, since it
// holds no wildcard.
func Split[P pattern](p P) (base, rest string) {
	text := string(p)
	if runtime.GOOS == "windows" {
		text = filepath.ToSlash(text)
	}
	var fixed strings.Builder
	literal, cut, length, inside := false, -1, 0, false
scan:
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == Mark[0]:
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
		return ".", P(text).Escaped()
	}
	after := text[cut+1:]
	if inside {
		after = Mark + after
	}
	return cmp.Or(fixed.String()[:length], "/"), P(after).Escaped()
}

// Depth is the number of levels at which the rest of a pattern can match, or -1
// for any number.
func Depth(rest string) int {
	if strings.Contains(rest, "**") {
		return -1
	}
	return strings.Count(rest, "/") + 1
}

// A Dir is a directory that is searched.
type Dir struct {
	Root *os.Root // which confines it
	Rel  string   // below Root, "." for Root itself
	Name string   // for Progress
	// Fault makes err the error about the directory below, which is empty for
	// this one; nil leaves errors as they are.
	Fault func(below string, err error) error
}

// Progress is told that a long walk goes on. A context of a step is one.
type Progress interface {
	Progress(done, total int64, item string)
}

// Walk calls visit for everything below a directory, down to depth levels, or all
// for -1, with the path below it and what it is: a link is a link, whatever it
// leads to, and isn't followed. The order is none, but a directory comes before what
// is in it. What others remove meanwhile was never there.
func Walk(ctx context.Context, job Progress, dir Dir, depth int, visit func(below string, typ fs.FileMode) error) error {
	w := walker{ctx: ctx, job: job, dir: dir, visit: visit}
	return w.in("", depth)
}

type walker struct {
	ctx   context.Context
	job   Progress
	dir   Dir
	visit func(below string, typ fs.FileMode) error
	seen  int // entries since the last report of progress
}

func (w *walker) in(below string, left int) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	d, err := w.open(below)
	if err != nil {
		return w.fault(below, err)
	}
	dirs, err := w.list(d, below, left != 1)
	if e := d.Close(); err == nil {
		err = e
	}
	for _, name := range dirs {
		if err == nil {
			err = w.in(name, left-1)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// fault makes err the error about a directory.
func (w *walker) fault(below string, err error) error {
	if w.dir.Fault == nil {
		return err
	}
	return w.dir.Fault(below, err)
}

// list visits what is in the directory d, and returns the directories in it if
// they are wanted. It holds few entries at a time: others may have put millions
// there.
func (w *walker) list(d *os.File, below string, wanted bool) (dirs []string, err error) {
	const few = 1000
	for {
		entries, err := d.ReadDir(few)
		for _, e := range entries {
			name := path.Join(below, e.Name())
			if err := w.visit(name, e.Type()); err != nil {
				return nil, err
			}
			if e.IsDir() && wanted {
				dirs = append(dirs, name)
			}
		}
		switch {
		case err == io.EOF:
			return dirs, nil
		case err != nil:
			return nil, w.fault(below, err)
		case w.ctx.Err() != nil:
			return nil, context.Cause(w.ctx)
		}
		if w.seen += len(entries); w.seen >= few {
			w.seen = 0
			w.job.Progress(0, -1, w.dir.Name) // it is slow, not stalled
		}
	}
}

// open opens the directory below. What was a directory in the listing above and
// is a link or a file by now has changed, and counts as gone.
func (w *walker) open(below string) (*os.File, error) {
	rel := filepath.Join(w.dir.Rel, filepath.FromSlash(below))
	d, err := w.dir.Root.OpenFile(rel, os.O_RDONLY|localfile.OpenDirectory, 0)
	if below == "" {
		return d, err
	}
	gone := &fs.PathError{Op: "open", Path: rel, Err: fs.ErrNotExist}
	if err != nil { // the link may lead out of the root
		if now, e := w.dir.Root.Lstat(rel); e == nil && !now.IsDir() {
			err = gone
		}
		return nil, err
	}
	open, err := d.Stat()
	if err == nil {
		if now, e := w.dir.Root.Lstat(rel); e != nil || !os.SameFile(open, now) {
			err = gone
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}
