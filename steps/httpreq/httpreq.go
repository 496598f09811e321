// Package httpreq has the step http.request, which calls a web service, fetches
// a file from one or sends one to it.
//
// # What may be reached
//
// Only public addresses may be requested, over https, unless the host application allows more in
// [Options]. The address is checked when the connection is made, also for every redirect. A
// redirect to another origin gets no credentials, no headers of the job, no client certificate
// and no body, and is not followed for a method that may change something. A redirect from a
// public server to a non-public address is never followed, whatever Options allow. Proxies of the
// environment are not used.
//
// # Repetition
//
// A step runs at least once: its worker may die after the server has acted and before the result
// is stored. Requests other than GET, HEAD and OPTIONS therefore carry an Idempotency-Key. The
// key is the same for all attempts of the step in its iteration, so that a server that supports
// such keys acts once. For other servers, set once: in case of doubt the step then fails instead
// of sending the request again.
//
// If retry_job restarts the job, its values may differ, so the request has a new key, and the
// server acts again. To prevent that, set idempotency_key in the job, or once.
//
// # Traces
//
// The trace context of the step, or else of the caller that enqueued the execution, is sent as
// the header traceparent (W3C Trace Context); see [courier.Context.Trace]. It is not sent if
// [Options].NoTrace is set, or if the job sets that header itself.
//
// # Failures
//
// No response, 408, 425, 429 and 5xx are failures that the failure policy may retry. Other
// unexpected statuses are permanent failures. If the server sends Retry-After, the step itself
// waits for that time, up to a limit.
package httpreq

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
)

// Register adds http.request to r. It panics if the key is taken. A nil opt
// means the defaults.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	courier.Register(r, "http.request", Request{Options: *opt}, &courier.TypeOptions{
		Timeout: new(time.Duration(0)), Stall: new(stall),
		Doc:        "Sends an HTTP request, and keeps the response as outputs or in a file.",
		RepeatDoc:  "sends again, with the same Idempotency-Key if the method changes something; after retry_job with another key, unless idempotency_key gives one; see once",
		CleanupDoc: "removes the unfinished file of earlier attempts, unless resume needs it; keeps a complete one",
	})
}

// stall is the longest time without progress before a step is cancelled.
const stall = 60 * time.Second

// open returns the client that the steps of the execution share.
func (o *Options) open(ctx context.Context, job *courier.Context) (*safehttp.Client, error) {
	return courier.Keep(ctx, job, "httpreq.client", func(context.Context) (*safehttp.Client, error) {
		return safehttp.New(o.client()), nil
	})
}
