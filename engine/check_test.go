package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// bundle has two mistakes of the form, and others of what it says, in several files.
var bundle = fstest.MapFS{
	"jobs/fetch.json": {Data: []byte(`{
  "name": "fetch", "failure_policy": null, "queue": null, "depends_on": null,
  "steps": [
    {"id": "get", "type": "demo.shout", "config": {"text": "${params.dir}"}, "timeout_seconds": "5"},
    {"tpye": "demo.shout", "config": {"text": "context:get.lowd"}}
  ]
}`)},
	"jobs/more.json": {Data: []byte("\n[\n" + `  {"name": "send", "params": {"to": null}, "steps": [{"type": "demo.show", "config": {"text": "context:chain.fetch.loud"}}]},
  {"name": "send", "steps": []},
  {"name": "list", "stepps": []}
]`)},
	"chains.json":        {Data: []byte(`{"name": "daily", "members": [{"job": "fetch"}, {"job": "send", "depends_on": ["fetch"], "version": 3}, {"job": "sned"}]}`)},
	"schedules.json":     {Data: []byte("[{\"name\": \"nightly\", \"chain\": \"dayly\", \"cron\": \"0 0 3 ? * TUE\"},\n {\"name\": \"hourly\", \"job\": \"send\", \"every_seconds\": 3600, \"params\": {\"ot\": 1}}]")},
	"monitors.json":      {Data: []byte(`{"name": "in", "path": "/in", "job": "send", "lister": "sftp"}`)},
	"subscriptions.json": {Data: []byte("{\"name\": \"ops\", \"kind\": \"func\", \"func\": \"paeg\",\n \"events\": [\"JobFailed\"], \"jobs\": [\"fech\"]}")},
	"broken.json":        {Data: []byte("{\"name\": \"x\",\n  \"steps\": [,]}")},
}

func exampleRegistry() *courier.Registry {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.shout", shout, nil)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	return reg
}

// TestCheckBundle checks all kinds of definitions as a whole: each mistake is told
// once, with its place, whether it is one of the form or of what the text says.
func TestCheckBundle(t *testing.T) {
	files, err := engine.ReadFiles(bundle, "*.json", "jobs/*.json", "chains.json")
	if err != nil || len(files) != len(bundle) {
		t.Fatalf("read %d files of %d: %v", len(files), len(bundle), err)
	}
	page := map[string]func(context.Context, notify.Notification) error{"page": nil}
	b := engine.Check(files, exampleRegistry(), &engine.Options{Subscribers: page})
	want := []string{
		`broken.json:2:13: not JSON: invalid character ',' looking for beginning of value`,
		`chains.json:1:113: members[2] "sned": job: there is no job "sned"; did you mean "send"?`,
		`jobs/fetch.json:4:97: step 0: timeout_seconds: must be a number of seconds, not "5"`,
		`jobs/fetch.json:5:14: step 1: unknown field "tpye"; did you mean "type"?`,
		`jobs/fetch.json:5:47: step 1: config.text: "get.lowd" has no value: step 0 "get" (demo.shout) has no output "lowd"; did you mean "loud"?`,
		`jobs/more.json:4:12: name: there is another job "send", in jobs/more.json, line 3; leave one of them out`,
		`jobs/more.json:4:29: steps: there are none; a job needs at least one`,
		`jobs/more.json:5:3: it is no definition: a job has "steps", a chain "members", a subscription "kind", a monitor "path", an expectation "pattern", a schedule "cron", "every_seconds" or "at", and a calendar "weekend", "closed" or "open"; for "stepps", did you mean "steps"?`,
		`monitors.json:1:38: job: job "send" has params, but not "files"`,
		`schedules.json:1:31: chain: there is no chain "dayly"; did you mean "daily"?`,
		`schedules.json:2:76: params.ot: unknown parameter "ot"; did you mean "to"?`,
		`subscriptions.json:2:35: jobs: there is no job "fech"; did you mean "fetch"?`,
	}
	var got []string
	for _, p := range b.Problems {
		got = append(got, p.String())
	}
	if len(got) != len(want) {
		t.Fatalf("%d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d is\n  %s, want\n  %s", i, got[i], want[i])
		}
	}
	warnings := fmt.Sprint(b.Warnings)
	for _, want := range []string{`func: this engine has no function "paeg" in Options.Subscribers; did you mean "page"?`, `version 3 of job "send" is not known here`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %s, want %s", warnings, want)
		}
	}
	if err := b.Err(); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "12 problems in the definitions:") || strings.Contains(err.Error(), "courier: ") {
		t.Error(err)
	}
	if _, err := engine.ReadFiles(bundle, "none/*.json"); err == nil {
		t.Error("a pattern that matches nothing is no error")
	}
}

