package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A probe is a step whose Validate says what its path asks for.
type probe struct {
	mu    sync.Mutex
	calls int
	seen  []probeConfig
}

type probeConfig struct {
	Connection string `json:"connection_id"`
	Path       string `json:"path" courier:"required"`
	Size       int    `json:"size"`
	Password   string `json:"password"`
}

func (*probe) Execute(ctx, *courier.Context, probeConfig) (listOutput, error) {
	panic("a dry run must not execute")
}

func (p *probe) enter(cfg probeConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.seen = append(p.seen, cfg)
}

func (p *probe) Validate(ctx context.Context, job *courier.Context, cfg probeConfig) error {
	p.enter(cfg)
	time.Sleep(2 * time.Millisecond)
	switch cfg.Path {
	case "bad":
		return errors.New("bad: no such directory; create it, or change path")
	case "leak":
		return fmt.Errorf("login with %s refused", cfg.Password)
	case "told":
		job.Log().With("password", cfg.Password).Info("logged in")
		job.Log().Debug("a detail")
		job.Log().WithGroup("server").Warn("old", "version", 1)
	case "echo":
		return errors.New("the server says hunter2 to everybody")
	case "panic":
		panic("probe")
	case "slow":
		<-ctx.Done()
		return ctx.Err()
	case "/nowhere/file":
		return &fs.PathError{Op: "open", Path: cfg.Path, Err: fs.ErrNotExist}
	case "early":
		_, err := job.Files().Open("made/earlier")
		return err
	case "write":
		w, err := job.Files().Create("made")
		if err == nil {
			w.Close()
		}
		return err
	}
	return nil
}

// probing is a harness with the step types demo.probe, which can be validated,
// and demo.plain, which can't.
func probing(t *testing.T, opt *engine.Options) (*couriertest.Harness, *probe) {
	t.Helper()
	h := couriertest.New(t, opt)
	p := new(probe)
	courier.Register(h.Registry, "demo.probe", p, nil)
	courier.RegisterFunc(h.Registry, "demo.plain", func(ctx, *courier.Context, struct {
		N int `json:"n"`
	}) (struct{}, error) {
		panic("a dry run must not execute")
	}, nil)
	return h, p
}

// step is the report of a step, by its index.
func stepAt(t *testing.T, r *dryrun.Report, index int) dryrun.StepReport {
	t.Helper()
	for _, s := range r.Steps {
		if s.Step == index {
			return s
		}
	}
	t.Fatalf("no step %d in\n%s", index, r)
	return dryrun.StepReport{}
}

