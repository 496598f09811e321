package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// typedJob declares parameters of several types.
const typedJob = `{"name": "typed", "params": {
	"day": {"type": "date", "required": true, "doc": "of the invoices"}, "customer": {"type": "text", "enum": ["acme", "globex"]},
	"n": {"type": "integer", "min": 1, "max": 10, "default": 3}, "file": {"type": "file"}, "x": null, "y": 7},
	"steps": [{"type": "demo.take", "config": {"text": "${context:params.day}/${context:params.n}", "any": "context:params.file"}}]}`

type takeConfig struct {
	Text   string `json:"text"`
	Any    any    `json:"any"`
	Number int    `json:"number"`
}

// takes registers demo.take, whose output is its configuration as text.
func takes(r *courier.Registry) {
	courier.RegisterFunc(r, "demo.take", func(_ context.Context, _ *courier.Context, cfg takeConfig) (textOutput, error) {
		return textOutput{fmt.Sprint(cfg)}, nil
	}, nil)
}

// requireProblems checks an error about parameters: one problem for each of want.
func requireProblems(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	bad, ok := errors.AsType[*courier.ParamsError](err)
	if !ok || !errors.Is(err, courier.ErrInvalid) || len(bad.Problems) != len(want) {
		t.Errorf("%s: %v, want %d problems", what, err, len(want))
		return
	}
	for i, w := range want {
		if got := bad.Problems[i].String(); !strings.Contains(got, w) || !strings.Contains(err.Error(), got) {
			t.Errorf("%s: problem %d of %v, want %s", what, i, err, w)
		}
	}
}

