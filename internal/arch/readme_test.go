package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(package main.*?)```")

// TestReadmeProgram runs the complete program in the README.
func TestReadmeProgram(t *testing.T) {
	text := runPage(t, "README.md", "completed 2 files\n")
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("README.md has %d lines, more than the 150 that people read", n)
	}
}

// TestMonitorsProgram runs the complete program in the page about monitors.
func TestMonitorsProgram(t *testing.T) {
	runPage(t, "docs/monitors.md", "completed by monitor:invoices 1 file\n")
}

// TestFlowProgram runs the complete program in the page about control flow.
func TestFlowProgram(t *testing.T) {
	runPage(t, "docs/flow.md", "completed a.csv b.csv.zip\n")
}

// runPage runs the complete program in a page, and returns the page.
func runPage(t *testing.T, page, want string) string {
	t.Helper()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	m := goBlock.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no complete program in a go block", page)
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", program)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("the program in %s: %v\n%s", page, err, out)
	}
	formatted := exec.Command("gofmt", "-l", program)
	if out, err := formatted.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt would change the program in %s: %v %s", page, err, out)
	}
	return string(text)
}
