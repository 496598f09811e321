package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

var mend = courier.By{Actor: "ann", Reason: "the partner was told"}

func itemsOf(indexes ...int) (list []courier.ItemPath) {
	for _, i := range indexes {
		list = append(list, courier.ItemPath{Loop: 0, Iteration: []int{i}})
	}
	return list
}

// An operator has the rescue of failed items begin, accepts and skips others, and has the rest
// executed again, all with one resume.
func TestOperatorsDealWithItemsByName(t *testing.T) {
	const tell = ": load invalid load-y is bad 2 of get-y"
	for name, c := range map[string]struct {
		opt    courier.ResumeOptions
		fails  map[string]courier.Reason // when it is resumed
		note   string
		want   string
		state  courier.State
		counts string // failed, rescued
	}{
		"rescue one": {
			courier.ResumeOptions{Rescue: itemsOf(1)}, nil, `rescue of item "y" (index 1)`,
			"aside-y tell-y" + tell + " load-z", courier.Completed, "0 1",
		},
		"rescue all": {
			courier.ResumeOptions{Rescue: itemsOf(2, 1)}, nil, `rescue of item "z" (index 2), item "y" (index 1)`,
			"aside-y tell-y" + tell + " aside-z tell-z: load invalid load-z is bad 2 of get-z", courier.Completed, "0 2",
		},
		"rescue only one": {
			courier.ResumeOptions{Rescue: itemsOf(1), Items: itemsOf(0)}, nil, "neither failed nor been rescued", "", "", "",
		},
		"rescue one, skip the other": {
			courier.ResumeOptions{Rescue: itemsOf(2), SkipItems: itemsOf(1)}, nil, `skipped: item "y" (index 1); rescue of item "z" (index 2)`,
			"aside-z tell-z: load invalid load-z is bad 2 of get-z", courier.Completed, "0 1",
		},
		"accept one, skip the other": {
			courier.ResumeOptions{Accept: itemsOf(2), SkipItems: itemsOf(1)}, nil, `accepted as dealt with: item "z" (index 2); skipped: item "y" (index 1)`,
			"", courier.Completed, "0 0",
		},
		"execute one, accept the other": {
			courier.ResumeOptions{Items: itemsOf(2), Accept: itemsOf(1)}, nil, `accepted as dealt with: item "y" (index 1); 1 of 1 failed items`,
			"load-z", courier.Completed, "0 0",
		},
		"a rescue that fails": {
			courier.ResumeOptions{Rescue: itemsOf(1)}, map[string]courier.Reason{"aside-y": courier.ReasonExists}, `rescue of item "y" (index 1)`,
			"aside-y aside-y load-z", courier.Failed, "1 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"no_rescue_on": ["invalid"]}`)), nil).RequireState(courier.Failed)
			d.taken()
			d.set(c.fails)
			h.Start()
			c.opt.By = mend
			report, err := h.Engine.DryRunResume(t.Context(), r.ID, &c.opt)
			if c.state == "" {
				if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), c.note) {
					t.Errorf("the error is %v, want %s", err, c.note)
				}
				return
			}
			if err != nil || report.Note != c.note {
				t.Errorf("the note is %q, %v, want %q", report.Note, err, c.note)
			}
			if _, err := h.Engine.Resume(t.Context(), r.ID, &c.opt); err != nil {
				t.Fatal(err)
			}
			x := h.Wait(r.ID).RequireState(c.state)
			if got, counts := d.taken(), fmt.Sprint(x.FailedItems, " ", x.RescuedItems); got != c.want || counts != c.counts {
				t.Errorf("done was\n%s, want\n%s; failed and rescued are %s, want %s", got, c.want, counts, c.counts)
			}
			rescued, err := h.Engine.Executions().RescuedItems(t.Context(), r.ID)
			if err != nil || len(rescued) != x.RescuedItems {
				t.Errorf("%d items are listed as rescued, of %d, %v", len(rescued), x.RescuedItems, err)
			}
			failed, err := h.Engine.Executions().FailedItems(t.Context(), r.ID)
			if err != nil || len(failed) != x.FailedItems {
				t.Errorf("%d items are listed as failed, of %d, %v", len(failed), x.FailedItems, err)
			}
			if c.state != courier.Failed {
				return
			}
			if want := `item "y" (index 1): aside-y is bad; in the rescue for: load-y is bad`; failed[0].Error != want {
				t.Errorf("the error is %q, want %q", failed[0].Error, want)
			}
			d.set(nil) // a plain resume goes on in the rescue, and knows what it is for
			if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
				t.Fatal(err)
			}
			x = h.Wait(r.ID).RequireState(courier.Completed)
			if got, want := d.taken(), "aside-y tell-y"+tell; got != want || x.FailedItems != 0 || x.RescuedItems != 1 {
				t.Errorf("done was\n%s, want\n%s; %d failed, %d were rescued", got, want, x.FailedItems, x.RescuedItems)
			}
		})
	}
}