// TestTypedParams gives parameters to all calls that create executions.
func TestTypedParams(t *testing.T) {
	couriertest.Virtual(t, &engine.Options{Listers: map[string]courier.Lister{"file": secretLister{}}}, func(t *testing.T, h *couriertest.Harness) {
		takes(h.Registry)
		e, ctx := h.Engine, t.Context()
		r := h.Run(h.Job(typedJob), m{"day": "2026-11-23", "file": "/in/a.csv", "x": m{"type": "any"}}).RequireState(courier.Completed)
		r.RequireValue("0.text", "{2026-11-23/3 map[name:a.csv path:/in/a.csv] 0}")
		if want := `{"customer":null,"day":"2026-11-23","file":{"name":"a.csv","path":"/in/a.csv"},"n":3,"x":{"type":"any"},"y":7}`; string(r.Params) != want {
			t.Errorf("the parameters are stored as %s, want %s", r.Params, want)
		}
		bad := m{"custmer": 1, "customer": "acmee", "n": "4", "file": "a.csv"}
		want := []string{
			`params.custmer: unknown parameter "custmer"; did you mean "customer"?`, `params.customer: "acmee" is not one of the possible values; did you mean "acme"?`,
			`params.day: is required, and was not given`, `params.file: must be the absolute path`, `params.n: must be a whole number, not "4"`,
		}
		opt := &courier.EnqueueOptions{Params: bad}
		_, err := e.Enqueue(ctx, "typed", opt)
		requireProblems(t, "enqueue", err, want...)
		_, err = e.Prepare(ctx, "typed", opt)
		requireProblems(t, "prepare", err, want...)
		_, err = e.Run(ctx, h.Job(typedJob), opt)
		requireProblems(t, "run", err, want...)
		_, err = e.Rerun(ctx, r.ID, &engine.RerunOptions{Params: m{"day": "2026-02-30"}})
		requireProblems(t, "rerun", err, `params.day: must be a date that exists`)
		again, err := e.Rerun(ctx, r.ID, &engine.RerunOptions{Params: m{"n": 4, "customer": nil}})
		if want := strings.Replace(string(r.Params), `"n":3`, `"n":4`, 1); err != nil || string(again.Params) != want {
			t.Errorf("rerun has %s, %v, want %s", again.Params, err, want)
		}

		_, err = e.Schedules().Set(ctx, schedule.Schedule{Name: "s", Job: "typed", Every: time.Hour, Params: bad}, courier.By{})
		if s, ok := errors.AsType[*schedule.Error](err); !ok || len(s.Problems) != len(want) || s.Problems[2].Field != "params.day" {
			t.Errorf("schedule: %v", err)
		}
		_, err = e.Monitors().Set(ctx, monitor.Monitor{Name: "m", Path: h.Dir, Job: "typed", Params: bad}, courier.By{})
		if err == nil || !strings.Contains(err.Error(), `not "files"`) {
			t.Errorf("monitor: %v", err)
		}
		if _, err := e.Jobs().Define(ctx, h.Job(`{"name": "seen", "params": {"files": {"type": "list", "max_length": 5}, "monitor": {"type": "object"}, "event": {"type": "object"},
			"n": {"type": "integer", "required": true}}, "steps": [{"type": "demo.take"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		_, err = e.Monitors().Set(ctx, monitor.Monitor{Name: "m", Path: h.Dir, Job: "seen", Params: m{"n": true, "o": 1}}, courier.By{})
		for _, want := range []string{`params.n: must be a whole number, not true`, `params.o: unknown parameter "o"`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("monitor: %v, want %s", err, want)
			}
		}
		if _, err = e.Monitors().Set(ctx, monitor.Monitor{Name: "m", Path: h.Dir, Job: "seen", Params: m{"n": 1}}, courier.By{}); err != nil {
			t.Error(err)
		}
		about := notify.Subscription{Name: "on", Kind: notify.KindJob, Jobs: []string{"typed"}, Events: []courier.EventType{courier.EventJobFailed}, Job: &notify.JobTarget{Name: "seen"}}
		_, err = e.Subscriptions().Set(ctx, about, courier.By{})
		if err == nil || !strings.Contains(err.Error(), `job.params.n: is required, and was not given`) {
			t.Errorf("subscription: %v", err)
		}
		about.Job.Params = m{"n": 2}
		if _, err = e.Subscriptions().Set(ctx, about, courier.By{}); err != nil {
			t.Error(err)
		}
	})
}

// TestParamsOfVersions has a schedule and an execution, and then a version with other
// declarations.
func TestParamsOfVersions(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		takes(h.Registry)
		e, ctx := h.Engine, t.Context()
		broken := true
		courier.RegisterFunc(h.Registry, "demo.fail", func(context.Context, *courier.Context, takeConfig) (textOutput, error) {
			if broken {
				return textOutput{}, errors.New("broken")
			}
			return textOutput{}, nil
		}, nil)
		version := func(params string) courier.Job {
			return h.Job(`{"name": "job", "params": ` + params + `, "steps": [{"type": "demo.fail", "config": {"number": "context:params.n"}}]}`)
		}
		r := h.Run(version(`{"n": {"type": "integer"}, "p": null}`), m{"n": 20, "p": "a"}).RequireState(courier.Failed)
		if _, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "s", Job: "job", Every: time.Hour, Params: m{"n": 20}}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		h.Start()
		if _, err := e.Jobs().Define(ctx, version(`{"n": {"type": "integer", "max": 10}, "p": null, "q": {"type": "text", "required": true}, "r": {"type": "integer", "default": 5}}`), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		s, err := e.Schedules().Get(ctx, "s")
		for _, want := range []string{"params.n: must be at most 10, not 20", "params.q: is required"} {
			if err != nil || !strings.Contains(s.Problem, want) || !s.LastFire.IsZero() {
				t.Errorf("the schedule has the problem %q, %v, want %s", s.Problem, err, want)
			}
		}
		// The execution keeps the declarations of its version, until it gets another one.
		for _, c := range []struct {
			opt  courier.ResumeOptions
			want []string
		}{
			{courier.ResumeOptions{Set: m{"params.n": "x"}}, []string{`Set "params.n": must be a whole number, not "x"`}},
			{courier.ResumeOptions{Version: 2}, []string{`version 2: its parameter "n": must be at most 10, not 20; give it with Set`, `its parameter "q": is required`}},
			{courier.ResumeOptions{Version: 2, Set: m{"params.n": 11, "params.q": nil}}, []string{`Set "params.n": must be at most 10, not 11`, `parameter "q": is required`}},
			{courier.ResumeOptions{Version: 2, Set: m{"params.n": 9}}, []string{`its parameter "q": is required`}},
		} {
			_, err := e.Resume(ctx, r.ID, &c.opt)
			for _, want := range c.want {
				if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
					t.Errorf("%+v: %v, want %s", c.opt, err, want)
				}
			}
		}
		broken = false
		report, err := e.DryRunResume(ctx, r.ID, &courier.ResumeOptions{Version: 2, Set: m{"params.n": 9, "params.q": "x"}})
		if err != nil || fmt.Sprintln(report.Values["params.n"], report.Values["params.q"], report.Values["params.r"], report.Values["params.p"]) != "9 x 5 a\n" {
			t.Errorf("a resume with all would have %v, %v", report.Values, err)
		}
		if _, err := e.Resume(ctx, r.ID, &courier.ResumeOptions{Set: m{"params.n": 21}}); err != nil {
			t.Error(err)
		}
		h.Wait(r.ID).RequireState(courier.Completed)
	})
}

// TestParamsOfChains defines and starts chains whose params and members' have types.
func TestParamsOfChains(t *testing.T) {
	h := couriertest.New(t, nil)
	takes(h.Registry)
	e, ctx := h.Engine, t.Context()
	for _, text := range []string{
		`{"name": "a", "params": {"day": {"type": "date", "required": true}, "n": {"type": "integer", "max": 5, "default": 1}, "pw": {"type": "text", "secret": true}}, "steps": [{"type": "demo.take", "config": {"any": "context:params.pw"}}]}`,
		`{"name": "b", "params": {"flag": {"type": "boolean"}, "list": {"type": "list"}, "pw": null}, "steps": [{"type": "demo.take"}]}`,
	} {
		if _, err := e.Jobs().Define(ctx, h.Job(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	define := func(text string) error {
		var c chain.Chain
		if err := c.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_, err := e.Chains().Define(ctx, c, nil)
		return err
	}
	err := define(`{"name": "c", "params": {"n": {"type": "txet"}, "t": {"type": "text"}, "i": {"type": "integer"}, "pw": {"type": "text", "secret": true}}, "members": [
		{"job": "a", "params": {"n": 6, "pw": "context:params.t"}},
		{"job": "b", "params": {"flag": "yes", "list": "context:params.i", "pw": "context:params.pw"}},
		{"name": "d", "job": "a", "params": {"day": "${context:params.t}", "n": "${context:params.i}", "pw": "x-${context:params.pw}"}},
		{"name": "f", "job": "b", "params": {"flag": [true], "list": ["context:params.pw"]}}]}`)
	bad, _ := errors.AsType[*chain.Error](err)
	for _, want := range []string{
		`params.n.type: unknown type "txet"; did you mean "text"?`,
		`members[0] "a": params.day: job "a" requires it: give it, or declare it in the chain`,
		`members[0] "a": params.n: must be at most 5, not 6`,
		`members[1] "b": params.flag: must be true or false, not "yes"`,
		`members[1] "b": params.list: "params.i" is a whole number, and must be a list here`,
		`members[1] "b": params.pw: "params.pw" is secret, and is not declared as secret here`,
		`members[2] "d": params.n: is a text, and must be a whole number here`,
		`members[2] "d": params.pw: "params.pw" is secret, so it can only be the whole value`,
		`members[3] "f": params.flag: must be true or false, not a list`,
		`members[3] "f": params.list[0]: "params.pw" is secret, so it can only be`,
		`members[3] "f": params.pw: the chain's param of this name, which the job gets, is secret`,
	} {
		if bad == nil || !strings.Contains(lines(bad.Problems), want) {
			t.Errorf("define: %v, want %s", err, want)
		}
	}
	if bad != nil && len(bad.Problems) != 11 {
		t.Errorf("there are %d problems:\n%s", len(bad.Problems), lines(bad.Problems))
	}
	if err := define(`{"name": "c", "params": {"day": {"type": "date", "required": true}, "n": {"type": "integer"}, "on": {"type": "boolean", "default": true}}, "members": [
		{"job": "a"}, {"job": "b", "params": {"flag": "context:params.on", "list": ["context:params.n"]}}, {"name": "d", "job": "a", "params": {"n": "context:params.n"}}]}`); err != nil {
		t.Fatal(err)
	}
	_, err = e.Chains().Start(ctx, "c", &chain.StartOptions{Params: m{"on": 1, "nn": 2}})
	requireProblems(t, "start", err, `params.day: is required`, `params.nn: unknown parameter "nn"; did you mean "n"?`, `params.on: must be true or false, not 1`)
	_, err = e.Chains().Start(ctx, "c", &chain.StartOptions{Params: m{"day": "2026-11-23", "n": 7}})
	requireProblems(t, "start", err, `member "a": params.n: must be at most 5, not 7`, `member "d": params.n: must be at most 5, not 7`)
	x, err := e.Chains().Start(ctx, "c", &chain.StartOptions{Params: m{"day": "2026-11-23"}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.Executions().Get(ctx, x.Member("a").Execution)
	if want := `{"day":"2026-11-23","n":1,"pw":null}`; err != nil || string(first.Params) != want {
		t.Errorf("the member has %s, %v, want %s", first.Params, err, want)
	}
	_, err = e.Chains().Rerun(ctx, x.ID, &chain.StartOptions{Params: m{"day": "today"}})
	requireProblems(t, "rerun", err, `params.day: must be a date`)
}

func lines(problems []courier.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// TestSecretParams has a parameter that names a secret. The secret is put into the
// configuration, and is in nothing that is stored or shown.
func TestSecretParams(t *testing.T) {
	var mu sync.Mutex
	var asked []courier.SecretRequest
	var events []courier.Event
	given := ""
	policy := func(_ context.Context, q courier.SecretRequest) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q)
		switch q.Name {
		case "partner/acme":
			return "canary-QzPlain7", nil
		case "later":
			return "", fmt.Errorf("the safe is closed, so there is no %s", q.Name)
		}
		return "", courier.Permanent(fmt.Errorf("there is no secret %q", q.Name))
	}
	couriertest.Virtual(t, &engine.Options{Secrets: policy, Observers: []func(courier.Event){func(e courier.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}}}, func(t *testing.T, h *couriertest.Harness) {
		fail := true
		courier.RegisterFunc(h.Registry, "demo.login", func(_ context.Context, job *courier.Context, cfg takeConfig) (textOutput, error) {
			given = cfg.Text
			job.Log().Info("login", "with", cfg.Text)
			if fail {
				return textOutput{}, fmt.Errorf("the login with %s was refused", cfg.Text)
			}
			return textOutput{fmt.Sprint(stepcontext.Of(job).Snapshot())}, nil
		}, nil)
		job := h.Job(`{"name": "login", "params": {"pw": {"type": "text", "secret": true, "required": true}, "n": {"type": "integer"}},
			"steps": [{"type": "demo.login", "config": {"text": "context:params.pw"}}]}`)
		e, ctx := h.Engine, t.Context()
		r := h.RunWith(job, &courier.EnqueueOptions{Params: m{"pw": "partner/acme"}, By: courier.By{Actor: "ann"}}).RequireState(courier.Failed)
		if given != "canary-QzPlain7" {
			t.Errorf("the step was given %q", given)
		}
		if q := asked[0]; q != (courier.SecretRequest{Name: "partner/acme", Execution: r.ID, Job: "login", Version: 1, Step: -1, Param: "pw", By: "ann"}) {
			t.Errorf("the policy was asked for %+v", q)
		}
		if q := asked[1]; q.Step != 0 || q.Type != "demo.login" || q.Param != "pw" || q.DryRun || q.Name != "partner/acme" {
			t.Errorf("the step asked for %+v", q)
		}
		fail = false
		resumed, err := e.DryRunResume(ctx, r.ID, &courier.ResumeOptions{Set: m{"params.pw": "partner/acme"}})
		if err != nil || string(resumed.Config) != `{"text":"secret:partner/acme"}` || resumed.Note != "params.pw to another secret" {
			t.Errorf("a resume would have %s, %q, %v", resumed.Config, resumed.Note, err)
		}
		mu.Lock()
		if q := asked[len(asked)-1]; !q.DryRun || q.Step != -1 || q.Param != "pw" || q.Execution != r.ID {
			t.Errorf("the dry run of a resume asked for %+v", q)
		}
		mu.Unlock()
		dry, err := e.Jobs().DryRun(ctx, job, &dryrun.Options{Params: m{"pw": "partner/acme"}})
		if err != nil || !dry.OK() {
			t.Errorf("dry run %v, %v", dry, err)
		}
		mu.Lock()
		for _, q := range asked[len(asked)-2:] { // for the execution and for the step
			if !q.DryRun || q.Param != "pw" || q.Job != "login" {
				t.Errorf("a dry run asked for %+v", q)
			}
		}
		mu.Unlock()
		h.Start()
		if _, err := e.Resume(ctx, r.ID, nil); err != nil {
			t.Fatal(err)
		}
		done := h.Wait(r.ID).RequireState(courier.Completed)
		mu.Lock()
		dump, _ := jsontext.Append(nil, []any{r.Execution, r.Steps, r.Audit, r.Values, done.Execution, done.Steps, done.Audit, done.Values, events, dry, resumed})
		mu.Unlock()
		all := string(dump) + h.Log() + fmt.Sprint(r.Err, dry)
		if how := secretIn(all, "canary-QzPlain7"); how != "" {
			t.Errorf("the secret is told as %s in %s", how, all)
		}

		// What is given in place of a name may be the secret itself.
		for _, value := range []any{"canary-QzPlain7", "secret:canary-QzPlain7", m{"x": "canary-QzPlain7"}} {
			_, err := e.Enqueue(ctx, "login", &courier.EnqueueOptions{Params: m{"pw": value, "n": "x"}})
			requireProblems(t, "enqueue", err, "params.n: must be a whole number", "params.pw: ")
			fail = true
			_, err2 := e.Resume(ctx, h.Run(job, m{"pw": "partner/acme"}).ID, &courier.ResumeOptions{Set: m{"params.pw": value}})
			dry, _ := e.Jobs().DryRun(ctx, job, &dryrun.Options{Params: m{"pw": value}})
			if !errors.Is(err2, courier.ErrInvalid) || !strings.Contains(err2.Error(), `Set "params.pw": `) {
				t.Errorf("resume: %v", err2)
			}
			if text := fmt.Sprint(err, err2, dry, h.Log()); secretIn(text, "canary-QzPlain7") != "" {
				t.Errorf("it is echoed: %s", text)
			}
		}
		_, err = e.Enqueue(ctx, "login", &courier.EnqueueOptions{Params: m{"pw": "later"}})
		if err == nil || errors.Is(err, courier.ErrInvalid) || strings.Contains(err.Error(), "later") || !strings.Contains(err.Error(), "the safe is closed") {
			t.Errorf("where it is not known: %v", err)
		}
	})
}

// TestSecretParamsWithoutSecrets enqueues in a program that can resolve none: the worker
// asks.
func TestSecretParamsWithoutSecrets(t *testing.T) {
	couriertest.Virtual(t, &engine.Options{Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
		if q.Name == "partner/acme" {
			return "canary-QzPlain7", nil
		}
		return "", courier.Permanent(errors.New("refused"))
	}}, func(t *testing.T, h *couriertest.Harness) {
		takes(h.Registry)
		courier.RegisterFunc(h.Registry, "demo.length", func(_ context.Context, _ *courier.Context, cfg takeConfig) (textOutput, error) {
			return textOutput{fmt.Sprint(len(cfg.Any.([]any)[0].(string)))}, nil
		}, nil)
		front := engine.New(h.Store, new(courier.Registry), &engine.Options{Workspace: t.TempDir()}) // no step types either
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "j", "params": {"pw": {"type": "text", "secret": true, "max_length": 20}, "n": {"type": "integer"}},
			"steps": [{"type": "demo.take", "config": {"number": "context:params.n"}}, {"type": "demo.length", "config": {"any": ["context:params.pw"]}}]}`), nil); err != nil {
			t.Fatal(err)
		}
		h.Start()
		_, err := front.Enqueue(t.Context(), "j", &courier.EnqueueOptions{Params: m{"pw": strings.Repeat("x", 21), "n": 1.5}})
		requireProblems(t, "enqueue", err, "params.n: must be a whole number in digits alone, not 1.5", "params.pw: must be the name of a secret")
		for _, name := range []string{"partner/acme", "other"} {
			x, err := front.Enqueue(t.Context(), "j", &courier.EnqueueOptions{Params: m{"pw": name, "n": 3}})
			if err != nil {
				t.Fatal(err)
			}
			if r := h.Wait(x.ID); name == "other" {
				r.RequireState(courier.Failed)
				if r.Failure.Step != 1 || r.Failure.Reason != courier.ReasonSecret {
					t.Errorf("%+v", r.Failure)
				}
			} else {
				r.RequireState(courier.Completed).RequireValue("1.text", "15")
			}
		}
	})
}

// TestParamsInDryRun shows what is declared and what is missing.
func TestParamsInDryRun(t *testing.T) {
	h := couriertest.New(t, nil)
	takes(h.Registry)
	report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(typedJob), nil)
	for _, want := range []string{
		"param day (date): required, and not given; of the invoices\n", "param customer (text): not given\n", "param n (integer): default 3\n", "params that are not known: customer, day, file, x\n",
	} {
		if err != nil || !report.OK() || !strings.Contains(report.String(), want) {
			t.Errorf("got %v, %v, want %s", report, err, want)
		}
	}
	report, err = h.Engine.Jobs().DryRun(t.Context(), h.Job(typedJob), &dryrun.Options{Params: m{"n": 4}})
	if err != nil || report.OK() || !strings.Contains(report.String(), "problem: params.day: is required") || !strings.Contains(report.String(), "param n (integer): given") {
		t.Errorf("got %v, %v", report, err)
	}
	raw, err := report.MarshalJSON()
	if want := `{"name":"day","type":"date","required":true,"doc":"of the invoices","state":"missing"}`; err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
}
