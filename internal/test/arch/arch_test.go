package arch_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier/internal/test/arch"
)

// root is the directory of the repository, seen from this package.
const root = "../../.."

// The tests in this file hold the repository to its rules; those in
// check_test.go show that each rule finds what breaks it.

// loaded is read once: no rule changes the tree.
var loaded = sync.OnceValues(func() (*arch.Tree, error) { return arch.Load(os.DirFS(root)) })

func load(t *testing.T) *arch.Tree {
	t.Helper()
	tree, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// none fails with every finding.
func none(t *testing.T, found []arch.Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

func TestSourceParses(t *testing.T) {
	tree := load(t)
	none(t, tree.Broken)
	if !slices.ContainsFunc(tree.Packages, func(p *arch.Package) bool { return p.Dir == "internal/test/arch" }) {
		t.Errorf("the tree at %s does not hold this package: nothing is being checked", root)
	}
}

func TestImports(t *testing.T) {
	none(t, arch.Arrows(load(t), arch.Rooms, arch.Libraries))
}

func TestRequirements(t *testing.T) {
	found, err := arch.Requirements(t.Context(), root, arch.Libraries)
	if err != nil {
		t.Fatal(err)
	}
	none(t, found)
}

func TestBudgets(t *testing.T) {
	for _, b := range arch.Budgets {
		t.Run(strings.Join(b.Dirs, "+"), func(t *testing.T) {
			t.Parallel()
			for _, goos := range []string{"linux", "darwin", "windows"} {
				mods, err := arch.Linked(t.Context(), root, goos, b.Dirs)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range mods {
					if !slices.Contains(b.Modules, m) {
						t.Errorf("on %s a program with %s links %s: find what imports it with go list -deps, and cut it there",
							goos, strings.Join(b.Dirs, ", "), m)
					}
				}
			}
		})
	}
}

func TestRoot(t *testing.T) {
	none(t, arch.Root(arch.Rooms))
}

func TestDocs(t *testing.T) {
	none(t, arch.Docs(load(t)))
}

func TestBans(t *testing.T) {
	none(t, arch.Banned(load(t), arch.Bans))
}

func TestNoInit(t *testing.T) {
	none(t, arch.Inits(load(t)))
}

func TestPackageNames(t *testing.T) {
	none(t, arch.Nouns(load(t), arch.Names))
}

func TestSkips(t *testing.T) {
	none(t, arch.Skips(load(t)))
}

func TestAliases(t *testing.T) {
	none(t, arch.Aliases(load(t)))
}

func TestEnvironment(t *testing.T) {
	none(t, arch.Environment(load(t), arch.Rooms))
}

func TestSecretComparisons(t *testing.T) {
	none(t, arch.SecretComparisons(load(t)))
}

func TestLooseEnds(t *testing.T) {
	found, err := arch.LooseEnds(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	none(t, found)
}

// TestPolicy checks that the tables agree with each other.
func TestPolicy(t *testing.T) {
	var dirs []string
	for _, r := range arch.Rooms {
		if slices.Contains(dirs, r.Dir) {
			t.Errorf("%s has two rooms", r.Dir)
		}
		dirs = append(dirs, r.Dir)
	}
	for _, r := range arch.Rooms {
		for _, dir := range r.Imports {
			if !strings.Contains(dir, "*") && dir != "..." && !slices.Contains(dirs, dir) {
				t.Errorf("%s may import %s, which has no room", r.Dir, dir)
			}
		}
		for _, lib := range r.Libraries {
			if !slices.Contains(arch.Libraries, lib) {
				t.Errorf("%s may import %s, which go.mod may not require", r.Dir, lib)
			}
		}
	}
}
