package corpus

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	packages = flag.String("reduce", "", "the packages whose corpora TestReduce looks at, as ./flow,./store")
	remove   = flag.Bool("remove", false, "remove the entries that add no coverage and are named by the go command")
)

// maxEntries limits the entries of all corpora together.
const maxEntries = 150

// byHash is the name that the go command gives an entry.
var byHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// TestEntries limits the number of entries and requires that each has a name in words.
func TestEntries(t *testing.T) {
	n, root := 0, module(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(filepath.Dir(path))) != "fuzz" {
			return err
		}
		if n++; byHash.MatchString(d.Name()) {
			t.Errorf("%s: say in its name what this entry is", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 || n > maxEntries {
		t.Errorf("the corpora have %d entries, want 1 to %d", n, maxEntries)
	}
}

// TestReduce logs for each fuzz target how many blocks its seeds execute, how many
// each entry of its corpus adds, and which entries add none. With -remove it removes
// those that the go command has named.
//
// Without -reduce it takes a module of a few lines, of which it knows which entry
// adds coverage.
func TestReduce(t *testing.T) {
	if *packages == "" {
		testKnownCorpus(t)
		return
	}
	root := module(t)
	for dir := range strings.SplitSeq(*packages, ",") {
		for _, c := range corpora(t, root, dir) {
			t.Logf("%s %s: the seeds execute %d blocks", dir, filepath.Base(c.dir), c.base)
			for _, g := range c.gains {
				t.Logf("%5d  %s", g.blocks, g.name)
				if g.blocks == 0 && *remove && byHash.MatchString(g.name) {
					if err := os.Remove(filepath.Join(c.dir, g.name)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

func testKnownCorpus(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc Kind(n int) string {\n\tif n > 9 {\n\t\treturn \"large\"\n\t}\n\tif n < 0 {\n\t\treturn \"negative\"\n\t}\n\treturn \"small\"\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc FuzzKind(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) { Kind(n) })\n}\n" +
			"\nfunc FuzzNothing(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, n int) {})\n}\n",
		"testdata/fuzz/FuzzKind/again": entry(2),
		"testdata/fuzz/FuzzKind/large": entry(10),
		"testdata/fuzz/FuzzKind/other": entry(1000000000),
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := corpora(t, root, ".")
	want := []gain{{"large", 1}, {"again", 0}, {"other", 0}}
	if len(found) != 1 || found[0].base != 3 || !slices.Equal(found[0].gains, want) {
		t.Errorf("the corpora are %+v, want 3 blocks and %v", found, want)
	}
}

func entry(n int) string { return fmt.Sprintf("go test fuzz v1\nint(%d)\n", n) }

// A corpus is the directory of a fuzz target.
type corpus struct {
	dir   string
	base  int // blocks that the seeds of the target execute
	gains []gain
}

// A gain is how many blocks an entry adds to the seeds and to the entries before it.
type gain struct {
	name   string
	blocks int
}

// corpora returns those of a package, with the entries that add most first.
func corpora(t *testing.T, root, dir string) []corpus {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, dir, "testdata", "fuzz", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%s has no corpus: %v", dir, err)
	}
	p := program{t: t, path: filepath.Join(t.TempDir(), "fuzz.test"), dir: filepath.Join(root, dir)}
	goCommand(t, root, "test", "-c", "-vet=off", "-cover", "-covermode=set", "-coverpkg="+covered(t, root, dir), "-o", p.path, dir)
	var list []corpus
	for _, d := range dirs {
		list = append(list, p.measure(d))
	}
	return list
}

// covered returns the packages whose blocks count: that of the target, and those that
// ship.
func covered(t *testing.T, root, dir string) string {
	own := strings.TrimSpace(goCommand(t, root, "list", dir))
	all := strings.Fields(goCommand(t, root, "list", "./..."))
	return strings.Join(slices.DeleteFunc(all, func(p string) bool {
		return p != own && strings.Contains(p, "/internal/test/")
	}), ",")
}

// A program is the compiled test of a package.
type program struct {
	t    *testing.T
	path string
	dir  string // of the package
}

// measure chooses entries as long as one adds blocks.
func (p program) measure(dir string) corpus {
	target := filepath.Base(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	executed := p.run("^" + target + "$/^seed#")
	c := corpus{dir: dir, base: len(executed)}
	blocks := make(map[string]map[string]bool)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		blocks[e.Name()] = p.run("^" + target + "$/^" + regexp.QuoteMeta(e.Name()) + "$")
	}
	for len(names) > 0 {
		best, most := 0, -1
		for i, name := range names {
			n := 0
			for b := range blocks[name] {
				if !executed[b] {
					n++
				}
			}
			if n > most {
				best, most = i, n
			}
		}
		for b := range blocks[names[best]] {
			executed[b] = true
		}
		c.gains = append(c.gains, gain{names[best], most})
		names = slices.Delete(names, best, best+1)
	}
	return c
}

// run returns the blocks that the chosen tests execute.
func (p program) run(pattern string) map[string]bool {
	p.t.Helper()
	profile := p.path + ".out"
	os.Remove(profile)
	cmd := exec.CommandContext(p.t.Context(), p.path, "-test.run="+pattern, "-test.coverprofile="+profile, "-test.timeout=5m")
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", pattern, err, out)
	}
	raw, err := os.ReadFile(profile)
	if err != nil {
		p.t.Fatal(err)
	}
	executed := make(map[string]bool)
	for line := range bytes.Lines(raw) {
		// file.go:4.12,6.3 2 1
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[2]) != "0" {
			executed[string(fields[0])] = true
		}
	}
	return executed
}

// goCommand runs the go command and returns what it prints.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return string(out)
}

// module returns the directory of this module.
func module(t *testing.T) string {
	t.Helper()
	return filepath.Dir(strings.TrimSpace(goCommand(t, ".", "env", "GOMOD")))
}
