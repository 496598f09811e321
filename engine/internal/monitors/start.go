package monitors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// startFor adds to a record what is started for the files that are ready, and
// notes in the plan that they are handed over. It returns the last id.
func (g *polling) startFor(ctx context.Context, r *store.MonitorRecord, plan *store.FilePlan, now time.Time) (last courier.ExecutionID, err error) {
	if len(plan.Ready) == 0 {
		return "", nil
	}
	t, err := g.v.opt.Targets.Target(ctx, g.def.Job, g.def.Chain)
	if err != nil {
		return "", err
	}
	var chains []chain.NewExecution
	defer func() { r.Chains = chains }()
	size := 1
	if g.def.Batch {
		size = len(plan.Ready)
	}
	for start := 0; start < len(plan.Ready); start += size {
		files := plan.Ready[start : start+size]
		params := monitorParams(t.Params(), &g.def, files, now)
		n, err := t.Prepare(ctx, startOf(&g.def, params, store.FileKey(g.m.Name, g.def.Target(), files)))
		if name, version := t.Job(); err != nil && name != "" {
			err = fmt.Errorf("job %q version %d: %w", name, version, err)
		}
		if err != nil {
			return "", err
		}
		n.Add(&r.Executions, &chains)
		last = n.ID()
		for i := range files {
			plan.Hand(start+i, last, now)
		}
	}
	return last, nil
}

// monitorParams are the parameters of an execution for files: those of the
// monitor, the list "files", and "monitor", which tells what has happened, if
// that is declared, or nothing is.
func monitorParams(declared map[string]any, m *courier.Monitor, files []store.ReadyFile, now time.Time) map[string]any {
	type handed struct {
		courier.ListedFile
		Event courier.MonitorEvent `json:"event"`
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
		list[i], short[i] = handed{f.File, f.Event}, triggered{f.File.Path, f.File.Size, f.File.Modified}
		if !slices.Contains(events, string(f.Event)) {
			events = append(events, string(f.Event))
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

// startOf is what a monitor starts its target with.
func startOf(m *courier.Monitor, params map[string]any, key string) core.Start {
	return core.Start{Params: params, Priority: m.Priority, IdempotencyKey: key, By: courier.By{Actor: "monitor:" + m.Name}}
}
