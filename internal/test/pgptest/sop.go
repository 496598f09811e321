package pgptest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A SOP is an OpenPGP program with the interface of the draft "Stateless OpenPGP
// Command Line Interface".
type SOP struct {
	testing.TB
	Program string
	Calls   int // of Try, but for what it offers
	dir     string
	files   int
	help    map[string]string // by subcommand
}

// NewSOP returns a program. It fails the test where the program is missing; pkg is the
// package of Debian that has it.
func NewSOP(t testing.TB, program, pkg string) *SOP {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is not installed; on Debian and Ubuntu: apt-get install %s", program, pkg)
	}
	return &SOP{TB: t, Program: program, dir: t.TempDir(), help: make(map[string]string)}
}

// File writes an argument, such as a key or a password, and returns the path of its
// file.
func (s *SOP) File(data []byte) string {
	s.Helper()
	s.files++
	name := filepath.Join(s.dir, fmt.Sprint(s.files))
	if err := os.WriteFile(name, data, 0o600); err != nil {
		s.Fatal(err)
	}
	return name
}

// Out returns the path of a file that does not exist yet, as options for outputs
// demand.
func (s *SOP) Out() string {
	s.files++
	return filepath.Join(s.dir, fmt.Sprint(s.files))
}

// Try runs the program and returns what it writes. The error has what it says.
func (s *SOP) Try(input []byte, args ...string) ([]byte, error) {
	s.Calls++
	cmd := exec.CommandContext(s.Context(), s.Program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(input), &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", s.Program, strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// Run runs the program, which must succeed, and returns what it writes.
func (s *SOP) Run(input []byte, args ...string) []byte {
	s.Helper()
	out, err := s.Try(input, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// Offers reports whether the help of a subcommand has a word. Versions differ in what
// they know of the draft.
func (s *SOP) Offers(subcommand, word string) bool {
	text, ok := s.help[subcommand]
	if !ok {
		cmd := exec.CommandContext(s.Context(), s.Program, subcommand, "--help")
		out, _ := cmd.CombinedOutput()
		text = string(out)
		s.help[subcommand] = text
	}
	return strings.Contains(text, word)
}
