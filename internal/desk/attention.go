package desk

import (
	"context"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/filter"
)

// Attention returns what an operator has to look at, of the jobs that the visitor may see. What
// belongs to none is left out, unless it may see all. Values are hidden if it may not see them.
func (v *Visit) Attention(ctx context.Context) (attention.List, error) {
	list, err := attention.Read(ctx, attention.Of(v.d.e), attention.Reader{
		Sees: func(job string) bool { return v.Can(ctx, job, access.RightSee) },
		Jobs: func() ([]string, error) {
			jobs, _, err := v.jobsOf(ctx, &filter.Filter{}, access.RightSee)
			return jobs, err
		},
	})
	for i := range list.Entries {
		if e := &list.Entries[i]; !v.SeesValues(ctx, e.Job) {
			HideAttention(e)
		}
	}
	return list, err
}
