package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A monitorTarget is what a monitor starts: a job or a chain, in the version
// that was the latest at one moment.
type monitorTarget struct {
	e     *Engine
	job   *program
	chain *loadedChain // nil if it is a job
}

// monitorTarget loads what a monitor starts.
func (e *Engine) monitorTarget(ctx context.Context, m *courier.Monitor) (*monitorTarget, error) {
	t := &monitorTarget{e: e}
	var err error
	if m.Job != "" {
		t.job, err = e.program(ctx, m.Job, 0)
		return t, err
	}
	if _, err := e.chains(); err != nil {
		return nil, err
	}
	t.chain, err = e.loadChain(ctx, m.Chain, 0)
	return t, err
}

// params are the parameters that the target declares; nil if it takes any.
func (t *monitorTarget) params() map[string]any {
	if t.chain != nil {
		return t.chain.Params
	}
	return t.job.job.Params
}

// start adds an execution of the target to a record, and returns its id.
func (t *monitorTarget) start(r *store.MonitorRecord, params map[string]any, m *courier.Monitor, key string) (courier.ExecutionID, error) {
	by := "monitor:" + m.Name
	if t.chain != nil {
		n, err := t.e.newChain(t.chain, &ChainOptions{Params: params, IdempotencyKey: key, By: courier.By{Actor: by}})
		r.Chains = append(r.Chains, n)
		return courier.ExecutionID(n.ID), err
	}
	n, err := t.e.execution(t.job, courier.ExecutionID(t.e.ids.New()), &EnqueueOptions{
		Params: params, Priority: m.Priority, IdempotencyKey: key, By: courier.By{Actor: by},
	})
	r.Executions = append(r.Executions, n)
	return n.ID, err
}

// startFor adds to a record what is started for the files that are ready, and
// notes in the plan that they are handed over. It returns the last id.
func (g *polling) startFor(ctx context.Context, r *store.MonitorRecord, plan *store.FilePlan, now time.Time) (last courier.ExecutionID, err error) {
	if len(plan.Ready) == 0 {
		return "", nil
	}
	t, err := g.e.monitorTarget(ctx, &g.def)
	if err != nil {
		return "", err
	}
	size := 1
	if g.def.Batch {
		size = len(plan.Ready)
	}
	for start := 0; start < len(plan.Ready); start += size {
		files := plan.Ready[start : start+size]
		params := monitorParams(t.params(), &g.def, files, now)
		last, err = t.start(r, params, &g.def, store.FileKey(g.m.Name, g.def.Target(), files))
		if err != nil && t.job != nil {
			err = fmt.Errorf("job %q version %d: %w", t.job.job.Name, t.job.version, err)
		}
		if err != nil {
			return "", err
		}
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
