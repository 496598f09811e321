package desk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// A reach says which executions a call may read, and which visitor's limit pays for it. Nil means
// all, without a limit.
type reach struct {
	may permit
	// parts are filters of the store that select what the visitor may see: an execution that no
	// part selects is not read. Nil selects all.
	parts []filter.Filter
	spend func(examined int) error
}

// reach returns what the visitor may read for a filter: the executions of the jobs for which it
// has the rights, and its own if that is enough. May is also checked for each.
func (v *Visit) reach(ctx context.Context, w *filter.Filter, n Need, may permit) (*reach, error) {
	r := &reach{may: may, spend: func(n int) error { return v.d.work.take(v.ID, n, time.Now()) }}
	if v.Can(ctx, "", n.Rights) {
		return r, nil
	}
	jobs, all, err := v.jobsOf(ctx, w, n.Rights)
	if err != nil || !all {
		return r, err
	}
	r.parts = []filter.Filter{}
	if len(jobs) > 0 {
		part := *w
		part.Jobs, part.JobPrefixes = jobs, nil
		r.parts = append(r.parts, part)
	}
	if was, given := w.Labels[courier.LabelBy]; n.Own && (!given || was == v.ID) {
		part := *w
		part.Labels = maps.Clone(w.Labels)
		if part.Labels == nil {
			part.Labels = make(map[string]string)
		}
		part.Labels[courier.LabelBy] = v.ID
		r.parts = append(r.parts, part)
	}
	return r, nil
}

// jobsOf returns the names of the jobs for which the visitor has the given rights, among the jobs
// of a filter if it names some. All says that the list is complete, and not only the first
// thousands.
func (v *Visit) jobsOf(ctx context.Context, w *filter.Filter, rights access.Role) (jobs []string, all bool, err error) {
	if len(w.Jobs) > 0 && len(w.JobPrefixes) == 0 {
		return slices.DeleteFunc(slices.Clone(w.Jobs), func(j string) bool { return !v.Can(ctx, j, rights) }), true, nil
	}
	for after, n := "", 0; n < maxWalk; {
		page, err := v.d.e.Jobs().Names(ctx, store.DefinitionFilter{After: after, Limit: 1000})
		if err != nil {
			return nil, false, err
		}
		for _, name := range page {
			if v.Can(ctx, name, rights) {
				jobs = append(jobs, name)
			}
		}
		if len(page) < 1000 {
			return jobs, true, nil
		}
		n, after = n+len(page), page[len(page)-1]
	}
	return nil, false, nil
}

// page returns a page of the executions that a filter selects within the reach, and whether there
// may be more after it. It can have more than the limit.
func (r *reach) page(ctx context.Context, d *Desk, w *filter.Filter, before courier.ExecutionID, limit int) (list []courier.Execution, more bool, err error) {
	parts := []filter.Filter{*w}
	if r != nil && r.parts != nil {
		parts = r.parts
	}
	var complete courier.ExecutionID // every part was read down to this id
	for i := range parts {
		f := parts[i].Store(before)
		f.Limit = limit
		page, err := d.e.Executions().List(ctx, f)
		if err != nil {
			return nil, false, err
		}
		if list = append(list, page...); len(page) == limit {
			more, complete = true, max(complete, page[limit-1].ID)
		}
	}
	if len(parts) > 1 {
		slices.SortFunc(list, func(a, b courier.Execution) int { return strings.Compare(string(b.ID), string(a.ID)) })
		list = slices.CompactFunc(list, func(a, b courier.Execution) bool { return a.ID == b.ID })
		list = slices.DeleteFunc(list, func(x courier.Execution) bool { return x.ID < complete })
	}
	if r != nil {
		err = r.spend(len(list) + 1)
	}
	return list, more, err
}

// selects reports whether the visitor may see an execution.
func (r *reach) selects(x *courier.Execution) bool { return r == nil || r.may == nil || r.may(x) }

// work limits how many executions the calls of each visitor examine per minute.
type work struct {
	most int

	mu    sync.Mutex
	since time.Time
	used  map[string]int
}

// take counts executions that were examined for a visitor. The error is a *[BusyError] if the
// limit of this minute was reached before.
func (b *work) take(id string, n int, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil || now.Sub(b.since) >= time.Minute || now.Before(b.since) {
		b.since, b.used = now, make(map[string]int)
	}
	if b.used[id] >= b.most {
		return &BusyError{fmt.Sprintf("your lists, searches and bulk actions have examined %d executions in this minute, which is the limit (Options.MaxExamined): "+
			"give filters that select by job, state or label, close streams, and try again in %d s", b.most, 1+int((time.Minute-now.Sub(b.since))/time.Second))}
	}
	b.used[id] += n
	return nil
}
