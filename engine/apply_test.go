package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// onStores runs a test on every store.
func onStores(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Run("memstore", func(t *testing.T) { f(t, memstore.New()) })
	t.Run("pgstore", func(t *testing.T) {
		s, _ := pgstoretest.Open(t, pgtest.URL(t))
		f(t, s)
	})
}

// definitionsOf are the definitions that most tests apply, with a text in one of the jobs.
// More are further definitions.
func definitionsOf(t *testing.T, loud string, more ...string) engine.Bundle {
	t.Helper()
	all := append([]string{
		`{"name": "send", "depends_on": ["fetch"], "params": {"files": null}, "steps": [{"type": "demo.show", "config": {"text": "a"}}]}`,
		`{"name": "fetch", "steps": [{"id": "get", "type": "demo.shout", "config": {"text": "` + loud + `"}}]}`,
		`{"name": "daily", "members": [{"job": "fetch"}]}`,
		`{"name": "nightly", "job": "fetch", "cron": "0 0 3 ? * TUE"}`,
		`{"name": "in", "path": "/in", "job": "send"}`,
		`{"name": "ops", "kind": "func", "func": "page", "events": ["JobFailed"]}`,
	}, more...)
	return bundleOf(t, all...)
}

func bundleOf(t *testing.T, definitions ...string) engine.Bundle {
	t.Helper()
	b := engine.Check([]courier.Source{{File: "all.json", Text: []byte("[" + strings.Join(definitions, ",\n") + "]")}}, exampleRegistry(), nil)
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	return b
}

func applyEngine(s store.Store) *engine.Engine {
	return engine.New(s, exampleRegistry(), &engine.Options{
		Listers:     map[string]courier.Lister{"file": new(shelf)},
		Subscribers: map[string]func(context.Context, notify.Notification) error{"page": func(context.Context, notify.Notification) error { return nil }},
	})
}

