package dashboard

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

var keptFilesPages = []page{
	{
		path: "kept-files", op: "listKeptFiles", on: onVisible, title: "Kept files", group: "Work", file: "keptfiles", query: []string{"cursor"}, data: (*call).keptFiles,
	},
	{
		path: "kept-files/{id}", about: "execution", op: "discardKeptFiles", on: onExecution, title: "Discard kept files", file: "discard", data: (*call).keptFilesOf,
		actions: []action{{verb: "discard", op: "discardKeptFiles", do: discardKept}},
	},
}

// A keptFilesPage is the list of files that executions keep.
type keptFilesPage struct {
	Items       []keptFilesItem
	First, Next string // references; empty for none
}

// A keptFilesItem has the files that one execution keeps.
type keptFilesItem struct {
	store.KeptFiles
	Href    string // of the execution
	Discard string // reference of the page that discards them; empty if the visitor may not
	More    int    // files that are not named
	Age     time.Duration
}

func (c *call) keptFiles() (any, error) {
	cursor := c.query.Get("cursor")
	got, err := c.KeptFiles(c.ctx(), cursor, 20)
	if err != nil {
		return nil, err
	}
	p := &keptFilesPage{}
	for i := range got.Items {
		p.Items = append(p.Items, c.keptFilesItem(&got.Items[i]))
	}
	if cursor != "" {
		p.First = c.link("kept-files")
	}
	if got.Next != "" {
		p.Next = c.link("kept-files") + "?cursor=" + got.Next
	}
	return p, nil
}

func (c *call) keptFilesItem(k *store.KeptFiles) keptFilesItem {
	i := keptFilesItem{KeptFiles: *k, Href: c.link("executions", string(k.Execution)), More: k.Count - len(k.Files), Age: now().Sub(k.Since)}
	if k.DiscardedBy == "" && c.NeedTo(c.ctx(), k.Job, desk.NeedOf("discardKeptFiles"), false) == nil {
		i.Discard = c.link("kept-files", string(k.Execution))
	}
	return i
}

// keptFilesOf shows the files that the execution keeps, with the form that discards them.
func (c *call) keptFilesOf() (any, error) {
	list, err := c.h.e.Executions().Kept(c.ctx(), store.Filter{IDs: []courier.ExecutionID{c.execution.ID}})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, courier.Errorf(courier.ErrNotFound, "execution %s keeps no files", c.execution.ID)
	}
	i := c.keptFilesItem(&list[0])
	return &i, nil
}

// discardKept discards the files that the form has listed.
func discardKept(ctx context.Context, c *call) (string, error) {
	if c.reason() == "" {
		return "", problem.Invalid("Give a reason for discarding the files.")
	}
	_, err := c.h.e.DiscardKept(ctx, c.execution.ID, c.form["file"], c.by())
	return c.link("kept-files"), err
}