func TestDryRun(t *testing.T) {
	secrets := func(_ context.Context, q courier.SecretRequest) (string, error) {
		if q.Name == "password" {
			return "hunter2", nil
		}
		return "", fmt.Errorf("no such secret: %w", courier.ErrNotFound)
	}
	const given = `"params": {"dir": "in", "day": null},`
	for name, c := range map[string]struct {
		steps  string
		params m
		want   map[int]dryrun.StepReport // Message is a part of it
	}{
		"both branches, and in a loop": {steps: `{"type": "demo.probe", "config": {"path": "good"}},
			{"type": "flow.foreach", "config": {"source": "context:0.file_list"}},
			{"type": "flow.if", "config": {"left": "context:loop.current_item.size", "operator": "greater_than", "right": 0}},
			{"type": "demo.probe", "config": {"path": "bad"}},
			{"type": "flow.else"},
			{"id": "other", "type": "demo.probe", "config": {"path": "${context:params.dir}/x", "size": "context:loop.current_item.size"}},
			{"type": "flow.end"},
			{"type": "flow.end"}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.OK},
			3: {Path: "1.2.then.3", State: dryrun.Problem, Message: "bad: no such directory; create it"},
			5: {Path: "1.2.else.5", State: dryrun.OK, Unresolved: []string{"size"}},
		}},
		"params that are null and not given": {steps: `{"type": "demo.probe", "config": {"path": "${context:params.day}.csv"}}`,
			want: map[int]dryrun.StepReport{0: {Path: "0", State: dryrun.OK, Unresolved: []string{"path"}}}},
		"params that are given": {steps: `{"type": "demo.probe", "config": {"path": "${context:params.day}"}}`, params: m{"day": "bad"},
			want: map[int]dryrun.StepReport{0: {Path: "0", State: dryrun.Problem, Message: "bad: "}}},
		"what only an execution has": {steps: `{"type": "demo.probe", "config": {"path": "${context:job.execution_id}/${context:job.workspace}/${context:job.started_at}"}},
			{"type": "demo.probe", "config": {"path": "${context:job.name}/${context:job.attempt}"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.OK, Unresolved: []string{"path"}}, 1: {Path: "1", State: dryrun.OK}}},
		"a param of the wrong type": {steps: `{"type": "demo.plain", "config": {"n": "context:params.dir"}}, {"type": "demo.plain"}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: "n: "}, 1: {Path: "1", State: dryrun.NotChecked, Message: "has no Validate"}}},
		"secrets": {steps: `{"type": "demo.probe", "config": {"path": "leak", "password": "secret:password"}},
			{"type": "demo.probe", "config": {"path": "told", "password": "secret:password"}},
			{"type": "demo.probe", "config": {"path": "good", "password": "secret:none"}},
			{"type": "demo.probe", "config": {"path": "echo"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: "login with [secret password] refused"},
			1: {Path: "1", State: dryrun.OK, Notes: []string{"logged in, password [secret password]", "warn: old, server.version 1"}},
			2: {Path: "2", State: dryrun.Problem, Message: `config.password: secret "none": no such secret`},
			3: {Path: "3", State: dryrun.Problem, Message: "says [secret password] to everybody"},
		}},
		"panics": {steps: `{"type": "demo.probe", "config": {"path": "panic"}}, {"type": "demo.probe", "config": {"path": "good"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: "panic: probe"}, 1: {Path: "1", State: dryrun.OK}}},
		"times out": {steps: `{"type": "demo.probe", "config": {"path": "slow"}}, {"type": "demo.probe", "config": {"path": "good"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: "timed out after 30s; find out why the other side does not answer, or give it more time with dryrun.Options.Timeout"},
			1: {Path: "1", State: dryrun.OK}}},
		"files that a step before can make": {steps: `{"type": "demo.probe", "config": {"path": "early"}}, {"type": "demo.probe", "config": {"path": "early"}},
			{"type": "demo.probe", "config": {"path": "/nowhere/file", "connection_id": "partner"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: "made/earlier"},
			1: {Path: "1", State: dryrun.NotChecked, Message: "this is no mistake if an earlier step makes it"},
			2: {Path: "2", State: dryrun.Problem, Message: "/nowhere/file"}}},
		"writes": {steps: `{"type": "demo.probe", "config": {"path": "write"}}`, want: map[int]dryrun.StepReport{
			0: {Path: "0", State: dryrun.Problem, Message: `create "made": refused, since a dry run writes nothing`}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				workspace := filepath.Join(t.TempDir(), "none")
				h, _ := probing(t, &engine.Options{Secrets: secrets, Workspace: workspace})
				r, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "d", `+given+` "steps": [`+c.steps+`]}`), &dryrun.Options{Params: c.params})
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Steps) != len(c.want) {
					t.Errorf("%d steps, want %d", len(r.Steps), len(c.want))
				}
				problems := 0
				for i, want := range c.want {
					s := stepAt(t, &r, i)
					if s.Path != want.Path || s.State != want.State || !strings.Contains(s.Message, want.Message) || (s.Message == "") != (want.Message == "") ||
						!slices.Equal(s.Unresolved, want.Unresolved) || !slices.Equal(s.Notes, want.Notes) {
						t.Errorf("step %d: %+v\nwant %+v", i, s, want)
					}
					if want.State == dryrun.Problem {
						problems++
					}
				}
				if r.OK() != (problems == 0) || (r.Err() == nil) != (problems == 0) {
					t.Errorf("OK %v, Err %v; there are %d problems", r.OK(), r.Err(), problems)
				}
				requireNothingWritten(t, h, workspace)
				raw, err := json.Marshal(r)
				if text := r.String() + string(raw) + fmt.Sprint(r.Err()) + h.Log(); err != nil || strings.Contains(text, "hunter2") {
					t.Errorf("a secret: %v\n%s", err, text)
				}
			})
		})
	}
}

// requireNothingWritten looks for what a dry run may have left.
func requireNothingWritten(t *testing.T, h *couriertest.Harness, workspace string) {
	t.Helper()
	if list, err := h.Engine.Executions().List(t.Context(), storeFilter{}); err != nil || len(list) > 0 {
		t.Errorf("executions: %v, %v", list, err)
	}
	if list, err := h.Store.List(t.Context(), store.DefinitionFilter{Kind: store.Job}); err != nil || len(list) > 0 {
		t.Errorf("jobs: %v, %v", list, err)
	}
	if _, err := os.Stat(workspace); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace: %v", err)
	}
}

