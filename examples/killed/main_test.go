package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	pgtest.Main(m)
}

// TestReadme: README.md shows the pipeline of this program, and what the program
// prints.
func TestReadme(t *testing.T) {
	t.Setenv(programEnv, "1")
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```json\n"+string(pipeline)+"```\n") {
		t.Error("README.md does not show pipeline.json")
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-url", pgtest.URL(t)}, nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	// README.md has a part of the tree: the lines between are left out.
	_, shown, _ := strings.Cut(string(readme), "```\nacme-invoices: ")
	shown, _, _ = strings.Cut("acme-invoices: "+shown, "```\n")
	printed := strings.Split(out.String(), "\n")
	lines := 0
	for line := range strings.Lines(shown) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, "...") {
			continue
		}
		i := slices.Index(printed, line)
		if i < 0 {
			t.Fatalf("README.md shows %q, which is not printed next; the program prints:\n%s", line, &out)
		}
		printed, lines = printed[i+1:], lines+1
	}
	if lines < 8 {
		t.Errorf("README.md shows %d lines of what the program prints", lines)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"-worker", "worker-1"}, {"-url", "postgres://127.0.0.1:1/none?connect_timeout=1"}} {
		if err := run(t.Context(), args, strings.NewReader(""), new(bytes.Buffer)); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}
