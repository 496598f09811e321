// Package httpapi is the HTTP API of an engine: one http.Handler that a service mounts
// below any path.
//
//	mux.Handle("/courier/api/", httpapi.New(e, &httpapi.Options{Access: httpapi.Local()}))
//
// It says in JSON what the engine knows, and decides nothing itself. Without
// [Options.Access] it lets nobody in; with [Local] it serves who can read the log of the process, on
// the same host. Its routes, with their bodies and
// answers, are in the OpenAPI document at v1/openapi.json and in docs/http-api.md. Errors
// are problem documents as of RFC 9457, whose code a program can rely on.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/desk"
)

// Options are the settings of a Handler. The zero value is the default.
type Options struct {
	Access Access
	// URL is how the API is reached from outside, such as
	// "https://ops.example.com/courier/api/", or "/courier/api/" on the same host. Async
	// endpoints need it for the locations that they answer with, since they lie elsewhere:
	// without it they answer no request.
	URL string
	// MaxBody is how many bytes the body of a request may have; 0 means 1 MiB.
	MaxBody int64
	// Depot keeps the files that come with requests, and the results of executions. Nil means
	// that the API takes no files and has no results. The API removes nothing that belongs to
	// an execution: that is done by started engines, as the [depot.Retention] says that
	// [depot.Register] is given.
	Depot depot.Depot
	// MaxUpload is how many bytes the files of one request may have; 0 means 1 GiB. What the
	// request has besides, such as other fields, is limited by MaxBody.
	MaxUpload int64
	// MaxFiles is how many files one request may have; 0 means 100.
	MaxFiles int
	// MaxUploads is how many uploads one principal may send at once to this process; 0 means
	// 32. Who sends more is answered with 503.
	MaxUploads int
	// MaxPending is how many bytes the uploads of one principal may have together that it sends
	// at once to this process; 0 means 4 GiB, or half of what inputs may take in a
	// [depot.Directory], if that is less. Who sends more is answered with 507, and others have
	// room.
	MaxPending int64
	// MaxInputs is how many bytes the files of one principal may have together in the depot as
	// inputs of executions that have not ended, those of uploads included that it sends to this
	// process; 0 means three quarters of what inputs may take in a [depot.Directory], and no
	// limit in another depot; below 0 there is none. Who sends more is answered with 507, and
	// others have room. What is there is counted every few seconds, so several processes
	// may exceed it together for as long.
	MaxInputs int64
	// MinRate is at how many bytes a second the body of an upload must come, over any 30
	// seconds; 0 means 8 KiB, and below 0 that one byte in 30 seconds is enough.
	MinRate int64
	// MaxStreams is how many streams of events there are at most, and MaxStreamsOf of one
	// principal. 0 means 200 and 10. Who asks for more is answered with 503, and can poll.
	MaxStreams, MaxStreamsOf int
	// MaxExamined is how many executions the lists, searches, streams and bulk actions of one
	// principal may examine in a minute: those that the store selects, by what the principal
	// may see and by the filter. 0 means 1,000,000. Who asks for more is answered with 503;
	// streams wait.
	MaxExamined int
	// Health returns what GET v1/health says of the store, to viewers of all jobs, such as
	// what the method Health of a pgstore returns; it may leave out what they must not know.
	// Nil means nothing.
	Health func(ctx context.Context) (any, error)
	// Log receives what a client is not told: the errors of the store, and requests that
	// were refused too often for the journal. Nil means none.
	Log *slog.Logger
}

