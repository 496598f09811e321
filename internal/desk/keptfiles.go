package desk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// A KeptPage is a page of what executions keep that have ended for good, the newest first.
type KeptPage struct {
	Items []store.KeptFiles
	Next  string // the cursor of the next page; empty if this is the last
}

// mostKeptFiles is how many executions a page of kept files has at most.
const mostKeptFiles = 100

// KeptFiles returns a page of the files that executions keep of the jobs that the visitor may
// see. A limit of 0 means 20, the most is 100. Names are hidden from who may not see values.
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

// kept adds what executions keep that have ended for good, by job.
func (a *attention) kept() error {
	f := store.Filter{Kept: true, Limit: mostKeptFiles}
	list, err := a.e.Executions().List(a.ctx, f)
	if err == nil && len(list) == f.Limit && !a.sees("") {
		// Those of other jobs may be newer than all that are seen.
		if f.Jobs, err = a.jobs(); len(f.Jobs) > 0 {
			list, err = a.e.Executions().List(a.ctx, f)
		}
	}
	if err != nil {
		return err
	}
	more := len(list) == mostKeptFiles
	of := make(map[string][]*courier.Execution)
	for i := range list {
		if x := &list[i]; a.sees(x.Job) && x.Request != store.RequestDiscard {
			of[x.Job] = append(of[x.Job], x)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(of)) {
		a.add(keptEntry(job, of[job], more))
	}
	return nil
}

// keptEntry is the entry of the executions of a job that keep files, the newest first.
func keptEntry(job string, list []*courier.Execution, more bool) Entry {
	e := Entry{Kind: Kept, Job: job, Count: len(list), More: more, Since: list[len(list)-1].EndedAt, Call: "Engine.DiscardKept"}
	files, bytes := 0, int64(0)
	var names, places []string
	for _, x := range list {
		files, bytes = files+x.OnlyCopies.Count, bytes+x.OnlyCopies.Bytes
		for _, f := range x.OnlyCopies.Files {
			if len(names) < samples {
				names = append(names, fmt.Sprintf("%s (%d bytes)", f.Path, f.Size))
			}
		}
		if x.OnlyCopies.Problem != "" && len(names) < samples {
			names = append(names, "files that could not be listed: "+x.OnlyCopies.Problem)
		}
		if !slices.Contains(places, x.Workspace) && len(places) < samples {
			places = append(places, x.Workspace)
		}
		if len(e.Executions) < samples {
			e.Executions = append(e.Executions, x.ID)
		}
	}
	if e.Message = strings.Join(names, ", "); files > len(names) {
		e.Message += fmt.Sprintf(" and %d more", files-len(names))
	}
	verb := "have"
	if len(list) == 1 && !more {
		verb = "has"
	}
	e.Title = fmt.Sprintf("Job %q: %s %s ended and %s with %d bytes that may exist nowhere else, in the workspace %s.",
		job, count(len(list), more, "execution"), verb, map[bool]string{true: "keeps ", false: "keep "}[verb == "has"]+count(files, false, "file"), bytes, strings.Join(places, ", "))
	e.Do = "Hand them over, or copy them from there. Then discard them by name, with a reason."
	return e
}
