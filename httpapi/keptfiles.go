package httpapi

import (
	"context"
	"net/http"

	"github.com/courierhq/courier/store"
)

// A DiscardRequest is the body that discards the files that an execution keeps.
type DiscardRequest struct {
	// Files are the paths of all kept files, as in the list of kept files. If they differ from the
	// present list, nothing is discarded.
	Files  []string `json:"files"`
	Reason string   `json:"reason"`
}

var keptFilesRoutes = []route{
	{
		method: "GET", path: "v1/kept-files", id: "listKeptFiles", group: "executions", on: onVisible,
		does:  "Lists files that exist only in workspaces, the newest execution first. The executions were cancelled, or completed with skipped steps, with failed items, or after they went back.",
		query: []param{limitParam, cursorParam}, answers: map[int]any{http.StatusOK: page[store.KeptFiles]{}}, do: (*call).listKeptFiles,
	},
	{
		method: "POST", path: "v1/kept-files/{id}/discard", id: "discardKeptFiles", group: "executions", on: onExecution,
		does: "Discards kept files of an execution by their names, with a reason. A worker with the workspace removes them within a minute.", body: DiscardRequest{},
		answers: map[int]any{http.StatusAccepted: ExecutionView{}}, problems: []*code{codeConflict}, do: (*call).discardKeptFiles,
	},
}

func (c *call) listKeptFiles() error {
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	p, err := c.KeptFiles(c.ctx(), c.query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	return answerPage(c, p.Items, p.Next)
}

func (c *call) discardKeptFiles() error {
	var b DiscardRequest
	if err := c.body(&b); err != nil {
		return err
	}
	err := c.Do(c.ctx(), c.action("discard", b.Reason), func(ctx context.Context) (err error) {
		x, err := c.h.e.DiscardKept(ctx, c.execution.ID, b.Files, c.By(b.Reason))
		if err == nil {
			c.execution = x
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusAccepted, c.view(&c.execution))
}
