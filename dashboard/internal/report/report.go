// Package report shows the result of a dry run of a job or a chain.
package report

import (
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/schedule"
)

// A View is the report of a dry run. The template "report" shows it.
type View struct {
	OK       bool
	Took     time.Duration
	Problems []courier.Problem // of the definition and its parameters
	Warnings []courier.Problem
	// MemberProblems and MemberWarnings are the problems and warnings of the jobs of a chain's
	// members.
	MemberProblems, MemberWarnings []string
	Unknown                        string // the parameters without a value
	Steps                          []Step
	Cut                            int // number of steps that are left out
	Schedules                      []schedule.Report
}

// A Step has the result for one step.
type Step struct {
	Label, State, Message string
	Unresolved            string
	Notes                 []string
	Took                  time.Duration
}

// maxSteps is how many steps of a report a page shows. If there are more, those with problems come
// first.
const maxSteps = 500

// Of returns the report of a dry run for a page. R is a [dryrun.Report] or a [dryrun.ChainReport].
func Of(r any) *View {
	v := &View{}
	switch r := r.(type) {
	case dryrun.Report:
		v.OK, v.Took, v.Schedules = r.OK(), r.Duration, r.Schedules
		v.Problems, v.Warnings, v.Unknown = r.Problems, r.Warnings, strings.Join(r.Unknown, ", ")
		v.add("", r.Steps)
	case dryrun.ChainReport:
		v.OK, v.Took, v.Schedules = r.OK(), r.Duration, r.Schedules
		v.Problems, v.Warnings, v.Unknown = r.Problems, r.Warnings, strings.Join(r.Unknown, ", ")
		for i := range r.Members {
			m := &r.Members[i]
			for _, p := range m.Report.Problems {
				v.MemberProblems = append(v.MemberProblems, m.Member+": "+p.String())
			}
			for _, p := range m.Report.Warnings {
				v.MemberWarnings = append(v.MemberWarnings, m.Member+": "+p.String())
			}
			v.add(m.Member+": ", m.Report.Steps)
		}
	}
	v.limit()
	return v
}

// add adds steps. Their labels begin with the prefix.
func (v *View) add(prefix string, steps []dryrun.StepReport) {
	for i := range steps {
		s := &steps[i]
		v.Steps = append(v.Steps, Step{
			Label: prefix + courier.StepLabel(s.Step, s.ID, s.Type), State: string(s.State), Message: s.Message,
			Unresolved: strings.Join(s.Unresolved, ", "), Notes: s.Notes, Took: s.Duration,
		})
	}
}

// limit leaves out the steps above the limit.
func (v *View) limit() {
	if v.Cut = len(v.Steps) - maxSteps; v.Cut <= 0 {
		v.Cut = 0
		return
	}
	slices.SortStableFunc(v.Steps, func(a, b Step) int {
		switch bad := string(dryrun.Problem); {
		case a.State == b.State || a.State != bad && b.State != bad:
			return 0
		case a.State == bad:
			return -1
		}
		return 1
	})
	v.Steps = v.Steps[:maxSteps]
}
