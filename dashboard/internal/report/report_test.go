package report_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/report"
	"github.com/courierhq/courier/engine/dryrun"
)

// TestOf: the steps of a chain are named after their members, and so are their problems. A problem
// of a member is none of the chain's own.
func TestOf(t *testing.T) {
	job := dryrun.Report{
		Duration: time.Second, Unknown: []string{"day", "to"}, Problems: []courier.Problem{{Step: -1, Field: "limit", Message: "is negative"}}, Warnings: []courier.Problem{{Step: 0, Message: "odd"}},
		Steps: []dryrun.StepReport{{Step: 2, ID: "get", Type: "demo.get", State: dryrun.OK, Unresolved: []string{"path", "size"}, Duration: time.Millisecond}},
	}
	v := report.Of(job)
	if v.OK || v.Took != time.Second || v.Unknown != "day, to" || len(v.Problems) != 1 || len(v.Warnings) != 1 || v.Cut != 0 {
		t.Errorf("%+v", v)
	}
	if s := v.Steps[0]; s.Label != `step 2 "get" (demo.get)` || s.State != "ok" || s.Unresolved != "path, size" || s.Took != time.Millisecond {
		t.Errorf("%+v", s)
	}
	c := report.Of(dryrun.ChainReport{Members: []dryrun.MemberReport{{Member: "first", Report: job}, {Member: "second", Report: dryrun.Report{}}}})
	if c.OK || len(c.Problems) > 0 || !slices.Equal(c.MemberProblems, []string{"first: limit: is negative"}) || len(c.MemberWarnings) != 1 || c.Steps[0].Label != `first: step 2 "get" (demo.get)` {
		t.Errorf("%+v", c)
	}
	if v := report.Of(dryrun.Report{}); !v.OK || v.Steps != nil {
		t.Errorf("%+v", v)
	}
}

// TestLimit: of more than 500 steps those with problems are shown first, and otherwise in order.
func TestLimit(t *testing.T) {
	var r dryrun.Report
	for i := range 600 {
		s := dryrun.StepReport{Step: i, State: []dryrun.State{dryrun.OK, dryrun.NotChecked}[i%2]}
		if i >= 598 {
			s.State = dryrun.Problem
		}
		r.Steps = append(r.Steps, s)
	}
	v := report.Of(r)
	if v.Cut != 100 || len(v.Steps) != 500 {
		t.Fatalf("%d steps, %d are cut", len(v.Steps), v.Cut)
	}
	for i, step := range map[int]int{0: 598, 1: 599, 2: 0, 3: 1, 499: 497} {
		if v.Steps[i].Label != fmt.Sprint("step ", step) {
			t.Errorf("%d is %s", i, v.Steps[i].Label)
		}
	}
	r.Steps = r.Steps[100:]
	if v := report.Of(r); v.Cut != 0 || v.Steps[0].Label != "step 100" {
		t.Errorf("500 steps: %d are cut, the first is %s", v.Cut, v.Steps[0].Label)
	}
}