// actions returns what an Apply did, in few words; what is not done is in brackets.
func actions(a engine.Applied) string {
	var list []string
	for _, d := range a.Definitions {
		s := fmt.Sprintf("%s %s %s", d.Action, d.Kind, d.Name)
		if !d.Done {
			s = "(" + s + ")"
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

// changesIn returns the actions of what is not unchanged.
func changesIn(a engine.Applied) string {
	a.Definitions = append([]engine.AppliedDefinition(nil), a.Definitions...)
	n := 0
	for _, d := range a.Definitions {
		if d.Action != engine.ActionUnchanged {
			a.Definitions[n] = d
			n++
		}
	}
	a.Definitions = a.Definitions[:n]
	return actions(a)
}

// entries counts the entries of the journal.
func entries(t *testing.T, e *engine.Engine) int {
	t.Helper()
	list, err := e.Journal(t.Context(), store.ActionFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestApply: what has changed is written and in the journal, once, and nothing else. A dry run
// reports the same and writes nothing.
func TestApply(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		opt := &engine.ApplyOptions{Name: "service", By: courier.By{Actor: "deploy"}}
		dry := *opt
		dry.DryRun = true

		const all = "create job fetch, create job send, create chain daily, create schedule nightly, create monitor in, create subscription ops"
		a, err := e.Apply(ctx, definitionsOf(t, "a"), &dry)
		if got := strings.NewReplacer("(", "", ")", "").Replace(actions(a)); err != nil || got != all || a.Version != 0 || !a.Changes() {
			t.Fatalf("dry run: %s, %v", got, err)
		}
		if _, err := e.Jobs().Get(ctx, "fetch", 0); !errors.Is(err, courier.ErrNotFound) || entries(t, e) != 0 {
			t.Fatalf("a dry run has saved: %v", err)
		}
		a, err = e.Apply(ctx, definitionsOf(t, "a"), opt)
		if err != nil || actions(a) != all || a.Version != 1 {
			t.Fatalf("%s, %v", actions(a), err)
		}
		journal, err := e.Journal(ctx, store.ActionFilter{})
		if err != nil || len(journal) != 4 || journal[0].Kind != "deployment" || journal[0].Name != "service" || journal[0].By != "deploy" || journal[0].Verb != "applied" || !strings.Contains(string(journal[0].Now), `"nightly"`) {
			t.Errorf("journal %+v, %v", journal, err)
		}

		for range 2 {
			a, err = e.Apply(ctx, definitionsOf(t, "a"), opt)
			if err != nil || changesIn(a) != "" || len(a.Definitions) != 6 || a.Version != 1 || a.Changes() || entries(t, e) != 4 {
				t.Errorf("again: %s, version %d, %d entries, %v", actions(a), a.Version, entries(t, e), err)
			}
		}

		a, err = e.Apply(ctx, definitionsOf(t, "b"), &dry)
		d := a.Definitions[0]
		if err != nil || len(d.Differences) != 1 || d.Differences[0].Pointer != "/steps/0/config/text" || string(d.Differences[0].From) != `"a"` || string(d.Differences[0].To) != `"b"` {
			t.Errorf("differences %+v, %v", d.Differences, err)
		}
		if got, want := a.String(), "change job \"fetch\"\n  /steps/0/config/text: \"a\" -> \"b\"\n5 definitions unchanged\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		a, err = e.Apply(ctx, definitionsOf(t, "b"), opt)
		if err != nil || changesIn(a) != "change job fetch" || a.Version != 2 || entries(t, e) != 5 {
			t.Errorf("changed: %s, version %d, %d entries, %v", actions(a), a.Version, entries(t, e), err)
		}
		for name, want := range map[string]int{"fetch": 2, "send": 1} {
			if j, err := e.Jobs().Get(ctx, name, 0); err != nil || j.Version != want {
				t.Errorf("%s: version %d, %v", name, j.Version, err)
			}
		}
		if a, err = e.Apply(ctx, definitionsOf(t, "b"), nil); err != nil || changesIn(a) != "" || a.Version != 0 {
			t.Errorf("without a name: %s, %v", changesIn(a), err)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	})
}

// TestApplyProblems: all mistakes are told at once, and nothing is saved, whether they are in the
// bundle already or are found in the store.
func TestApplyProblems(t *testing.T) {
	e, ctx := applyEngine(memstore.New()), t.Context()
	broken := engine.Check([]courier.Source{{File: "a.json", Text: []byte(`[{"name": "fetch", "steps": []}, {"name": "n", "job": "fech", "every_seconds": 60}]`)}}, exampleRegistry(), nil)
	byHand := engine.Bundle{
		Jobs: []courier.Job{
			{Name: "fetch", Steps: []courier.StepSpec{{Type: "demo.shout", Config: map[string]any{"txt": "a"}}}},
			{Name: "fetch", Steps: []courier.StepSpec{{Type: "demo.shout", Config: map[string]any{"text": "a"}}}},
		},
		Schedules: []schedule.Schedule{{Name: "n", Job: "fech", Every: time.Minute}},
	}
	for name, c := range map[string]struct {
		bundle engine.Bundle
		opt    engine.ApplyOptions
		want   []string
	}{
		"checked": {broken, engine.ApplyOptions{Name: "x"}, []string{`apply "x": `, "a.json:1:", `there is no job "fech"`, "there are none"}},
		"by hand": {byHand, engine.ApplyOptions{}, []string{`job "fetch": step 0 (demo.shout): config: unknown field "txt"`, `job "fetch": name: there is another job "fetch"; leave`, `schedule "n": job: there is no job "fech"`}},
		"prune":   {definitionsOf(t, "a"), engine.ApplyOptions{Prune: true}, []string{"Prune needs a Name"}},
		"name":    {definitionsOf(t, "a"), engine.ApplyOptions{Name: strings.Repeat("ü", 201)}, []string{"Name has 201 characters; 200 is the most"}},
		"actor":   {definitionsOf(t, "a"), engine.ApplyOptions{By: courier.By{Actor: "\x00"}}, []string{"apply"}},
	} {
		a, err := e.Apply(ctx, c.bundle, &c.opt)
		if !errors.Is(err, courier.ErrInvalid) || len(a.Definitions) > 0 {
			t.Errorf("%s: %v, %v", name, a, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", name, err, want)
			}
		}
	}
	if list, err := e.Jobs().List(ctx, store.DefinitionFilter{}); err != nil || len(list) > 0 || entries(t, e) > 0 {
		t.Errorf("saved %v, %v", list, err)
	}
}

// TestApplyOrder: a dependency that is turned around closes no cycle on the way, also through a
// job that is not in the bundle.
func TestApplyOrder(t *testing.T) {
	e, ctx := applyEngine(memstore.New()), t.Context()
	job := func(name, on string) string {
		return `{"name": "` + name + `", "depends_on": [` + on + `], "steps": [{"type": "demo.show", "config": {"text": "a"}}]}`
	}
	if _, err := e.Apply(ctx, bundleOf(t, job("b", ""), job("a", `"b"`), job("x", `"a"`)), nil); err != nil {
		t.Fatal(err)
	}
	files := []courier.Source{{Text: []byte("[" + job("b", `"x"`) + "," + job("a", "") + "]")}}
	b, err := e.Check(ctx, files)
	if err != nil || b.Err() != nil {
		t.Fatal(err, b.Err())
	}
	if a, err := e.Apply(ctx, b, nil); err != nil || actions(a) != "change job a, change job b" {
		t.Errorf("%s, %v", actions(a), err)
	}
}

// TestApplyPrune: what earlier bundles of the name had is removed, unless something is open; what
// others have saved is left alone.
func TestApplyPrune(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		more := []string{
			`{"name": "open", "job": "fetch", "every_seconds": 60}`, `{"name": "open-chain", "chain": "daily", "every_seconds": 60}`,
			`{"name": "shared", "job": "fetch", "every_seconds": 60}`, `{"name": "gone", "job": "fetch", "every_seconds": 60}`,
			`{"name": "watch", "path": "/in/w", "job": "send"}`, `{"name": "pager", "kind": "func", "func": "page", "events": ["JobFailed"]}`,
			`{"name": "busy", "path": "/in/b", "job": "send"}`, `{"name": "told", "kind": "func", "func": "page", "events": ["JobCancelled"]}`,
			`{"name": "old", "steps": [{"type": "demo.show", "config": {"text": "a"}}]}`,
		}
		apply := func(b engine.Bundle, name string, prune bool) engine.Applied {
			t.Helper()
			a, err := e.Apply(ctx, b, &engine.ApplyOptions{Name: name, Prune: prune, By: courier.By{Actor: "deploy"}})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		apply(definitionsOf(t, "a", more...), "service", false)
		apply(bundleOf(t, `{"name": "fetch", "steps": [{"id": "get", "type": "demo.shout", "config": {"text": "a"}}]}`, more[2]), "other", false)
		if _, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "by-hand", Job: "fetch", Every: time.Hour}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Schedules().Remove(ctx, "gone", courier.By{}); err != nil {
			t.Fatal(err)
		}
		by := func(name string) courier.By { return courier.By{Actor: "schedule:" + name} }
		x, err := e.Enqueue(ctx, "fetch", &courier.EnqueueOptions{By: by("open")})
		if err != nil {
			t.Fatal(err)
		}
		y, err := e.Enqueue(ctx, "send", &courier.EnqueueOptions{By: courier.By{Actor: "monitor:busy"}})
		if err != nil {
			t.Fatal(err)
		}
		z, err := e.Enqueue(ctx, "fetch", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Cancel(ctx, z.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		c, err := e.Chains().Start(ctx, "daily", &chain.StartOptions{By: by("open-chain")})
		if err != nil {
			t.Fatal(err)
		}

		if a := apply(definitionsOf(t, "a"), "service", false); changesIn(a) != "" {
			t.Errorf("without Prune: %s", changesIn(a))
		}
		const kept = "kept monitor busy, kept schedule open, kept schedule open-chain, kept schedule shared, kept subscription told"
		a := apply(definitionsOf(t, "a"), "service", true)
		if changesIn(a) != "kept monitor busy, remove monitor watch, kept schedule open, kept schedule open-chain, kept schedule shared, remove subscription pager, kept subscription told, remove job old" {
			t.Errorf("pruned: %s", changesIn(a))
		}
		for _, want := range []string{string(x.ID) + " is queued", string(y.ID) + " is queued", "notifications wait for delivery, the first of the event " + string(z.ID), string(c.ID) + " is running", `the deployment "other" has it too`} {
			if !strings.Contains(a.String(), want) {
				t.Errorf("%s\ndoes not say %q", a.String(), want)
			}
		}
		n := entries(t, e)
		if a := apply(definitionsOf(t, "a"), "service", true); changesIn(a) != kept || entries(t, e) != n || a.Changes() {
			t.Errorf("pruned again: %s, %d entries; want %d", changesIn(a), entries(t, e), n)
		}
		if _, err := e.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		if a := apply(definitionsOf(t, "a"), "service", true); !strings.Contains(changesIn(a), "remove schedule open, kept schedule open-chain") {
			t.Errorf("after the end of the execution: %s", changesIn(a))
		}
		list, err := e.Schedules().List(ctx, schedule.Filter{})
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != "by-hand nightly open-chain shared" {
			t.Errorf("schedules %s, %v", got, err)
		}
	})
}

// TestApplyPruneJobsAndChains: jobs and chains are removed behind what uses them, unless an
// execution has not ended or something that is not of the deployment uses them. A dry run reports
// the same. A later bundle makes them again.
func TestApplyPruneJobsAndChains(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		job := func(name, more string) string {
			return `{"name": "` + name + `", ` + more + `"steps": [{"type": "demo.show", "config": {"text": "a"}}]}`
		}
		full := definitionsOf(t, "a",
			job("up", ""), job("middle", `"depends_on": ["up"], `), job("down", `"depends_on": ["middle"], `), job("member", ""), job("by-hand", ""), job("event", `"params": {"event": null}, `),
			`{"name": "late", "members": [{"job": "member"}]}`, `{"name": "hourly", "chain": "late", "every_seconds": 3600}`, `{"name": "starts", "kind": "job", "job": {"name": "event"}, "events": ["JobFailed"], "jobs": ["fetch"]}`)
		apply := func(b engine.Bundle, dry bool) engine.Applied {
			t.Helper()
			a, err := e.Apply(ctx, b, &engine.ApplyOptions{Name: "service", Prune: true, DryRun: dry, By: courier.By{Actor: "deploy"}})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		apply(full, false)
		if _, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "mine", Job: "by-hand", Every: time.Hour}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(ctx, "up", nil)
		if err != nil {
			t.Fatal(err)
		}
		const want = "remove schedule hourly, remove subscription starts, remove chain late, remove job down, remove job middle, kept job by-hand, remove job event, remove job member, kept job up"
		dry := apply(definitionsOf(t, "a"), true)
		a := apply(definitionsOf(t, "a"), false)
		if got := strings.NewReplacer("(", "", ")", "").Replace(changesIn(dry)); got != want || changesIn(a) != want {
			t.Errorf("dry run: %s\napplied: %s\nwant     %s", got, changesIn(a), want)
		}
		for _, text := range []string{`job "by-hand" is used by schedule "mine"`, "its execution " + string(x.ID) + " is queued"} {
			if !strings.Contains(dry.String(), text) || !strings.Contains(a.String(), text) {
				t.Errorf("%s does not say %s", a.String(), text)
			}
		}
		if _, err := e.Jobs().Get(ctx, "member", 0); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), "was removed by deploy") {
			t.Errorf("the removed job: %v", err)
		}
		if _, err := e.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		if a := apply(definitionsOf(t, "a"), false); changesIn(a) != "kept job by-hand, remove job up" {
			t.Errorf("after the end of the execution: %s", changesIn(a))
		}
		a = apply(full, false)
		if got := changesIn(a); !strings.Contains(got, "create job member") || !strings.Contains(got, "create chain late") {
			t.Errorf("made again: %s", got)
		}
		if j, err := e.Jobs().Get(ctx, "member", 0); err != nil || j.Version != 3 {
			t.Errorf("version %d, %v", j.Version, err)
		}
	})
}

