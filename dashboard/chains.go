package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/dag"
	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

var chainPages = []page{
	{
		path: "chains", role: desk.Viewer, on: onAll, title: "Chains", nav: "Chains", key: "c", file: "chains",
		query: []string{"after"}, data: (*call).chains,
	},
	{
		path: "chains/{name}", role: desk.Viewer, on: onAll, file: "chain", query: []string{"version", "from"}, data: (*call).chain,
		actions: []action{{verb: "start", role: desk.Client, do: startChain}},
	},
}

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
	Runs                    []chainRunRow // the newest executions, as far as they are among the newest of all chains
	More                    string        // reference of all
}

func (c *call) chains() (any, error) {
	list, err := c.h.e.Chains().List(c.ctx(), store.DefinitionFilter{After: c.query.Get("after"), Limit: listPage})
	if err != nil {
		return nil, err
	}
	runs, err := c.h.e.Chains().Executions(c.ctx(), store.ChainFilter{Limit: 4 * listPage})
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

// A chainPage is the page of a chain.
type chainPage struct {
	Chain    courier.Chain
	Latest   bool
	Defined  engine.DefinedChain
	Versions []chainVersion
	More     bool       // there are older versions
	Diff     *chainDiff // to the version before; nil for the first one
	Graph    *chainGraph
	Runs     []chainRunRow
	AllRuns  string     // the reference of the list
	Declared []labelRow // the parameters, with what is said of them
	Params   string     // what the form begins with
}

// A chainVersion is a version in the list of all.
type chainVersion struct {
	Number  int
	Href    string
	Current bool
	SavedBy string
	SavedAt time.Time
}

// A chainDiff is what a version has changed.
type chainDiff struct {
	From        int
	Changes     []diff.Change
	Cut         int
	Whole, Word string // always empty
}

// A chainGraph is a chain as a drawing and as a table.
type chainGraph struct {
	Drawing *dag.Drawing
	Summary string
	Rows    []memberRow
	Runs    bool // of an execution
	// Caption is that of the table, which has a part of the members if there are many; First
	// and Next are the references of the other parts.
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
	courier.Dependency
	Text string
}

// dependencies returns what a member depends on, in words.
func dependencies(list []courier.Dependency) (rows []dependencyRow) {
	for _, d := range list {
		rows = append(rows, dependencyRow{d, dependencyText(d)})
	}
	return rows
}

// dependencyText is the condition of a dependency for people.
func dependencyText(d courier.Dependency) string {
	return map[string]string{
		"success": "has completed", "failure": "has completed or failed", "any": "has ended, however",
	}[dag.Condition(d)]
}

// drawn returns members as the drawing takes them.
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

// memberPage is how many members a table has at most.
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

// maxChainVersions is how many versions the page of a chain lists.
const maxChainVersions = 20

func (c *call) chain() (any, error) {
	name := c.r.PathValue("name")
	number, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	versions, err := c.h.e.Chains().Versions(c.ctx(), name, engine.VersionFilter{Limit: maxChainVersions + 1})
	if err != nil {
		return nil, err
	}
	p := &chainPage{More: len(versions) > maxChainVersions, Params: "{}", AllRuns: c.link("chain-executions") + "?" + url.Values{"chain": {name}}.Encode()}
	if p.Chain, err = c.h.e.Chains().Get(c.ctx(), name, number); err != nil {
		return nil, err
	}
	p.Latest = p.Chain.Version == versions[0].Chain.Version
	for i := range versions[:min(len(versions), maxChainVersions)] {
		v := &versions[i]
		p.Versions = append(p.Versions, chainVersion{v.Chain.Version, c.with("version", strconv.Itoa(v.Chain.Version)), v.Chain.Version == p.Chain.Version, v.SavedBy, v.SavedAt})
		if v.Chain.Version == p.Chain.Version {
			p.Defined = *v
		}
	}
	var rows []memberRow
	for i := range p.Chain.Members {
		m := &p.Chain.Members[i]
		row := memberRow{Name: m.Name, Job: m.Job, JobHref: c.link("jobs", m.Job), Version: m.Version, DependsOn: dependencies(m.DependsOn)}
		if row.Name == "" {
			row.Name = m.Job
		}
		row.Href = row.JobHref
		rows = append(rows, row)
	}
	if p.Graph, err = c.graph(rows, false); err != nil {
		return nil, err
	}
	if p.Diff, err = c.chainDiff(&p.Chain); err != nil {
		return nil, err
	}
	p.Declared = declaredParams(p.Chain.Params)
	runs, err := c.h.e.Chains().Executions(c.ctx(), store.ChainFilter{Chain: name, Limit: 10})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	for i := range runs {
		p.Runs = append(p.Runs, c.chainRun(&runs[i]))
	}
	c.title = "Chain " + format.Clip(120, name)
	return p, nil
}

// chainDiff returns what a version has changed.
func (c *call) chainDiff(chain *courier.Chain) (*chainDiff, error) {
	if chain.Version < 2 {
		return nil, nil
	}
	before, err := c.h.e.Chains().Get(c.ctx(), chain.Name, chain.Version-1)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(chain)
	if err != nil {
		return nil, err
	}
	d := &chainDiff{From: before.Version, Changes: diff.Changes(desk.DiffOf(was, is))}
	if n := len(d.Changes); n > maxChanges {
		d.Changes, d.Cut = d.Changes[:maxChanges], n-maxChanges
	}
	return d, nil
}

// startChain starts an execution of the chain of the page.
func startChain(ctx context.Context, c *call) (string, error) {
	params, err := readJSONParams(c.form.Get("params"))
	if err != nil {
		return "", err
	}
	x, err := c.h.e.Chains().Start(ctx, c.r.PathValue("name"), &engine.ChainOptions{
		Params: params, IdempotencyKey: c.formKey(), Hold: c.form.Get("hold") != "", By: c.by(), Labels: map[string]string{desk.LabelBy: c.ID},
	})
	return c.link("chain-executions", string(x.ID)), err
}

// declaredParams says in words what is declared of parameters.
func declaredParams(params map[string]any) (list []labelRow) {
	declared := flow.ReadParams(params)
	for _, name := range declared.Names() {
		d, _ := declared.Get(name)
		words := []string{cmp.Or(d.Type, "any value")}
		if d.Required {
			words = append(words, "required")
		}
		if d.Secret {
			words = append(words, "the name of a secret")
		}
		if d.Default != nil {
			words = append(words, "otherwise "+format.Clip(80, jsonOf(d.Default)))
		}
		list = append(list, labelRow{name, strings.Join(words, ", ") + "." + format.Clip(300, strings.TrimRight(" "+d.Doc, " "))})
	}
	return list
}

// readJSONParams reads the parameters of a form that are written as a JSON object.
func readJSONParams(text string) (params map[string]any, err error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if err := jsontext.DecodeStrict([]byte(text), &params); err != nil {
		return nil, problem.Invalid("The parameters must be a JSON object: %v", err)
	}
	return params, nil
}

// formKey is the idempotency key of what the form creates, so that other processes create it
// once too; empty if the form has no key.
func (c *call) formKey() string {
	if c.form.Get("key") == "" {
		return ""
	}
	return "page/" + c.formID()
}

// jsonOf returns a JSON value as text.
func jsonOf(v any) string {
	b, err := jsontext.AppendAny(nil, v)
	if err != nil {
		return "?" // it is no value that JSON has, which no definition contains
	}
	return string(b)
}
