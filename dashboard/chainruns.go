package dashboard

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

var chainRunPages = []page{
	{
		path: "chain-executions", op: "listChainExecutions", on: onAll, title: "Executions of chains", group: "Work", file: "chainruns",
		query: []string{"chain", "state", "cursor"}, data: (*call).chainRuns,
	},
	{
		path: "chain-executions/{id}", op: "getChainExecution", on: onAll, group: "Work", file: "chainrun", query: []string{"from"}, data: (*call).chainRunPage,
		live: []string{"summary", "members"}, watch: watchEvery(2 * time.Second),
		actions: chainRunActions(),
	},
	{
		path: "chain-executions/{id}/rerun", op: "rerunChain", on: onAll, title: "Start again", file: "rerun", data: (*call).chainRerunPage,
		actions: []action{{verb: "rerun", op: "rerunChain", noted: noteChainRun, do: rerunChain}},
	},
}

// A chainRunRow is an execution of a chain in a list.
type chainRunRow struct {
	ID            courier.ChainExecutionID
	Href          string
	Chain         string
	Version       int
	Status        string
	By            string
	Created       time.Time
	Ended         bool
	Took          time.Duration
	Members, Done int // all, and those that have ended
	Failure       string
}

// chainRun returns an execution of a chain in the form for the visitor. A client sees only the
// status of its own execution.
func (c *call) chainRun(x *chain.Execution) chainRunRow {
	if !c.Can(c.ctx(), "", access.RightSee) {
		return chainRunRow{ID: x.ID, Href: c.link("chain-executions", string(x.ID)), Chain: x.Chain, Status: desk.ChainStatus(x), Created: x.CreatedAt}
	}
	r := chainRunRow{
		ID: x.ID, Href: c.link("chain-executions", string(x.ID)), Chain: x.Chain, Version: x.Version, Status: desk.ChainStatus(x), By: x.By,
		Created: x.CreatedAt, Members: len(x.Members),
	}
	if !x.EndedAt.IsZero() && !x.StartedAt.IsZero() {
		r.Ended, r.Took = true, x.EndedAt.Sub(x.StartedAt)
	}
	for i := range x.Members {
		if s := x.Members[i].State; s == chain.MemberSkipped || courier.State(s).Ended() {
			r.Done++
		}
	}
	if f := x.Failure; f != nil {
		r.Failure = f.Message
		if !c.SeesValues(c.ctx(), "") {
			r.Failure = desk.Hidden
		}
		r.Failure = f.Member + ": " + r.Failure
	}
	return r
}

// A chainRunList is the page of executions of chains.
type chainRunList struct {
	Chain  string
	State  string
	States []navItem
	Rows   []chainRunRow
	Empty  map[string]any
	First  string // reference of the first page, on others
	Next   string
}

func (c *call) chainRuns() (any, error) {
	l := &chainRunList{Chain: c.query.Get("chain"), State: c.query.Get("state")}
	f := chain.Filter{Chain: l.Chain, Before: courier.ChainExecutionID(c.query.Get("cursor")), Limit: listPage}
	l.States = []navItem{{Label: "All", Href: c.with("state", "", "cursor", ""), Current: l.State == ""}}
	for _, s := range desk.ChainStates {
		l.States = append(l.States, navItem{Label: format.Capital(string(s)), Href: c.with("state", string(s), "cursor", ""), Current: l.State == string(s)})
	}
	if l.State != "" {
		f.States = []chain.State{chain.State(l.State)}
		if !slices.Contains(desk.ChainStates, f.States[0]) {
			return nil, problem.Invalid("The state in the address does not exist.")
		}
	}
	if f.Before != "" && !filter.IsID(string(f.Before)) {
		return nil, problem.Invalid("The cursor in the address is not valid: start without it.")
	}
	list, err := c.h.e.Chains().Executions(c.ctx(), f)
	if err != nil {
		return nil, err
	}
	for i := range list {
		l.Rows = append(l.Rows, c.chainRun(&list[i]))
	}
	if f.Before != "" {
		l.First = c.with("cursor", "")
	}
	if len(list) == listPage {
		l.Next = c.with("cursor", string(list[len(list)-1].ID))
	}
	switch {
	case len(list) > 0:
	case l.Chain != "" || l.State != "":
		l.Empty = map[string]any{"Title": "No execution matches.", "Text": "No execution of this chain is in this state.", "Href": c.link("chain-executions"), "Link": "Show those of all chains"}
	default:
		l.Empty = map[string]any{"Title": "No chain has run yet.", "Text": "Executions appear here after a person, a program or a schedule has started a chain.", "Href": c.link("chains"), "Link": "Show the chains"}
	}
	return l, nil
}

// A chainRunPage is the page of an execution of a chain. A client sees only the status of its own
// execution: then Full is false, and only the row is set.
type chainRunPage struct {
	chainRunRow
	Full      bool
	Held      bool // no member has begun
	Request   courier.RequestKind
	Started   time.Time
	EndedAt   time.Time
	Key       string
	RerunOf   courier.ChainExecutionID
	RerunHref string
	ChainHref string
	Labels    []labelRow
	Params    string // as JSON; empty if there are none, or they are hidden
	Hidden    bool   // values are
	Verbs     []verbRow
	Graph     *chainGraph
	Failed    *memberRow // the member that made the chain fail
	Runs      string     // the reference of the list of the executions of members
}

