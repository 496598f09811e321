package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/httpapi/internal/files"
	"github.com/courierhq/courier/store"
)

// A ResultFile is a result of an execution.
type ResultFile struct {
	Name   string `json:"name"`   // its directories are separated by slashes
	Size   int64  `json:"size"`   // in bytes
	SHA256 string `json:"sha256"` // in 64 hexadecimal digits, in small letters
}

var (
	partialParam = param{name: "partial", kind: "string", enum: []string{"1"}, does: "1 answers with the results that a failed or cancelled execution has kept, in the place of 409."}
	rangeHeader  = param{name: "Range", kind: "string", does: "One range of bytes, such as bytes=1048576-, for the rest of a download. The answer is 206."}
)

var resultRoutes = []route{
	{
		method: "GET", path: "v1/executions/{id}/results", id: "getResults", group: resultsGroup, on: onExecution,
		does: "Returns all results of an execution as one zip archive. Their names are in order. While it has not ended, the answer is 202 with its status. With list=1 or Accept: application/json it returns a page of their names. Whose execution it is not needs the role that sees values.",
		query: []param{
			partialParam, {name: "list", kind: "string", enum: []string{"1"}, does: "1 answers with a page of the names in the place of the archive."}, limitParam, cursorParam,
		},
		answers: map[int]any{http.StatusOK: page[ResultFile]{}, http.StatusAccepted: Accepted{}}, media: zipMedia,
		problems: []*code{codeIncomplete, codeGone, codeJournal}, do: (*call).getResults,
	},
	{
		method: "GET", path: "v1/executions/{id}/results/{name...}", id: "getResult", group: resultsGroup, on: onExecution,
		does:  "Returns one result of an execution. While it has not ended, the answer is 202 with its status. Whose execution it is not needs the role that sees values.",
		query: []param{partialParam}, headers: []param{rangeHeader},
		answers:  map[int]any{http.StatusOK: binary(""), http.StatusPartialContent: binary(""), http.StatusNotModified: nil, http.StatusAccepted: Accepted{}},
		problems: []*code{codeIncomplete, codeGone, codeRange, codePrecond, codeJournal}, do: (*call).getResult,
	},
}

const (
	resultsGroup = "results"
	zipMedia     = "application/zip"
)

// resultsRetry is the number of seconds after which a client should ask for the results again.
const resultsRetry = "5"

// errAnswered means that the request was already answered.
var errAnswered = errors.New("the request was answered")

// results calls read for the results of the execution of the call, and returns why there are none.
// If the execution has not ended, it answers with the status of the execution and returns
// errAnswered.
func (c *call) results(read func(d depot.Depot) error) error {
	x, d := &c.execution, c.h.opt.Depot
	if d == nil {
		return errNoDepot()
	}
	if !x.State.Ended() {
		c.w.Header().Set("Retry-After", resultsRetry)
		return errors.Join(errAnswered, c.answer(http.StatusAccepted, Accepted{x.ID, clientStatus(x)}))
	}
	missing := read(d)
	if missing != nil && !errors.Is(missing, courier.ErrNotFound) {
		return missing
	}
	// Retention marks the execution before it removes the first file. So everything that was read
	// is complete if there is no mark afterwards.
	if err := c.removed(); err != nil {
		return err
	}
	if x.State != courier.Completed && !c.query.Has("partial") {
		return incomplete(x)
	}
	if missing != nil {
		return noResult()
	}
	return nil
}

func noResult() error {
	return problemf(codeNotFound, "the execution has ended, and has kept no such result")
}

// removed returns the problem if retention has removed the files of the execution.
func (c *call) removed() error {
	at, removed, err := depot.Removed(c.ctx(), c.h.opt.Depot, c.execution.ID)
	if err == nil && removed {
		err = problemf(codeGone, "the files of this execution were removed at %s, since they are kept for a limited time: start a new execution with new files", at.UTC().Format(time.RFC3339))
	}
	return err
}

// incomplete is the problem of an execution that has ended but has not completed.
func incomplete(x *courier.Execution) error {
	p := &problem{code: codeIncomplete, Detail: "the execution was cancelled"}
	if x.State == courier.Failed {
		p.Detail = "the execution has failed"
	}
	if x.Failure != nil {
		p.Reason = x.Failure.Reason
	}
	p.Detail += ": ?partial=1 returns the results that it has kept nevertheless"
	return p
}

