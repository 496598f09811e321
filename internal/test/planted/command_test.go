package planted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A verdict is how a command of go test ended.
type verdict string

const (
	passed  verdict = "passed"
	failed  verdict = "failed"
	hung    verdict = "hung"
	unbuilt verdict = "was not built"
	untried verdict = "ran no test"
)

// A result is what a command of go test said.
type result struct {
	verdict verdict
	failed  []string // the tests that failed, without those below which others did
	output  string
	took    time.Duration
}

// goTest runs go test with the given arguments in the directory root, with the
// files that the overlay names in place of others.
func goTest(ctx context.Context, root, overlay string, args []string) result {
	cmd := exec.CommandContext(ctx, "go", commandLine(overlay, args)...)
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	r := judge(out.Bytes(), err == nil)
	r.took = time.Since(start)
	r.output += errs.String()
	return r
}

// commandLine returns the arguments of the go command. Those of the bug come
// last, so that they have the last word; but a module of its own, which they can
// begin with, comes first, as the command demands.
func commandLine(overlay string, args []string) []string {
	var line []string
	if len(args) > 2 && args[0] == "-C" {
		line, args = args[:2:2], args[2:]
	}
	line = append(line, "test", "-json", "-vet=off", "-buildvcs=false", "-timeout=5m", "-ldflags=-s -w")
	if overlay != "" {
		line = append(line, "-count=1", "-overlay="+overlay)
	}
	return append(line, args...)
}

// judge reads the events of go test -json.
func judge(events []byte, ok bool) result {
	var r result
	var output strings.Builder
	ran, built, timedOut := false, true, false
	begun := "" // the test that was begun last and has not ended
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Output, FailedBuild string }
		if json.Unmarshal(line, &e) != nil {
			output.Write(line)
			continue
		}
		output.WriteString(e.Output)
		timedOut = timedOut || strings.HasPrefix(e.Output, "panic: test timed out after")
		built = built && e.Action != "build-fail" && e.FailedBuild == ""
		ran = ran || e.Test != ""
		switch {
		case e.Test == "":
		case e.Action == "run":
			begun = e.Test
		case e.Action == "fail":
			r.failed = leaves(r.failed, e.Test)
			begun = ""
		case e.Action == "pass":
			begun = ""
		}
	}
	r.output = output.String()
	switch {
	case !built || !ran && !ok:
		r.verdict = unbuilt
	case timedOut:
		r.verdict = hung
	case len(r.failed) > 0:
		r.verdict = failed
	case !ok && begun != "": // the process ended in it
		r.verdict, r.failed = failed, []string{begun}
	case !ok:
		r.verdict = unbuilt
	case !ran:
		r.verdict = untried
	default:
		r.verdict = passed
	}
	return r
}

// leaves adds a test to the list unless one below it is there already: tests
// fail before those that they belong to.
func leaves(list []string, test string) []string {
	for _, other := range list {
		if strings.HasPrefix(other, test+"/") {
			return list
		}
	}
	return append(list, test)
}

// writeOverlay writes changed files and the overlay that puts them into the
// place of those below root, and returns the name of the overlay.
func writeOverlay(dir, root string, changed map[string]string) (string, error) {
	replace := make(map[string]string)
	for file, text := range changed {
		name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = name
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, raw, 0o600)
}

// module returns the directory of the module.
func module(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"./a -run ^TestA$":        "test -json -vet=off -buildvcs=false -timeout=5m -ldflags=-s -w -count=1 -overlay=x ./a -run ^TestA$",
		"-C chaos . -run ^TestA$": "-C chaos test -json -vet=off -buildvcs=false -timeout=5m -ldflags=-s -w -count=1 -overlay=x . -run ^TestA$",
	} {
		if got := strings.Join(commandLine("x", strings.Fields(args)), " "); got != want {
			t.Errorf("%s\n%s\nwant\n%s", args, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	const run, pass, fail = `{"Action":"run","Test":"TestA"}`, `{"Action":"pass","Test":"TestA"}`, `{"Action":"fail","Test":"TestA"}`
	for _, test := range []struct {
		events string
		ok     bool
		want   verdict
		failed string
	}{
		{run + "\n" + pass + "\n" + `{"Action":"pass"}`, true, passed, ""},
		{run + "\n" + fail + "\n" + `{"Action":"fail"}`, false, failed, "[TestA]"},
		{run + "\n" + `{"Action":"fail","Test":"TestA/x"}` + "\n" + fail, false, failed, "[TestA/x]"},
		{run + "\n" + `{"Action":"output","Test":"TestA","Output":"panic: test timed out after 2m0s\n"}` + "\n" + fail, false, hung, "[TestA]"},
		{`{"ImportPath":"x","Action":"build-fail"}` + "\n" + `{"Action":"fail","FailedBuild":"x"}`, false, unbuilt, "[]"},
		{run + "\n" + fail + "\n" + `{"Action":"fail","FailedBuild":"x"}`, false, unbuilt, "[TestA]"},
		{`{"Action":"output","Output":"testing: warning: no tests to run\n"}` + "\n" + `{"Action":"pass"}`, true, untried, "[]"},
		{"", false, unbuilt, "[]"},
		{run + "\n" + pass, false, unbuilt, "[]"},
		{run + "\n" + `{"Action":"output","Test":"TestA","Output":"panic: oops\n"}`, false, failed, "[TestA]"},
	} {
		r := judge([]byte(test.events), test.ok)
		if r.verdict != test.want || test.failed != "" && fmt.Sprint(r.failed) != test.failed {
			t.Errorf("%s\n%s %v, want %s %s", test.events, r.verdict, r.failed, test.want, test.failed)
		}
	}
}
