package desk

import (
	"context"
	"slices"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/filter"
)

// Attention returns the entries for an operator, for the jobs that the visitor may see. Entries
// that belong to no job are left out, unless the visitor may see all jobs. Values are hidden if
// it may not see them.
func (v *Visit) Attention(ctx context.Context) (attention.List, error) {
	list, err := attention.Read(ctx, attention.Of(v.d.e), attention.Reader{
		Sees: func(job string) bool { return v.Can(ctx, job, access.RightSee) },
		Jobs: func() ([]string, error) {
			jobs, _, err := v.jobsOf(ctx, &filter.Filter{}, access.RightSee)
			return jobs, err
		},
	})
	for i := range list.Entries {
		if e := &list.Entries[i]; !e.Of(func(job string) bool { return v.SeesValues(ctx, job) }) {
			HideAttention(e)
		}
	}
	return list, err
}

// Trouble returns the entry of [Visit.Attention] with a key. If the visitor sees no such entry,
// the error matches [courier.ErrNotFound].
func (v *Visit) Trouble(ctx context.Context, key string) (attention.Entry, error) {
	list, err := v.Attention(ctx)
	if err != nil {
		return attention.Entry{}, err
	}
	i := slices.IndexFunc(list.Entries, func(e attention.Entry) bool { return e.Key == key && key != "" })
	if i < 0 {
		return attention.Entry{}, errUnknown
	}
	return list.Entries[i], nil
}
