package main

import (
	"bytes"
	"os"
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
	if !strings.Contains(string(readme), "```\n"+out.String()+"```\n") {
		t.Errorf("README.md does not show what the program prints:\n%s", &out)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"-worker", "worker-1"}, {"-url", "postgres://127.0.0.1:1/none?connect_timeout=1"}} {
		if err := run(t.Context(), args, strings.NewReader(""), new(bytes.Buffer)); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}
