package monitor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// startFor adds executions for the ready files to the result of a poll, and notes in the plan
// that the files are handed over. It returns the last id.
func (g *polling) startFor(ctx context.Context, r *PollResult, plan *filePlan, now time.Time) (last courier.ExecutionID, err error) {
	if len(plan.ready) == 0 {
		return "", nil
	}
	t, err := g.v.opt.Targets.Latest(ctx, g.def.Job, g.def.Chain)
	if err != nil {
		return "", err
	}
	size := 1
	if g.def.Batch {
		size = len(plan.ready)
	}
	for start := 0; start < len(plan.ready); start += size {
		files := plan.ready[start : start+size]
		last, err = t.Prepare(ctx, r, courier.EnqueueOptions{
			Params: monitorParams(t.Params(), &g.def, files, now), Priority: g.def.Priority,
			IdempotencyKey: fileKey(g.m.Name, g.def.Directory(), files), By: courier.By{Actor: "monitor:" + g.def.Name},
		})
		if err != nil {
			return "", err
		}
		for i := range files {
			plan.hand(start+i, last, now)
		}
	}
	return last, nil
}

// monitorParams returns the parameters of an execution for files: the parameters of the monitor,
// the list "files", and "monitor", which describes the event. "monitor" is left out if the target
// declares parameters without it.
func monitorParams(declared map[string]any, m *Monitor, files []readyFile, now time.Time) map[string]any {
	type handed struct {
		courier.ListedFile
		Event Event `json:"event"`
	}
	type triggered struct {
		Path     string    `json:"path"`
		Size     int64     `json:"size"`
		Modified time.Time `json:"last_modified,omitzero"`
	}
	list, short := make([]handed, len(files)), make([]triggered, len(files))
	var events []string
	for i := range files {
		f := &files[i]
		list[i], short[i] = handed{f.file, f.event}, triggered{f.file.Path, f.file.Size, f.file.Modified}
		if !slices.Contains(events, string(f.event)) {
			events = append(events, string(f.event))
		}
	}
	slices.Sort(events)
	params := maps.Clone(m.Params)
	if params == nil {
		params = make(map[string]any)
	}
	params["files"] = list
	if _, ok := declared["monitor"]; ok || declared == nil {
		params["monitor"] = map[string]any{
			"id": m.Name, "name": m.Name, "trigger_event": strings.Join(events, ","), "triggered_files": short, "triggered_at": now,
		}
	}
	return params
}
