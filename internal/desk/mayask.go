package desk

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
)

// mayAsk limits a filter so that its result does not reveal what the visitor may not see: a
// condition selects an execution only if the visitor may see the data of the condition. Labels
// are values. Who, the queue, the connection and lost workers require the right to see, and
// chains require it for all jobs. The visitor's own data is visible to it. The error is a
// *[access.Error] if the visitor has the needed rights for none of the jobs that the filter
// names, or if it knows all jobs and lacks the rights; a job that the visitor must not know is
// reported as unknown.
func (v *Visit) mayAsk(ctx context.Context, w *filter.Filter) (permit, error) {
	var names []string
	need := access.None
	asks := func(name string, rights access.Role, is bool) {
		if is {
			names, need = append(names, name), need|rights
		}
	}
	own := len(w.Labels) == 1 && w.Labels[courier.LabelBy] == v.ID
	asks("label", access.RightSee|access.RightValues, len(w.Labels) > 0 && !own)
	asks("by", access.RightSee, w.By != "" && w.By != v.ID)
	asks("connection", access.RightSee, w.Connection != "")
	asks("queue", access.RightSee, w.Queue != "")
	asks("state:lost", access.RightSee, slices.Contains(w.States, "lost"))
	all := v.Role(ctx, "")
	if !all.Has(access.RightSee) {
		if w.Chain != "" {
			return nil, &access.Error{Text: "the condition chain needs the right see, as the role viewer has it, for all jobs: leave it out"}
		}
		if err := v.knows(ctx, w.Jobs); err != nil {
			return nil, err
		}
	}
	if all.Has(need) {
		return nil, nil
	}
	may := func(job string) bool { return v.Can(ctx, job, need) }
	inOne := len(w.JobPrefixes) > 0 || slices.ContainsFunc(w.Jobs, may)
	if !w.NamesJobs() && all != access.None || w.NamesJobs() && !inOne {
		return nil, &access.Error{Text: "the filter has conditions about what you may not see (" + strings.Join(names, ", ") + "): they need the right " +
			need.Rights() + ", as the role " + need.Least().String() + " has it; leave them out, or name jobs for which you have it, as job:NAME"}
	}
	return func(x *courier.Execution) bool { return may(x.Job) }, nil
}

// knows returns an error if one of the jobs does not exist, or if the visitor must not know it. A
// visitor who may not see all jobs gets the same error for both, because the engine's error would
// suggest other jobs.
func (v *Visit) knows(ctx context.Context, jobs []string) error {
	for _, job := range jobs {
		if v.Role(ctx, job) == access.None {
			return errUnknown
		}
		if _, err := v.d.e.Jobs().Get(ctx, job, 0); errors.Is(err, courier.ErrNotFound) {
			return errUnknown
		} else if err != nil {
			return err
		}
	}
	return nil
}

// and returns a permit that permits what both permit; nil permits all.
func (p permit) and(q permit) permit {
	switch {
	case p == nil:
		return q
	case q == nil:
		return p
	}
	return func(x *courier.Execution) bool { return p(x) && q(x) }
}
