package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

const acceptJob = `{"name": "a", "params": {"files": ["w", "x", "y", "z"]}, "steps": [
	{"id": "each", "type": "flow.foreach", "config": {"source": "context:params.files", "on_item_failure": "continue"%s}},
	{"id": "load", "type": "demo.do", "config": {"what": "load-${context:loop.label}"}},
	{"id": "send", "type": "demo.do", "config": {"what": "send-${context:loop.label}"}},
	{"type": "flow.end"},
	{"id": "end", "type": "demo.do", "config": {"what": "end"}}]}`

// An operator accepts failed items: they count no more, the others run again, and what has
// run does not.
func TestAcceptFailedItems(t *testing.T) {
	item := func(i int) courier.ItemPath { return courier.ItemPath{Loop: 0, Iteration: []int{i}} }
	for name, c := range map[string]struct {
		more   string
		accept []courier.ItemPath
		want   string // of what runs then
		state  courier.State
		failed int
		note   string
	}{
		"one":                         {"", []courier.ItemPath{item(1)}, "load-z", courier.Failed, 1, `accepted as dealt with: item "x" (index 1)`},
		"all":                         {"", []courier.ItemPath{item(1), item(3)}, "", courier.Completed, 0, `accepted as dealt with: item "x" (index 1), item "z" (index 3)`},
		"of a loop that was given up": {`, "max_failures": 0`, []courier.ItemPath{item(1)}, "load-y send-y load-z", courier.Failed, 1, `accepted as dealt with: item "x" (index 1)`},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(acceptJob, c.more)), nil).RequireState(courier.Failed)
			d.taken()
			h.Start()
			by := courier.By{Actor: "ann", Reason: "the partner has sent it by mail"}
			report, err := h.Engine.DryRunResume(t.Context(), r.ID, &courier.ResumeOptions{Accept: c.accept, By: by})
			if err != nil || report.Note != c.note {
				t.Errorf("the note is %q, %v, want %q", report.Note, err, c.note)
			}
			if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Accept: c.accept, By: by}); err != nil {
				t.Fatal(err)
			}
			got := h.Wait(r.ID).RequireState(c.state)
			if did := d.taken(); did != c.want || got.FailedItems != c.failed {
				t.Errorf("done was %q, want %q; %d items have failed, want %d", did, c.want, got.FailedItems, c.failed)
			}
			audit, err := h.Engine.Executions().Audit(t.Context(), r.ID)
			if err != nil || !strings.Contains(fmt.Sprint(audit), by.Reason+" ("+c.note+")") {
				t.Errorf("the audit does not say why: %v", err)
			}
			list, err := h.Engine.Executions().FailedItems(t.Context(), r.ID)
			if err != nil || len(list) != c.failed {
				t.Errorf("%d failed items are listed, %v", len(list), err)
			}
		})
	}
}

func TestAcceptIsRefused(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(acceptJob, "")), nil).RequireState(courier.Failed)
	x := []courier.ItemPath{{Loop: 0, Iteration: []int{1}}}
	for want, opt := range map[string]courier.ResumeOptions{
		"By.Reason is required": {Accept: x},
		"Accept[0]: item [2] of the loop of step 0 has not failed": {Accept: []courier.ItemPath{{Loop: 0, Iteration: []int{2}}}, By: courier.By{Reason: "r"}},
		"the lists of items exclude each":                          {Accept: x, From: "each", By: courier.By{Reason: "r"}},
		"is in Items already":                                      {Accept: x, Items: x, By: courier.By{Reason: "r"}},
		"Skip, From and the lists of item":                         {SkipItems: x, Skip: true, By: courier.By{Reason: "r"}},
		"SkipItems: By.Reason is required":                         {SkipItems: x},
		"Rescue: By.Reason is required":                            {Rescue: x},
		"has no flow.rescue for item \"x\" (index 1); give a version of the job that has one with Version": {Rescue: x, By: courier.By{Reason: "r"}},
		"Rescue[0]: item [2] of the loop of step 0 has not failed":                                         {Rescue: []courier.ItemPath{{Loop: 0, Iteration: []int{2}}}, By: courier.By{Reason: "r"}},
		"neither failed nor been rescued":                                                                  {Items: []courier.ItemPath{{Loop: 0, Iteration: []int{2}}}},
	} {
		if _, err := h.Engine.Resume(t.Context(), r.ID, &opt); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", opt, err, want)
		}
	}
}