// TestApplyBase: what was changed since the report is named, and nothing is saved.
func TestApplyBase(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		if _, err := e.Apply(ctx, definitionsOf(t, "a"), &engine.ApplyOptions{Name: "service"}); err != nil {
			t.Fatal(err)
		}
		report, err := e.Apply(ctx, definitionsOf(t, "b"), &engine.ApplyOptions{Name: "service", DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(report) // as it goes through a review
		var base engine.Applied
		if err := errors.Join(err, json.Unmarshal(text, &base)); err != nil {
			t.Fatal(err)
		}
		other := definitionsOf(t, "c")
		other.Schedules[0].Cron = "0 0 4 ? * TUE"
		if _, err := e.Apply(ctx, other, &engine.ApplyOptions{Name: "service", By: courier.By{Actor: "ann"}}); err != nil {
			t.Fatal(err)
		}
		n := entries(t, e)
		for _, dry := range []bool{false, true} {
			a, err := e.Apply(ctx, definitionsOf(t, "b"), &engine.ApplyOptions{Name: "service", Base: &base, DryRun: dry})
			if !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), `job "fetch" (version 2 by ann), schedule "nightly"; nothing was saved`) || entries(t, e) != n {
				t.Errorf("%s, %v", changesIn(a), err)
			}
		}
		base, err = e.Apply(ctx, definitionsOf(t, "b"), &engine.ApplyOptions{Name: "service", DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.Apply(ctx, definitionsOf(t, "b"), &engine.ApplyOptions{Name: "service", Base: &base})
		if err != nil || changesIn(a) != "change job fetch, change schedule nightly" {
			t.Errorf("%s, %v", changesIn(a), err)
		}
		if _, err := e.Apply(ctx, definitionsOf(t, "d"), &engine.ApplyOptions{Name: "service", Base: &a}); err != nil {
			t.Errorf("on the report of an Apply: %v", err)
		}
	})
}