// A rescue that has failed goes on at the step that failed, if an operator has it begin.
func TestRescueGoesOn(t *testing.T) {
	h := couriertest.New(t, nil)
	const tell = "tell-y: load invalid load-y is bad 2 of get-y"
	d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid, tell: courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(quarantine, "{}")), nil).RequireState(courier.Failed)
	d.taken()
	d.set(nil)
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Rescue: itemsOf(1), By: mend}); err != nil {
		t.Fatal(err)
	}
	x := h.Wait(r.ID).RequireState(courier.Completed)
	if got := d.taken(); got != tell || x.RescuedItems != 1 {
		t.Errorf("done was %s; %d were rescued", got, x.RescuedItems)
	}
}

// A version that has a rescue rescues items which failed in one without.
func TestRescueWithAnotherVersion(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(acceptJob, "")), nil).RequireState(courier.Failed)
	d.taken()
	job := h.Job(`{"name": "a", "params": {"files": ["w", "x", "y", "z"]}, "steps": [
		{"id": "each", "type": "flow.foreach", "config": {"source": "context:params.files", "on_item_failure": "continue"}},
		{"id": "load", "type": "demo.do", "config": {"what": "load-${context:loop.label}"}},
		{"id": "send", "type": "demo.do", "config": {"what": "send-${context:loop.label}"}},
		{"type": "flow.rescue"},
		{"id": "aside", "type": "demo.do", "config": {"what": "aside-${context:loop.label}: ${context:loop.error.message}"}},
		{"type": "flow.end"},
		{"id": "end", "type": "demo.do", "config": {"what": "end ${context:each.rescued}"}}]}`)
	def, err := h.Engine.Jobs().Define(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Version: def.Job.Version, Rescue: itemsOf(1), Accept: itemsOf(3), By: mend}); err != nil {
		t.Fatal(err)
	}
	x := h.Wait(r.ID).RequireState(courier.Completed)
	if got, want := d.taken(), "aside-x: load-x is bad"; got != want || x.RescuedItems != 1 || x.FailedItems != 0 {
		t.Errorf("done was %q, want %q; %d were rescued, %d failed", got, want, x.RescuedItems, x.FailedItems)
	}
}

// An operator chooses rescued items to run again: they begin with the step that had failed.
func TestRescuedItemsRunAgain(t *testing.T) {
	const tell = "tell-y: load invalid load-y is bad 4 of get-y"
	for name, c := range map[string]struct {
		fails  map[string]courier.Reason
		want   string
		state  courier.State
		counts string
	}{
		"well":          {nil, "load-y", courier.Failed, "0 1"},
		"to the rescue": {map[string]courier.Reason{"load-y": courier.ReasonInvalid}, "load-y load-y aside-y " + tell, courier.Failed, "0 2"},
		"and fails":     {map[string]courier.Reason{"load-y": courier.ReasonInvalid, "aside-y": courier.ReasonExists}, "load-y load-y aside-y aside-y", courier.Failed, "1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"rescued": "fail"}`)), nil).RequireState(courier.Failed)
			d.taken()
			list, err := h.Engine.Executions().RescuedItems(t.Context(), r.ID)
			if err != nil || len(list) != 2 || list[0].Label != "y" || list[0].Error != "load-y is bad" || list[0].ID != "load" || list[1].Label != "z" {
				t.Fatalf("rescued are %+v, %v", list, err)
			}
			d.set(c.fails)
			opt := &courier.ResumeOptions{Items: []courier.ItemPath{list[0].ItemPath}}
			report, err := h.Engine.DryRunResume(t.Context(), r.ID, opt)
			if err != nil || report.Position.Step != 2 || len(report.Steps) != 3 || report.Steps[0].Repeated || !report.Steps[1].Repeated || !report.Steps[2].Repeated || report.Note != `rescued before: item "y" (index 1)` {
				t.Errorf("the report is %+v, %v", report, err)
			}
			h.Start()
			if _, err := h.Engine.Resume(t.Context(), r.ID, opt); err != nil {
				t.Fatal(err)
			}
			x := h.Wait(r.ID).RequireState(c.state)
			if got, counts := d.taken(), fmt.Sprint(x.FailedItems, " ", x.RescuedItems); got != c.want || counts != c.counts {
				t.Errorf("done was\n%s, want\n%s; failed and rescued are %s, want %s", got, c.want, counts, c.counts)
			}
			list, err = h.Engine.Executions().RescuedItems(t.Context(), r.ID)
			if err != nil || len(list) != x.RescuedItems {
				t.Errorf("%d items are listed as rescued, of %d, %v", len(list), x.RescuedItems, err)
			}
		})
	}
}

