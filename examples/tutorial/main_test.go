package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_TUTORIAL"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	pgtest.Main(m)
}

// A terminal is where the reader of the tutorial types.
type terminal struct {
	t        *testing.T
	dir, url string
}

// command returns a command of the program.
func (m *terminal) command(name string, out io.Writer) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), self, m.url, name)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, out, out
	return cmd
}

// tutorial carries out a command and returns what it printed.
func (m *terminal) tutorial(name string) string {
	m.t.Helper()
	var out bytes.Buffer
	if err := m.command(name, &out).Run(); err != nil {
		m.t.Fatalf("%s: %v\n%s", name, err, &out)
	}
	return out.String()
}

// worker starts a worker, whose output goes to a file. The returned function kills it.
func (m *terminal) worker(log string) (kill func()) {
	m.t.Helper()
	f, err := os.Create(filepath.Join(m.dir, log))
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := m.command("work", f)
	if err := errors.Join(cmd.Start(), f.Close()); err != nil {
		m.t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	m.t.Cleanup(kill)
	return kill
}

// until waits until a text has a form.
func (m *terminal) until(what string, text func() string, form string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	for {
		s := text()
		if regexp.MustCompile(form).MatchString(s) {
			return s
		}
		select {
		case <-ctx.Done():
			m.t.Fatalf("%s does not have %q:\n%s", what, form, s)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestTutorial does what the tutorial says.
func TestTutorial(t *testing.T) {
	t.Setenv(programEnv, "1")
	m := &terminal{t: t, dir: t.TempDir(), url: pgtest.URL(t)}
	for _, dir := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(m.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(m.dir, "in", name), []byte("article;1;2.50\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		write(fmt.Sprintf("%d.csv", i+1))
	}
	m.tutorial("deploy")
	m.tutorial("enqueue")
	kill := m.worker("first.log")
	show := func() string { return m.tutorial("show") }
	m.until("show", show, `remove +\[1\]  attempt 1  completed`)
	kill()
	m.worker("second.log")
	shown := m.until("show", show, `the execution is completed`)
	for i := range 5 {
		for _, step := range []string{"count", "pack", "remove"} {
			form := fmt.Sprintf(`(?m)^%s +\[%d\]  attempt \d  completed$`, step, i)
			if n := len(regexp.MustCompile(form).FindAllString(shown, -1)); n != 1 {
				t.Errorf("%s of file %d was completed %d times", step, i, n)
			}
		}
	}
	if packed, err := filepath.Glob(filepath.Join(m.dir, "out", "*.csv.gz")); err != nil || len(packed) != 5 {
		t.Errorf("out has %v, %v", packed, err)
	}
	m.tutorial("automate")
	write("6.csv")
	log := func() string {
		b, err := os.ReadFile(filepath.Join(m.dir, "second.log"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	m.until("the worker's output", log, `notification: JobCompleted of invoices`)
	m.until("out", func() string {
		names, _ := filepath.Glob(filepath.Join(m.dir, "out", "*"))
		return strings.Join(names, " ")
	}, `6\.csv\.gz`)
	if err := run(t.Context(), []string{m.url, "dance"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"dance"`) {
		t.Errorf("an unknown command: %v", err)
	}
}

var (
	update = flag.Bool("update", false, "write the files of this program into docs/tutorial.md")

	// A marked block names the file that it shows, and what its lines contain or do
	// not contain.
	marked = regexp.MustCompile("(?s)(<!-- ([a-z.]+)(?: (with|without) \"([a-z]+)\")? -->\n```[a-z]*\n)(.*?)(```\n)")
)

// TestPage holds the blocks of docs/tutorial.md against the files of this program;
// run it with -update after a change of the files.
func TestPage(t *testing.T) {
	const page = "../../docs/tutorial.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	want := marked.ReplaceAllStringFunc(string(text), func(block string) string {
		m := marked.FindStringSubmatch(block)
		source, err := os.ReadFile(m[2])
		if err != nil {
			t.Fatal(err)
		}
		shown[m[2]] = true
		return m[1] + lines(string(source), m[3], m[4]) + m[6]
	})
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/tutorial.md does not show the files as they are; run: go test ./examples/tutorial -run TestPage -update")
	}
	for _, name := range []string{"job.json", "count.go", "main.go", "automate.go"} {
		if !shown[name] {
			t.Errorf("docs/tutorial.md does not show %s", name)
		}
	}
}

// lines returns a source from its package clause on, with the lines that have a
// mark, formatted without them, or all.
func lines(source, which, mark string) string {
	if i := strings.Index(source, "package main\n"); i > 0 {
		source = source[i:]
	}
	var b strings.Builder
	for line := range strings.Lines(source) {
		has := mark != "" && strings.Contains(line, "// "+mark)
		if which == "" || has == (which == "with") {
			b.WriteString(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), " // "+mark) + "\n")
		}
	}
	if which == "without" {
		if formatted, err := format.Source([]byte(b.String())); err == nil {
			return string(formatted)
		}
	}
	return b.String()
}

// TestFirstProgram: the program of the first sections, without automate.go, can be
// built.
func TestFirstProgram(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "count.go", "job.json"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(lines(string(source), "without", "automate")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "vet", filepath.Join(dir, "main.go"), filepath.Join(dir, "count.go")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
