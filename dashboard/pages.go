package dashboard

import (
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/desk"
)

// A scope is what the rights of a page are asked for.
type scope int

// The scopes.
const (
	onAll       scope = iota // all jobs, and what belongs to none
	onVisible                // whoever is known; the page has what the visitor may see
	onJob                    // the job {name}
	onExecution              // the job of the execution {id}; of a client only its own
	onSubject                // the jobs of what find returns
)

// A page is a row of the table of which the dashboard is made: it registers itself,
// authorises, and is tested by what it says.
type page struct {
	path string // below the mount, as of http.ServeMux, such as "jobs/{name}"
	// op is the operation whose rights the page needs, by the table in internal/desk: that of
	// the API which shows the same.
	op string
	on scope
	// find returns the jobs of what a page with the scope onSubject is about.
	find func(c *call) (jobs []string, err error)
	// needs reports whether the host has what the page is about; nil means that it does not
	// matter. Otherwise there is no such page.
	needs func(opt *Options) bool
	about string // what the journal calls that which it is about; empty for the first segment of path without its "s"
	title string // the heading, unless the data sets [call.title]
	nav   string // its name among the links at the top of all pages; empty for pages that are not there
	group string // the one of [navGroups] that it is in; empty for that of the page that it belongs to
	key   string // the key behind "g" that opens it; empty for none
	// file is the name of its template in templates, without ".html", which defines "main".
	file string
	// scripts are the names of the modules in assets that it needs beyond those of all pages,
	// without ".js".
	scripts []string
	// query are the parameters of the URL that it has. Others are ignored.
	query []string
	// data returns what the template is executed with, as view.Data.
	data func(c *call) (any, error)
	// live are the fragments that are kept up to date, which are templates of the file, and
	// watch waits for their changes; nil for pages that stand still.
	live  []string
	watch func(c *call) (*watching, error)
	// actions are what its forms do.
	actions []action
}

// patterns are those of the page for http.ServeMux.
func (p *page) patterns() []string {
	path := "/" + p.path
	if p.path == "" {
		path = "/{$}"
	}
	if len(p.actions) == 0 {
		return []string{"GET " + path}
	}
	return []string{"GET " + path, "POST " + path}
}

// name is the page in log and journal.
func (p *page) name() string {
	if p == nil {
		return "none"
	}
	return "page /" + p.path
}

// kind is what the journal calls that which the page is about: "job" for jobs/{name}.
func (p *page) kind() string {
	if p.about != "" {
		return p.about
	}
	first, _, _ := strings.Cut(p.path, "/")
	return strings.TrimSuffix(first, "s")
}

// allPages returns the table. Those with a nav stand at the top of each page, in this order in each
// group.
func allPages() []page {
	return slices.Concat(
		attentionPages,
		acknowledgePages,
		executionPages,
		jobPages,
		bulkPages,
		keptFilesPages,
		schedulePages,
		calendarPages,
		expectationPages,
		connectionPages,
		monitorPages,
		limitPages,
		notificationPages,
		chainPages,
		chainRunPages,
		searchPages,
		journalPages,
		healthPages,
		helpPages,
	)
}

// allow returns the error if the visitor may not do an operation with what the page is about,
// and reads the execution that the rights depend on.
func (c *call) allow(op string) (err error) {
	need := desk.NeedOf(op)
	switch c.page.on {
	case onAll:
		return c.NeedTo(c.ctx(), "", need, true) // what is the own is found by the page
	case onJob:
		return c.NeedTo(c.ctx(), c.r.PathValue("name"), need, false)
	case onExecution:
		c.execution, err = c.Execution(c.ctx(), c.r.PathValue("id"), need)
	case onSubject:
		if c.about, err = c.page.find(c); err == nil {
			err = c.NeedEach(c.ctx(), c.about, need.Rights)
		}
	}
	return err
}