// If the last rescued item is executed well, nothing fails the execution any more.
func TestLastRescuedItemRunsWell(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"rescued": "fail"}`)), nil).RequireState(courier.Failed)
	d.taken()
	d.set(nil)
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Items: itemsOf(1)}); err != nil {
		t.Fatal(err)
	}
	x := h.Wait(r.ID).RequireState(courier.Completed)
	if got := d.taken(); got != "load-y" || x.RescuedItems != 0 || x.FailedItems != 0 {
		t.Errorf("done was %s; %d were rescued, %d failed", got, x.RescuedItems, x.FailedItems)
	}
}

// An item that an operator has rescued runs again too, if one chooses it.
func TestItemsRescuedByOperatorsRunAgain(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"no_rescue_on": ["invalid"], "rescued": "fail"}`)), nil).RequireState(courier.Failed)
	h.Start()
	for _, c := range []struct {
		opt    courier.ResumeOptions
		fails  map[string]courier.Reason
		want   string
		state  courier.State
		counts string
	}{
		{courier.ResumeOptions{Rescue: itemsOf(1), By: mend}, nil, "aside-y tell-y: load invalid load-y is bad 2 of get-y", courier.Failed, "0 1"},
		{courier.ResumeOptions{Items: itemsOf(1)}, map[string]courier.Reason{"load-y": courier.ReasonInvalid}, "load-y load-y", courier.Failed, "1 0"},
		{courier.ResumeOptions{Rescue: itemsOf(1), By: mend}, nil, "aside-y tell-y: load invalid load-y is bad 4 of get-y", courier.Failed, "0 1"},
		{courier.ResumeOptions{Items: itemsOf(1)}, nil, "load-y", courier.Completed, "0 0"},
	} {
		d.taken()
		d.set(c.fails)
		if _, err := h.Engine.Resume(t.Context(), r.ID, &c.opt); err != nil {
			t.Fatal(err)
		}
		x := h.Wait(r.ID).RequireState(c.state)
		if got, counts := d.taken(), fmt.Sprint(x.FailedItems, " ", x.RescuedItems); got != c.want || counts != c.counts {
			t.Errorf("%+v: done was\n%s, want\n%s; failed and rescued are %s, want %s", c.opt, got, c.want, counts, c.counts)
		}
	}
}

// A failed item of a loop in a loop is rescued by the loop that has a rescue.
func TestRescueInNestedLoops(t *testing.T) {
	const text = `{"name": "a", "steps": [
		{"id": "partners", "type": "flow.foreach", "config": {"source": ["p", "q"], "on_item_failure": "continue"}},
		{"id": "files", "type": "flow.foreach", "config": {"source": ["x", "y"], "on_item_failure": "continue"}},
		{"id": "load", "type": "demo.do", "config": {"what": "load-${context:loop.0.label}-${context:loop.label}"}},
		%s{"type": "flow.end"},
		{"id": "sum", "type": "demo.do", "config": {"what": "sum-${context:loop.label}"}},
		%s{"type": "flow.end"}]}`
	const rescue = `{"type": "flow.rescue", "config": {"no_rescue_on": ["invalid", "items_failed"]}}, {"type": "demo.do", "config": {"what": "aside-${context:loop.label} ${context:loop.error.message}"}},`
	for name, c := range map[string]struct{ inner, outer, want string }{
		"the inner one": {rescue, "", "aside-x load-q-x is bad aside-y load-q-y is bad"},
		"the outer one": {"", rescue, "aside-q load-q-y is bad"},
		"both":          {rescue, rescue, "aside-q load-q-y is bad"},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: map[string]courier.Reason{"load-q-x": courier.ReasonInvalid, "load-q-y": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(text, c.inner, c.outer)), nil).RequireState(courier.Failed)
			d.taken()
			h.Start()
			if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Rescue: itemsOf(1), By: mend}); err != nil {
				t.Fatal(err)
			}
			x := h.Wait(r.ID).RequireState(courier.Completed)
			if got := d.taken(); got != c.want || x.FailedItems != 0 || x.RescuedItems != strings.Count(c.want, "aside") {
				t.Errorf("done was %q, want %q; %d failed, %d were rescued", got, c.want, x.FailedItems, x.RescuedItems)
			}
		})
	}
}

