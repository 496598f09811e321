package archive

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// Limits for the names of entries. The lengths are those of common file systems. The depth is
// limited, since making n nested directories takes time proportional to the square of n.
const (
	maxEntryName    = 4096 // bytes
	maxEntryElement = 255  // bytes
	maxEntryDepth   = 100  // directories
)

// CheckName refuses the name of an archive's entry unless it means the same file, inside the
// directory that the archive is unpacked to, on every system. There is one exception: a colon is
// refused on Windows only, since files of other systems often have times in their names. A name
// that begins like a drive is refused everywhere. The name of a directory has no slash at its end
// here. The error is the rest of a sentence about the name, such as "is empty".
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxEntryName:
		return fmt.Errorf("is longer than %d bytes", maxEntryName)
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case name[0] == '/':
		return errors.New("is an absolute path")
	case len(name) > 1 && name[1] == ':' && 'a' <= name[0]|0x20 && name[0]|0x20 <= 'z':
		return errors.New("begins with a drive of Windows")
	case strings.Count(name, "/") > maxEntryDepth:
		return fmt.Errorf("lies more than %d directories deep", maxEntryDepth)
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return errors.New("has a backslash")
		case r == ':' && runtime.GOOS == "windows":
			return errors.New("has a colon, which no name has on Windows")
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

// tidy returns the name of an entry without redundant elements, as all programs read it: "./a" is
// "a", and "d//./a" is "d/a". The name of a directory may become empty, which means the directory
// into which the archive is unpacked.
func tidy(name string) string {
	var b strings.Builder
	for e := range strings.SplitAfterSeq(name, "/") {
		if e != "./" && (e != "/" || b.Len() == 0 && name[0] == '/') {
			b.WriteString(e)
		}
	}
	return b.String()
}

// isTop reports whether the directory called given, which tidy has turned into name, is the
// directory into which the archive is unpacked.
func isTop(given, name string) bool { return name == "" && given != "" || name == "." }

// checkElement refuses invalid single elements of a name.
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

// isReserved reports whether Windows treats a name as a device, whatever the directory and the
// extension are.
func isReserved(e string) bool {
	base, _, _ := strings.Cut(e, ".")
	return safename.IsDevice(e) || strings.EqualFold(strings.TrimRight(base, " "), "CLOCK$")
}

// Names collects the names of an archive's entries. It refuses names that could mean the same
// file, and more names than the limits allow. A directory that is only part of a name counts like
// an entry, since it is created too. Names in the same directory share the nodes of the
// directory, so the memory is proportional to the number of files and directories.
type Names struct {
	limits Limits
	nodes  map[treeKey]*treeNode
	bytes  int // of the paths of all nodes
	// The directory of the previous name, which is often that of the next name too.
	last   string
	parent *treeNode
}

// A treeKey is a name within its directory.
type treeKey struct {
	parent *treeNode // nil means the top
	name   string    // folded
}

type treeNode struct {
	name string // within its directory
	dir  bool   // implied or given
	own  bool   // an entry of its own
}

// errTwice is the error of Add for a name that was already added.
var errTwice = errors.New("is there twice")

// NewNames returns an empty collection. Its limits are MaxFiles and MaxPathBytes of limits.
func NewNames(limits Limits) *Names { return &Names{limits: limits} }

// Add adds the name of a file or directory and its parent directories. [CheckName] must have
// accepted the name. The error is the rest of a sentence about the name. It matches [ErrRefused]
// if a limit is exceeded.
func (t *Names) Add(name string, dir bool) error {
	if t.nodes == nil {
		t.nodes = make(map[treeKey]*treeNode)
	}
	var parent *treeNode
	start := 0
	end := strings.LastIndexByte(name, '/')
	if end >= 0 && t.parent != nil && name[:end] == t.last {
		parent, start = t.parent, end+1
	}
	for i := start; i < len(name); i++ {
		if name[i] == '/' {
			n, err := t.node(parent, name[:i], start, true, false)
			if err != nil {
				return err
			}
			parent, start = n, i+1
		}
	}
	if end >= 0 {
		t.last, t.parent = name[:end], parent
	}
	_, err := t.node(parent, name, start, dir, true)
	return err
}

// node finds or makes the node of a path. The last element of the path begins at start.
func (t *Names) node(parent *treeNode, full string, start int, dir, own bool) (*treeNode, error) {
	key := treeKey{parent, safename.Fold(full[start:])}
	old := t.nodes[key]
	switch {
	case old == nil:
		n := &treeNode{full[start:], dir, own}
		t.nodes[key] = n
		return n, t.count(len(full))
	case old.name != full[start:]:
		return nil, fmt.Errorf("differs only in letter case, or in how its characters are composed, from %q", localfile.Shorten(full[:start]+old.name))
	case old.dir != dir:
		return nil, errors.New("is a file and a directory")
	case own && old.own:
		return nil, errTwice
	}
	old.own = old.own || own
	return old, nil
}

// count counts another path.
func (t *Names) count(path int) error {
	if len(t.nodes) > t.limits.MaxFiles {
		return refused("is one too many: it makes more than %d files and directories, those included that are only part of a name; see MaxFiles in %s", t.limits.MaxFiles, t.limits.SetBy)
	}
	if t.bytes += path; t.bytes > t.limits.MaxPathBytes {
		return refused("is one too many: it makes the paths of all files and directories longer than %d bytes together; see MaxPathBytes in %s", t.limits.MaxPathBytes, t.limits.SetBy)
	}
	return nil
}
