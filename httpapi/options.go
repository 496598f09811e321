// Package httpapi is the HTTP API of an engine: one http.Handler that a service mounts
// below any path.
//
//	mux.Handle("/courier/api/", httpapi.New(e, &httpapi.Options{Access: access.Local()}))
//
// It makes the engine available in JSON, and adds no rules of its own. Without [Options.Access] it
// refuses every request; with [access.Local] it serves users of the same host who can read the log
// of the process. Its routes, with their bodies and answers, are in the OpenAPI document at
// v1/openapi.json and in docs/http-api.md. Errors are problem documents as of RFC 9457, whose code
// a program can rely on.
package httpapi

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
)

// Options are the settings of a Handler. The zero value is the default.
type Options struct {
	Access access.Policy
	// URL is how the API is reached from outside, such as
	// "https://ops.example.com/courier/api/", or "/courier/api/" on the same host. Async
	// endpoints and the handlers of [Handler.Func] need it for the locations and the types of
	// problems that they answer with, since they lie elsewhere: without it they answer no
	// request.
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
