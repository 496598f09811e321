// Package access says who may use a service, and for what. The services are the API of package
// httpapi and the pages of package dashboard.
//
// The host program knows the users; Courier does not. It defines a [Policy]. The policy's Who
// returns the [Principal] that makes a request, and its Role says what that principal may do with
// a job:
//
//	policy := access.Policy{
//		Who: func(r *http.Request) (access.Principal, error) {
//			user, err := sessions.User(r)
//			return access.Principal{ID: user.ID, Name: user.Name}, err
//		},
//		Role: func(ctx context.Context, p access.Principal, job string) access.Role {
//			return access.Viewer
//		},
//	}
//
// A policy without Who refuses every request. [Local] returns the policy of a service that is
// used only on its own host.
package access

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// A Policy says who may do what. Its functions may be called by several goroutines. The zero
// Policy refuses every request.
type Policy struct {
	// Who returns the principal that makes a request. If it returns an error, the request is
	// answered with 401. The error is only logged, except an [*Error], whose text is shown to the
	// visitor. Nil means that every request is refused, except on routes without access control,
	// such as livez. If Who relies on more than the credentials in the request, such as the
	// client's address, it must check r.Host first: a foreign web page can bind its host name to
	// the address of the service (DNS rebinding).
	Who func(r *http.Request) (Principal, error)
	// Role returns what a principal may do with a job. If job is empty, it returns what the
	// principal may do with all jobs, and with everything that belongs to no job. For a job the
	// rights of both results apply. Role is called for each request, and repeatedly during a
	// stream, so it must be fast. Nil means Admin.
	Role func(ctx context.Context, p Principal, job string) Role
	// ClientMay returns the [Settings] that may be set without [RightOverride] when the job is
	// started. Nil means none: a client runs the latest version as it is defined. Only the
	// service can set a limit key that begins with "user:", whatever ClientMay returns.
	ClientMay func(job string) []string
	// Quota returns how many executions of a job may run at once for a principal, however they
	// are started; 0 means any number. Further executions are accepted and wait in the queue. The
	// quota is the limit of the key "user:ID/JOB", which is set when it is first used and when
	// Quota returns another number. It does not apply to members of chains. Nil means any number
	// for all principals. Quotas leave room for other principals only if the quotas of the busy
	// principals add up to less than the limit "global", which is 5 unless it is set.
	Quota func(p Principal, job string) int
	// MaxUnbegun is the maximum number of a principal's executions that have not begun: held, due
	// later, or waiting. 0 means 1,000, and a negative number means no limit. Each process counts
	// the executions that it starts, and reads the count of the store once a minute.
	MaxUnbegun int
	// Origins are the foreign web pages that may call the API from a browser, each as scheme,
	// host and port, such as "https://ops.example.com". The pages of package dashboard accept
	// forms only from themselves.
	Origins []string
	// Metrics is a token with which a scraper may read GET metrics, and nothing else, in the
	// header "Authorization: Bearer TOKEN". It is compared in constant time. Empty means none:
	// only viewers of all jobs can read the metrics. It should have 20 random characters.
	Metrics string
	// Challenge is the header WWW-Authenticate of responses with 401: it says how a client can
	// authenticate (RFC 9110, section 11). Empty means "Bearer", which tells clients of the API
	// that they need a token. With "Basic", such as `Basic realm="courier"`, browsers ask for a
	// name and a password, and send them with every request until the browser is closed: nobody
	// can log out. A service with its own login page leaves Challenge empty, or sets a scheme
	// that browsers do not know, such as `Session`, and sends people to the login page itself: a
	// browser does not follow a link from a response with 401.
	Challenge string
	// Schemes are the ways in which a request can authenticate; one is enough. The keys, of
	// letters and digits, are their names in the OpenAPI document. They affect only that
	// document. Nil means one scheme of the type "http" with the scheme of Challenge.
	Schemes map[string]SecurityScheme

	local *local // of [Local]
}

// MayScrape reports whether a request has the token in Metrics.
func (p *Policy) MayScrape(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return p.Metrics != "" && strings.EqualFold(scheme, "Bearer") && same(token, p.Metrics)
}

// A Principal is the person or program that makes a request.
type Principal struct {
	// ID is the principal's name in the audit, in the journal and in the label "by" of the
	// executions that it starts. It has 1 to 200 characters, and never changes.
	ID   string
	Name string // for people; empty means ID
}

