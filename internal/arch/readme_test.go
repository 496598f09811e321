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
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, more than the 150 that people read", n)
	}
	m := goBlock.FindSubmatch(text)
	if m == nil {
		t.Fatal("README.md has no complete program in a go block")
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", program)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "completed 2 files\n" {
		t.Errorf("the README's program: %v\n%s", err, out)
	}
	formatted := exec.Command("gofmt", "-l", program)
	if out, err := formatted.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt would change the README's program: %v %s", err, out)
	}
}
