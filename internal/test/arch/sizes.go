package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Files returns the files of more than [MaxFileLines] lines that are no tests.
func Files(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.files {
		if n := f.lines(); !f.Test && n > MaxFileLines {
			found = append(found, Finding{f.Path, n, fmt.Sprintf(
				"the file has %d lines, %d at most: move one subject of it to a file of its own", n, MaxFileLines)})
		}
	}
	return found
}

// Packages returns the packages that have more files or lines than they may, those of
// [MaxPackageLines] where limits has none for them.
func Packages(t *Tree, limits []Limit) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		limit := Limit{Lines: MaxPackageLines}
		if i := slices.IndexFunc(limits, func(l Limit) bool { return covers(l.Dir, p.Dir) }); i >= 0 {
			limit = limits[i]
		}
		files, lines := 0, 0
		for _, f := range p.Files {
			if !f.Test {
				files, lines = files+1, lines+f.lines()
			}
		}
		for _, c := range []struct {
			what    string
			n, most int
		}{{"files", files, limit.Files}, {"lines", lines, limit.Lines}} {
			if c.most > 0 && c.n > c.most {
				found = append(found, t.at(p.Files[0].Syntax.Package, "the package has %d %s that are no tests, %d at most: move one subject to a package of its own", c.n, c.what, c.most))
			}
		}
	}
	return found
}

// Sizes are figures about the code that is no test. They are read by people;
// no figure fails, for fragments made to please a count are worse than a long
// function.
type Sizes struct {
	Files, Functions int
	Median, P90      int       // lines of a function
	Comments         float64   // share of the lines that are not blank
	Long             []Finding // functions of more than LongFunction lines
}

// Measure returns the sizes of the code in t.
func Measure(t *Tree) Sizes {
	var s Sizes
	var lengths []int
	var comments, lines int
	for _, f := range t.files {
		if f.Test {
			continue
		}
		s.Files++
		c, n := f.comments()
		comments, lines = comments+c, lines+n
		for _, decl := range f.Syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				n := t.fset.Position(d.End()).Line - t.fset.Position(d.Pos()).Line + 1
				lengths = append(lengths, n)
				if n > LongFunction {
					s.Long = append(s.Long, t.at(d.Pos(), "%s has %d lines", d.Name.Name, n))
				}
			}
		}
	}
	slices.Sort(lengths)
	if s.Functions = len(lengths); s.Functions > 0 {
		s.Median, s.P90 = lengths[(s.Functions-1)/2], lengths[(s.Functions-1)*9/10]
	}
	if lines > 0 {
		s.Comments = float64(comments) / float64(lines)
	}
	return s
}

// comments returns how many lines of f hold nothing but a comment, and how
// many are not blank.
func (f *File) comments() (comments, lines int) {
	for line := range bytes.Lines(f.Source) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			lines++
		}
		if bytes.HasPrefix(line, []byte("//")) {
			comments++
		}
	}
	return comments, lines
}

// String returns the figures as a report of a few lines.
func (s Sizes) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d files, %d functions\n", s.Files, s.Functions)
	fmt.Fprintf(&b, "lines of a function: half have at most %d (guide %d), nine in ten at most %d\n", s.Median, MedianFunction, s.P90)
	fmt.Fprintf(&b, "comment lines: %.0f %%\n", 100*s.Comments)
	fmt.Fprintf(&b, "functions of more than %d lines: %d", LongFunction, len(s.Long))
	for _, f := range s.Long {
		fmt.Fprintf(&b, "\n\t%s", f)
	}
	return b.String()
}