// TestApplyFails has each call to the store fail in turn, before or after its effect. The report
// says what is saved, and a second Apply goes on.
func TestApplyFails(t *testing.T) {
	for _, kind := range []storewrap.FaultKind{storewrap.FailBefore, storewrap.FailAfter} {
		for n := 1; ; n++ {
			mem := memstore.New()
			e, ctx := applyEngine(mem), t.Context()
			opt := engine.ApplyOptions{Name: "service", Prune: true}
			first := definitionsOf(t, "a", `{"name": "old", "job": "fetch", "every_seconds": 60}`)
			if _, err := e.Apply(ctx, first, &opt); err != nil {
				t.Fatal(err)
			}
			next := definitionsOf(t, "b", `{"name": "new", "job": "fetch", "every_seconds": 60}`)
			faulty := storewrap.NewFaulty(mem, storewrap.Fault{Kind: kind, N: n})
			a, err := applyEngine(faulty).Apply(ctx, next, &opt)
			if faulty.Hit() == "" {
				if n < 20 {
					t.Fatalf("there were %d calls only", n)
				}
				break
			}
			name := fmt.Sprintf("%v call %d, %s", kind, n, faulty.Hit())
			if err == nil && faulty.Hit() != "Note" && faulty.Hit() != "Load" {
				t.Errorf("%s: no error", name)
			}
			for _, d := range a.Definitions {
				if kind != storewrap.FailBefore || !d.Done || d.Kind != "schedule" {
					continue
				}
				_, err := e.Schedules().Get(ctx, d.Name)
				if gone := errors.Is(err, courier.ErrNotFound); gone != (d.Action == engine.ActionRemove) {
					t.Errorf("%s: %s %s is done, and %v", name, d.Action, d.Name, err)
				}
			}
			if a, err = e.Apply(ctx, next, &opt); err != nil {
				t.Errorf("%s: the second: %v", name, err)
			}
			if a, err = e.Apply(ctx, next, &opt); err != nil || changesIn(a) != "" {
				t.Errorf("%s: the third: %s, %v", name, changesIn(a), err)
			}
			list, err := e.Schedules().List(ctx, schedule.Filter{})
			if err != nil || len(list) != 2 || list[0].Name != "new" {
				t.Errorf("%s: schedules %v, %v", name, list, err)
			}
		}
	}
}

