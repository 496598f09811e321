// Package httpapi is the HTTP API of an engine: one http.Handler that a service mounts
// below any path.
//
//	mux.Handle("/courier/api/", httpapi.New(e, nil))
//
// It says in JSON what the engine knows, and decides nothing itself. Without
// [Options.Access] it serves programs on this host only. Its routes, with their bodies and
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
	// "https://ops.example.com/courier/api/". Async endpoints need it for the locations that
	// they answer with, since they lie elsewhere; empty means that they are relative to "/".
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

// Access says who may do what.
type Access struct {
	// Who returns who makes a request. If it returns an error, the request is answered with
	// 401, and the error is in the log only. Nil means that programs on this host alone may
	// make requests, under a host name that is a loopback address or "localhost", and not
	// through a proxy; they are "local".
	Who func(r *http.Request) (Principal, error)
	// Role returns what a principal may do with a job; with all jobs, and with what belongs
	// to none, if job is empty. What counts for a job is the greater of the two. It is called
	// for each request, and must be fast. Nil means Admin.
	Role func(ctx context.Context, p Principal, job string) Role
	// Values is the least role that sees parameters, outputs, messages of errors and logs.
	// 0 means Viewer.
	Values Role
	// Origins are the web pages elsewhere that may call the API from a browser, each as
	// scheme, host and port, such as "https://ops.example.com".
	Origins []string
	// Challenge is the header WWW-Authenticate of answers with 401. Empty means "Bearer".
	Challenge string
}

// A Principal is who makes a request.
type Principal struct {
	// ID is the name in the audit, in the journal and as the label "by" of what it starts.
	// It has 1 to 200 characters, and never changes.
	ID   string
	Name string // for people; empty means ID
}

// A Role is what a principal may do. Each includes those before it.
type Role int

// The roles.
const (
	None     = Role(desk.None)     // nothing; the job is not there for it
	Client   = Role(desk.Client)   // start the job, and see how its own executions stand, and what they resulted in
	Viewer   = Role(desk.Viewer)   // see everything of the job
	Operator = Role(desk.Operator) // pause, resume, cancel, release and rerun; bulk; enable and disable
	Editor   = Role(desk.Editor)   // change jobs, chains, schedules, monitors and subscriptions
	Admin    = Role(desk.Admin)    // set limits, read the journal, and everything else
)

// String returns the name of the role, such as "viewer".
func (r Role) String() string { return desk.Role(r).String() }

// desk returns the access in the words of package desk.
func (a *Access) desk() desk.Access {
	d := desk.Access{Values: desk.Role(a.Values)}
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
