package httpapi

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/mount"
)

// A scope says for what a route checks the rights of the visitor.
type scope string

// The scopes.
const (
	onJob       scope = "job"       // the job {name}
	onExecution scope = "execution" // the job of the execution {id}
	onAll       scope = "all"       // all jobs, and resources without a job
	onVisible   scope = "visible"   // any authenticated visitor; the answer has only what the visitor may see
	onBody      scope = "body"      // the job that the stored or the sent definition is about
)

// A route is a row of the table from which the API is made. The row registers the route, authorises
// requests and documents the route; tests read it too.
type route struct {
	method, path string    // below the mount, such as "v1/jobs/{name}/executions"
	id           string    // the operationId, such as "startExecution"
	group        string    // the tag
	does         string    // a sentence
	open         bool      // the caller is not authenticated
	need         desk.Need // what the table of rights says of id; see granted
	on           scope
	query        []param
	headers      []param
	body         any         // the zero value of the type of the body; nil for none
	optional     bool        // the body may be left out
	upload       bool        // the body may be a form with files
	answers      map[int]any // the zero values of the bodies by status; nil for none
	media        string      // of the answer: another kind of JSON, or a text; with a body that is none it can be JSON too
	sets         []string    // headers of its answers, besides those that its form implies
	problems     []*code     // in addition to those that any route may have
	do           func(c *call) error
}

// A param is a parameter of the URL, or a header.
type param struct {
	name, does string
	kind       string   // of its schema: "string", "integer" or "boolean"
	enum       []string // its values; nil for any
	many       bool     // it may be repeated
}

// bounds are the least and the greatest value of the parameters that are numbers. They are the same
// in all routes with that parameter.
var bounds = map[string][2]int{
	"limit": {1, 1000}, "count_limit": {1, 10_000}, "after": {0, 1 << 30}, "step": {0, 1 << 30}, "loop": {0, 1 << 30}, "hours": {1, 360}, "attempt": {1, 1 << 30},
	"version": {1, 1 << 30}, "from": {1, 1 << 30}, "to": {1, 1 << 30},
}

// wrong says what is wrong with the values of the parameter. It is empty if they are valid. The
// document says the same by enum, minimum and maximum.
func (p *param) wrong(values []string) string {
	for _, v := range values {
		if p.enum != nil && !slices.Contains(p.enum, v) {
			return "it must be one of " + strings.Join(p.enum, ", ")
		}
		if b, ok := bounds[p.name]; ok && p.kind == "integer" {
			if n, err := strconv.Atoi(v); err != nil || n < b[0] || n > b[1] {
				return fmt.Sprintf("it must be a number from %d to %d", b[0], b[1])
			}
		}
	}
	return ""
}

// pattern is the pattern of the route for http.ServeMux.
func (t *route) pattern() string {
	path := t.path
	if path == "v1/" {
		path = "v1/{$}"
	}
	return t.method + " /" + path
}

// wildcards returns the names of the path values.
func (t *route) wildcards() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range mount.Segments(t.path) {
			if name, ok := strings.CutPrefix(s, "{"); ok && !yield(strings.TrimRight(name, ".}")) {
				return
			}
		}
	}
}

// name is the name of the route in the log. It is "none" without a route.
func (t *route) name() string {
	if t == nil {
		return "none"
	}
	return t.pattern()
}

// kind is the name that the journal uses for the subject of the route.
func (t *route) kind() string { return strings.TrimSuffix(t.group, "s") }

// table has all routes.
var table = granted(slices.Concat(
	metaRoutes,
	executionRoutes,
	resultRoutes,
	eventRoutes,
	requestRoutes,
	keptFilesRoutes,
	jobRoutes,
	chainRoutes,
	chainExecutionRoutes,
	checkRoutes,
	typeRoutes,
	calendarRoutes,
	scheduleRoutes,
	monitorRoutes,
	expectationRoutes,
	subscriptionRoutes,
	limitRoutes,
	overviewRoutes,
	attentionRoutes,
))

// granted adds the rights to each route, from the table of rights.
func granted(list []route) []route {
	for i := range list {
		if t := &list[i]; !t.open {
			t.need = desk.NeedOf(t.id)
		}
	}
	return list
}

// allow returns an error if the visitor may not use the route, and reads the execution that the
// rights depend on. Routes with the other scopes check the rights themselves.
func (c *call) allow() (err error) {
	for name := range c.route.wildcards() {
		if !jsontext.Storable(c.r.PathValue(name)) {
			return desk.Unknown() // the store accepts no such id
		}
	}
	switch c.route.on {
	case onJob:
		return c.NeedTo(c.ctx(), c.r.PathValue("name"), c.route.need, false)
	case onExecution:
		c.execution, err = c.Execution(c.ctx(), c.r.PathValue("id"), c.route.need)
		return err
	case onAll:
		return c.NeedTo(c.ctx(), "", c.route.need, true) // the route itself selects the visitor's own
	}
	return nil
}
