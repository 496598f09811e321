package dashboard

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// definitionPages returns the pages that compare, edit, start and create jobs or chains. Fresh is
// the scope of the page that creates them.
func definitionPages(kind string, one, fresh scope) []page {
	path, title := kind+"s/{name}", strings.ToUpper(kind[:1])+kind[1:]
	run := map[string]string{"job": "Execution", "chain": "Chain"}[kind]
	return []page{
		{path: path + "/diff", op: "diff" + title, on: one, title: "Changes", file: "diff", query: []string{"from", "to"}, data: (*call).diff},
		{
			path: path + "/edit", op: "put" + title, on: one, title: "Edit", file: "edit", scripts: []string{"unsaved"}, query: []string{"version"}, data: (*call).edit,
			actions: []action{
				{verb: "check", op: "check" + kind, dry: true, do: checkText},
				{verb: "dry-run", op: "dryRunSent" + title, dry: true, do: dryRunText},
				{verb: "define", op: "put" + title, noted: noteBase, do: saveText},
			},
		},
		{
			path: path + "/remove", op: "remove" + title, on: one, title: "Remove", file: "removedefinition", data: (*call).removal,
			actions: []action{{verb: "remove", op: "remove" + title, check: mayRemove, do: removeDefinition}},
		},
		{
			path: path + "/run", op: "start" + run, on: one, title: "Run", file: "run", query: []string{"version"}, data: (*call).run,
			actions: []action{
				{verb: "start", op: "start" + run, do: start},
				{verb: "dry-run", op: "dryRun" + title, dry: true, do: tryRun},
			},
		},
		{path: "new/" + kind, op: "put" + title, on: fresh, about: kind, title: "New " + kind, file: "newdefinition", query: []string{"name"}, data: (*call).newDefinition},
	}
}

// startOp and dryRunOp are the operations that start and dry-run the subject of the page.
func (c *call) startOp() string {
	return map[string]string{"job": "startExecution", "chain": "startChain"}[c.page.kind()]
}

func (c *call) dryRunOp() string {
	return map[string]string{"job": "dryRunJob", "chain": "dryRunChain"}[c.page.kind()]
}

// catalog returns the jobs if the page is about a job, and the chains otherwise.
func (c *call) catalog() desk.Catalog { return c.Catalog(c.page.kind()) }

// version returns a version of the job or the chain of the page. Version 0 means the latest.
func (c *call) version(version int) (desk.Defined, error) {
	d, err := c.catalog().Get(c.ctx(), c.r.PathValue("name"), version)
	return d, c.unknown(err)
}

// saved returns a version, with who saved it. Version 0 means the latest.
func (c *call) saved(version int) (desk.Defined, error) {
	d, err := c.catalog().Saved(c.ctx(), c.r.PathValue("name"), version)
	return d, c.unknown(err)
}

// unknown returns err. If err says that something does not exist, it suggests the nearest name only
// to visitors who may see all names.
func (c *call) unknown(err error) error {
	if errors.Is(err, courier.ErrNotFound) && !c.Can(c.ctx(), "", access.RightSee) {
		return desk.Unknown()
	}
	return err
}

// A definitionPage has the common data of the pages of a version of a job and of a chain.
type definitionPage struct {
	Kind    string
	Version int
	SavedBy string
	SavedAt time.Time
	Latest  int    // the number of the latest version
	Diff    string // reference of the changes in the version; empty for the first one

	Run, Edit, Remove, Executions string // references; empty if the visitor may not

	Removed bool // the latest version removes the definition, and this is an earlier version
	Tabs    []navItem
	Tab     string // empty for the first one

	Params    []definition.Param
	AnyParams bool   // it accepts parameters of any names
	Text      string // of the tab "text"
	Versions  *versionList
	Schedules []scheduleFact
}

// A scheduleFact is a schedule that starts the job, the chain, or a chain that contains the job.
type scheduleFact struct {
	Name, Href, Status string
	Chain              string // the chain that the schedule starts; empty for none
	Next               time.Time
}

// A versionList is a page of the versions of a job or a chain.
type versionList struct {
	Parts string // the name of the numbers in Parts
	Rows  []versionRow
	First string
	Next  string
	Diff  string // reference of the page that compares two versions
}