// TestCheckSoundBundle finds nothing in a bundle whose parts refer to each other.
func TestCheckSoundBundle(t *testing.T) {
	b := engine.Check([]courier.Source{{File: "all.json", Text: []byte(`[
		{"name": "ops", "kind": "job", "job": {"name": "tell"}, "events": ["JobFailed"], "chains": ["daily"]},
		{"name": "in", "path": "/in", "chain": "daily"},
		{"name": "nightly", "chain": "daily", "cron": "0 0 3 ? * TUE"},
		{"name": "daily", "members": [{"job": "send", "depends_on": ["fetch"]}, {"job": "fetch"}]},
		{"name": "send", "depends_on": ["tell"], "steps": [{"type": "demo.show", "config": {"text": "context:chain.fetch.loud"}}]},
		{"name": "fetch", "steps": [{"type": "demo.shout", "config": {"text": "a"}}]},
		{"name": "tell", "steps": [{"type": "demo.show", "config": {"text": "context:params.event.type"}}], "params": {"event": null}}]`)}}, exampleRegistry(), nil)
	if b.Err() != nil || len(b.Warnings) > 0 {
		t.Errorf("problems %v, warnings %v", b.Err(), b.Warnings)
	}
	if len(b.Jobs) != 3 || len(b.Chains) != 1 || len(b.Schedules) != 1 || len(b.Monitors) != 1 || len(b.Subscriptions) != 1 {
		t.Errorf("read %+v", b)
	}
}

