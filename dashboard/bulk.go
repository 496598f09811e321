package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

var bulkPages = []page{{
	path: "bulk", about: "execution", op: "bulk", on: onVisible, title: "Bulk", file: "bulk",
	query: []string{"action", "where", "id", "all", "of"}, data: (*call).bulkPage,
	actions: []action{
		{verb: "try", op: "bulk", dry: true, do: func(context.Context, *call) (string, error) { return "", nil }},
		{verb: "bulk", op: "bulk", noted: noteBulk, do: doBulk},
	},
}}

// A bulkPage carries out one action on many executions. First it shows the executions, then it asks
// for their number, then it shows the result of each.
type bulkPage struct {
	Action  bulk.Action
	Where   string
	IDs     string // separated by spaces; empty if the filter selects the executions
	Preview *bulk.Outcome
	Sample  []executionRow
	Confirm string // the number of executions, which must be typed unless the action is harmless
	// Harmless says that no number must be typed; see [call.harmless].
	Harmless bool
	Cursor   string // of the newest execution that was counted
	Back     string
	Results  *bulkResults
	// WithoutFinally says that a cancel leaves out the finally parts.
	WithoutFinally bool
}

// bulkResults are the results of a bulk.
type bulkResults struct {
	Text           string
	Rows           []bulkRow
	Left           int // the number of results that are not listed
	Next           string
	Done, Failures int
}

type bulkRow struct {
	bulk.Result
	Href, Started string // references
}

// bulkVerbs are the words for the actions.
var bulkVerbs = map[bulk.Action]string{bulk.Resume: "Resume", bulk.Cancel: "Cancel", bulk.Pause: "Pause", bulk.Release: "Release", bulk.Rerun: "Start again"}

// How many executions one form changes, and how many results its page lists.
const (
	bulkTime   = 15 * time.Second
	maxResults = 1000
)

// field is a field of the form, or a parameter of the address.
func (c *call) field(name string) string {
	if c.form.Has(name) {
		return c.form.Get(name)
	}
	return c.query.Get(name)
}

// bulk reads the request from the form or the address.
func (c *call) bulk() (b bulk.Request, err error) {
	b.Action = bulk.Action(c.field("action"))
	if bulkVerbs[b.Action] == "" {
		return b, problem.Invalid("Choose an action: resume, cancel, pause, release or rerun.")
	}
	ids := strings.Fields(c.form.Get("ids"))
	if !c.query.Has("all") {
		ids = append(ids, c.query["id"]...)
	}
	for _, id := range ids {
		b.IDs = append(b.IDs, courier.ExecutionID(id))
	}
	if len(b.IDs) == 0 {
		if b.Where, err = filter.Parse(asWhere(strings.TrimSpace(c.field("where"))), now()); err != nil {
			return b, err
		}
		if b.Where.String() == "" && !c.query.Has("all") && c.query.Has("action") && !c.query.Has("where") {
			return b, problem.Invalid("No execution is selected: select some, or all that match the filter.")
		}
		if b.Where.String() == "" {
			return b, problem.Invalid("An action on all executions needs a filter, such as state:failed.")
		}
	}
	b.By.Reason, b.WithoutFinally = c.reason(), b.Action == bulk.Cancel && c.form.Get("without_finally") != ""
	return b, nil
}

func (c *call) bulkPage() (any, error) {
	p := &bulkPage{Back: c.link("executions")}
	if form := c.query.Get("of"); form != "" {
		return p, c.bulkResults(p, form)
	}
	b, err := c.bulk()
	if err != nil {
		return nil, err
	}
	c.key = newKey() // the cursor belongs to this key
	b.DryRun, b.Key = true, c.key
	out, err := c.Bulk(c.ctx(), b)
	if err != nil {
		return nil, err
	}
	p.Action, p.Where, p.Preview, p.Cursor = b.Action, b.Where.String(), &out, out.Next
	for _, id := range b.IDs {
		p.IDs += string(id) + " "
	}
	p.Confirm = strconv.Itoa(out.Matched)
	if p.Harmless, err = c.harmless(&b, &out); err != nil {
		return nil, err
	}
	c.title = bulkVerbs[b.Action] + " " + counted(out.Matched, out.More)
	for _, id := range out.Sample {
		x, err := c.Execution(c.ctx(), string(id), desk.NeedOf("getOutline"))
		if err != nil {
			continue // the execution was removed in the meantime
		}
		p.Sample = append(p.Sample, c.row(&x, now()))
	}
	return p, nil
}

// unbegun are the reasons of steps that failed before they had any effect outside.
var unbegun = []courier.Reason{courier.ReasonConfig, courier.ReasonSecret, courier.ReasonLogin}

// harmless reports whether the visitor need not type the number of executions. The action must be a
// resume, which executes no completed step again. In addition, the page names all executions, or
// each of them failed before its step had any effect outside, because its configuration, a secret
// or its login was refused.
func (c *call) harmless(b *bulk.Request, out *bulk.Outcome) (bool, error) {
	begun := func(r courier.Reason) bool { return !slices.Contains(unbegun, r) }
	switch {
	case b.Action != bulk.Resume || out.More:
		return false, nil
	case out.Matched <= len(out.Sample):
		return true, nil
	case len(b.IDs) == 0:
		return slices.Equal(b.Where.States, []string{string(courier.Failed)}) && len(b.Where.Reasons) > 0 && !slices.ContainsFunc(b.Where.Reasons, begun), nil
	}
	list, err := c.h.e.Executions().List(c.ctx(), store.Filter{IDs: b.IDs, States: []courier.State{courier.Failed}, Reasons: unbegun, Limit: len(b.IDs)})
	return len(list) == out.Matched, err
}

