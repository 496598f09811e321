package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/dag"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/store"
)

var chainPages = append([]page{
	{
		path: "chains", op: "listChains", on: onAll, title: "Chains", nav: "Chains", group: "Rules", key: "c", file: "chains",
		query: []string{"after"}, data: (*call).chains,
	},
	{path: "chains/{name}", op: "getChain", on: onAll, file: "chain", query: append([]string{"from"}, versionQuery...), data: (*call).chain},
}, definitionPages("chain", onAll, onAll)...)

// A chainList is the page of chains.
type chainList struct {
	Rows  []chainRow
	First string // reference of the first page, on others
	Next  string
}

type chainRow struct {
	Name, Href, Description string
	Version, Members        int
	SavedBy                 string
	SavedAt                 time.Time
	Runs                    []chainRunRow // the newest executions, if they are among the newest of all chains
	More                    string        // reference of all
}

func (c *call) chains() (any, error) {
	list, err := c.h.e.Chains().List(c.ctx(), store.DefinitionFilter{After: c.query.Get("after"), Limit: listPage})
	if err != nil {
		return nil, err
	}
	runs, err := c.h.e.Chains().Executions(c.ctx(), chain.Filter{Limit: 4 * listPage})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	newest := make(map[string][]chainRunRow)
	for i := range runs {
		if x := &runs[i]; len(newest[x.Chain]) < jobOutcomes {
			newest[x.Chain] = append(newest[x.Chain], c.chainRun(x))
		}
	}
	l := &chainList{}
	for i := range list {
		d := &list[i]
		l.Rows = append(l.Rows, chainRow{
			Name: d.Chain.Name, Href: c.link("chains", d.Chain.Name), Description: d.Chain.Description, Version: d.Chain.Version,
			Members: len(d.Chain.Members), SavedBy: d.SavedBy, SavedAt: d.SavedAt, Runs: newest[d.Chain.Name],
			More: c.link("chain-executions") + "?" + query("chain", d.Chain.Name),
		})
	}
	if c.query.Get("after") != "" {
		l.First = c.with("after", "")
	}
	if len(list) == listPage {
		l.Next = c.with("after", list[len(list)-1].Chain.Name)
	}
	return l, nil
}

// A chainPage is the page of a version of a chain.
type chainPage struct {
	*definitionPage
	Description string
	Graph       *chainGraph
	Runs        []chainRunRow // the newest executions
}

// A chainGraph is a chain as a drawing and as a table.
type chainGraph struct {
	Drawing *dag.Drawing
	Summary string
	Rows    []memberRow
	Runs    bool // of an execution
	// Caption is the caption of the table, which shows a part of the members if there are many.
	// First and Next are the references of the other parts.
	Caption, First, Next string
}

// A memberRow is a member of a chain, or of one of its executions.
type memberRow struct {
	Name, Href     string
	Job, JobHref   string
	Version        int    // 0 is the latest
	Status, Reason string // of an execution
	Execution      courier.ExecutionID
	DependsOn      []dependencyRow
}

type dependencyRow struct {
	chain.Dependency
	Text string
}

// dependencies returns the dependencies of a member, in words.
func dependencies(list []chain.Dependency) (rows []dependencyRow) {
	for _, d := range list {
		rows = append(rows, dependencyRow{d, dependencyText(d)})
	}
	return rows
}

// dependencyText is the condition of a dependency for people.
func dependencyText(d chain.Dependency) string {
	return map[string]string{
		"success": "has completed", "failure": "has completed or failed", "any": "has ended in any way",
	}[dag.Condition(d)]
}

// drawn returns members in the form for the drawing.
func drawn(rows []memberRow) []dag.Member {
	members := make([]dag.Member, len(rows))
	for i, r := range rows {
		members[i] = dag.Member{Name: r.Name, Job: r.Job, Status: r.Status, Href: r.Href}
		for _, d := range r.DependsOn {
			members[i].DependsOn = append(members[i].DependsOn, d.Dependency)
		}
	}
	return members
}

// memberPage is the largest number of members in a table.
const memberPage = 500

// graph returns the drawing and the table of members.
func (c *call) graph(rows []memberRow, runs bool) (*chainGraph, error) {
	from, err := c.number("from", 0, 0, 1<<30)
	if err != nil {
		return nil, err
	}
	g := &chainGraph{Rows: rows, Runs: runs, Drawing: dag.Draw(drawn(rows))}
	edges := 0
	for i := range rows {
		edges += len(rows[i].DependsOn)
	}
	g.Summary = fmt.Sprintf("%s, %s", format.Plural(len(rows), "member"), format.Plural(edges, "dependency"))
	g.Caption = g.Summary
	if len(rows) > memberPage {
		from = min(from, len(rows)-1)
		to := min(from+memberPage, len(rows))
		g.Rows, g.Caption = rows[from:to], fmt.Sprintf("%s: those from %s to %s", g.Summary, format.Count(from+1), format.Count(to))
		if from > 0 {
			g.First = c.with("from", "")
		}
		if to < len(rows) {
			g.Next = c.with("from", strconv.Itoa(to))
		}
	}
	return g, nil
}

// maxChainRuns is the number of executions on the page of a chain.
const maxChainRuns = 10

func (c *call) chain() (any, error) {
	name := c.r.PathValue("name")
	d, shared, err := c.definition("Members", c.link("chain-executions")+"?"+url.Values{"chain": {name}}.Encode())
	if err != nil {
		return nil, err
	}
	c.title = "Chain " + format.Clip(120, name)
	def := d.Definition.(*chain.Chain)
	p := &chainPage{definitionPage: shared, Description: def.Description}
	if p.Tab != "" {
		return p, nil
	}
	var rows []memberRow
	for i := range def.Members {
		m := &def.Members[i]
		row := memberRow{Name: cmp.Or(m.Name, m.Job), Job: m.Job, JobHref: c.link("jobs", m.Job), Version: m.Version, DependsOn: dependencies(m.DependsOn)}
		row.Href = row.JobHref
		rows = append(rows, row)
	}
	if p.Graph, err = c.graph(rows, false); err != nil {
		return nil, err
	}
	runs, err := c.h.e.Chains().Executions(c.ctx(), chain.Filter{Chain: name, Limit: atMost(maxChainRuns, len(def.Members))})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	for i := range runs {
		p.Runs = append(p.Runs, c.chainRun(&runs[i]))
	}
	return p, nil
}

// formKey is the idempotency key of the objects that the form creates, so that other processes
// create them only once too. It is empty if the form has no key.
func (c *call) formKey() string {
	if c.form.Get("key") == "" {
		return ""
	}
	return "page/" + c.formID()
}