type labelRow struct{ Name, Value string }

// A verbRow is a button, with a description of what it does.
type verbRow struct{ Verb, Label, Text, Class string }

// Rerun is the reference of the form that starts the chain again with changes. It is empty if the
// visitor may not.
func (p *chainRunPage) Rerun() string {
	if !slices.ContainsFunc(p.Verbs, func(v verbRow) bool { return v.Verb == "rerun" }) || !p.Full {
		return ""
	}
	return p.Href + "/rerun"
}

func (c *call) chainRunPage() (any, error) {
	x, err := c.ChainExecution(c.ctx(), c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	c.title = "Execution of chain " + format.Clip(120, x.Chain)
	p := &chainRunPage{Full: c.Can(c.ctx(), "", access.RightSee), Hidden: !c.SeesValues(c.ctx(), ""), EndedAt: x.EndedAt, Request: x.Request}
	if !p.Full {
		p.chainRunRow = c.chainRun(&x)
		p.Verbs = c.verbsOf(&x)
		return p, nil
	}
	p.Verbs = c.verbsOf(&x)
	if p.Hidden {
		desk.HideChain(&x)
	}
	p.chainRunRow = c.chainRun(&x)
	p.Started, p.Key, p.RerunOf = x.StartedAt, x.IdempotencyKey, x.RerunOf
	p.ChainHref = c.link("chains", x.Chain)
	if x.RerunOf != "" {
		p.RerunHref = c.link("chain-executions", string(x.RerunOf))
	}
	for _, name := range slices.Sorted(maps.Keys(x.Labels)) {
		p.Labels = append(p.Labels, labelRow{name, x.Labels[name]})
	}
	if len(x.Params) > len("{}") {
		p.Params = format.IndentJSON(x.Params)
	}
	rows := c.members(&x)
	for i := range rows {
		if x.Failure != nil && rows[i].Name == x.Failure.Member {
			p.Failed = &rows[i]
		}
	}
	if p.Graph, err = c.graph(rows, true); err != nil {
		return nil, err
	}
	p.Runs = c.link("executions") + "?" + url.Values{"where": {filter.Filter{Chain: x.Chain}.String()}}.Encode()
	return p, nil
}

// members returns the members of an execution of a chain.
func (c *call) members(x *chain.Execution) (rows []memberRow) {
	for i := range x.Members {
		m := &x.Members[i]
		row := memberRow{
			Name: m.Name, Job: m.Job, JobHref: c.link("jobs", m.Job), Version: m.Version, Status: string(m.State), Reason: m.Reason,
			Execution: m.Execution, DependsOn: dependencies(m.DependsOn),
		}
		if row.Href = row.JobHref; m.Execution != "" {
			row.Href = c.link("executions", string(m.Execution))
		}
		rows = append(rows, row)
	}
	return rows
}

// verbsOf returns the requests that the visitor can make to an execution of a chain in its state.
func (c *call) verbsOf(x *chain.Execution) (list []verbRow) {
	add := func(verb, label, class, text string) {
		if c.mayAskChain(x, verb) == nil {
			list = append(list, verbRow{verb, label, text, class})
		}
	}
	cancelling := x.Request == courier.RequestCancel
	switch {
	case cancelling:
	case x.State == chain.Pending:
		add("release", "Release", "primary", "Its first members start.")
	case x.State == chain.Paused, x.State == chain.Running && x.Request == courier.RequestPause:
		add("resume", "Resume", "primary", "Paused members continue.")
	case x.State == chain.Running:
		add("pause", "Pause", "", "Members stop before their next step, and no others start.")
	case x.State == chain.Failed:
		add("retry", "Retry", "primary", "Failed members continue at the step that failed. Members that were skipped because of them wait again. Completed members do not run again.")
	}
	if !x.State.Final() && !cancelling {
		add("cancel", "Cancel", "danger", "It ends for good: running members are interrupted, and the others are skipped.")
	}
	if x.State.Ended() {
		add("rerun", "Start again", "", "A new execution starts, with the same parameters and the latest version of the chain.")
	}
	return list
}

// mayAskChain returns an error if the visitor may not make a request to an execution of a chain.
func (c *call) mayAskChain(x *chain.Execution, verb string) error {
	return c.NeedTo(c.ctx(), "", desk.NeedOf(verb+"Chain"), c.OwnChain(x))
}

// chainRunActions are the actions for [desk.ChainVerbs], and rerun.
func chainRunActions() (list []action) {
	for _, verb := range desk.ChainVerbs {
		list = append(list, action{verb: verb, op: verb + "Chain", noted: noteChainRun, do: func(ctx context.Context, c *call) (string, error) {
			x, err := c.ChainExecution(ctx, c.r.PathValue("id"))
			if err == nil {
				err = c.mayAskChain(&x, verb)
			}
			if err == nil {
				_, err = c.AskChain(ctx, x.ID, verb, c.reason())
			}
			return "", err
		}})
	}
	return append(list, action{verb: "rerun", op: "rerunChain", noted: noteChainRun, do: rerunChain})
}

// noteChainRun completes the entry in the journal.
func noteChainRun(c *call, a *store.Action) {
	x, err := c.ChainExecution(c.ctx(), c.r.PathValue("id"))
	if err != nil {
		x.ID = courier.ChainExecutionID(c.r.PathValue("id"))
	}
	*a = desk.ChainAction(&x, a.Verb, a.Reason)
}
