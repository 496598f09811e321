package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_POSTGRES"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	pgtest.Main(m)
}

// TestPostgres runs the program on a server that is there.
func TestPostgres(t *testing.T) {
	t.Setenv(programEnv, "1")
	url := pgtest.URL(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-url", url}, nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	for _, want := range []string{
		`client: killed (ann|bob) with SIGKILL`, `client: (ann|bob) took over after \S+s`,
		`step 2 "check" \(demo.work\), attempt 1 +running -> failed +(ann|bob)`,
		`step 2 "check" \(demo.work\), attempt 2 +running -> completed +(ann|bob)`,
		`running -> queued .*the lease of worker "(ann|bob)" expired`, `(?m)^The execution is completed\.`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q", want)
		}
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var left int
	if err := pool.QueryRow(t.Context(), "select count(*) from pg_namespace where nspname like 'courier%'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

// TestOwnServer runs the program as people do who try it.
func TestOwnServer(t *testing.T) {
	t.Setenv(programEnv, "1")
	tmp := t.TempDir()
	for _, dir := range []string{filepath.Dir(tmp), tmp} { // the server may run as another user
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", tmp)
	var out bytes.Buffer
	if err := run(t.Context(), nil, nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("the program left %v, %v", left, err)
	}
}

// TestCheck shows that the program fails if nobody takes over.
func TestCheck(t *testing.T) {
	e := engine.New(memstore.New(), registry(), &engine.Options{Worker: "ann", Workspace: t.TempDir()})
	job := pipeline()
	for i := range job.Steps {
		job.Steps[i].Config["seconds"] = 0
	}
	x, err := e.Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), e, &x, "ann"); err == nil || !strings.Contains(err.Error(), "finished by ann") {
		t.Errorf("finished by who was killed: %v", err)
	}
	job.Steps = job.Steps[:5]
	if x, err = e.Run(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), e, &x, "bob"); err == nil || !strings.Contains(err.Error(), "step 5 was completed 0 times") {
		t.Errorf("a step is missing: %v", err)
	}
	if _, err := until(t.Context(), e, x.ID, func(*courier.Execution) bool { return false }); err == nil {
		t.Error("waits for one that is over")
	}
	if list, err := e.Executions().List(t.Context(), store.Filter{}); err != nil || len(list) != 2 {
		t.Error(len(list), err)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"-url", "postgres://127.0.0.1:1/none?connect_timeout=1"}, {"-worker", "ann"}} {
		if err := run(t.Context(), args, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-url", pgtest.URL(t)}, nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
