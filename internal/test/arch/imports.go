package arch

import (
	"path"
	"slices"
	"strings"
)

// Arrows returns the imports that lead where rooms allow no arrow, and the
// packages that have no room. Nested modules have rules of their own and are
// passed over.
func Arrows(t *Tree, rooms []Room, libraries []string) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		if p.Nested {
			continue
		}
		room, ok := roomOf(p.Dir, rooms)
		if !ok {
			found = append(found, t.at(p.Files[0].Syntax.Package,
				"the package in %s has no room: decide what it may import and list it in internal/test/arch/policy.go", p.Dir))
			continue
		}
		for _, f := range p.Files {
			found = append(found, t.arrowsOf(f, room, rooms, libraries)...)
		}
	}
	return found
}

// arrowsOf returns the imports of f that room does not allow.
func (t *Tree) arrowsOf(f *File, room Room, rooms []Room, libraries []string) []Finding {
	var found []Finding
	for spec, name := range f.imports {
		if reason := t.refuses(f, room, name, rooms, libraries); reason != "" {
			found = append(found, t.at(spec.Pos(), "%s", reason))
		}
	}
	return found
}

// refuses returns why the file f, which is in room, must not import name, or
// "" when it may.
func (t *Tree) refuses(f *File, room Room, name string, rooms []Room, libraries []string) string {
	dir, ours := t.dirOf(name)
	switch {
	case name == "C":
		return "uses cgo, which cannot be cross-compiled: write it in Go"
	case ours && f.Test:
		return ""
	case ours:
		return refusesDir(room, dir, rooms)
	case standard(name):
		return ""
	case f.Test && slices.ContainsFunc(libraries, func(lib string) bool { return within(name, lib) }):
		return ""
	case f.Test:
		return "imports " + name + ", which is in no library that internal/test/arch/policy.go allows: do without it"
	case !slices.ContainsFunc(room.Libraries, func(lib string) bool { return within(name, lib) }):
		return "imports " + name + ", which is not for " + title(room.Dir) + " (see internal/test/arch/policy.go): " +
			"move the code to the package that owns this library, or do without it"
	}
	return ""
}

// refusesDir returns why a package in room must not import the package in
// dir, or "" when it may.
func refusesDir(room Room, dir string, rooms []Room) string {
	if !slices.ContainsFunc(room.Imports, func(pattern string) bool { return covers(pattern, dir) }) {
		return title(room.Dir) + " must not import " + title(dir) + " (see internal/test/arch/policy.go): " +
			"move the code downward, or take what is needed as an argument"
	}
	if target, ok := roomOf(dir, rooms); ok && target.Outside && !room.Outside {
		return title(room.Dir) + " must not import " + title(dir) + ", which is for tests and examples: " +
			"a user's program would link it"
	}
	return ""
}

// roomOf returns the room of the package in dir. A room that names dir goes
// before one that covers it with a star.
func roomOf(dir string, rooms []Room) (Room, bool) {
	for _, r := range rooms {
		if r.Dir == dir {
			return r, true
		}
	}
	for _, r := range rooms {
		if covers(r.Dir, dir) {
			return r, true
		}
	}
	return Room{}, false
}

// covers reports whether pattern, in the notation of [Room.Imports], stands
// for dir.
func covers(pattern, dir string) bool {
	ok, err := path.Match(pattern, dir)
	return pattern == "..." || err == nil && ok
}

// dirOf returns the directory of the package that this module knows as name,
// and whether it is one of this module at all.
func (t *Tree) dirOf(name string) (string, bool) {
	if name == t.Module {
		return ".", true
	}
	return strings.CutPrefix(name, t.Module+"/")
}

// standard reports whether name belongs to the standard library: the first
// element of every other import path is a host, which has a dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// title returns how a message calls the package in dir.
func title(dir string) string {
	if dir == "." {
		return "the root package"
	}
	return dir
}
