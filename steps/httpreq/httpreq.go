// Package httpreq has the step http.request, which calls a web service, fetches
// a file from one or sends one to it.
//
// # What may be reached
//
// Only public addresses, by https, unless the host application allows more in
// [Options]: the address is checked when the connection is made, for every
// redirect too. A redirect to another origin takes no credentials, no headers
// of the job's, no client certificate and no body along, and a method that may
// change something is not sent there. A redirect of a public server is never
// followed to an address that is not public, whatever Options allow. Proxies of the environment are not used.
//
// # Repetition
//
// A step runs at least once: its worker may die after the server has acted and
// before that is known. Requests other than GET, HEAD and OPTIONS therefore
// carry an Idempotency-Key that is the same for all attempts of the step in its
// iteration, so that a server that knows such keys acts once. For one that does
// not, once makes the step fail in doubt instead of sending again.
//
// If the job is begun again by retry_job, its values may be others, so the request
// is another one with a key of its own, and the server acts again. An
// idempotency_key of the job's own, or once, prevents that.
//
// # Traces
//
// The trace context of the step, or else of who enqueued the execution, goes along as the
// header traceparent (W3C Trace Context); see [courier.Context.Trace]. It does not if [Options].NoTrace is set, or if the job gives that header itself.
//
// # Failures
//
// No answer, 408, 425, 429 and 5xx are failures that the failure policy may
// retry; other statuses are permanent. Where the server says by Retry-After
// when to come back, the step waits for that itself, up to a limit.
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

// stall is the longest time without progress before a step is given up.
const stall = 60 * time.Second

// open returns the client that the steps of the execution share.
func (o *Options) open(ctx context.Context, job *courier.Context) (*safehttp.Client, error) {
	return courier.Keep(ctx, job, "httpreq.client", func(context.Context) (*safehttp.Client, error) {
		return safehttp.New(o.client()), nil
	})
}