// bulkConfirmed returns an error if the visitor has not typed the number of executions. It returns
// nil if the action is harmless and the number has not changed.
func (c *call) bulkConfirmed(b bulk.Request) error {
	count := c.form.Get("count")
	if c.form.Has("confirm") {
		if c.form.Get("confirm") != count {
			return problem.Invalid("You typed a number other than %s, the number of executions.", format.Clip(20, count))
		}
		return nil
	}
	b.DryRun = true
	out, err := c.Bulk(c.ctx(), b)
	if err != nil {
		return err
	}
	if ok, err := c.harmless(&b, &out); err != nil || ok && strconv.Itoa(out.Matched) == count {
		return err
	}
	return problem.Invalid("The selection has changed since the page was shown: check it, and send the form again.")
}

// counted returns a number of executions in words.
func counted(n int, more bool) string {
	switch {
	case more:
		return format.Count(n) + " executions or more"
	case n == 1:
		return "1 execution"
	}
	return format.Count(n) + " executions"
}

// noteBulk completes the entry of a bulk action in the journal.
func noteBulk(c *call, a *store.Action) {
	a.Verb, a.Kind, a.Name = "bulk "+format.Clip(20, c.form.Get("action")), "executions", format.Clip(300, c.form.Get("where"))
	if ids := strings.Fields(c.form.Get("ids")); len(ids) > 0 {
		a.Name = counted(len(ids), false)
	}
}

// doBulk carries out a bulk action, as far as it gets in bulkTime. The result of each execution is
// kept with the form.
func doBulk(ctx context.Context, c *call) (string, error) {
	b, err := c.bulk()
	if err != nil {
		return "", err
	}
	b.Cursor = c.form.Get("cursor")
	if b.Key = c.form.Get("key"); b.Key == "" {
		return "", problem.Invalid("The form has no key: reload the page.")
	}
	if was := c.form.Get("began"); was != "" {
		b.Key = was // the bulk action continues
	}
	if err := c.bulkConfirmed(b); err != nil {
		return "", err
	}
	r := &bulkResults{}
	var all bulk.Outcome
	for end := time.Now().Add(bulkTime); ; {
		out, err := c.Bulk(ctx, b)
		all.Done, all.Refused, all.Skipped = all.Done+out.Done, all.Refused+out.Refused, all.Skipped+out.Skipped
		all.Results = append(all.Results, out.Results...)
		b.Cursor = out.Next
		if err != nil && len(all.Results) == 0 {
			return "", err
		} else if err != nil {
			r.Text = problem.Of(err).Text + " "
			c.h.log.Error("a bulk has stopped", "action", b.Action, "error", err)
		}
		if err != nil || out.Next == "" || time.Now().After(end) {
			break
		}
	}
	slices.SortStableFunc(all.Results, func(x, y bulk.Result) int { return isDone(x) - isDone(y) })
	r.Text += fmt.Sprintf("%s done, %s refused, %s skipped.", format.Count(all.Done), format.Count(all.Refused), format.Count(all.Skipped))
	r.Next, r.Done, r.Failures = b.Cursor, all.Done, all.Refused+all.Skipped
	if r.Left = len(all.Results) - maxResults; r.Left > 0 {
		all.Results = all.Results[:maxResults]
	}
	for _, res := range all.Results {
		row := bulkRow{Result: res, Href: c.link("executions", string(res.Execution))}
		if res.Started != "" {
			row.Started = c.link("executions", string(res.Started))
		}
		r.Rows = append(r.Rows, row)
	}
	if len(r.Rows) == 1 && r.Left <= 0 && r.Next == "" && r.Done == 1 {
		return cmp.Or(r.Rows[0].Started, r.Rows[0].Href), nil // the page of the execution shows what happens to it
	}
	c.kept = &bulkPage{Action: b.Action, Where: c.form.Get("where"), IDs: c.form.Get("ids"), Results: r, WithoutFinally: b.WithoutFinally, Cursor: b.Cursor, Back: c.link("executions"), Confirm: b.Key}
	return c.link("bulk") + "?of=" + c.formID(), nil
}

func isDone(r bulk.Result) int {
	if r.Result == bulk.Done {
		return 1
	}
	return 0
}

// bulkResults shows the results of a bulk action, if this process still has them.
func (c *call) bulkResults(p *bulkPage, form string) error {
	kept, _ := c.h.done.Kept(form, c.ID).(*bulkPage)
	if kept == nil {
		return &problem.Error{Status: 404, Title: "The results are no longer available", Text: "The result of each execution is kept for ten minutes by the process that carried out the action.", Do: "The journal records the bulk action, and the audit of each execution records its own part."}
	}
	*p = *kept
	results := *kept.Results // a filter removes rows
	p.Results = &results
	c.title = bulkVerbs[p.Action] + ": the result for each"
	return nil
}