// TestDefineWarns returns warnings to who defines, also of chain references, until
// there is the chain that gives them a value.
func TestDefineWarns(t *testing.T) {
	var log bytes.Buffer
	e := engine.New(memstore.New(), exampleRegistry(), &engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	send := courier.Job{Name: "send", Steps: []courier.StepSpec{{Type: "demo.show", Config: m{"text": "context:chain.fetch.loud"}}}}
	fetch := courier.Job{Name: "fetch", Steps: []courier.StepSpec{{Type: "demo.shout", Config: m{"text": "${params.dir}"}}}}
	chain := chain.Chain{Name: "daily", Members: []chain.Member{{Job: "fetch", Params: m{"x": "{{params.day}}"}}, {Job: "send", DependsOn: []chain.Dependency{{Member: "fetch"}}}}}
	for i, starts := range []string{"there is no such chain so far", ""} {
		got, err := e.Jobs().Define(t.Context(), send, nil)
		if err != nil || got.Job.Version != 1 || len(got.Warnings) != 1-i || !strings.Contains(fmt.Sprint(got.Warnings), starts) {
			t.Errorf("start %d: %+v, %v", i, got, err)
		}
		got, err = e.Jobs().Define(t.Context(), fetch, nil)
		if err != nil || len(got.Warnings) != 1 || got.Warnings[0].Field != "config.text" || !strings.Contains(got.Warnings[0].Message, `write "context:params.dir"`) {
			t.Errorf("start %d: %+v, %v", i, got, err)
		}
		c, err := e.Chains().Define(t.Context(), chain, nil)
		if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].String(), `members[0] "fetch": params.x: "{{params.day}}"`) {
			t.Errorf("start %d: %+v, %v", i, c, err)
		}
	}
	if n := strings.Count(log.String(), "there is no such chain"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	r, err := e.Jobs().DryRun(t.Context(), fetch, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(r.String(), "demo.shout")
	if !strings.Contains(below, `warning: config.text: "${params.dir}" is taken as it stands`) {
		t.Errorf("the warning is not beside the step:\n%s", r)
	}
}

// TestDefineInARollingDeployment starts an old and a new binary in turn: with
// KeepNewer the new definition stays, and a Base refuses what was made of another.
func TestDefineInARollingDeployment(t *testing.T) {
	e := engine.New(memstore.New(), exampleRegistry(), nil)
	job := func(text string) courier.Job {
		return courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.show", Config: m{"text": text}}}}
	}
	define := func(text string, opt *courier.DefineOptions) courier.DefinedJob {
		t.Helper()
		d, err := e.Jobs().Define(t.Context(), job(text), opt)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	keep := &courier.DefineOptions{By: courier.By{Actor: "deploy"}, KeepNewer: true}
	if d := define("old", keep); d.Job.Version != 1 || d.SavedBy != "deploy" || d.SavedAt.IsZero() || d.Superseded {
		t.Errorf("the first is %+v", d)
	}
	for i := range 3 {
		if d := define("new", keep); d.Job.Version != 2 || d.Superseded {
			t.Errorf("round %d: the new binary's is %+v", i, d)
		}
		if d := define("old", keep); d.Job.Version != 2 || !d.Superseded || d.Job.Steps[0].Config["text"] != "new" {
			t.Errorf("round %d: the old binary's is %+v", i, d)
		}
	}
	for _, base := range []int{0, 1, 3} {
		if _, err := e.Jobs().Define(t.Context(), job("edited"), &courier.DefineOptions{Base: &base}); !errors.Is(err, courier.ErrConflict) || strings.Contains(err.Error(), "courier: ") {
			t.Errorf("base %d of 2: %v", base, err)
		}
	}
	if _, err := e.Jobs().Define(t.Context(), job("edited"), &courier.DefineOptions{Base: new(-1)}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("base -1: %v", err)
	}
	if d := define("edited", &courier.DefineOptions{Base: new(2), By: courier.By{Actor: "ann"}}); d.Job.Version != 3 || d.SavedBy != "ann" {
		t.Errorf("the edited one is %+v", d)
	}
	if d := define("old", nil); d.Job.Version != 4 {
		t.Errorf("a rollback is %+v", d)
	}
	c, err := e.Chains().Define(t.Context(), chain.Chain{Name: "c", Members: []chain.Member{{Job: "j"}}}, &courier.DefineOptions{By: courier.By{Actor: "ann"}, Base: new(int)})
	if err != nil || c.SavedBy != "ann" || c.Chain.Version != 1 {
		t.Errorf("the chain is %+v, %v", c, err)
	}
}

// TestReadingNeedsNoStepTypes reads, enqueues and schedules on an engine without
// step types, and reads definitions whose types or blocks are not what they should
// be, so that they can be mended.
func TestReadingNeedsNoStepTypes(t *testing.T) {
	h := couriertest.New(t, nil)
	courier.RegisterFunc(h.Registry, "demo.shout", shout, &courier.TypeOptions{Aliases: []string{"demo.cry"}})
	r := h.Run(h.Job(`{"name": "j", "params": {"a": 1}, "steps": [{"id": "s", "type": "Demo.Cry", "config": {"text": "hi"}}, {"type": "flow.if", "config": {"left": 1, "operator": "equals", "right": 2}}, {"type": "flow.end"}]}`), nil)
	bare := engine.New(h.Store, nil, nil)
	job, err := bare.Jobs().Get(t.Context(), "j", 1)
	if err != nil || job.Version != 1 || len(job.Steps) != 3 {
		t.Errorf("Job: %+v, %v", job, err)
	}
	v, err := bare.Executions().Values(t.Context(), r.Execution.ID)
	if err != nil || v["s.loud"] != "HI" {
		t.Errorf("Values: %v, %v", v, err)
	}
	if _, err := bare.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Job: "j", Every: time.Hour}, courier.By{}); err != nil {
		t.Error(err)
	}
	if _, err := bare.Chains().Define(t.Context(), chain.Chain{Name: "c", Members: []chain.Member{{Job: "j"}}}, nil); err != nil {
		t.Error(err)
	}
	x, err := bare.Enqueue(t.Context(), "j", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Wait(x.ID).RequireState(courier.Completed) // by an alias that only the worker knows
	for _, steps := range []string{`[{"type": "flow.end"}]`, `[{"type": "demo.removed"}]`} {
		saveRaw(t, h, `{"name":"old","steps":`+steps+`}`)
		old, err := bare.Jobs().Get(t.Context(), "old", 0)
		if err != nil || len(old.Steps) != 1 {
			t.Errorf("%s: Job: %+v, %v", steps, old, err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "old", &courier.EnqueueOptions{Hold: true})
		if err != nil {
			t.Errorf("%s: Enqueue: %v", steps, err)
		}
		if v, err := h.Engine.Executions().Values(t.Context(), x.ID); err != nil || v["job.name"] != "old" {
			t.Errorf("%s: Values: %v, %v", steps, v, err)
		}
		if _, err := h.Engine.Jobs().Define(t.Context(), old, nil); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: Define: %v", steps, err)
		}
	}
}

// saveRaw saves the text of a job without any check.
func saveRaw(t *testing.T, h *couriertest.Harness, body string) {
	t.Helper()
	if _, err := h.Store.Save(t.Context(), store.Definition{Kind: store.Job, Name: "old", Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

// TestSubscribeWarnsOfAFunction that this engine does not have.
func TestSubscribeWarnsOfAFunction(t *testing.T) {
	var log bytes.Buffer
	e := engine.New(memstore.New(), nil, &engine.Options{
		Log:         slog.New(slog.NewTextHandler(&log, nil)),
		Subscribers: map[string]func(context.Context, notify.Notification) error{"page": func(context.Context, notify.Notification) error { return nil }},
	})
	for name, warned := range map[string]bool{"page": false, "pgae": true} {
		log.Reset()
		s, err := e.Subscriptions().Set(t.Context(), notify.Subscription{Name: name, Kind: notify.KindFunc, Func: name, Events: []courier.EventType{courier.EventJobFailed}}, courier.By{})
		if err != nil || (len(s.Warnings) == 1) != warned || strings.Contains(log.String(), `did you mean`) != warned || *s.Subscription.Window != 0 {
			t.Errorf("%s: %+v, %v; log %s", name, s, err, &log)
		}
	}
}

// TestEngineCheck reads one definition from its bytes in one call: what is wrong with
// its form, and with what it says, comes at once with line and column, what it names
// may be saved, and nothing is.
func TestEngineCheck(t *testing.T) {
	ctx := t.Context()
	mem := memstore.New()
	e := engine.New(mem, exampleRegistry(), nil)
	for _, name := range []string{"before", "loop"} {
		if _, err := e.Jobs().Define(ctx, courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "demo.show", Config: m{"text": "a"}}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Subscriptions().Set(ctx, notify.Subscription{Name: "old", Kind: notify.KindJob, Job: &notify.JobTarget{Name: "loop"}, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"before"}}, courier.By{}); err != nil {
		t.Fatal(err)
	}
	text := "{\"name\": \"new\", \"failure_policy\": null, \"depends_on\": [\"before\", \"befor\"],\n \"steps\": [\n  {\"tpye\": \"demo.show\"},\n  {\"type\": \"demo.show\", \"config\": {\"txet\": \"a\"}, \"timeout_seconds\": \"5\"}]}"
	b, err := e.Check(ctx, []courier.Source{{Text: []byte(text)}})
	if err != nil || !errors.Is(b.Err(), courier.ErrInvalid) {
		t.Fatal(err, b.Err())
	}
	var got []string
	for _, p := range b.Problems {
		got = append(got, p.String())
	}
	want := []string{
		`line 1, column 66: depends_on[1].job: there is no job "befor"; did you mean "before"?`,
		`line 3, column 12: step 0: unknown field "tpye"; did you mean "type"?`,
		`line 4, column 35: step 1 (demo.show): config: unknown field "txet"; did you mean "text"?`,
		`line 4, column 35: step 1 (demo.show): config.text: is required`,
		`line 4, column 69: step 1: timeout_seconds: must be a number of seconds, not "5"`,
	}
	if len(got) != len(want) {
		t.Fatalf("problems\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d is\n  %s, want\n  %s", i, got[i], want[i])
		}
	}
	b, err = e.Check(ctx, []courier.Source{{Text: []byte("{\n \"name\": \"a\" \"steps\": []}")}})
	if err != nil || len(b.Problems) != 1 || b.Problems[0].Line != 2 || !errors.Is(b.Err(), courier.ErrInvalid) {
		t.Errorf("%v, %v", b.Err(), err)
	}
	text = strings.NewReplacer(", \"befor\"", "", "{\"tpye\": \"demo.show\"},", "", "txet", "text", "\"5\"", "5").Replace(text)
	b, err = e.Check(ctx, []courier.Source{{Text: []byte(text)}, {Text: []byte(`{"name": "daily", "members": [{"job": "before", "version": 1}, {"job": "new"}, {"job": "before", "version": 2}]}`)}})
	if err != nil || len(b.Problems) == 0 || !strings.Contains(b.Err().Error(), "version 2") || strings.Contains(b.Err().Error(), "version 1") || len(b.Jobs) != 1 {
		t.Errorf("a version that is saved, one of the bundle and one that is not: %v, %v", b.Err(), err)
	}
	if d, err := e.Jobs().Define(ctx, b.Jobs[0], nil); err != nil || d.Job.Version != 1 {
		t.Errorf("what was checked is defined as %v, %v", d, err)
	}
	b, err = e.Check(ctx, []courier.Source{{Text: []byte(`{"name": "again", "kind": "job", "job": {"name": "before"}, "events": ["JobFailed"], "jobs": ["loop"]}`)}})
	if err != nil || len(b.Problems) != 1 || !strings.Contains(b.Err().Error(), "start each other for ever") {
		t.Errorf("a circle with a subscription that is saved: %v, %v", b.Err(), err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if b, err := e.Check(gone, []courier.Source{{Text: []byte(text)}}); !errors.Is(err, context.Canceled) || len(b.Jobs) != 0 {
		t.Errorf("%v, %v", b, err)
	}
}
