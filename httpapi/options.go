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
	// URL is how the API is reached from outside, such as "https://ops.example.com/courier/api/",
	// or "/courier/api/" on the same host. Async endpoints and the handlers of [Handler.Func] need
	// it for the locations and the problem types in their answers, because they are not below the
	// path of the API. Without it they serve no request.
	URL string
	// MaxBody is the largest size of a request body in bytes; 0 means 1 MiB.
	MaxBody int64
	// Depot keeps the files that come with requests, and the results of executions. Nil means that
	// the API accepts no files and has no results. The API removes no files of executions. Started
	// engines remove them, according to the [depot.Retention] that is passed to [depot.Register].
	Depot depot.Depot
	// MaxUpload is how many bytes the files of one request may have; 0 means 1 GiB. MaxBody limits
	// the other parts of the request, such as other fields.
	MaxUpload int64
	// MaxFiles is how many files one request may have; 0 means 100.
	MaxFiles int
	// MaxUploads is how many uploads one principal may send to this process at the same time; 0
	// means 32. Further uploads are answered with 503.
	MaxUploads int
	// MaxPending is how many bytes the uploads that one principal sends to this process at the same
	// time may have together. 0 means 4 GiB, or half of the space for inputs of a [depot.Directory]
	// if that is less. An upload beyond it is answered with 507, so that other principals have
	// room.
	MaxPending int64
	// MaxInputs is how many bytes the inputs of one principal's executions that have not ended may
	// have together in the depot, including the uploads that the principal sends to this process. 0
	// means three quarters of the space for inputs of a [depot.Directory], and no limit in another
	// depot; below 0 there is no limit. An upload beyond it is answered with 507, so that other
	// principals have room. The inputs are counted every few seconds, so several processes together
	// may exceed the limit for that long.
	MaxInputs int64
	// MinRate is the least number of bytes a second at which the body of an upload must arrive,
	// over any 30 seconds. 0 means 8 KiB; below 0 one byte in 30 seconds is enough.
	MinRate int64
	// MaxStreams is the largest number of streams of events, and MaxStreamsOf the largest number
	// for one principal. 0 means 200 and 10. Further streams are answered with 503; their clients
	// can poll.
	MaxStreams, MaxStreamsOf int
	// MaxExamined is how many executions the lists, searches, streams and bulk actions of one
	// principal may examine in a minute. Each execution counts that the store selects by the rights
	// of the principal and by the filter. 0 means 1,000,000. Beyond it requests are answered with
	// 503, and streams wait.
	MaxExamined int
	// Health returns what GET v1/health reports about the store to viewers of all jobs, such as the
	// result of the method Health of a pgstore. It may leave out what they must not see. Nil means
	// nothing.
	Health func(ctx context.Context) (any, error)
	// Log receives errors that clients must not see, such as those of the store, and refused
	// requests that are too frequent for the journal. Nil means no log.
	Log *slog.Logger
}
