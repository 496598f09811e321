package planted

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	only = flag.String("planted", "", "try only the bugs whose names contain this")
	all  = flag.Bool("all", false, "try all bugs, and not just those that are always tried; it takes half an hour")
	keep = flag.Bool("keep", false, "leave the changed files, and say how to run the command by hand")
)

// atOnce is how many commands run at a time: each of them builds and links.
const atOnce = 2

// TestPlanted plants each bug, and requires that the tests which it names find
// it. With a flag that chooses bugs they must pass without it too; otherwise that
// is left to the run of their own packages.
func TestPlanted(t *testing.T) {
	root := module(t)
	list := bugs(t)
	slots := make(chan struct{}, atOnce)
	sound := &baseline{t: t, root: root, slots: slots, tried: make(map[string]func() verdict), elsewhere: !*all && *only == ""}
	chosen := 0
	for _, b := range list {
		if !strings.Contains(b.name, *only) || *only == "" && !*all && !b.always {
			continue
		}
		chosen++
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			changed, err := b.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := writeOverlay(directory(t), root, changed)
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range b.found {
				line := "go " + strings.Join(commandLine(overlay, args), " ")
				if *keep {
					t.Log(line)
				}
				if v := sound.try(args); v != passed {
					t.Errorf("go test %s %s without the bug too", strings.Join(args, " "), v)
					continue
				}
				slots <- struct{}{}
				r := goTest(t.Context(), root, overlay, args)
				<-slots
				if r.verdict == failed || r.verdict == hung && b.hangs {
					t.Logf("%s: found in %v by %s", strings.Join(args, " "), r.took.Round(1e8), strings.Join(r.failed, ", "))
					continue
				}
				t.Errorf("%s.\ngo test %s %s:\n%s", b.text, strings.Join(args, " "), r.verdict, r.output)
			}
		})
	}
	if chosen == 0 {
		t.Errorf("no bug has a name that contains %q", *only)
	}
}

// TestBugsFit requires that each bug can be planted and that its package compiles
// with it, also of those that are not tried.
func TestBugsFit(t *testing.T) {
	root := module(t)
	list := bugs(t)
	c := newCompiler(t, root, list)
	for _, b := range list {
		changed, err := b.plant(root)
		if err == nil {
			err = c.compile(changed)
		}
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// directory returns one for the changed files.
func directory(t *testing.T) string {
	if !*keep {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "planted")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A baseline runs commands without any bug, each once.
type baseline struct {
	t     *testing.T
	root  string
	slots chan struct{}
	mu    sync.Mutex
	tried map[string]func() verdict

	elsewhere bool // whether others run the commands
}

// try returns how a command ends without the bug. What it said is shown once,
// however many bugs name the command.
func (b *baseline) try(args []string) verdict {
	if b.elsewhere {
		return passed
	}
	key := strings.Join(args, " ")
	b.mu.Lock()
	f := b.tried[key]
	if f == nil {
		f = sync.OnceValue(func() verdict {
			b.slots <- struct{}{}
			defer func() { <-b.slots }()
			r := goTest(b.t.Context(), b.root, "", args)
			if r.verdict != passed {
				b.t.Errorf("without any bug, go test %s %s:\n%s", key, r.verdict, r.output)
			}
			return r.verdict
		})
		b.tried[key] = f
	}
	b.mu.Unlock()
	return f()
}

// TestPromises requires two bugs of each promise, and one of each that is tried in
// every run of the suite.
func TestPromises(t *testing.T) {
	all, always := make(map[string]int), make(map[string]int)
	for _, b := range bugs(t) {
		all[b.breaks]++
		if b.always {
			always[b.breaks]++
		}
	}
	for i := range 10 {
		p := fmt.Sprintf("P%d", i+1)
		if all[p] < 2 || always[p] < 1 {
			t.Errorf("%d bugs break %s, %d of them are always tried; want 2 and 1", all[p], p, always[p])
		}
	}
}

// TestNames keeps the files in order: a number of two digits or more, used
// once, and a short name.
func TestNames(t *testing.T) {
	seen := make(map[string]string)
	for _, b := range bugs(t) {
		number, name, _ := strings.Cut(b.name, "-")
		if len(number) < 2 || strings.Trim(number, "0123456789") != "" || name == "" {
			t.Errorf("%s.bug: call it like 01-no-fence.bug", b.name)
		}
		for _, key := range []string{number, name} {
			if seen[key] != "" {
				t.Errorf("%s and %s share %q", seen[key], b.name, key)
			}
			seen[key] = b.name
		}
	}
	others, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		if filepath.Ext(name) != ".bug" {
			t.Errorf("%s is no bug", name)
		}
	}
}
