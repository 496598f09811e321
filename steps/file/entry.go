package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/safename"
)

// Bounds on the names of entries: those of common file systems, and one on the
// directories above a file, since making n of them, one in the other, takes
// time in the square of n.
const (
	maxEntryName    = 4096 // bytes
	maxEntryElement = 255  // bytes
	maxEntryDepth   = 100  // directories
)

// checkEntryName refuses the name of an archive's entry unless it means the
// same file, inside the directory that the archive is unpacked to, on every
// system. The name of a directory has no slash at its end here.
func checkEntryName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxEntryName:
		return fmt.Errorf("is longer than %d bytes", maxEntryName)
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case name[0] == '/':
		return errors.New("is an absolute path")
	case strings.Count(name, "/") > maxEntryDepth:
		return fmt.Errorf("lies more than %d directories deep", maxEntryDepth)
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return errors.New("has a backslash")
		case r == ':':
			return errors.New("has a colon")
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return fmt.Errorf("has the control character %U", r)
		case unicode.Is(unicode.Bidi_Control, r):
			return fmt.Errorf("has the character %U, which changes the direction of text", r)
		}
	}
	for element := range strings.SplitSeq(name, "/") {
		if err := checkElement(element); err != nil {
			return err
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return errors.New("leads out of the directory")
	}
	return nil
}

// checkElement refuses single names.
func checkElement(e string) error {
	switch {
	case e == "":
		return errors.New("has an empty element")
	case e == "." || e == "..":
		return fmt.Errorf("has the element %q", e)
	case len(e) > maxEntryElement:
		return fmt.Errorf("has an element of more than %d bytes", maxEntryElement)
	case strings.HasSuffix(e, ".") || strings.HasSuffix(e, " "):
		return fmt.Errorf("has the element %q, which ends in a dot or space", e)
	case isReserved(e):
		return fmt.Errorf("has the element %q, which means a device on Windows", e)
	}
	return nil
}

// isReserved reports whether Windows takes a name for a device, whatever the
// directory and the extension.
func isReserved(e string) bool {
	base, _, _ := strings.Cut(e, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, ok := strings.CutPrefix(base, "COM")
	if !ok {
		port, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && utf8.RuneCountInString(port) == 1 && strings.Contains("0123456789¹²³", port)
}

// A tree collects the names of an archive's entries, and refuses those that
// could meet in one file.
type tree struct {
	nodes map[string]treeNode // by folded name
}

type treeNode struct {
	name string
	dir  bool // implied or given
	own  bool // an entry of its own
}

// add takes a name with the directories above it.
func (t *tree) add(name string, dir bool) error {
	if t.nodes == nil {
		t.nodes = make(map[string]treeNode)
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '/' {
			if err := t.node(name[:i], true, false); err != nil {
				return err
			}
		}
	}
	return t.node(name, dir, true)
}

func (t *tree) node(name string, dir, own bool) error {
	key := safename.Fold(name)
	old, ok := t.nodes[key]
	switch {
	case !ok:
		t.nodes[key] = treeNode{name, dir, own}
		return nil
	case old.name != name:
		return fmt.Errorf("differs only in letter case, or in how its characters are composed, from %q", trim(old.name))
	case old.dir != dir:
		return errors.New("is a file and a directory")
	case own && old.own:
		return errors.New("is there twice")
	}
	t.nodes[key] = treeNode{name, dir, own || old.own}
	return nil
}
