package desk

import (
	"context"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// A KeptPage is a page of files of executions that have ended for good, the newest first.
type KeptPage struct {
	Items []store.KeptFiles
	Next  string // the cursor of the next page; empty if this is the last
}

// mostKeptFiles is the maximum number of executions on a page of kept files.
const mostKeptFiles = 100

// KeptFiles returns a page of the kept files of executions of the jobs that the visitor may see.
// A limit of 0 means 20; the maximum is 100. Names are hidden if the visitor may not see values.
func (v *Visit) KeptFiles(ctx context.Context, cursor string, limit int) (KeptPage, error) {
	if limit <= 0 {
		limit = 20
	}
	cursors := filter.CursorsOf("kept files", filter.Filter{})
	before, err := cursors.Read(cursor)
	if err != nil {
		return KeptPage{}, err
	}
	f := store.Filter{Before: before, Limit: min(limit, mostKeptFiles)}
	if !v.Can(ctx, "", access.RightSee) {
		jobs, _, err := v.jobsOf(ctx, &filter.Filter{}, access.RightSee)
		if err != nil || len(jobs) == 0 {
			return KeptPage{Items: []store.KeptFiles{}}, err
		}
		f.Jobs = jobs
	}
	if err := v.d.work.take(v.ID, f.Limit, time.Now()); err != nil {
		return KeptPage{}, err
	}
	list, err := v.d.e.Executions().Kept(ctx, f)
	if err != nil {
		return KeptPage{}, err
	}
	p := KeptPage{Items: list}
	if len(list) == f.Limit {
		p.Next = cursors.Write(list[len(list)-1].Execution)
	}
	for i := range list {
		if !v.SeesValues(ctx, list[i].Job) {
			HideKept(&list[i])
		}
	}
	return p, nil
}
