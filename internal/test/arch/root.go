package arch

import "fmt"

// Root returns the packages that the root imports, or that these import, which know the
// module: every other package speaks in the words of the root, and it must not speak in
// theirs.
func Root(rooms []Room) []Finding {
	var found []Finding
	seen := map[string]bool{".": true}
	var visit func(dir, by string)
	visit = func(dir, by string) {
		if covers(dir, ".") {
			found = append(found, Finding{File: "internal/test/arch/policy.go", Line: 1, Text: fmt.Sprintf(
				"%s may import the root package, which imports it: only what knows nothing of the module may be imported there", title(by))})
		}
		if seen[dir] {
			return
		}
		seen[dir] = true
		if room, ok := roomOf(dir, rooms); ok {
			for _, next := range room.Imports {
				visit(next, dir)
			}
		}
	}
	for _, r := range rooms {
		if r.Dir == "." {
			for _, dir := range r.Imports {
				visit(dir, r.Dir)
			}
		}
	}
	return found
}
