package attention

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// mostKept is the maximum number of executions with kept files that are read.
const mostKept = 100

// kept adds the files of executions that have ended for good, by job.
func (l *reading) kept() error {
	f := store.Filter{Kept: true, Limit: mostKept}
	list, err := l.Executions.List(l.ctx, f)
	if err == nil && len(list) == f.Limit && !l.Sees("") {
		// Executions of other jobs may be newer than all that the reader may see.
		if f.Jobs, err = l.Jobs(); len(f.Jobs) > 0 {
			list, err = l.Executions.List(l.ctx, f)
		}
	}
	if err != nil {
		return err
	}
	more := len(list) == mostKept
	of := make(map[string][]*courier.Execution)
	for i := range list {
		if x := &list[i]; l.Sees(x.Job) && x.Request != store.RequestDiscard {
			of[x.Job] = append(of[x.Job], x)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(of)) {
		l.add(keptEntry(job, of[job], more))
	}
	return nil
}

// keptEntry returns the entry of a job's executions with kept files, the newest first.
func keptEntry(job string, list []*courier.Execution, more bool) Entry {
	e := Entry{Kind: Kept, Job: job, Count: len(list), More: more, Since: list[len(list)-1].EndedAt, Youngest: list[0].EndedAt, Call: "Engine.DiscardKept"}
	files, bytes := 0, int64(0)
	var names, problems, places []string
	for _, x := range list {
		files, bytes = files+x.OnlyCopies.Count, bytes+x.OnlyCopies.Bytes
		for _, f := range x.OnlyCopies.Files {
			if len(names) < samples {
				names = append(names, fmt.Sprintf("%s (%d bytes)", f.Path, f.Size))
			}
		}
		if x.OnlyCopies.Problem != "" && len(problems) < samples {
			problems = append(problems, x.OnlyCopies.Problem)
		}
		if !slices.Contains(places, x.Workspace) && len(places) < samples {
			places = append(places, x.Workspace)
		}
		if len(e.Executions) < samples {
			e.Executions = append(e.Executions, x.ID)
		}
	}
	if e.Message = strings.Join(names, ", "); files > len(names) && len(names) > 0 {
		e.Message += fmt.Sprintf(" and %d more", files-len(names))
	}
	if len(problems) > 0 && e.Message != "" {
		e.Message += "; "
	}
	e.Message += strings.Join(problems, "; ")
	verb := "have"
	if len(list) == 1 && !more {
		verb = "has"
	}
	e.Title = fmt.Sprintf("Job %q: %s %s ended and %s with %d bytes that may exist nowhere else, in the workspace %s.",
		job, count(len(list), more, "execution"), verb, map[bool]string{true: "keeps ", false: "keep "}[verb == "has"]+count(files, false, "file"), bytes, strings.Join(places, ", "))
	e.Do = "Deliver them, or copy them from there. Then discard them by name, with a reason."
	return e
}
