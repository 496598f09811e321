package dryruns_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/dryruns"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A world is an engine, its checks and its schedules. Jobs are sound if they can be parsed.
type world struct {
	registry *courier.Registry
	jobs     map[string]courier.Job
	refuse   error // of CheckExecution
	validate func(v *dryruns.StepValidation) dryruns.StepValidated
	more     bool // there are more schedules

	mu        sync.Mutex
	resources map[*courier.Resources]int // validations that use them now
	now, most int
	calls     int
}

func (*world) Execute(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
	panic("a dry run executes")
}
func (*world) Validate(context.Context, *courier.Context, map[string]any) error { return nil }

// newWorld returns a world with the types demo.get, demo.mkdir and demo.upload, which have a
// Validate, and demo.plain, which has none.
func newWorld() *world {
	w := &world{registry: new(courier.Registry), jobs: make(map[string]courier.Job), resources: make(map[*courier.Resources]int)}
	for _, key := range []string{"demo.get", "demo.mkdir", "demo.upload"} {
		courier.Register(w.registry, key, w, nil)
	}
	courier.RegisterFunc(w.registry, "demo.plain", w.Execute, nil)
	return w
}

func (w *world) service() *dryruns.Service {
	s := memstore.New()
	return dryruns.New(engine{w}, dryruns.Config{
		Checks: checks{w}, Unsaved: func([]courier.Job, []chain.Chain) dryruns.Checks { return checks{w} },
		Schedules: func(_ context.Context, kind store.Kind, target string, limit, n int, check func(map[string]any) error) ([]schedule.Report, bool, error) {
			if check != nil && check(nil) != nil {
				return nil, false, check(nil)
			}
			return nil, w.more, nil
		},
		Roles: core.Roles{Store: s, Behind: s}, Registry: w.registry, Queues: []string{"default"}, Log: slog.New(slog.DiscardHandler),
		NewID: func() string { return "made-up" }, MaxParams: 1 << 20, Grace: 10 * time.Second,
	})
}

// An engine validates as its world says.
type engine struct{ *world }

func (e engine) CheckExecution(context.Context, *program.Program, *courier.EnqueueOptions) error {
	return e.refuse
}

func (e engine) Validate(_ context.Context, v *dryruns.StepValidation) dryruns.StepValidated {
	e.mu.Lock()
	e.calls++
	e.now++
	e.resources[v.Resources]++
	if e.most = max(e.most, e.now); e.resources[v.Resources] > 1 {
		panic("two validations share a connection at the same time")
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.resources[v.Resources]--
		e.mu.Unlock()
	}()
	out := dryruns.StepValidated{}
	if e.validate != nil {
		out = e.validate(v)
	}
	if out.Resources == nil {
		out.Resources = v.Resources
	}
	return out
}

// checks are those of a world.
type checks struct{ w *world }

func (c checks) CheckJob(_ context.Context, job courier.Job) (core.CheckedJob, error) {
	tree, err := flow.Parse(job.Steps)
	if p, ok := errors.AsType[*flow.ParseError](err); ok {
		return core.CheckedJob{}, &courier.DefinitionError{Job: job.Name, Problems: p.Problems}
	}
	return core.CheckedJob{Job: job, Tree: tree}, err
}

func (c checks) Program(_ context.Context, name string, version int) (*program.Program, error) {
	job, ok := c.w.jobs[name]
	if !ok {
		return nil, courier.Errorf(courier.ErrNotFound, "there is no job %q", name)
	}
	tree, err := flow.Parse(job.Steps)
	return program.Compile(job, max(version, 1), tree, c.w.registry), err
}

func (c checks) CheckChain(ctx context.Context, x chain.Chain) (chain.Checked, error) {
	return chain.Check(ctx, x, func(ctx context.Context, name string, version int) (*chain.Job, error) {
		p, err := c.Program(ctx, name, version)
		if err != nil {
			return nil, err
		}
		return p.Member(), nil
	})
}

// of is a job of steps of some types.
func of(types ...string) courier.Job {
	j := courier.Job{Name: "a"}
	configs := map[string]map[string]any{"flow.foreach": {"source": []any{1}}, "flow.if": {"left": 1, "operator": "exists"}}
	for _, typ := range types {
		j.Steps = append(j.Steps, courier.StepSpec{Type: typ, Config: configs[typ]})
	}
	return j
}

