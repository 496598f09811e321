package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/watch"
	"github.com/courierhq/courier/store"
)

var (
	limitParam  = param{name: "limit", kind: "integer", does: "How many entries the page has: 1 to 1000, 100 if it is not given."}
	cursorParam = param{name: "cursor", kind: "string", does: "Where the page begins: the field next of the page before."}
)

// whereParams are the conditions of a filter of executions.
var whereParams = []param{
	{name: "state", kind: "string", many: true, does: "One or several of the states and statuses, with commas between them, such as failed,lost."},
	{name: "job", kind: "string", many: true, does: "The name of a job, or its beginning with * behind it. A name in quotes stands for itself: \"ab*\"."},
	{name: "queue", kind: "string", does: "The queue."},
	{name: "label", kind: "string", many: true, does: "NAME=VALUE of a label."},
	{name: "by", kind: "string", does: "Who has enqueued it."},
	{name: "chain", kind: "string", does: "The chain that it is a member of."},
	{name: "reason", kind: "string", many: true, does: "One or several reasons of a failure, with commas between them."},
	{name: "connection", kind: "string", does: "The connection at which it has failed."},
	{name: "since", kind: "string", does: "Created not before this: an instant, a day, or a duration back from now, such as 24h or 7d."},
	{name: "until", kind: "string", does: "Created before this."},
	{name: "ended", kind: "string", does: "Ended not before this; of failed and cancelled executions."},
}