// Wherever a worker is lost in what an operator has asked for, each rescue begins once, and
// what was completed does not run again.
func TestOperatorsRescueSurvivesWorkers(t *testing.T) {
	for at := range 24 {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"no_rescue_on": ["invalid"]}`)), nil).RequireState(courier.Failed)
			d.taken()
			d.set(nil)
			x, records := outlive(t, h, at, func(b *engine.Engine) courier.ExecutionID {
				if _, err := b.Resume(t.Context(), r.ID, &courier.ResumeOptions{Rescue: itemsOf(1), By: mend}); err != nil {
					t.Fatal(err)
				}
				return r.ID
			}, nil)
			requireRescuedOnce(t, at, &x, records, d, "tell-y: load invalid load-y is bad 2 of get-y")
		})
	}
}

// When failed items begin again because their files are gone, those that were rescued stay so.
func TestRescuedItemsStayWithoutFiles(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-y": courier.ReasonExists}}
		d.stub(h)
		h.Stub("demo.file", func(_ context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
			name := fmt.Sprint("d/", config["name"])
			w, err := job.Files().Create(name)
			if err != nil {
				return nil, err
			}
			return map[string]any{"path": name}, w.Commit()
		})
		host := engine.New(h.Store, h.Registry, &engine.Options{Worker: "one", Workspace: t.TempDir(), WorkspaceID: "tree of one"})
		defer host.Stop(t.Context())
		x := begin(t, host, h.Job(`{"name": "a", "steps": [
			{"id": "each", "type": "flow.foreach", "config": {"source": ["x", "y"]}},
			{"id": "get", "type": "demo.file", "config": {"name": "context:loop.label"}},
			{"id": "load", "type": "demo.do", "config": {"what": "load-${context:loop.label}", "use": "context:get.path"}},
			{"type": "flow.rescue", "config": {"no_rescue_on": ["exists"]}},
			{"id": "aside", "type": "demo.do", "config": {"what": "aside-${context:loop.label}"}},
			{"type": "flow.end"}]}`), nil)
		if got := d.taken(); x.State != courier.Failed || got != "load-x aside-x load-y" {
			t.Fatalf("it is %s; done was %s", x.State, got)
		}
		d.set(nil)
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Elsewhere: true}); err != nil {
			t.Fatal(err)
		}
		h.Start()
		now := h.Wait(x.ID).RequireState(courier.Completed)
		list, err := h.Engine.Executions().RescuedItems(t.Context(), x.ID)
		if got := d.taken(); err != nil || got != "load-y" || now.RescuedItems != 1 || len(list) != 1 || list[0].Label != "x" {
			t.Errorf("done was %s; %d were rescued, listed are %+v, %v", got, now.RescuedItems, list, err)
		}
	})
}

// A version of the job is refused in which what is known of a rescued item can't be told, also
// where nothing else depends on the item: it would be counted, and not listed.
func TestVersionKnowsRescuedItems(t *testing.T) {
	const text = `{"name": "a", "steps": [%s{%s"type": "flow.foreach", "config": {"source": ["x", "y"]}},
		{"type": "flow.if", "config": {"left": "context:loop.label", "operator": "equals", "right": "x"}},
		{"id": "%s", "type": "demo.do", "config": {"what": "load-${context:loop.label}"}}, {"type": "flow.end"},
		{"type": "flow.rescue", "config": {"rescued": "fail"}}, {"id": "aside", "type": "demo.do", "config": {"what": "aside-${context:loop.label}"}}, {"type": "flow.end"}]}`
	const pad = `{"id": "pad", "type": "demo.do", "config": {"what": "pad"}}, `
	for name, c := range map[string]struct {
		id, pad, load string
		refused       string
	}{
		"the loop has moved":         {"", pad, "load", `step 2 "load" (demo.do), which has run, lies in other loops there`},
		"the step is gone":           {"", "", "other", `step 2 "load" (demo.do), which has run, can't be told in it: no step has the id "load"`},
		"the loop is told by its id": {`"id": "each", `, pad, "load", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(text, "", c.id, "load")), nil).RequireState(courier.Failed)
			def, err := h.Engine.Jobs().Define(t.Context(), h.Job(fmt.Sprintf(text, c.pad, c.id, c.load)), nil)
			if err != nil {
				t.Fatal(err)
			}
			h.Start()
			want := courier.Completed
			_, err = h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Version: def.Job.Version})
			if c.refused != "" {
				want = courier.Failed
				if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("the error is %v, want %s", err, c.refused)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			x := h.Wait(r.ID).RequireState(want)
			list, err := h.Engine.Executions().RescuedItems(t.Context(), r.ID)
			if err != nil || x.RescuedItems != 1 || len(list) != 1 || list[0].Label != "x" {
				t.Errorf("%d items were rescued, listed are %+v, %v", x.RescuedItems, list, err)
			}
		})
	}
}