// TestJudge: the result of a step's Validate is its state, with what to do. A missing file is no
// mistake if a step before it may make it.
func TestJudge(t *testing.T) {
	broken, missing := errors.New("no such host"), &fs.PathError{Op: "open", Path: "in/a", Err: fs.ErrNotExist}
	for name, c := range map[string]struct {
		job     courier.Job // of which the last step is judged
		out     dryruns.StepValidated
		state   dryrun.State
		message string
	}{
		"good":                 {of("demo.get"), dryruns.StepValidated{}, dryrun.OK, ""},
		"without Validate":     {of("demo.plain"), dryruns.StepValidated{}, dryrun.NotChecked, "the step type has no Validate, so only its configuration was checked"},
		"bad":                  {of("demo.get"), dryruns.StepValidated{Err: broken}, dryrun.Problem, "no such host"},
		"slow":                 {of("demo.get"), dryruns.StepValidated{Err: broken, TimedOut: true}, dryrun.Problem, "no such host; find out why the other side does not answer, or give it more time with dryrun.Options.Timeout"},
		"abandoned":            {of("demo.get"), dryruns.StepValidated{Err: broken, TimedOut: true, Abandoned: true}, dryrun.Problem, "no such host; Validate did not return within 10s after that, so it was cut off"},
		"missing at first":     {of("demo.get"), dryruns.StepValidated{Err: missing}, dryrun.Problem, "open in/a: file does not exist"},
		"missing later":        {of("demo.plain", "demo.get"), dryruns.StepValidated{Err: missing}, dryrun.NotChecked, "open in/a: file does not exist; this is no mistake if an earlier step makes it"},
		"missing in a block":   {of("flow.foreach", "demo.get", "flow.end"), dryruns.StepValidated{Err: missing}, dryrun.Problem, "open in/a: file does not exist"},
		"missing on a server":  {onServer("demo.get", "demo.get"), dryruns.StepValidated{Err: missing}, dryrun.Problem, "open in/a: file does not exist"},
		"to be made on one":    {onServer("demo.mkdir", "demo.get"), dryruns.StepValidated{Err: missing}, dryrun.NotChecked, "open in/a: file does not exist; this is no mistake if an earlier step makes it"},
		"to be uploaded first": {onServer("demo.upload", "demo.get"), dryruns.StepValidated{Err: missing}, dryrun.NotChecked, "open in/a: file does not exist; this is no mistake if an earlier step makes it"},
	} {
		w := newWorld()
		w.validate = func(v *dryruns.StepValidation) dryruns.StepValidated {
			if v.Step < len(c.job.Steps)-1 && !slices.ContainsFunc(c.job.Steps, func(s courier.StepSpec) bool { return s.Type == "flow.end" }) {
				return dryruns.StepValidated{}
			}
			return c.out
		}
		r, err := w.service().Job(t.Context(), c.job, nil)
		if err != nil || len(r.Steps) == 0 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		if last := r.Steps[len(r.Steps)-1]; last.State != c.state || last.Message != c.message {
			t.Errorf("%s: %s, %q", name, last.State, last.Message)
		}
	}
}

// onServer is a job of steps that use one connection.
func onServer(types ...string) courier.Job {
	j := of(types...)
	for i := range j.Steps {
		j.Steps[i].Config = map[string]any{"connection_id": "c"}
	}
	return j
}