var executionRoutes = []route{
	{
		method: "POST", path: "v1/jobs/{name}/executions", id: "startExecution", group: "executions", on: onJob,
		does: "Starts an execution of a job. As multipart/form-data the body has files, which become the inputs of the execution, and parameters: the part params is an object with some, expires_seconds is that of JSON, and each other part without a file name is one.", headers: []param{keyHeader, preferHeader}, sets: []string{"Location"}, body: StartRequest{}, optional: true, upload: true,
		answers:  map[int]any{http.StatusAccepted: Started{}, http.StatusOK: ExecutionView{}},
		problems: []*code{codeTooMany, codeDependency, codeConflict, codeKeyReused, codeUnsafeName, codeMissingFile, codeFull}, do: (*call).start,
	},
	{
		method: "GET", path: "v1/executions", id: "listExecutions", group: "executions", on: onVisible,
		does: "Lists executions, the newest first. Parameters, results and repairs are left out: each execution has its own.", query: append(whereParams, limitParam, cursorParam),
		answers: map[int]any{http.StatusOK: page[ExecutionView]{}}, do: (*call).listExecutions,
	},
	{
		method: "GET", path: "v1/executions/{id}", id: "getExecution", group: "executions", on: onExecution,
		does: "Returns an execution. max_retries is that of the job where the request set none. A client sees the short form of its own.", answers: map[int]any{http.StatusOK: ExecutionView{}, http.StatusNotModified: nil},
		do: (*call).getExecution,
	},
	{
		method: "GET", path: "v1/executions/{id}/outline", id: "getOutline", group: "executions", on: onExecution,
		does: "Returns the steps and markers of the job, each with one state.", answers: map[int]any{http.StatusOK: engine.Outline{}}, do: (*call).getOutline,
	},
	{
		method: "GET", path: "v1/executions/{id}/steps", id: "listSteps", group: "executions", on: onExecution,
		does: "Lists the records of attempts of steps, in the order of their ends. Outputs and files are left out: each record has its own.",
		query: []param{
			{name: "step", kind: "integer", does: "The index of the step."},
			{name: "loop", kind: "integer", does: "The index of a flow.foreach, with item: attempts in an item of that loop."},
			{name: "item", kind: "string", does: "The index of the item in the list of the loop, such as 27; in a loop within a loop with those around it, such as 2.27."},
			{name: "state", kind: "string", does: "How the attempts ended.", enum: []string{"completed", "failed", "skipped"}},
			{name: "attempt", kind: "integer", does: "The attempt of the execution."},
			limitParam, cursorParam,
		},
		answers: map[int]any{http.StatusOK: page[courier.StepExecution]{}}, do: (*call).listSteps,
	},
	{
		method: "GET", path: "v1/executions/{id}/steps/{seq}", id: "getStep", group: "executions", on: onExecution,
		does: "Returns a record with outputs, files, log, events and stack.", answers: map[int]any{http.StatusOK: courier.StepExecution{}}, do: (*call).getStep,
	},
	{
		method: "GET", path: "v1/executions/{id}/audit", id: "listAudit", group: "executions", on: onExecution,
		does: "Lists the changes of state, the oldest first. That of a completed step has the events that the step emitted.", query: []param{limitParam, cursorParam},
		answers: map[int]any{http.StatusOK: page[watch.AuditEvent]{}}, do: (*call).listAudit,
	},
	{
		method: "GET", path: "v1/executions/{id}/explain", id: "explainExecution", group: "executions", on: onExecution,
		does: "Says why the execution does not go on, and what to do. Who may not see all of it is told a short reason for its own.", answers: map[int]any{http.StatusOK: advice.Explanation{}}, do: (*call).explain,
	},
	{
		method: "GET", path: "v1/executions/{id}/files", id: "listFiles", group: "executions", on: onExecution,
		does: "Lists the records that report files.", query: []param{limitParam, cursorParam},
		answers: map[int]any{http.StatusOK: page[courier.StepExecution]{}}, do: (*call).listFiles,
	},
	{
		method: "GET", path: "v1/executions/{id}/failed-items", id: "listFailedItems", group: "executions", on: onExecution,
		does: "Lists failed items of loops that were not repaired.", answers: map[int]any{http.StatusOK: page[courier.FailedItem]{}}, do: (*call).listFailedItems,
	},
	{
		method: "GET", path: "v1/executions/{id}/rescued-items", id: "listRescuedItems", group: "executions", on: onExecution,
		does: "Lists rescued items of loops, each with its failure.", answers: map[int]any{http.StatusOK: page[courier.FailedItem]{}}, do: (*call).listRescuedItems,
	},
	{
		method: "GET", path: "v1/executions/{id}/values", id: "getValues", group: "executions", on: onExecution,
		does: "Returns the values in scope, by their keys. It needs the role that sees values.", answers: map[int]any{http.StatusOK: map[string]any{}}, do: (*call).getValues,
	},
	{
		method: "GET", path: "v1/executions/{id}/log", id: "getLog", group: "executions", on: onExecution,
		does: "Returns what steps have logged, as text. It needs the role that sees values.",
		query: []param{
			{name: "step", kind: "integer", does: "The index of the step."},
			{name: "attempt", kind: "integer", does: "The attempt of the execution."},
		},
		answers: map[int]any{http.StatusOK: ""}, media: "text/plain; charset=utf-8", do: (*call).getLog,
	},
}

// where returns the filter in the URL.
func (c *call) where() (filter.Filter, error) {
	q := make(map[string][]string)
	for _, p := range whereParams {
		if values, ok := c.query[p.name]; ok {
			q[p.name] = values
		}
	}
	return filter.ParseQuery(q, time.Now())
}