// answered returns nil for errors of requests that were already answered. If an answer has begun
// and can't be completed, it closes the connection, so that no client takes the answer for
// complete.
func (c *call) answered(err error) error {
	switch {
	case errors.Is(err, errAnswered):
		return nil
	case err != nil && c.wrote:
		c.h.log.Warn("a download has ended early", "execution", c.execution.ID, "by", c.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
	return err
}

func (c *call) getResults() error {
	after, limit, err := c.after()
	if err != nil {
		return err
	}
	var list []depot.Info
	err = c.results(func(d depot.Depot) (err error) {
		if list, err = d.List(c.ctx(), depot.ResultKey(c.execution.ID, "")); err != nil {
			return err
		}
		// Only valid keys can be requested, and the archive must unpack on any system.
		list = slices.DeleteFunc(list, func(i depot.Info) bool { return depot.CheckKey(i.Key) != nil })
		if len(list) == 0 {
			err = courier.ErrNotFound
		}
		return err
	})
	if err != nil {
		return c.answered(err)
	}
	if c.query.Has("list") || c.wantsJSON() {
		return c.listResults(list, after, limit)
	}
	if c.r.Method == http.MethodHead {
		return c.beginZip()
	}
	return c.answered(c.download("", list, func(ctx context.Context) error { return c.sendZip(ctx, list) }))
}

// beginZip begins the answer with all results, whose length is unknown.
func (c *call) beginZip() error {
	c.w.Header().Set("Content-Type", zipMedia)
	c.w.Header().Set("Content-Disposition", `attachment; filename="results.zip"`)
	return c.nothing(http.StatusOK)
}

// listResults answers with a page of results. A cursor is the number of results before the page.
func (c *call) listResults(list []depot.Info, after int64, limit int) error {
	next := ""
	list = list[min(after, int64(len(list))):]
	if len(list) > limit {
		list, next = list[:limit], strconv.FormatInt(after+int64(limit), 10)
	}
	items := make([]ResultFile, len(list))
	for i, info := range list {
		_, name := depot.SplitKey(info.Key)
		items[i] = ResultFile{name, info.Size, info.SHA256}
	}
	return answerPage(c, items, next)
}

// A downloaded is the entry of a download in the journal.
type downloaded struct {
	Name  string `json:"name,omitempty"` // empty for all results
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"` // of the files as a whole
}

// download sends files between two entries of the journal. If the same files are sent again within
// ten minutes, such as in parts, there are no further entries.
func (c *call) download(name string, list []depot.Info, send func(ctx context.Context) error) error {
	d := downloaded{Name: name, Files: len(list)}
	for _, info := range list {
		d.Bytes += info.Size
	}
	now, err := json.Marshal(d)
	if err != nil {
		return err
	}
	x := &c.execution
	return c.DoSame(c.ctx(), store.Action{Verb: "download", Kind: "execution", Name: x.Job, Job: x.Job, Execution: x.ID, Now: now}, send)
}

// open opens a result. If the result was removed since it was listed, the error says so.
func (c *call) open(ctx context.Context, info *depot.Info) (depot.Object, error) {
	o, err := c.h.opt.Depot.Open(ctx, info.Key)
	if errors.Is(err, courier.ErrNotFound) {
		if gone := c.removed(); gone != nil {
			err = gone
		}
	}
	return o, err
}

func (c *call) getResult() error {
	name := c.r.PathValue("name")
	key := depot.ResultKey(c.execution.ID, name)
	var o depot.Object
	err := c.results(func(d depot.Depot) (err error) {
		if depot.CheckKey(key) != nil {
			return courier.ErrNotFound
		}
		o, err = d.Open(c.ctx(), key) // without a list, which takes longer the more results there are
		return err
	})
	if o != nil {
		defer o.Close()
	}
	if err != nil {
		return c.answered(err)
	}
	if c.r.Method == http.MethodHead || matches(c.r.Header.Get("If-None-Match"), `"`+o.Info().SHA256+`"`) {
		return c.serveFile(c.ctx(), o)
	}
	return c.answered(c.download(name, []depot.Info{o.Info()}, func(ctx context.Context) error { return c.serveFile(ctx, o) }))
}

// sendPatience is how long one write to a client that does not read may take.
const sendPatience = 30 * time.Second

// serveFile answers with a file, or with the part of it that the client requests.
func (c *call) serveFile(ctx context.Context, o depot.Object) error {
	_, name := depot.SplitKey(o.Info().Key)
	c.w.Header().Set("ETag", `"`+o.Info().SHA256+`"`)
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	c.w.Header().Set("Content-Type", binaryMedia)
	err := files.Serve(ctx, c.w, c.r, o, sendPatience)
	e, ok := errors.AsType[*files.StatusError](err)
	switch {
	case !ok:
		c.wrote = true
	case e.Status == http.StatusRequestedRangeNotSatisfiable:
		err = problemf(codeRange, "the file has no such range: the header Content-Range says how many bytes it has")
	case e.Status == http.StatusPreconditionFailed:
		err = problemf(codePrecond, "the file is another one than the condition of the request names")
	}
	return err
}

// sendZip answers with an archive of results.
func (c *call) sendZip(ctx context.Context, list []depot.Info) error {
	first, err := c.open(ctx, &list[0]) // before the answer has begun
	if err != nil {
		return err
	}
	if err := c.beginZip(); err != nil {
		return err
	}
	i := -1
	return files.SendZip(c.w, sendPatience, func() (depot.Object, error) {
		switch i++; {
		case i == 0:
			return first, nil
		case i < len(list):
			return c.open(ctx, &list[i])
		}
		return nil, io.EOF
	})
}