// TestQueues: steps with the same connection share it, one after the other. Others are validated at
// the same time, up to Parallel. An abandoned validation leaves its connection to nobody.
func TestQueues(t *testing.T) {
	for parallel, most := range map[int]int{0: 6, 2: 2, 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.validate = func(v *dryruns.StepValidation) dryruns.StepValidated {
				if time.Sleep(time.Second); v.Step == 0 {
					return dryruns.StepValidated{Err: errors.New("stuck"), Abandoned: true, Resources: new(courier.Resources)}
				}
				return dryruns.StepValidated{}
			}
			job := courier.Job{Name: "a", Params: map[string]any{"partner": "c3"}}
			for i := range 50 {
				id := fmt.Sprint("c", i%5)
				if i%5 == 3 {
					id = "context:params.partner"
				}
				job.Steps = append(job.Steps, courier.StepSpec{Type: "demo.get", Config: map[string]any{"connection_id": id}})
			}
			job.Steps = append(job.Steps, courier.StepSpec{Type: "demo.get"})
			began := time.Now()
			r, err := w.service().Job(t.Context(), job, &dryrun.Options{Parallel: parallel})
			if err != nil || w.calls != 51 || w.most != most || r.Duration != time.Since(began) || len(w.resources) != 7 {
				t.Errorf("%v; %d calls, %d at a time, %d connections, %v", err, w.calls, w.most, len(w.resources), r.Duration)
			}
		})
	}
}

// TestEnd: steps that the dry run did not reach when its context ended are not checked, and say so.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWorld()
	w.validate = func(v *dryruns.StepValidation) dryruns.StepValidated {
		if v.Step == 1 {
			cancel(errors.New("the operator has left"))
			return dryruns.StepValidated{Err: context.Canceled}
		}
		return dryruns.StepValidated{}
	}
	r, err := w.service().Job(ctx, onServer("demo.get", "demo.get", "demo.get"), nil)
	if err == nil || err.Error() != `dry run of job "a": the operator has left` || len(r.Steps) != 3 || r.Steps[0].State != dryrun.OK {
		t.Fatalf("%+v, %v", r.Steps, err)
	}
	for _, s := range r.Steps[1:] {
		if s.State != dryrun.NotChecked || s.Message != "the dry run ended before: the operator has left" {
			t.Errorf("%+v", s)
		}
	}
}