type versionRow struct {
	Version    int
	Href, Diff string
	SavedBy    string
	SavedAt    time.Time
	Parts      int  // steps or members
	From, To   bool // the default selection of the form that compares
}

const (
	versionsPage = 50
	maxPartsRead = 20_000 // of all versions, or executions, that a page lists; at least two are read
)

// atMost returns how many versions or executions a page reads: at most the given number, and fewer
// if the definition has many steps or members.
func atMost(most, parts int) int { return min(most, max(2, maxPartsRead/max(1, parts))) }

// versionQuery are the parameters of the URL of the page of a version.
var versionQuery = []string{"version", "tab", "before"}

// definition reads the version that the address names. First is the name of the first tab.
func (c *call) definition(first, executions string) (d desk.Defined, p *definitionPage, err error) {
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return d, nil, err
	}
	if d, err = c.saved(version); err != nil {
		return d, nil, err
	}
	name, kind := *d.Name(), c.page.kind()
	p = &definitionPage{Kind: kind, Version: *d.Version(), Latest: *d.Version(), SavedBy: d.By, SavedAt: d.At, Executions: executions, Tab: c.query.Get("tab")}
	if version != 0 {
		latest, err := c.version(0)
		if p.Removed = errors.Is(err, courier.ErrNotFound); err != nil && !p.Removed {
			return d, nil, err
		} else if err == nil {
			p.Latest = *latest.Version()
		}
	}
	if c.mayDo(c.startOp()) && !p.Removed {
		p.Run = c.link(kind+"s", name, "run")
	}
	if c.may(access.RightEdit) && !p.Removed {
		p.Edit, p.Remove = c.link(kind+"s", name, "edit"), c.link(kind+"s", name, "remove")
	}
	if p.Version > 1 {
		p.Diff = c.diffLink(p.Version-1, p.Version)
	}
	if !slices.Contains([]string{"text", "versions", "schedules"}, p.Tab) {
		p.Tab = ""
	}
	for _, t := range []struct{ name, label string }{{"", first}, {"text", "Text"}, {"versions", "Versions"}, {"schedules", "Schedules"}} {
		p.Tabs = append(p.Tabs, navItem{Label: t.label, Href: c.with("tab", t.name, "before", "", "from", ""), Current: t.name == p.Tab})
	}
	switch p.Tab {
	case "text":
		p.Text = definition.Text(d.Definition)
	case "versions":
		p.Versions, err = c.versions(partsOf(&d))
	case "schedules":
		p.Schedules, err = c.schedulesOf(name)
	default:
		declared := paramsOf(&d)
		p.Params, p.AnyParams = definition.Params(declared), declared == nil
	}
	return d, p, err
}

// removal is the page that removes a job or a chain.
func (c *call) removal() (any, error) {
	d, err := c.version(0)
	if err != nil {
		return nil, err
	}
	kind := c.page.kind()
	c.title = "Remove " + format.Clip(80, *d.Name())
	return keptPage{Kind: kind, Remove: c.removes(kind, *d.Name(), "This removes the "+kind+" from all lists. It can't be started until somebody defines it again. Its versions and executions stay.")}, nil
}

// mayRemove returns a problem unless the visitor has typed the name of the job or chain.
func mayRemove(c *call) error {
	name := c.r.PathValue("name")
	if wrong := c.confirmed(c.page.kind(), name); wrong != nil {
		return c.catalog().Failed(name, wrong)
	}
	return nil
}

// removeDefinition removes the job or the chain of the page.
func removeDefinition(ctx context.Context, c *call) (string, error) {
	return c.link(c.page.kind() + "s"), c.catalog().Remove(ctx, c.r.PathValue("name"), c.by())
}

// paramsOf returns the parameters that a definition declares.
func paramsOf(d *desk.Defined) map[string]any {
	if j, ok := d.Definition.(*courier.Job); ok {
		return j.Params
	}
	return d.Definition.(*chain.Chain).Params
}

