package dashboard

import (
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/desk"
)

// A scope says for what a page checks the rights of the visitor.
type scope int

// The scopes.
const (
	onAll       scope = iota // all jobs, and subjects without a job
	onVisible                // any authenticated visitor; the page has only what the visitor may see
	onJob                    // the job {name}
	onExecution              // the job of the execution {id}; a client sees only its own
	onSubject                // the jobs that find returns
)

// A page is a row of the table from which the dashboard is made. The row registers the page and
// authorises requests; tests read it too.
type page struct {
	path string // below the mount, as of http.ServeMux, such as "jobs/{name}"
	// op is the operation whose rights the page needs, by the table in internal/desk: the operation
	// of the API that returns the same data.
	op string
	on scope
	// find returns the jobs of the subject of a page with the scope onSubject.
	find func(c *call) (jobs []string, err error)
	// needs reports whether the host provides the data of the page. If it does not, the page does
	// not exist. Nil means that the page always exists.
	needs func(opt *Options) bool
	about string // what the journal calls that which it is about; empty for the first segment of path without its "s"
	title string // the heading, unless the data sets [call.title]
	nav   string // its name among the links at the top of all pages; empty if it is not there
	group string // its group, one of [navGroups]; empty means the group of the page to which it belongs
	key   string // the key behind "g" that opens it; empty for none
	// file is the name of its template in the folder templates, without ".html". The template
	// defines "main".
	file string
	// scripts are the names of the modules in the folder assets that it needs in addition to those
	// of all pages, without ".js".
	scripts []string
	// query are the parameters of its URL. Others are ignored.
	query []string
	// data returns view.Data for the template.
	data func(c *call) (any, error)
	// live are the fragments that are kept up to date, which are templates of the file. Watch waits
	// for their changes. Both are nil for pages that are not updated.
	live  []string
	watch func(c *call) (*watching, error)
	// actions are the actions of its forms.
	actions []action
}

// patterns returns the patterns of the page for http.ServeMux.
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

// name is the name of the page in log and journal.
func (p *page) name() string {
	if p == nil {
		return "none"
	}
	return "page /" + p.path
}

// kind is the name that the journal uses for the subject of the page: "job" for jobs/{name}.
func (p *page) kind() string {
	if p.about != "" {
		return p.about
	}
	first, _, _ := strings.Cut(p.path, "/")
	return strings.TrimSuffix(first, "s")
}

// allPages returns the table. Pages with a nav are linked at the top of each page, in this order
// within each group.
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

// allow returns an error if the visitor may not do an operation with the subject of the page, and
// reads the execution that the rights depend on.
func (c *call) allow(op string) (err error) {
	need := desk.NeedOf(op)
	switch c.page.on {
	case onAll:
		return c.NeedTo(c.ctx(), "", need, true) // the page itself selects the visitor's own
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
