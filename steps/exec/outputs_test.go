package exec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/steps/exec"
)

func (b *bench) make(names ...string) {
	b.t.Helper()
	for _, name := range names {
		name = filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestOutputPatterns checks which files the patterns of output_files stand for: regular
// files, each once, with the text of values as it is.
func TestOutputPatterns(t *testing.T) {
	b := newBench(t)
	b.make("out/a.csv", "out/b.csv", "out/c.txt", "out/sub/d.csv", "out/[1].csv", "out/*.csv", "out/x.csv.courier-tmp-e1-2-1.1", ".notes/2/n.csv", "2/1/own.csv")
	if err := os.Symlink("a.csv", filepath.Join(b.dir, "out/link.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.dir, "out/dir.csv"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		given, want []string
	}{
		{[]string{"out/a.csv"}, []string{"out/a.csv"}},
		{[]string{"out/[1].csv"}, []string{"out/[1].csv"}},
		{[]string{"out/*.csv"}, []string{"out/*.csv"}}, // a file has that very name
		{[]string{"out/?.csv"}, []string{"out/*.csv", "out/a.csv", "out/b.csv"}},
		{[]string{"out/b*.csv", "out/?.csv", "out/a.csv"}, []string{"out/b.csv", "out/*.csv", "out/a.csv"}},
		{[]string{"out/**/d.c*"}, []string{"out/sub/d.csv"}},
		{[]string{"**/*.csv"}, []string{"out/*.csv", "out/[1].csv", "out/a.csv", "out/b.csv", "out/sub/d.csv"}},
		{[]string{glob.Literal("out/*.csv")}, []string{"out/*.csv"}},
		{[]string{"out/{a,c}.*"}, []string{"out/a.csv", "out/c.txt"}},
		{[]string{filepath.Join(b.dir, "out/a*")}, []string{"out/a.csv"}},
	} {
		out, err := b.run(object{"args": []string{"env"}, "output_files": c.given})
		var reported []string
		for _, f := range b.files {
			reported = append(reported, f.Path)
		}
		slices.Sort(reported)
		if err != nil || !slices.Equal(out.OutputFiles, c.want) || !slices.Equal(reported, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%q: %q, reported %q (%v), want %q", c.given, out.OutputFiles, reported, err, c.want)
		}
	}
	for given, want := range map[string]string{
		"gone.csv":                         "the program has not written it",
		"none/*.csv":                       `the program has written no file that matches "none/*.csv"`,
		"out/z*.csv":                       `the program has written no file that matches "out/z*.csv"`,
		glob.Literal("out/z*") + "*":       `the program has written no file that matches "out/z**"`,
		"out/*/../../../x":                 "malformed",
		"../*":                             "leads out of the workspace",
		"/etc/*":                           "lies outside",
		"out/" + glob.Literal("*.csv.old"): "the program has not written it",
	} {
		if _, err := b.run(object{"args": []string{"env"}, "output_files": []string{given}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q in it", given, err, want)
		}
	}
	b.opt.MaxFiles = 2
	b.fails(object{"args": []string{"env"}, "output_files": []string{"out/?.csv"}}, true, "the pattern finds more than 2 files; narrow it, or raise MaxFiles in exec.Options")
}

// TestOnceKeepsFoundFiles checks that a completed run which is not repeated returns the
// files that it found, and not those that others have put there since.
func TestOnceKeepsFoundFiles(t *testing.T) {
	b := newBench(t)
	cfg := object{"args": []string{"write", "a1.csv", "x"}, "output_files": []string{"a*.csv"}, "once": true}
	for range 2 {
		if out, err := b.run(cfg); err != nil || !slices.Equal(out.OutputFiles, []string{"a1.csv"}) || len(b.files) != 1 {
			t.Errorf("%q, reported %v (%v)", out.OutputFiles, b.files, err)
		}
		b.make("a2.csv")
	}
}

// TestFailedOutputs checks what a run that failed returns beside the error.
func TestFailedOutputs(t *testing.T) {
	b := newBench(t)
	b.make("there.csv")
	out, err := b.run(object{"args": []string{"exit", "3", "it", "broke"}, "stdout_path": "out.txt", "output_files": []string{"*.csv", "gone.txt"}})
	want := exec.RunOutput{ExitCode: 3, Stderr: "it broke", OutputFiles: []string{"there.csv"}}
	if err == nil || !reflect.DeepEqual(out, want) || len(b.files) != 0 {
		t.Errorf("%+v, reported %v (%v), want %+v", out, b.files, err, want)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "out.txt")); err == nil {
		t.Error("stdout_path is there")
	}
	out, err = b.run(object{"args": []string{"pour", "8000000"}, "success_codes": []int{1}})
	if want := strings.Repeat("0", 4<<10-len("the end")) + "the end"; err == nil || out.Stdout != want || !out.StdoutTruncated || out.ExitCode != 0 {
		t.Errorf("stdout has %d bytes (%v)", len(out.Stdout), err)
	}
	out, err = b.run(object{"args": []string{"env"}, "env": object{"GIVEN": "hunter2secret"}, "success_codes": []int{1}})
	if err == nil || strings.Contains(out.Stdout, "hunter2secret") || !strings.Contains(out.Stdout, "GIVEN=[secret GIVEN]") {
		t.Errorf("stdout is %q (%v)", out.Stdout, err)
	}
	out, err = b.run(object{"args": []string{"env"}, "output_files": []string{"gone.txt"}}) // it has succeeded, but the step has not
	if err == nil || out.ExitCode != 0 || !strings.Contains(out.Stdout, "GORACE=") {
		t.Errorf("%+v (%v)", out, err)
	}
	b.opt.Programs["gone"] = exec.Program{Path: filepath.Join(b.dir, "gone")}
	if out, err := b.run(object{"program": "gone"}); err == nil || !reflect.DeepEqual(out, exec.RunOutput{}) {
		t.Errorf("%+v of a program that was not started (%v)", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if out, err := b.call(ctx, object{"args": []string{"wait"}}); err == nil || out.ExitCode != -1 {
		t.Errorf("%+v of a program that was ended (%v)", out, err)
	}
}

// TestFailedRunIsRecorded checks that the record of a failed run has its outputs, and
// that no later step sees them.
func TestFailedRunIsRecorded(t *testing.T) {
	h := couriertest.New(t, nil)
	exec.Register(h.Registry, self(t))
	saw := h.Stub("demo.saw", nil)
	r := h.RunWith(h.Job(`{"name": "j", "steps": [
		{"id": "run", "type": "exec.run", "config": {"program": "self", "args": ["exit", "3", "it", "broke"]}, "failure_policy": "skip_and_continue"},
		{"type": "flow.if", "config": {"left": "context:run.exit_code", "operator": "exists"}},
		{"type": "demo.saw"},
		{"type": "flow.end"},
		{"id": "again", "type": "exec.run", "config": {"program": "self", "args": ["exit", "4"]}, "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 0}}]}`), &courier.EnqueueOptions{})
	r.RequireState(courier.Failed)
	var got []string
	for _, s := range r.Steps {
		got = append(got, fmt.Sprintf("%s %s %d: %s", s.ID, s.State, s.Attempt, s.Outputs))
	}
	const common = `"stdout_truncated":false,"stderr_truncated":false,"output_files":[]}`
	want := []string{
		`run skipped 1: {"exit_code":3,"stderr":"it broke",` + common,
		`again failed 1: {"exit_code":4,` + common,
		`again failed 2: {"exit_code":4,` + common,
	}
	if !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(saw.Calls()); n != 0 {
		t.Errorf("outputs of a failed run are in scope")
	}
}