// diffLink returns the reference of the comparison of two versions.
func (c *call) diffLink(from, to int) string {
	return c.link(c.page.kind()+"s", c.r.PathValue("name"), "diff") + "?" + url.Values{"from": {strconv.Itoa(from)}, "to": {strconv.Itoa(to)}}.Encode()
}

// partsOf returns the number of steps or members of a definition.
func partsOf(d *desk.Defined) int {
	if j, ok := d.Definition.(*courier.Job); ok {
		return len(j.Steps)
	}
	return len(d.Definition.(*chain.Chain).Members)
}

// versions returns a page of the versions. Parts is the number of steps or members of one version.
func (c *call) versions(parts int) (*versionList, error) {
	before, err := c.number("before", 0, 2, 1<<30)
	if err != nil {
		return nil, err
	}
	most := atMost(versionsPage, parts)
	list, err := c.catalog().Versions(c.ctx(), c.r.PathValue("name"), store.VersionFilter{Before: before, Limit: most})
	if err != nil {
		return nil, err
	}
	v := &versionList{Parts: map[string]string{"job": "Entries", "chain": "Members"}[c.page.kind()], Diff: c.link(c.page.kind()+"s", c.r.PathValue("name"), "diff")}
	for i := range list {
		d := &list[i]
		r := versionRow{Version: *d.Version(), Href: c.with("tab", "", "before", "", "version", strconv.Itoa(*d.Version())), SavedBy: d.By, SavedAt: d.At, Parts: partsOf(d), From: i == min(1, len(list)-1), To: i == 0}
		if r.Version > 1 {
			r.Diff = c.diffLink(r.Version-1, r.Version)
		}
		v.Rows = append(v.Rows, r)
	}
	if before != 0 {
		v.First = c.with("before", "")
	}
	if n := len(v.Rows); n == most && v.Rows[n-1].Version > 1 {
		v.Next = c.with("before", strconv.Itoa(v.Rows[n-1].Version))
	}
	return v, nil
}

// schedulesOf returns the first hundred schedules that start the job or the chain.
func (c *call) schedulesOf(name string) (facts []scheduleFact, err error) {
	kind := store.Job
	if c.page.kind() == "chain" {
		kind = store.Chain
	}
	list, err := c.h.e.Schedules().List(c.ctx(), schedule.Filter{Kind: kind, Target: name, Limit: 100})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	for i := range list {
		facts = append(facts, c.scheduleFact(&list[i]))
	}
	if kind == store.Job && err == nil {
		var all []schedule.Schedule
		if all, _, err = c.Schedules(c.ctx(), "", 1000); err == nil {
			err = c.eachChain(all, func(s *schedule.Schedule, has func(job string) bool) {
				if has(name) {
					facts = append(facts, c.scheduleFact(s))
				}
			})
		}
	}
	return facts, err
}

func (c *call) scheduleFact(s *schedule.Schedule) scheduleFact {
	f := scheduleFact{Name: s.Name, Href: c.link("schedules", s.Name), Status: "enabled", Next: s.FiresAt(), Chain: s.Chain}
	if s.Paused {
		f.Status = "paused"
	}
	if s.Disabled {
		f.Status = "disabled"
	}
	return f
}

// A diffPage compares two versions of a job or a chain.
type diffPage struct {
	Kind, Back, Versions string
	Diff                 *diff.View
	First                bool // there is only one version, and nothing to compare it with
}

func (c *call) diff() (any, error) {
	from, err := c.number("from", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	to, err := c.number("to", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	b, err := c.version(to)
	if err != nil {
		return nil, err
	}
	name, kind := *b.Name(), c.page.kind()
	c.title = "Changes of " + format.Clip(80, name)
	p := &diffPage{Kind: kind, Back: c.link(kind+"s", name), Versions: c.link(kind+"s", name) + "?tab=versions"}
	if from == 0 {
		from = *b.Version() - 1
	}
	if p.First = from == 0; p.First {
		return p, nil
	}
	a, err := c.version(from)
	if err != nil {
		return nil, err
	}
	p.Diff, err = diff.Of(a.Definition, b.Definition, versionText(&a), versionText(&b))
	return p, err
}

// versionText is the name of a version in a comparison.
func versionText(d *desk.Defined) string { return "version " + strconv.Itoa(*d.Version()) }