func (c *call) listExecutions() error {
	w, err := c.where()
	if err != nil {
		return err
	}
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	p, err := c.Executions(c.ctx(), w, c.query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	items := make([]any, len(p.Items))
	for i := range p.Items {
		items[i] = c.view(&p.Items[i])
	}
	return answerPage(c, items, p.Next)
}

func (c *call) getExecution() error {
	v := c.view(&c.execution)
	if x, ok := v.(ExecutionView); ok && x.MaxRetries == nil {
		job, err := c.h.e.Jobs().Get(c.ctx(), x.Job, x.Version)
		if err == nil { // on an error the record is sent without it
			x.MaxRetries = new(job.FailurePolicy.Retries())
			v = x
		}
	}
	if d := c.h.opt.Depot; d != nil && c.execution.State.Ended() {
		at, removed, err := depot.Removed(c.ctx(), d, c.execution.ID)
		switch {
		case err != nil: // the record is sent without it
			c.h.log.Warn("the depot can't say whether the files of an execution are still there", "execution", c.execution.ID, "error", err)
		case removed:
			v = withRemoved(v, at)
		}
	}
	return c.tagged(v)
}

// withRemoved adds to a view the time when the files of the execution were removed.
func withRemoved(v any, at time.Time) any {
	switch v := v.(type) {
	case ExecutionView:
		v.FilesRemovedAt = at
		return v
	case ClientExecution:
		v.FilesRemovedAt = at
		return v
	}
	return v
}

// tagged answers with a value and an entity tag of its text, or with 304 if the client already has
// it.
func (c *call) tagged(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.taggedBody(body)
}

func (c *call) taggedBody(body []byte) error {
	sum := sha256.Sum256(body)
	if c.tag(`"` + hex.EncodeToString(sum[:12]) + `"`) {
		return nil
	}
	media := c.route.media
	if media == "" {
		media = "application/json"
	}
	c.write(http.StatusOK, media, append(body, '\n'))
	return nil
}

func (c *call) getOutline() error {
	o, err := c.h.e.Executions().Outline(c.ctx(), c.execution.ID)
	if err != nil {
		return err
	}
	if !c.SeesValues(c.ctx(), c.execution.Job) {
		desk.HideValues(&o.Execution)
		for i := range o.Steps {
			if r := o.Steps[i].Record; r != nil {
				desk.HideStep(r)
			}
		}
	}
	return c.answer(http.StatusOK, o)
}

func (c *call) listSteps() error { return c.stepsPage(store.StepFilter{Brief: true}) }

func (c *call) listFiles() error {
	return c.stepsPage(store.StepFilter{Files: true})
}

// stepsPage answers with a page of records that the parameters select.
func (c *call) stepsPage(f store.StepFilter) error {
	f.Execution = c.execution.ID
	if c.query.Has("step") {
		n, err := c.int("step", 0, 0, 1<<30)
		if err != nil {
			return err
		}
		f.Step = &n
	}
	var err error
	if f.Item, err = c.item(); err != nil {
		return err
	}
	if f.Attempt, err = c.int("attempt", 0, 1, 1<<30); err != nil {
		return err
	}
	if s := c.query.Get("state"); s != "" {
		f.States = []courier.StepState{courier.StepState(s)}
	}
	f.After, f.Limit, err = c.after()
	if err != nil {
		return err
	}
	seq := func(s *courier.StepExecution) int64 { return s.Seq }
	size := 1 // a record with files can have as many bytes as an output
	if f.Brief {
		size = f.Limit
	}
	items, next, err := inParts(f.Limit, size, f.After, func(after int64, limit int) ([]courier.StepExecution, int64, error) {
		f.After, f.Limit = after, limit
		list, err := c.h.e.Executions().StepsPage(c.ctx(), f)
		if !c.SeesValues(c.ctx(), c.execution.Job) {
			for i := range list {
				desk.HideStep(&list[i])
			}
		}
		list, next := fullPage(list, limit, seq)
		return list, next, err
	}, seq, asIs)
	if err != nil {
		return err
	}
	return answerPage(c, items, numberCursor(next))
}

// item returns the item of a loop that the parameters loop and item select, or nil without them.
func (c *call) item() (*courier.ItemPath, error) {
	if !c.query.Has("loop") && !c.query.Has("item") {
		return nil, nil
	}
	loop, err := c.int("loop", -1, 0, 1<<30)
	if err != nil {
		return nil, err
	}
	iteration, err := courier.ParseIteration(c.query.Get("item"))
	if err != nil || loop < 0 {
		return nil, oneProblem(item{Parameter: "item", Message: "loop and item name an item together: the index of a flow.foreach, and an index in its list, such as 27, or 2.27 in a loop within a loop"})
	}
	return &courier.ItemPath{Loop: loop, Iteration: iteration}, nil
}

// numberCursor returns the cursor of the page after a number. It is empty for 0.
func numberCursor(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// after returns the sequence number after which a page begins, and the number of its entries.
func (c *call) after() (after int64, limit int, err error) {
	if limit, err = c.int("limit", 100, 1, 1000); err != nil {
		return 0, 0, err
	}
	n, err := c.int("after", 0, 0, 1<<30) // the route has the parameter
	if err != nil {
		return 0, 0, err
	}
	after = int64(n)
	if cursor := c.query.Get("cursor"); cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil || after < 0 {
			return 0, 0, errCursor()
		}
	}
	return after, limit, nil
}

func errCursor() error {
	return oneProblem(item{Parameter: "cursor", Message: "not a cursor of this list: start from the first page"})
}

func (c *call) getStep() error {
	seq, err := strconv.ParseInt(c.r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 {
		return desk.Unknown()
	}
	list, err := c.h.e.Executions().StepsPage(c.ctx(), store.StepFilter{Execution: c.execution.ID, After: seq - 1, Limit: 1, Details: true})
	if err != nil {
		return err
	}
	if len(list) == 0 || list[0].Seq != seq {
		return desk.Unknown()
	}
	if !c.SeesValues(c.ctx(), c.execution.Job) {
		desk.HideStep(&list[0])
	}
	return c.answer(http.StatusOK, list[0])
}

func (c *call) listAudit() error {
	after, limit, err := c.after()
	if err != nil {
		return err
	}
	list, err := watch.AuditEvents(c.ctx(), c.h.e.Executions(), store.AuditFilter{Execution: c.execution.ID, After: after, Limit: limit})
	if err != nil {
		return err
	}
	if !c.SeesValues(c.ctx(), c.execution.Job) {
		desk.HideEvents(list)
	}
	next := ""
	if len(list) == limit {
		next = strconv.FormatInt(list[len(list)-1].Seq, 10)
	}
	return answerPage(c, list, next)
}

func (c *call) explain() error {
	e, err := c.Explain(c.ctx(), &c.execution)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, e)
}

func (c *call) listFailedItems() error { return c.listItems(c.h.e.Executions().FailedItems) }

func (c *call) listRescuedItems() error { return c.listItems(c.h.e.Executions().RescuedItems) }

func (c *call) listItems(read func(context.Context, courier.ExecutionID) ([]courier.FailedItem, error)) error {
	list, err := read(c.ctx(), c.execution.ID)
	if err != nil {
		return err
	}
	if !c.SeesValues(c.ctx(), c.execution.Job) {
		for i := range list {
			desk.HideItem(&list[i])
		}
	}
	return answerPage(c, list, "")
}

func (c *call) getValues() error {
	v, err := c.h.e.Executions().Values(c.ctx(), c.execution.ID)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, v)
}

// maxLogRecords is the number of records that one answer with logs reads.
const maxLogRecords = 100

func (c *call) getLog() error {
	f := store.StepFilter{Execution: c.execution.ID, Details: true, Limit: maxLogRecords}
	var err error
	if c.query.Has("step") {
		n, err := c.int("step", 0, 0, 1<<30)
		if err != nil {
			return err
		}
		f.Step = &n
	}
	if f.Attempt, err = c.int("attempt", 0, 1, 1<<30); err != nil {
		return err
	}
	list, err := c.h.e.Executions().StepsPage(c.ctx(), f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for i := range list {
		if s := &list[i]; s.Log != "" {
			b.WriteString("# " + courier.StepLabel(s.Step, s.ID, s.Type) + ", attempt " + strconv.Itoa(s.Attempt) + courier.FormatIteration(s.Iteration) + "\n")
			b.WriteString(strings.TrimSuffix(s.Log, "\n") + "\n")
		}
	}
	if len(list) == maxLogRecords {
		b.WriteString("# There may be more: ask for one step, or for its record.\n")
	}
	c.write(http.StatusOK, c.route.media, b.Bytes())
	return nil
}
