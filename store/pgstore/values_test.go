package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// hugeText bytes are what Postgres and its protocol take in one value, escapes included,
// but no index and no notification would. With the race detector they are a tenth.
var hugeText = raced.Or(5, 50) << 20

// oddValues are outputs that a database may not take, or may change.
var oddValues = map[string]any{
	"nul":             "a\x00b",
	"a key with nul":  map[string]any{"a\x00b": 1},
	"invalid":         "a\xffb",
	"a lone half":     json.RawMessage(`"\ud800"`),
	"beyond a double": json.RawMessage(`9007199254740993`),
	"infinite":        json.RawMessage(`1e400`),
	"long number":     json.RawMessage(`0.` + strings.Repeat("1234567890", 100)),
	"deep":            json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
	"no JSON":         json.RawMessage(`{"a`),
	"50 MB":           strings.Repeat("x", hugeText),
	"50 MB of quotes": strings.Repeat(`"`, hugeText/2),
}

// oddTexts are error messages and names of files.
var oddTexts = map[string]string{
	"nul":        "a\x00b",
	"invalid":    "a\xff\xfeb",
	"quotes":     "'\"; drop table courier.job_executions; --\\",
	"backslash":  `\u0000 \x00 \`,
	"lines":      "a\r\nb\x1b[31m",
	"50 MB":      strings.Repeat("x", hugeText),
	"50 MB, NUL": strings.Repeat("\x00", hugeText),
}

// TestOddValues has steps return, fail with and name what a database finds hard
// to keep: every execution ends, and what was kept is what was given.
func TestOddValues(t *testing.T) {
	s := open(t, pgtest.URL(t), nil)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "odd.value", func(_ context.Context, _ *courier.Context, c struct{ Name string }) (struct{ V any }, error) {
		return struct{ V any }{oddValues[c.Name]}, nil
	}, nil)
	courier.RegisterFunc(reg, "odd.error", func(_ context.Context, _ *courier.Context, c struct{ Name string }) (struct{}, error) {
		return struct{}{}, errors.New(oddTexts[c.Name])
	}, nil)
	courier.RegisterFunc(reg, "odd.file", func(_ context.Context, job *courier.Context, c struct{ Name string }) (struct{}, error) {
		name := oddTexts[c.Name]
		f, err := job.Files().Create("f")
		if err == nil {
			err = f.Close()
		}
		return struct{}{}, errors.Join(err, stepcontext.Of(job).Removed(name), job.Files().Wrote(name))
	}, nil)
	e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), MaxOutput: 256 << 20})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.Background())

	run := func(t *testing.T, typ, name string) courier.Execution {
		t.Helper()
		job := courier.Job{Name: "odd", Steps: []courier.StepSpec{{Type: typ, ID: "odd", Config: map[string]any{"name": name}}}}
		if _, err := e.Jobs().Define(ctx, job, nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(ctx, "odd", nil)
		if err == nil {
			x, err = e.Wait(ctx, x.ID)
		}
		if err != nil || !x.State.Ended() {
			t.Fatalf("%s: %v; the execution is %s", name, err, x.State)
		}
		if audit, err := s.Audit(ctx, store.AuditFilter{Execution: x.ID}); err != nil || len(audit) < 4 {
			t.Errorf("%d entries in the audit, %v", len(audit), err)
		}
		return x
	}
	for name, v := range oddValues {
		t.Run("value/"+name, func(t *testing.T) {
			x := run(t, "odd.value", name)
			if x.State != courier.Completed {
				if x.Failure == nil || x.Failure.Message == "" || len(x.Failure.Message) > 10_000 {
					t.Errorf("failed without a reason that a person can read: %.200v", x.Failure)
				}
				return
			}
			want, err := json.Marshal(map[string]any{"V": v})
			steps, serr := s.Steps(ctx, store.StepFilter{Execution: x.ID})
			if err != nil || serr != nil || len(steps) != 1 {
				t.Fatalf("%v, %v, %d steps", err, serr, len(steps))
			}
			if got := string(steps[0].Outputs); got != string(want) {
				t.Errorf("outputs are %.100s (%d bytes), want %.100s (%d bytes)", got, len(got), want, len(want))
			}
		})
	}
	for name := range oddTexts {
		for _, typ := range []string{"odd.error", "odd.file"} {
			t.Run(typ+"/"+name, func(t *testing.T) {
				x := run(t, typ, name)
				if typ == "odd.error" && (x.State != courier.Failed || x.Failure == nil || x.Failure.Message == "") {
					t.Errorf("%s, %.200v", x.State, x.Failure)
				}
			})
		}
	}
}