// Access says who may do what. The zero value lets nobody in; see [Local] for a service that
// is used on its own host alone.
type Access struct {
	// Who returns who makes a request. If it returns an error, the request is answered with
	// 401, and the error is in the log only. Nil means that every request is refused, but for
	// those of routes that ask nobody, such as livez. One that relies on more than what the
	// request proves, such as on the address of the client, must check r.Host first: a web page
	// elsewhere can bind its name to the address of the service (DNS rebinding).
	Who func(r *http.Request) (Principal, error)
	// Role returns what a principal may do with a job; with all jobs, and with what belongs
	// to none, if job is empty. What counts for a job is what both have. It is called for
	// each request, again and again while a stream lasts, and must be fast. Nil means Admin.
	Role func(ctx context.Context, p Principal, job string) Role
	// ClientMay returns what may be set without [RightOverride] when the job is started, by
	// the names of fields of [StartRequest]: "priority", "limit_keys", "version",
	// "timeout_seconds" and "max_attempts". Nil means nothing: a client runs the latest
	// version as its definition says. A key of a limit that begins with "user:" comes from
	// the service alone, whatever ClientMay returns.
	ClientMay func(job string) []string
	// Quota returns how many executions of a job may run at once for a principal, however
	// they are started; 0 means any number. What exceeds it is accepted and waits in the
	// queue. It is the limit of the key "user:ID/JOB", which is set when it is first used and
	// whenever Quota returns another number. Members of chains are not limited by it. Nil
	// means any number for all. Quotas keep room for others only as far as those of the
	// principals who are busy stay together below the limit "global", which is 5 unless it
	// is set.
	Quota func(p Principal, job string) int
	// MaxUnbegun is how many executions a principal may have that have not begun: that are
	// held, due later, or wait. 0 means 1,000, and less than that any number. Each process
	// counts what it starts, and the store once a minute.
	MaxUnbegun int
	// Origins are the web pages elsewhere that may call the API from a browser, each as
	// scheme, host and port, such as "https://ops.example.com".
	Origins []string
	// Challenge is the header WWW-Authenticate of answers with 401. Empty means "Bearer".
	Challenge string
	// Schemes are the ways in which a request can prove who makes it, one of which is enough,
	// by the names of letters and digits that the OpenAPI document gives them. They change
	// nothing but that document. Nil means one of the type "http" with the scheme of Challenge.
	Schemes map[string]SecurityScheme

	local *local // of [Local]
}

// A Principal is who makes a request.
type Principal struct {
	// ID is the name in the audit, in the journal and as the label "by" of what it starts.
	// It has 1 to 200 characters, and never changes.
	ID   string
	Name string // for people; empty means ID
}

// A Role is a set of rights. Roles are not ordered: a [Client] may do what a [Viewer] may
// not, and the other way round. A service may combine them by |, such as Client|Viewer, and
// take rights away by &^, such as Viewer&^RightValues.
type Role uint16

// The rights, each as the role that has it alone. The reference of routes in
// docs/http-api.md says which ones each route needs.
const (
	RightStart    = Role(desk.RightStart)    // start executions
	RightOverride = Role(desk.RightOverride) // set what the job otherwise says of an execution that is started: see [Access].ClientMay
	RightDryRun   = Role(desk.RightDryRun)   // dry runs, with real connections
	RightOwn      = Role(desk.RightOwn)      // see how the own executions stand, what they resulted in and why they wait, and cancel them
	RightSee      = Role(desk.RightSee)      // see everything but values
	RightValues   = Role(desk.RightValues)   // with RightSee: see parameters, outputs, messages of errors and logs
	RightOperate  = Role(desk.RightOperate)  // pause, resume, cancel, release, rerun, bulk; enable and disable
	RightEdit     = Role(desk.RightEdit)     // change jobs, chains, schedules, monitors and subscriptions
	RightAdmin    = Role(desk.RightAdmin)    // set limits, read the journal
)

// The roles.
const (
	None     = Role(desk.None)     // nothing; the job is not there for it
	Client   = Role(desk.Client)   // RightStart and RightOwn
	Viewer   = Role(desk.Viewer)   // RightSee and RightValues
	Starter  = Role(desk.Starter)  // Viewer, RightStart, RightOverride and RightDryRun
	Operator = Role(desk.Operator) // Starter and RightOperate
	Editor   = Role(desk.Editor)   // Operator and RightEdit
	Admin    = Role(desk.Admin)    // Editor and RightAdmin
)

// String returns the name of the role, such as "viewer", and of another set of rights their
// names.
func (r Role) String() string { return desk.Role(r).String() }

// desk returns the access in the words of package desk.
func (a *Access) desk() desk.Access {
	d := desk.Access{ClientMay: a.ClientMay, MaxUnbegun: a.MaxUnbegun}
	if a.Quota != nil {
		d.Quota = func(p desk.Principal, job string) int { return a.Quota(Principal(p), job) }
	}
	if a.Who != nil {
		d.Who = func(r *http.Request) (desk.Principal, error) {
			p, err := a.Who(r)
			return desk.Principal(p), err
		}
	}
	if a.Role != nil {
		d.Role = func(ctx context.Context, p desk.Principal, job string) desk.Role {
			return desk.Role(a.Role(ctx, Principal(p), job))
		}
	}
	return d
}