// TestApplyAtOnce: of two Applies with different bundles at once, what is stored in the end is
// either one of them, or one or both have the error of a conflict. If both have it, another Apply
// is not in the way of what they have left.
func TestApplyAtOnce(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		ctx := t.Context()
		for round := range 10 {
			name := fmt.Sprintf("service-%d", round)
			errs := make([]error, 2)
			var group sync.WaitGroup
			for i := range errs {
				group.Go(func() {
					b := definitionsOf(t, fmt.Sprintf("%d of %d", i, round))
					b.Schedules[0].Cron = fmt.Sprintf("0 %d %d ? * TUE", i, round)
					_, errs[i] = applyEngine(s).Apply(ctx, b, &engine.ApplyOptions{Name: name})
				})
			}
			group.Wait()
			e := applyEngine(s)
			if errors.Is(errs[0], courier.ErrConflict) && errors.Is(errs[1], courier.ErrConflict) {
				if _, err := e.Apply(ctx, definitionsOf(t, "again"), &engine.ApplyOptions{Name: name}); err != nil {
					t.Error(err)
				}
				continue
			}
			j, err := e.Jobs().Get(ctx, "fetch", 0)
			x, err2 := e.Schedules().Get(ctx, "nightly")
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			mixed := true
			for i := range errs {
				if j.Steps[0].Config["text"] == fmt.Sprintf("%d of %d", i, round) && x.Cron == fmt.Sprintf("0 %d %d ? * TUE", i, round) {
					mixed = false
				}
			}
			conflict := errors.Is(errs[0], courier.ErrConflict) || errors.Is(errs[1], courier.ErrConflict)
			for _, err := range errs {
				if err != nil && !errors.Is(err, courier.ErrConflict) {
					t.Error(err)
				}
			}
			if mixed && !conflict {
				t.Errorf("round %d: both have succeeded, and what is stored is of both", round)
			}
		}
		// The same bundle twice at once is no conflict, unless something is pruned.
		for round := range 8 {
			prune := round%2 == 1
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					b := definitionsOf(t, fmt.Sprint("same ", round), fmt.Sprintf(`{"name": "new-%d", "job": "fetch", "every_seconds": 60}`, round))
					if _, err := applyEngine(s).Apply(ctx, b, &engine.ApplyOptions{Name: "same", Prune: prune}); err != nil && !(prune && errors.Is(err, courier.ErrConflict)) {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
	})
}