// An Error says that a visitor may not do something. Who may return one.
type Error struct {
	Unknown bool   // the visitor is unknown: the status is 401, otherwise 403
	Text    string // shown to the visitor
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// A SecurityScheme says how a request authenticates, like the Security Scheme Object of OpenAPI
// 3.1. Generated clients and documentation read it; the service does not.
type SecurityScheme struct {
	// Type is "http", "apiKey", "mutualTLS" or "openIdConnect".
	Type        string
	Description string
	// Scheme is the scheme of the header Authorization, such as "bearer" or "basic", for http.
	Scheme       string
	BearerFormat string // such as "JWT"
	// In and Name say where the key is, for apiKey: "header", "query" or "cookie", and the
	// name of the header, parameter or cookie.
	In   string
	Name string
	// OpenIDConnectURL is the URL of the discovery document, for openIdConnect.
	OpenIDConnectURL string
}

// A Role is a set of rights. Roles are not ordered: a [Client] has rights that a [Viewer] does
// not have, and vice versa. A service may combine roles with |, such as Client|Viewer, and remove
// rights with &^, such as Viewer&^RightValues.
type Role uint16

// The rights, each as the role that has only this right. The reference of routes in
// docs/http-reference.md says which rights each route needs.
const (
	RightStart    Role = 1 << iota // start executions
	RightOverride                  // override the job's settings for an execution that is started: see [Settings]
	RightDryRun                    // dry runs, with real connections
	RightOwn                       // see the states, the results and the reasons for waiting of one's own executions, and cancel them
	RightSee                       // see everything but values
	RightValues                    // with RightSee: see parameters, outputs, messages of errors and logs
	RightOperate                   // pause, resume, cancel, release, rerun, bulk; enable and disable
	RightEdit                      // change jobs, chains, schedules, monitors and subscriptions
	RightAdmin                     // set limits, read the journal
)

// The roles.
const (
	None     Role = 0 // nothing; the job is invisible to the principal
	Client        = RightStart | RightOwn
	Viewer        = RightSee | RightValues
	Starter       = Viewer | RightStart | RightOverride | RightDryRun
	Operator      = Starter | RightOperate
	Editor        = Operator | RightEdit
	Admin         = Editor | RightAdmin
)

// Has reports whether the role has all of the given rights.
func (r Role) Has(rights Role) bool { return r&rights == rights }

// String returns the name of the role, such as "viewer". For another set of rights it returns
// their names, such as "see and operate".
func (r Role) String() string {
	for _, n := range roles {
		if n.Role == r {
			return n.Name
		}
	}
	return r.Rights()
}

// Rights returns the names of the rights that the role has, such as "see and values".
func (r Role) Rights() string {
	var names []string
	for _, n := range rights {
		if r.Has(n.Role) {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, " and ")
}

// Least returns the first of [Roles] that has all rights of r.
func (r Role) Least() Role {
	for _, n := range roles {
		if n.Role.Has(r) {
			return n.Role
		}
	}
	return Admin
}

// A Named is a role or a right, with its name and its purpose.
type Named struct {
	Role Role
	Name string
	Does string // such as "see everything about the job"
}

// Roles returns the roles, from [None] to [Admin].
func Roles() []Named { return slices.Clone(roles) }

// Rights returns the rights, from [RightStart] to [RightAdmin].
func Rights() []Named { return slices.Clone(rights) }

var roles = []Named{
	{None, "none", "nothing: the job is hidden"},
	{Client, "client", "start the job, and see, explain and cancel its own executions"},
	{Viewer, "viewer", "see everything about the job"},
	{Starter, "starter", "what a viewer may do, and start the job and try it with a dry run"},
	{Operator, "operator", "what a starter may do, and act on executions, also on many at once: pause, resume, cancel, release, start again; enable and disable schedules, monitors and subscriptions"},
	{Editor, "editor", "what an operator may do, and change jobs, chains, schedules, monitors and subscriptions"},
	{Admin, "admin", "what an editor may do, and set limits and read the journal"},
}

var rights = []Named{
	{RightStart, "start", "start executions"},
	{RightOverride, "override", "override settings of the job for a single execution: " + strings.Join(settings, ", ")},
	{RightDryRun, "dry-run", "try a job or a chain, with real connections"},
	{RightOwn, "own", "see the states and results of its own executions, ask why they wait, and cancel them"},
	{RightSee, "see", "see everything but values"},
	{RightValues, "values", "see parameters, outputs, error messages and logs"},
	{RightOperate, "operate", "act on executions, and enable and disable what starts them"},
	{RightEdit, "edit", "change definitions"},
	{RightAdmin, "admin", "set limits, and read the journal"},
}

// Settings returns the settings of a job that may be overridden when an execution is started: by
// principals with [RightOverride], and by clients if [Policy].ClientMay returns the setting. They
// are the names of fields of the request that starts an execution.
func Settings() []string { return slices.Clone(settings) }

var settings = []string{"priority", "limit_keys", "version", "timeout_seconds", "max_attempts"}
