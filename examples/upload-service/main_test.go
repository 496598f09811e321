package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_UPLOAD_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	pgtest.Main(m)
}

// TestUploadService runs the program on a server that is there.
func TestUploadService(t *testing.T) {
	t.Setenv(programEnv, "1")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-url", pgtest.URL(t)}, nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want := "uploaded two files\nkilled ann in the middle\nthe execution is completed\na.txt: FIRST\nb.txt: SECOND\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", &out, want)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"-worker", "ann"}, {"-url", "postgres://127.0.0.1:1/none?connect_timeout=1"}} {
		if err := run(t.Context(), args, strings.NewReader(""), new(bytes.Buffer)); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}