// TestApplyOvertaken: an Apply that another one of the same name overtakes stops before its next
// write. If it has saved nothing, it says so, and otherwise what is not saved.
func TestApplyOvertaken(t *testing.T) {
	at := map[string]store.Kind{"Load": store.Deployment, "Save": store.Job} // of the first Apply, behind which the other one comes
	for method, want := range map[string]struct{ err, changes string }{
		"Load": {"another Apply of this name has begun meanwhile; nothing was saved", "(change job fetch), (change schedule nightly)"},
		"Save": {`another Apply of this name has begun by ann; schedule "nightly" and what follows were not saved`, "change job fetch, (change schedule nightly)"},
	} {
		mem := memstore.New()
		ctx := t.Context()
		if _, err := applyEngine(mem).Apply(ctx, definitionsOf(t, "a"), &engine.ApplyOptions{Name: "service"}); err != nil {
			t.Fatal(err)
		}
		change := func(loud, cron string) engine.Bundle {
			b := definitionsOf(t, loud)
			b.Schedules[0].Cron = cron
			return b
		}
		var once sync.Once
		slow := storewrap.Intercept(mem, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			err := do(ctx)
			if d, ok := c.Request.(store.Definition); ok && c.Method == method && d.Kind == at[method] {
				once.Do(func() {
					if _, err := applyEngine(mem).Apply(ctx, change("c", "0 0 5 ? * TUE"), &engine.ApplyOptions{Name: "service", By: courier.By{Actor: "ann"}}); err != nil {
						t.Error(err)
					}
				})
			}
			return err
		})
		a, err := applyEngine(slow).Apply(ctx, change("b", "0 0 4 ? * TUE"), &engine.ApplyOptions{Name: "service"})
		if !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), want.err) || changesIn(a) != want.changes {
			t.Errorf("%s: %s, %v", method, changesIn(a), err)
		}
		if a, err := applyEngine(mem).Apply(ctx, change("c", "0 0 5 ? * TUE"), &engine.ApplyOptions{Name: "service", DryRun: true}); err != nil || a.Changes() {
			t.Errorf("%s: what the other has saved is not there: %v, %v", method, a, err)
		}
	}
}