// TestNotes: what a step logs is kept beside it, but for details: twenty lines, none of any length.
// Secrets of all steps are taken out.
func TestNotes(t *testing.T) {
	w := newWorld()
	w.validate = func(v *dryruns.StepValidation) dryruns.StepValidated {
		log := slog.New(v.Log(slog.DiscardHandler))
		if v.Step == 1 {
			v.Secrets.Add("db", "hunter-two")
			for range 30 {
				log.Info(strings.Repeat("x", 5000))
			}
			return dryruns.StepValidated{}
		}
		log.Debug("a detail")
		log.With("user", "ops").WithGroup("server").Warn("old", "version", 1, slog.Group("tls", "min", "1.0"))
		return dryruns.StepValidated{Err: errors.New("hunter-two is refused")}
	}
	r, err := w.service().Job(t.Context(), of("demo.get", "demo.get"), &dryrun.Options{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"warn: old, user ops, server.version 1, server.tls.min 1.0"}; !slices.Equal(r.Steps[0].Notes, want) || strings.Contains(r.Steps[0].Message, "hunter") || r.Steps[0].Message == "" {
		t.Errorf("%+v", r.Steps[0])
	}
	if n := r.Steps[1].Notes; len(n) != 20 || len(n[0]) > 1100 {
		t.Errorf("%d notes, the first of %d bytes", len(n), len(n[0]))
	}
}

// TestParams: params without a value are named and do not make the job impossible, unless params
// were given: then an execution must be possible with them.
func TestParams(t *testing.T) {
	declared := map[string]any{"day": map[string]any{"type": "date", "required": true}, "n": 3, "to": nil}
	for name, c := range map[string]struct {
		given    map[string]any
		refuse   error
		unknown  []string
		problems []string
	}{
		"none":      {nil, errors.New("not asked"), []string{"day", "to"}, nil},
		"given":     {map[string]any{"day": "2026-11-20", "to": "x"}, nil, nil, nil},
		"refused":   {map[string]any{"day": "2026-11-20"}, errors.New("the secret may not be used"), []string{"to"}, []string{"params: the secret may not be used"}},
		"misspelt":  {map[string]any{"dya": "2026-11-20"}, nil, []string{"day", "to"}, []string{`params.dya: unknown parameter "dya"; did you mean "day"?`}},
		"wrong one": {map[string]any{"day": "20.11."}, nil, []string{"to"}, []string{"params.day: must be a date that exists, such as 2026-11-23, not \"20.11.\""}},
	} {
		w := newWorld()
		w.refuse = c.refuse
		job := of("demo.get")
		job.Params = declared
		r, err := w.service().Job(t.Context(), job, &dryrun.Options{Params: c.given})
		if c.refuse != nil {
			err = nil // of the schedules, which ask too
		}
		var got []string
		for _, p := range r.Problems {
			got = append(got, p.String())
		}
		if err != nil || fmt.Sprint(r.Unknown) != fmt.Sprint(c.unknown) || !slices.Equal(got, c.problems) {
			t.Errorf("%s: unknown %q, problems %q, %v", name, r.Unknown, got, err)
		}
	}
}

// TestBadJob: of a job that can't run all steps are listed, with what is wrong at each, and none is
// validated.
func TestBadJob(t *testing.T) {
	w := newWorld()
	w.more = true
	r, err := w.service().Job(t.Context(), of("demo.get", "flow.end", "demo.plain"), nil)
	if err != nil || w.calls > 0 || len(r.Problems) != 1 || len(r.Steps) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []dryrun.State{dryrun.NotChecked, dryrun.Problem, dryrun.NotChecked} {
		s := r.Steps[i]
		if s.State != want || s.Path != fmt.Sprint(i) || want == dryrun.NotChecked && s.Message != "the definition has problems; mend them first" || strings.Contains(s.Message, "step 1") {
			t.Errorf("%+v", s)
		}
	}
	if len(r.Warnings) != 1 || r.Warnings[0].Message != "there are more than 100; only the first are reported, by their names" {
		t.Errorf("warnings %v", r.Warnings)
	}
}

// TestPaths: the path of a step names the blocks around it and the branch.
func TestPaths(t *testing.T) {
	w := newWorld()
	job := of("flow.foreach", "demo.get", "flow.if", "demo.get", "flow.else", "demo.get", "flow.end", "flow.end", "demo.get")
	r, err := w.service().Job(t.Context(), job, nil)
	var paths []string
	for _, s := range r.Steps {
		paths = append(paths, s.Path)
	}
	if want := []string{"0.1", "0.2.then.3", "0.2.else.5", "8"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("%q, %v", paths, err)
	}
}

// TestChain: members are reported after those that they depend on. A parameter that refers to
// one without a value has none either.
func TestChain(t *testing.T) {
	w := newWorld()
	missing := &fs.PathError{Op: "open", Path: "a", Err: fs.ErrNotExist}
	w.validate = func(*dryruns.StepValidation) dryruns.StepValidated { return dryruns.StepValidated{Err: missing} }
	fetch, send := of("demo.get"), of("demo.get")
	fetch.Name, send.Name = "fetch", "send"
	fetch.Params = map[string]any{"day": nil}
	send.Params = map[string]any{"file": nil, "day": nil, "to": "x"}
	w.jobs["fetch"], w.jobs["send"] = fetch, send
	after := func(names ...string) (list []chain.Dependency) {
		for _, n := range names {
			list = append(list, chain.Dependency{Member: n})
		}
		return list
	}
	c := chain.Chain{Name: "daily", Version: 4, Params: map[string]any{"day": nil, "dir": nil}, Members: []chain.Member{
		{Name: "last", Job: "send", DependsOn: after("send", "fetch")},
		{Name: "send", Job: "send", Params: map[string]any{"file": "context:params.dir"}, DependsOn: after("fetch")},
		{Name: "fetch", Job: "fetch"}, {Name: "other", Job: "fetch"},
	}}
	r, err := w.service().Chain(t.Context(), c, &dryrun.Options{Params: map[string]any{"day": "2026-11-20"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Members {
		got = append(got, fmt.Sprint(m.Member, m.Report.Unknown, m.Report.Steps[0].State))
	}
	if want := []string{"fetch[]problem", "other[]problem", "send[file]not_checked", "last[file]not_checked"}; !slices.Equal(got, want) || r.Version != 4 {
		t.Errorf("%q, %+v", got, r.Problems)
	}
	c.Members[0].Job = "sned"
	if r, err := w.service().Chain(t.Context(), c, nil); err != nil || len(r.Problems) != 1 || len(r.Members) > 0 || !strings.Contains(r.Problems[0].String(), `"sned"`) {
		t.Errorf("%+v, %v", r, err)
	}
}
