//go:build linux

package isolated_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A bench is an engine whose steps test.* are isolated, with a store in memory.
type bench struct {
	*testing.T
	e   *engine.Engine
	dir string
	log *lockedbuffer.Buffer
}

var secrets = map[string]string{"mine": "hunter2secret", "lazy": "lazy-hunter3", "other": "not-for-this-step"}

func newBench(t *testing.T, change func(*engine.Options)) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{T: t, dir: dir, log: new(lockedbuffer.Buffer)}
	reg, err := build()
	if err != nil {
		t.Fatal(err)
	}
	opt := &engine.Options{
		Workspace: filepath.Join(dir, "work"), Roots: []string{dir}, Log: slog.New(slog.NewTextHandler(b.log, nil)), Grace: time.Second,
		Isolate: map[string]courier.Isolation{"test.*": {}},
		Secrets: func(_ context.Context, r courier.SecretRequest) (string, error) {
			v, ok := secrets[r.Name]
			if !ok {
				return "", courier.Permanent(errors.New("there is none"))
			}
			return v, nil
		},
	}
	if change != nil {
		change(opt)
	}
	b.e = engine.New(memstore.New(), reg, opt)
	return b
}

// run executes a job of steps in JSON and returns the execution with its records.
func (b *bench) run(steps string, opt *courier.EnqueueOptions) (courier.Execution, []courier.StepExecution, error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var job courier.Job
	if err := json.Unmarshal([]byte(`{"name": "j", "params": {"deep": {"a": [1]}}, "steps": `+steps+`}`), &job); err != nil {
		b.Fatal(err)
	}
	x, err := b.e.Run(ctx, job, opt)
	if x.ID == "" {
		b.Fatal(err)
	}
	list, e := b.e.Executions().StepsPage(b.Context(), store.StepFilter{Execution: x.ID, Details: true})
	if e != nil {
		b.Fatal(e)
	}
	b.nothingLeft()
	return x, list, err
}

// nothingLeft checks that no directory of a child is left.
func (b *bench) nothingLeft() {
	b.Helper()
	for _, pattern := range []string{filepath.Join(b.dir, "work", "isolated-*")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			b.Errorf("left are %q", left)
		}
	}
}

// TestReports checks that all that a step asks for and reports crosses, as if it ran in the
// process of the engine.
func TestReports(t *testing.T) {
	b := newBench(t, nil)
	x, list, err := b.run(`[{"type": "test.do", "id": "r", "config": {"what": "report", "arg": "params.deep", "secret": "secret:mine"}},
		{"type": "test.do", "config": {"what": "nothing", "arg": "${context:r.also[0]}"}}]`, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := list[0]
	var out doOutput
	if err := json.Unmarshal(r.Outputs, &out); err != nil || out.PID == os.Getpid() || out.Text != `j 0 1 r [] map["a":["1"]] 0 false` || !strings.Contains(string(r.Outputs), `"also":[1]`) {
		t.Errorf("outputs are %s (%v)", r.Outputs, err)
	}
	if want := `[{out/made.txt 4 false  false} {/in/a.csv 0 false acme true}]`; fmt.Sprint(r.Files) != want {
		t.Errorf("files are %v, want %s", r.Files, want)
	}
	if want := `happened {"token":"[secret token]"}`; len(r.Events) != 1 || r.Events[0].Name+" "+string(r.Events[0].Payload) != want {
		t.Errorf("events are %v, want %s", r.Events, want)
	}
	if want := `level=INFO msg="a record" a=1 g.b=1s g.c="an error" g.d="[1 2]" g.e=[secret lazy] g.f.x=1.5`; !strings.Contains(r.Log, want) || strings.Contains(r.Log, "not wanted") {
		t.Errorf("the log is %q, want %q", r.Log, want)
	}
	if r.Bytes != 13 || x.Workspace == "" {
		t.Errorf("%d bytes, workspace %q", r.Bytes, x.Workspace)
	}
	if text := b.log.String(); strings.Contains(text, "hunter") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// TestMaintenance: maintenance is done in the process of a started engine, also that of types
// that are isolated there, and not in a child.
func TestMaintenance(t *testing.T) {
	b := newBench(t, nil)
	before := maintained.Load()
	if err := b.e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, list, err := b.run(`[{"type": "test.do", "config": {"what": "maintained"}}]`, nil)
	if err := errors.Join(err, b.e.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	var out doOutput
	if err := json.Unmarshal(list[0].Outputs, &out); err != nil || out.PID == os.Getpid() || out.Text != "0" {
		t.Errorf("outputs of the child are %s (%v)", list[0].Outputs, err)
	}
	if maintained.Load() == before {
		t.Error("the engine has done no maintenance")
	}
}

// TestErrors checks that the error of a step has the text and the meaning that it has in the
// process of the engine.
func TestErrors(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct {
		config, want string
		reason       courier.Reason
		permanent    bool
	}{
		{`{"what": "fail"}`, "it is gone", courier.ReasonNotFound, false},
		{`{"what": "fail for good"}`, "no way", courier.ReasonError, true},
		{`{"what": "panic"}`, "panic: a hole, at isolated/main_test.go:", courier.ReasonPanic, false},
		{`{"what": "goexit"}`, "the step called runtime.Goexit", courier.ReasonPanic, false},
		{`{"what": "exit", "secret": "secret:mine"}`, `the step's process has ended with exit code 7 before the step returned; a step must not end its process; it wrote: so long, [secret mine]\x1b[31m`, courier.ReasonCrashed, false},
		{`{"what": "kill"}`, "the step's process was killed; if nobody did that, the system had no memory left", courier.ReasonCrashed, false},
		{`{"what": "panic aside", "secret": "secret:mine"}`, "panic: aside with [secret mine], in a goroutine that the step has started", courier.ReasonPanic, false},
		{`{"what": "garbage"}`, "", "", false},
		{`{"what": "output", "arg": "20000000"}`, "the work is done, but its output has 20000", courier.ReasonError, true},
		{`{"what": "output", "arg": "15000000"}`, "", "", false},
	} {
		_, list, err := b.run(`[{"type": "test.do", "config": `+c.config+`}]`, nil)
		s := list[0]
		if s.Reason != c.reason || !strings.Contains(s.Error, c.want) || (s.Error == "") != (c.want == "") || courier.IsPermanent(err) != c.permanent {
			t.Errorf("%s: %s: %q (permanent: %v), want %s: %q", c.config, s.Reason, s.Error, courier.IsPermanent(err), c.reason, c.want)
		}
		if c.reason == courier.ReasonPanic && !strings.Contains(s.Stack, "isolated_test.do") || strings.Contains(s.Stack, "hunter2") {
			t.Errorf("%s: the stack is %s", c.config, s.Stack)
		}
	}
}