func TestDryRunReportsABadDefinition(t *testing.T) {
	h, p := probing(t, nil)
	for name, c := range map[string]struct {
		job    string
		params m
		want   []string
	}{
		"steps": {job: `"steps": [{"type": "demo.prob"}, {"id": "b", "type": "demo.probe", "config": {"paht": "x"}}, {"type": "demo.plain"}, {"type": "flow.end"}]`, want: []string{
			`step 0 (demo.prob): type: unknown step type "demo.prob"; did you mean "demo.probe"?`, `did you mean "path"?`, "is required", "step 3 (flow.end)"}},
		"name":   {job: `"limit": -1, "steps": [{"type": "demo.plain"}]`, want: []string{"limit"}},
		"params": {job: `"params": {"day": null}, "steps": [{"type": "demo.probe", "config": {"path": "good"}}]`, params: m{"dya": 1}, want: []string{`unknown parameter "dya"; did you mean "day"?`}},
		"empty":  {job: `"steps": []`, want: []string{"there are none; a job needs at least one"}},
	} {
		p.calls = 0
		r, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "d", `+c.job+`}`), &dryrun.Options{Params: c.params})
		if err != nil || r.OK() || len(r.Problems) == 0 {
			t.Errorf("%s: %v\n%s", name, err, &r)
		}
		for _, want := range c.want {
			if !strings.Contains(r.Err().Error(), want) {
				t.Errorf("%s: Err has not %q: %v", name, want, r.Err())
			}
			_, field, _ := strings.Cut(want, "): ")
			if !strings.Contains(r.String(), field) {
				t.Errorf("%s: the text has not %q:\n%s", name, want, &r)
			}
		}
		if name == "steps" && (len(r.Steps) != 4 || r.Steps[2].State != dryrun.NotChecked || p.calls > 0) {
			t.Errorf("%d calls\n%s", p.calls, &r)
		}
	}
}

func TestDryRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := probing(t, nil)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the operator has left"))
		defer cancel()
		begun := time.Now()
		r, err := h.Engine.Jobs().DryRun(ctx, h.Job(`{"name": "d", "steps": [{"type": "demo.probe", "config": {"path": "good", "connection_id": "a"}},
			{"type": "demo.probe", "config": {"path": "slow", "connection_id": "a"}}, {"type": "demo.probe", "config": {"path": "good", "connection_id": "a"}}]}`), nil)
		if err == nil || !strings.Contains(err.Error(), "the operator has left") || time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if s := r.Steps; s[0].State != dryrun.OK || s[1].State != dryrun.NotChecked || s[2].State != dryrun.NotChecked || !strings.Contains(s[2].Message, "has left") {
			t.Errorf("the report:\n%s", &r)
		}
	})
}

// goldenJob has everything that a report can tell.
const goldenJob = `{"name": "invoices", "params": {"partner": "acme", "day": null}, "steps": [
	{"id": "list", "type": "demo.probe", "name": "What there is", "config": {"connection_id": "acme", "path": "told"}},
	{"type": "flow.foreach", "config": {"source": "context:list.file_list"}},
	{"id": "get", "type": "demo.probe", "config": {"connection_id": "acme", "path": "context:loop.current_item.name", "size": "context:loop.current_item.size"}},
	{"type": "flow.if", "config": {"left": "context:loop.current_item.size", "operator": "greater_than", "right": 0}},
	{"id": "decrypt", "type": "demo.probe", "config": {"path": "bad"}},
	{"type": "flow.else"},
	{"type": "demo.plain", "name": "Nothing in it"},
	{"type": "flow.end"},
	{"type": "flow.end"},
	{"type": "demo.probe", "config": {"path": "early"}}]}`

// golden compares with a file in testdata; COURIER_GOLDEN=write writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("COURIER_GOLDEN") == "write" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
	}
}

func requireGolden(t *testing.T, name string, r interface{ String() string }) {
	t.Helper()
	golden(t, name+".txt", r.String())
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, name+".json", string(raw)+"\n")
	back := reflect.New(reflect.TypeOf(r).Elem())
	if err := json.Unmarshal(raw, back.Interface()); err != nil {
		t.Fatal(err)
	}
	if again, err := json.MarshalIndent(back.Interface(), "", "  "); err != nil || string(again) != string(raw) {
		t.Errorf("read back it is %s, %v", again, err)
	}
}

func TestDryRunGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := probing(t, nil)
		job, err := h.Engine.Jobs().Define(t.Context(), h.Job(goldenJob), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []schedule.Schedule{
			{Name: "daily", Job: "invoices", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin", Params: m{"day": "today"}, Jitter: time.Minute},
			{Name: "off", Job: "invoices", Every: time.Hour, Disabled: true},
			{Name: "often", Job: "invoices", Every: 6 * time.Hour},
			{Name: "once", Job: "invoices", At: time.Now().Add(time.Hour), Params: m{"partner": "globex"}},
		} {
			if _, err := h.Engine.Schedules().Set(t.Context(), s, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		job.Job.Params = m{"partnr": "acme", "day": nil} // which the last schedule does not fit any more
		r, err := h.Engine.Jobs().DryRun(t.Context(), job.Job, &dryrun.Options{Fires: 2, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		requireGolden(t, "dryrun-job", &r)
	})
}
