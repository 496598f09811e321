package dashboard

import (
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// A reportView is the report of a dry run of a job. The template "report" shows it.
type reportView struct {
	OK        bool
	Took      time.Duration
	Problems  []string
	Warnings  []string
	Unknown   string // the parameters without a value
	Steps     []reportStep
	Cut       int // how many steps are left out
	Schedules []engine.ScheduleReport
}

type reportStep struct {
	Label, State, Message string
	Unresolved            string
	Notes                 []string
	Took                  time.Duration
}

// maxReportSteps is how many steps of a report a page shows; those with problems come first
// if there are more.
const maxReportSteps = 500

// reportOf returns the report of a dry run for a page.
func reportOf(r *engine.Report) *reportView {
	v := &reportView{OK: r.OK(), Took: r.Duration, Unknown: strings.Join(r.Unknown, ", "), Schedules: r.Schedules}
	for _, p := range r.Problems {
		v.Problems = append(v.Problems, p.String())
	}
	for _, p := range r.Warnings {
		v.Warnings = append(v.Warnings, p.String())
	}
	many := len(r.Steps) > maxReportSteps
	for _, bad := range []bool{true, false} {
		for i := range r.Steps {
			s := &r.Steps[i]
			if many && bad != (s.State == engine.CheckProblem) || !many && bad {
				continue
			}
			if len(v.Steps) == maxReportSteps {
				v.Cut++
				continue
			}
			v.Steps = append(v.Steps, reportStep{Label: courier.StepLabel(s.Step, s.ID, s.Type), State: string(s.State), Message: s.Message, Unresolved: strings.Join(s.Unresolved, ", "), Notes: s.Notes, Took: s.Duration})
		}
	}
	return v
}
