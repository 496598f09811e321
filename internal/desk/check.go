package desk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// A Checked is the result of checking a text that should be one definition.
type Checked struct {
	One      bool // it is one definition, of the intended kind
	Problems []courier.Problem
	Warnings []courier.Problem // doubtful places
}

// CheckText checks a text that should be one definition of a kind, such as "job".
func (v *Visit) CheckText(ctx context.Context, kind string, src *courier.Source) (Checked, error) {
	b, err := v.d.e.Check(ctx, []courier.Source{{Text: src.Text}})
	counts := map[string]int{
		"job": len(b.Jobs), "chain": len(b.Chains), "schedule": len(b.Schedules), "monitor": len(b.Monitors), "subscription": len(b.Subscriptions),
		"calendar": len(b.Calendars), "expectation": len(b.Expectations),
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	one := counts[kind] == 1 && sum == 1 && bytes.HasPrefix(bytes.TrimSpace(src.Text), []byte("{"))
	return Checked{one, b.Problems, b.Warnings}, err
}

// Read reads a definition that must have the given name, which its text may leave out. If there
// are problems, all that can be found are returned, with their places. The definition as a whole
// is checked only if its form is right.
func (v *Visit) Read(ctx context.Context, c Catalog, name string, src *courier.Source) (x Defined, problems []courier.Problem, err error) {
	x = c.None()
	problems = src.Read(x.Definition)
	given := *x.Name()
	if len(problems) > 0 {
		all, err := v.CheckText(ctx, c.Kind, src)
		if err != nil {
			return x, nil, err
		}
		if all.One {
			problems = all.Problems
		}
	}
	var more []courier.Problem
	switch *x.Name() = name; given {
	case name:
	case "":
		problems = WithoutName(problems)
	default:
		more = append(more, courier.Problem{Step: -1, Field: "name", Message: "it must be the name in the path, or be left out"})
	}
	hidden, err := v.HiddenJobs(ctx, x.Definition)
	if err != nil {
		return x, nil, err
	}
	for _, h := range hidden { // the engine's text on the same field would suggest names of others
		problems = slices.DeleteFunc(problems, func(p courier.Problem) bool { return p.Field == h.Field })
	}
	more = append(more, hidden...)
	src.Locate(more)
	return x, append(more, problems...), nil
}

// WithoutName returns problems without the problem of a missing name.
func WithoutName(list []courier.Problem) []courier.Problem {
	return slices.DeleteFunc(list, func(p courier.Problem) bool { return p.Step < 0 && p.Field == "name" && p.Message == "is required" })
}

// HiddenJobs returns the problems with dependencies of a job that the visitor must not know.
// Dependencies of the present version of the job are permitted.
func (v *Visit) HiddenJobs(ctx context.Context, d courier.Definition) (problems []courier.Problem, err error) {
	job, ok := d.(*courier.Job)
	if !ok {
		return nil, nil
	}
	var present courier.Job
	for i, on := range job.DependsOn {
		if on.Job == "" || v.Role(ctx, on.Job) != access.None {
			continue
		}
		if present.Name == "" {
			present, err = v.d.e.Jobs().Get(ctx, job.Name, 0)
			if err != nil && !errors.Is(err, courier.ErrNotFound) {
				return nil, err
			}
			present.Name = job.Name
		}
		if !slices.ContainsFunc(present.DependsOn, func(p courier.JobDependency) bool { return p.Job == on.Job }) {
			problems = append(problems, courier.Problem{Step: -1, Field: fmt.Sprintf("depends_on[%d].job", i), Message: "the job does not exist here, or you may not see it"})
		}
	}
	return problems, nil
}

// ProblemsOf returns the problems of an error that lists them; nil if it does not.
func ProblemsOf(err error) []courier.Problem {
	if e, ok := errors.AsType[*courier.DefinitionError](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*courier.ParamsError](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*chain.Error](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*schedule.Error](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*notify.Error](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*monitor.Error](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*calendar.Error](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*expectation.Error](err); ok {
		return e.Problems
	}
	return nil
}
