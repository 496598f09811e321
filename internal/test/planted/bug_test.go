package planted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A bug is what one file of testdata says.
type bug struct {
	name   string // of the file, without .bug
	text   string // what is wrong
	breaks string // a promise, P1 to P10, or a rule
	hangs  bool   // a test that hangs has found it
	always bool   // it is tried in every run of the suite
	edits  []edit
	found  [][]string // the arguments of go test, for each command that must find it
}

// An edit exchanges a text that occurs exactly once in a file.
type edit struct{ file, old, new string }

// section is the line that begins one.
var section = regexp.MustCompile(`^-- (old (\S+)|new|found by) --$`)

// parseBug reads the text of a bug file.
func parseBug(name, text string) (*bug, error) {
	b := &bug{name: name}
	var into *string
	var commands string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := section.FindStringSubmatch(line); m != nil {
			switch {
			case m[2] != "":
				b.edits = append(b.edits, edit{file: m[2]})
				into = &b.edits[len(b.edits)-1].old
			case m[1] == "found by":
				into = &commands
			case len(b.edits) == 0 || into != &b.edits[len(b.edits)-1].old:
				return nil, fmt.Errorf("line %d: new text without an old one", i+1)
			default:
				into = &b.edits[len(b.edits)-1].new
			}
			continue
		}
		if into != nil {
			*into += line + "\n"
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "bug":
			b.text = value
		case "breaks":
			b.breaks = value
		case "hangs":
			b.hangs = value == "yes"
		case "always":
			b.always = value == "yes"
		default:
			return nil, fmt.Errorf("line %d: %q is none of bug, breaks, hangs and always", i+1, line)
		}
	}
	for line := range strings.Lines(commands) {
		if args := strings.Fields(line); len(args) > 0 {
			b.found = append(b.found, args)
		}
	}
	for i := range b.edits {
		e := &b.edits[i]
		e.old, e.new = strings.TrimSuffix(e.old, "\n"), strings.TrimSuffix(e.new, "\n")
		if e.old == "" || e.old == e.new {
			return nil, fmt.Errorf("the edit of %s changes nothing", e.file)
		}
	}
	switch {
	case b.text == "" || b.breaks == "":
		return nil, errors.New("it must say what the bug is, and what it breaks")
	case len(b.edits) == 0:
		return nil, errors.New("it exchanges no text")
	case len(b.found) == 0:
		return nil, errors.New("it names no test that must find it")
	}
	return b, nil
}

// plant returns the changed files of the bug, by their paths below root.
func (b *bug) plant(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range b.edits {
		text, ok := changed[e.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s holds this text %d times, and must hold it once; change the bug file:\n%s", e.file, n, e.old)
		}
		changed[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return changed, nil
}

// bugs reads all files of testdata, in the order of their names.
func bugs(t *testing.T) []*bug {
	t.Helper()
	names, err := filepath.Glob("testdata/*.bug")
	if err != nil {
		t.Fatal(err)
	}
	var list []*bug
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseBug(strings.TrimSuffix(filepath.Base(name), ".bug"), string(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, b)
	}
	return list
}

const sample = `bug: it adds
breaks: P1
-- old a.txt --
	one
-- new --
-- old a.txt --
two
-- new --
three
and four
-- found by --
./a -run ^TestA$
./b
`

func TestParse(t *testing.T) {
	b, err := parseBug("01-x", sample)
	if err != nil {
		t.Fatal(err)
	}
	if b.text != "it adds" || b.breaks != "P1" || b.hangs || len(b.edits) != 2 || len(b.found) != 2 {
		t.Errorf("parsed %+v", b)
	}
	if e := b.edits[0]; e != (edit{"a.txt", "\tone", ""}) {
		t.Errorf("first edit %+v", e)
	}
	if e := b.edits[1]; e != (edit{"a.txt", "two", "three\nand four"}) {
		t.Errorf("second edit %+v", e)
	}
	for old, text := range map[string]string{
		"bug: it adds": "bag: it adds", "breaks: P1\n": "", "-- old a.txt --\n\tone\n": "", "./a -run ^TestA$\n./b\n": "",
		"three\nand four": "two", "\tone\n": "",
	} {
		if _, err := parseBug("x", strings.Replace(sample, old, text, 1)); err == nil {
			t.Errorf("with %q in place of %q it was accepted", text, old)
		}
	}
}

func TestPlant(t *testing.T) {
	b, err := parseBug("x", sample)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"zero\n\tone\ntwo\n": "zero\n\nthree\nand four\n",
		"\tone\n":            "", // the second text is missing
		"\tone two two":      "", // or there twice
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		changed, err := b.plant(dir)
		if (err == nil) != (want != "") || changed["a.txt"] != want {
			t.Errorf("planted in %q: %q, %v", text, changed["a.txt"], err)
		}
	}
}
