package engine

import (
	"context"
	"fmt"
	"path"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// How many executions that keep files a page has, how many records of each are looked at for
// files that were removed, and how many of those are named.
const (
	maxKept    = 100
	maxRecords = 200
	maxSources = 100
)

// Kept returns a page of the cancelled and completed executions that keep files that may
// exist nowhere else, the newest first, with the names of the files. F filters the
// executions. A page has at most 100. See [Engine.DiscardKept].
func (h Executions) Kept(ctx context.Context, f store.Filter) ([]store.KeptFiles, error) {
	f.Kept = true
	if f.Limit <= 0 || f.Limit > maxKept {
		f.Limit = maxKept
	}
	list, err := h.e.roles.Archive().Executions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list kept files: %w", err)
	}
	kept := make([]store.KeptFiles, len(list))
	for i := range list {
		x := &list[i]
		c := x.OnlyCopies
		k := store.KeptFiles{
			Execution: x.ID, Job: x.Job, State: x.State, Since: x.EndedAt, Workspace: x.Workspace, Worker: x.Worker,
			Files: append([]courier.File{}, c.Files...), Count: c.Count, Bytes: c.Bytes, Problem: c.Problem,
		}
		if x.Request == store.RequestDiscard {
			k.DiscardedBy, k.DiscardedAt, k.Why = x.RequestedBy, x.RequestedAt, x.RequestReason
		}
		records, err := h.e.roles.Archive().Steps(ctx, store.StepFilter{Execution: x.ID, Files: true, Limit: maxRecords})
		if err != nil {
			return nil, fmt.Errorf("list kept files: %w", err)
		}
		k.Sources = removedFiles(records)
		kept[i] = k
	}
	return kept, nil
}

// removedFiles returns the files that records report as removed from somewhere else than the
// workspace.
func removedFiles(records []courier.StepExecution) (list []courier.File) {
	for i := range records {
		for _, f := range records[i].Files {
			if f.Removed && (f.Connection != "" || path.IsAbs(f.Path) || len(f.Path) > 1 && f.Path[1] == ':') && len(list) < maxSources {
				list = append(list, f)
			}
		}
	}
	return list
}
