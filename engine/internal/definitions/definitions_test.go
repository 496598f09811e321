package definitions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// service returns a service with the type demo.get, and its log.
func service(s store.Store) (*definitions.Service, *lockedbuffer.Buffer) {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "demo.get", func(context.Context, *courier.Context, struct {
		Path string `json:"path"`
	}) (struct {
		File  string   `json:"file"`
		Parts []string `json:"parts"`
	}, error) {
		panic("a check executes")
	}, nil)
	log := new(lockedbuffer.Buffer)
	return definitions.New(core.Roles{Store: s, Behind: s}, r, program.NewCache(s, r), []string{"default"}, slog.New(slog.NewTextHandler(log, nil))), log
}

// get is a job of one step.
func get(name string, on ...string) courier.Job {
	j := courier.Job{Name: name, Steps: []courier.StepSpec{{ID: "get", Type: "demo.get"}}}
	for _, other := range on {
		j.DependsOn = append(j.DependsOn, courier.JobDependency{Job: other})
	}
	return j
}

// define saves jobs.
func define(t *testing.T, v *definitions.Service, jobs ...courier.Job) {
	t.Helper()
	for _, j := range jobs {
		if _, err := v.DefineJob(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// problems are the problems of a check, one after the other.
func problems(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	d, ok := errors.AsType[*courier.DefinitionError](err)
	if !ok || !errors.Is(err, courier.ErrInvalid) {
		t.Fatalf("%v", err)
	}
	list := make([]string, len(d.Problems))
	for i, p := range d.Problems {
		list[i] = fmt.Sprintf("%d %s: %s", p.Step, p.Field, p.Message)
	}
	return list
}

// TestDependencies: the jobs that a job depends on must be there, each once and not in a circle.
// All that is wrong is told at once.
func TestDependencies(t *testing.T) {
	v, _ := service(memstore.New())
	define(t, v, get("a"), get("night"), get("b", "a"), get("c", "b"), get("diamond", "b", "c"))
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("j", i)
	}
	odd := get("d", "a")
	odd.DependsOn[0].RequiredStatus, odd.DependsOn[0].OnUnmet = "complete", "refused"
	for name, c := range map[string]struct {
		job  courier.Job
		want []string
	}{
		"sound":       {get("d", "diamond", "c", "a"), nil},
		"itself":      {get("a", "a"), []string{"-1 depends_on[0].job: a job can't depend on itself"}},
		"a circle":    {get("a", "diamond"), []string{"-1 depends_on: depends on itself: a -> diamond -> b -> a; each would wait for the next"}},
		"unknown":     {get("d", "nihgt"), []string{`-1 depends_on[0].job: there is no job "nihgt"; did you mean "night"?`}},
		"twice":       {get("d", "a", "b", "a"), []string{`-1 depends_on[2].job: "a" is given twice`}},
		"too many":    {get("d", many...), []string{"-1 depends_on: there are 101; 100 is the most"}},
		"all at once": {get("d", "", "x"), []string{"-1 depends_on[0].job: is required", `-1 depends_on[1].job: there is no job "x"; did you mean "a"?`}},
		"its words": {odd, []string{
			`-1 depends_on[0].required_status: unknown status "complete"; did you mean "completed"?`, `-1 depends_on[0].on_unmet: unknown way "refused"; did you mean "refuse"?`,
		}},
		"of a new name": {get("d", "d"), []string{"-1 depends_on[0].job: a job can't depend on itself"}},
	} {
		_, err := v.CheckJob(t.Context(), c.job)
		if got := problems(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOutputs: what is wrong with an output is told at its field, not at the step that keeps it.
func TestOutputs(t *testing.T) {
	v, _ := service(memstore.New())
	const unregistered = `-1 outputs[0]: outputs are kept by steps of the type "file.copy", which is not registered; register it, by steps.Register or file.Register`
	for name, c := range map[string]struct{ from, to, want string }{
		"no reference":         {"out.txt", "/srv/", `-1 outputs[0].from: "out.txt" must be a reference`},
		"a text with one":      {"${get.file}", "/srv/", `-1 outputs[0].from: "${get.file}" must be a reference`},
		"of the output's step": {"context:1.copied_file", "/srv/", `-1 outputs[0].from: "context:1.copied_file" must be a reference`},
		"relative":             {"context:get.file", "srv/", `-1 outputs[0].to: "srv/" must be an absolute path`},
		"no target":            {"context:get.file", "", `-1 outputs[0].to: "" must be an absolute path`},
		"of Windows":           {"context:get.file", `C:\srv`, ""},
		"of a share":           {"context:get.file", `\\host\srv`, ""},
		"by a parameter":       {"context:get.file", "${params.to}/x", ""},
		"up":                   {"context:get.file", "../srv", `-1 outputs[0].to: "../srv" must be an absolute path`},
	} {
		j := get("a")
		j.Outputs = []courier.JobOutput{{From: c.from, To: c.to}}
		_, err := v.CheckJob(t.Context(), j)
		list := problems(t, err)
		if !slices.Contains(list, unregistered) {
			t.Errorf("%s: it is not said that the type is missing: %q", name, list)
		}
		found := slices.ContainsFunc(list, func(p string) bool { return c.want != "" && strings.HasPrefix(p, c.want) })
		if found != (c.want != "") || c.want == "" && len(list) > 1 || slices.ContainsFunc(list, func(p string) bool { return !strings.HasPrefix(p, "-1 outputs[0]") }) {
			t.Errorf("%s: %q", name, list)
		}
	}
}

// TestCheckJob: problems come in the order of the steps, each once, and the checked job has no
// version. Figures that JSON does not take are told beside all else.
func TestCheckJob(t *testing.T) {
	v, _ := service(memstore.New())
	minus := -time.Second
	for name, c := range map[string]struct {
		change func(*courier.Job)
		want   []string // what the problems begin with
	}{
		"sound":        {func(j *courier.Job) { j.Version = 7 }, nil},
		"no steps":     {func(j *courier.Job) { j.Steps = nil }, []string{"-1 steps: there are none; a job needs at least one"}},
		"time of day":  {func(j *courier.Job) { j.ExpectedBy = "24:00" }, []string{`-1 expected_by: "24:00" is not a time of day`}},
		"control text": {func(j *courier.Job) { j.Steps[0].Config = map[string]any{"path": "a\x00"} }, []string{"0 config.path: "}},
		"no JSON":      {func(j *courier.Job) { j.Steps[0].Config = map[string]any{"path": func() {}} }, []string{"0 : "}},
		"together": {func(j *courier.Job) {
			j.Timeout, j.ExpectedBy, j.Limit = minus, "x", -1
			j.Steps = append(j.Steps, courier.StepSpec{Type: "demo.gte", Timeout: &minus}, courier.StepSpec{Type: "flow.end"})
		}, []string{"-1 ", "-1 ", "-1 ", "1 ", "1 ", "2 "}},
	} {
		j := get("a")
		c.change(&j)
		checked, err := v.CheckJob(t.Context(), j)
		list := problems(t, err)
		if len(list) != len(c.want) {
			t.Errorf("%s: %q", name, list)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(list[i], want) {
				t.Errorf("%s: %q, want %q", name, list, c.want)
			}
		}
		if err == nil && (checked.Job.Version != 0 || checked.Tree == nil) {
			t.Errorf("%s: %+v", name, checked.Job)
		}
	}
}

// TestMembers: a reference to a member of a chain is doubtful as long as there is no chain in which
// that member ends before the job.
func TestMembers(t *testing.T) {
	v, _ := service(memstore.New())
	define(t, v, get("fetch"))
	send := get("send")
	send.Steps[0].Config = map[string]any{"path": "context:chain.fetch.file"}
	warned := func() bool {
		t.Helper()
		c, err := v.CheckJob(t.Context(), send)
		if err != nil {
			t.Fatal(err)
		}
		return len(c.Warnings) == 1 && c.Warnings[0].Step == 0 && c.Warnings[0].Field == "config.path" && strings.Contains(c.Warnings[0].Message, `in which "fetch" ends before this job`)
	}
	save := func(after ...chain.Dependency) {
		t.Helper()
		c := chain.Chain{Name: "c", Members: []chain.Member{{Job: "fetch"}, {Job: "send", DependsOn: after}}}
		if _, _, err := v.Save(t.Context(), store.Chain, "c", c, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !warned() {
		t.Error("no warning without a chain")
	}
	if save(); !warned() {
		t.Error("no warning of a member at the same time")
	}
	if save(chain.Dependency{Member: "fetch"}); warned() {
		t.Error("a warning of a member before it")
	}
}

// TestSave: equal definitions are one version. A Base refuses what was made of another version, and
// KeepNewer leaves a newer one alone.
func TestSave(t *testing.T) {
	v, log := service(memstore.New())
	save := func(limit int, opt *courier.DefineOptions) (courier.DefinedJob, error) {
		j := get("a")
		j.Limit = limit
		return v.DefineJob(t.Context(), j, opt)
	}
	zero, minus, two := 0, -1, 2
	for i, c := range []struct {
		limit   int
		opt     *courier.DefineOptions
		version int
		err     error
	}{
		{1, &courier.DefineOptions{Base: &two}, 0, courier.ErrConflict},
		{1, &courier.DefineOptions{Base: &zero, By: courier.By{Actor: "ops", Reason: "new"}}, 1, nil},
		{1, nil, 1, nil}, {2, nil, 2, nil}, {1, nil, 3, nil},
		{9, &courier.DefineOptions{Base: &two}, 0, courier.ErrConflict},
		{9, &courier.DefineOptions{Base: &minus}, 0, courier.ErrInvalid},
		{9, &courier.DefineOptions{By: courier.By{Actor: "a\x00"}}, 0, courier.ErrInvalid},
	} {
		d, err := save(c.limit, c.opt)
		if !errors.Is(err, c.err) || d.Job.Version != c.version || err != nil && !strings.HasPrefix(err.Error(), `define job "a": `) {
			t.Errorf("%d: version %d, %v", i, d.Job.Version, err)
		}
	}
	if d, err := save(2, &courier.DefineOptions{KeepNewer: true}); err != nil || !d.Superseded || d.Job.Version != 3 || d.Job.Limit != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if !strings.Contains(log.String(), "ops") || !strings.Contains(log.String(), "new") {
		t.Errorf("log %s", log)
	}
}

// TestVersions: pages of versions are the newest first, within bounds. The error of a name that
// does not exist names the nearest.
func TestVersions(t *testing.T) {
	s := memstore.New()
	v, _ := service(s)
	for i := range 120 {
		j := get("night")
		j.Limit = i
		define(t, v, j)
	}
	for _, c := range []struct {
		f           store.VersionFilter
		n, from, to int
	}{
		{store.VersionFilter{}, 100, 120, 21}, {store.VersionFilter{Limit: 2}, 2, 120, 119}, {store.VersionFilter{Before: 3}, 2, 2, 1},
		{store.VersionFilter{Before: 1000, Limit: 1}, 1, 120, 120}, {store.VersionFilter{Before: 1}, 0, 0, 0}, {store.VersionFilter{Limit: 1 << 40}, 120, 120, 1},
	} {
		list, err := v.JobVersions(t.Context(), "night", c.f)
		if err != nil || len(list) != c.n || c.n > 0 && (list[0].Job.Version != c.from || list[c.n-1].Job.Version != c.to) {
			t.Errorf("%+v: %d versions, %v", c.f, len(list), err)
		}
	}
	for what, get := range map[string]func() error{
		"versions": func() error { _, err := v.JobVersions(t.Context(), "nihgt", store.VersionFilter{}); return err },
		"load":     func() error { _, err := v.Load(t.Context(), store.Job, "nihgt", 0); return err },
		"program":  func() error { _, err := v.Program(t.Context(), "nihgt", 0); return err },
	} {
		if err := get(); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "night"?`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := v.Load(t.Context(), store.Job, "night", 121); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("a version that is not there: %v", err)
	}
}

// TestUnsaved: definitions that are not saved are read in place of those in the store with the same
// names, in their order and within the page, and nothing of it is saved.
func TestUnsaved(t *testing.T) {
	s := memstore.New()
	v, _ := service(s)
	define(t, v, get("b"), get("d"), get("f"))
	given := get("b")
	given.Limit = 9
	u := definitions.NewUnsaved(s, nil, false)
	u.Add([]courier.Job{given, {Name: "b", Limit: 5}, get("a"), get("g"), {Name: "bad\x00"}}, nil)
	for _, c := range []struct {
		f    store.DefinitionFilter
		want string
	}{
		{store.DefinitionFilter{}, "a b* d f g"}, {store.DefinitionFilter{Limit: 2}, "a b* d"}, {store.DefinitionFilter{After: "b"}, "d f g"}, {store.DefinitionFilter{After: "f"}, "g"},
	} {
		c.f.Kind = store.Job
		list, err := u.List(t.Context(), c.f)
		var names []string
		for _, d := range list {
			name := d.Name
			if strings.Contains(string(d.Body), `"limit":9`) {
				name += "*"
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c.f, got, err)
		}
	}
	d, err := u.Load(t.Context(), store.Job, "b", 1)
	if err != nil || strings.Contains(string(d.Body), `"limit":9`) {
		t.Errorf("a version of the store is %s, %v", d.Body, err)
	}
	every := definitions.NewUnsaved(s, nil, true)
	every.Put(store.Job, "b", given)
	if d, err := every.Load(t.Context(), store.Job, "b", 1); err != nil || !strings.Contains(string(d.Body), `"limit":9`) {
		t.Errorf("a version is %s, %v", d.Body, err)
	}
	if _, err := s.Load(t.Context(), store.Job, "a", 0); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("it was saved: %v", err)
	}
	if _, err := v.Unsaved([]courier.Job{get("x")}, nil).CheckJob(t.Context(), get("y", "x", "b")); err != nil {
		t.Errorf("it depends on one of both: %v", err)
	}
	nowhere := definitions.NewUnsaved(nil, nil, false)
	list, err := nowhere.List(t.Context(), store.DefinitionFilter{Kind: store.Job})
	if _, gone := nowhere.Load(t.Context(), store.Job, "a", 0); len(list) > 0 || err != nil || !errors.Is(gone, courier.ErrNotFound) {
		t.Errorf("without a store: %v, %v, %v", list, err, gone)
	}
}

// TestUnsavedSubscriptions: subscriptions that are not saved stand in place of those with the same
// names too.
func TestUnsavedSubscriptions(t *testing.T) {
	u := definitions.NewUnsaved(nil, nil, false)
	for _, name := range []string{"c", "a"} {
		u.AddSubscription(notify.Subscription{Name: name, Kind: notify.KindFunc, Func: "f", Events: []courier.EventType{courier.EventJobFailed}})
	}
	for f, want := range map[notify.Filter]string{{}: "a c", {After: "a"}: "c", {Name: "c"}: "c", {Name: "x"}: ""} {
		list, err := u.Subscriptions(t.Context(), f)
		var names []string
		for _, x := range list {
			names = append(names, x.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
}
