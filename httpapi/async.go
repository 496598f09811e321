package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/webhook"
)

// AsyncOptions are the settings of an async endpoint. The zero value is the default. The job
// defines the result of an execution; see [courier.Job].Result.
type AsyncOptions struct {
	// Headers are the headers of the request that become parameters, in addition to Content-Type
	// and the headers of webhooks. Headers with credentials can't be among them, since parameters
	// are stored and shown: Authorization, Cookie, Proxy-Authorization and Set-Cookie. If a header
	// differs each time a client repeats a request, such as a time, the repeated idempotency key is
	// a conflict.
	Headers []string
	// Params returns the parameters of the job. The answer has the text of an error of package
	// courier, such as courier.Errorf(courier.ErrInvalid, ...); other errors are only logged. Nil
	// means one parameter, "request", with the fields of [Received], which the job must declare if
	// it declares any. With Files, a job that declares "files" gets the files there. If it does not
	// declare "request", its parameters are the fields of the form. Both are as in uploads, so an
	// upload can start the same job.
	Params func(r *Received) (map[string]any, error)
	// Key returns the idempotency key of a request, empty for none. Nil means the header
	// Idempotency-Key, or else webhook-id; with Verify it is webhook-id first, because it is
	// signed.
	Key func(r *Received) string
	// RequireKey refuses requests without a key.
	RequireKey bool
	// KeyAlone answers a repeated key with the execution that used it, even if the rest of the
	// request differs; see [courier.EnqueueOptions]. Otherwise a request that repeats a key with
	// other parameters is refused.
	KeyAlone bool
	// KeyScope is the scope of the keys, shared by all endpoints and jobs that use it; see
	// [courier.EnqueueOptions]. Empty means that a key counts for its job.
	KeyScope string
	// Verify returns an error if the request does not prove its sender; see [StandardWebhook]. The
	// error is only logged. With Verify, neither Access.Who nor Access.Role is called, and the
	// actor of the execution is "webhook:" followed by As.
	Verify func(r *http.Request, body []byte) error
	// As is the name of the sender of requests that Verify accepts. Empty means the name of the
	// job.
	As string
	// Files accepts files: a form of multipart/form-data, or a body of another media type, which is
	// one file. Its name is the filename in the header Content-Disposition, or "body". The files
	// become the inputs of the execution in Options.Depot. With Files, Verify must be nil: a
	// signature covers the whole body, and the body is not kept.
	Files bool
	// Require lists the names of files that a request must have. The request may have others too.
	// It needs Files.
	Require []string
	// JobField names a field, of the form or of the JSON object in the body, that picks the job,
	// such as "service". A request without it starts the job of the endpoint. The caller needs the
	// right to start both jobs, because the body is received before the job is known. With Verify,
	// JobField must be empty.
	JobField string
	// Expires is the time within which an execution must begin; 0 means no limit. With Files,
	// a form field expires_seconds replaces it, unless the job declares such a parameter.
	Expires time.Duration
	// Timeout limits the whole execution; 0 means no limit. Nil means the timeout of the job, or 30
	// minutes if the job has none.
	Timeout *time.Duration
	// Answer returns the host's own answer to the client that started x: the header Location, and a
	// body that is written as JSON. X is the execution as it was enqueued. If the request repeats
	// an idempotency key, x is the execution as it is now. Nil means the location in the API and an
	// [Accepted].
	Answer func(ctx context.Context, x *courier.Execution) (location string, body any, err error)
}

// asyncTimeout is the timeout of executions if neither the host nor the job sets one.
const asyncTimeout = 30 * time.Minute

// An Accepted is the answer of an async endpoint.
type Accepted struct {
	ID     courier.ExecutionID `json:"id"`
	Status string              `json:"status"`
}

// Async returns a handler that the host registers in its own mux, under its own pattern. Each
// request starts an execution of a job. The answer is 202 with the id, the status, and the Location
// of the execution in the API, which begins with [Options.URL]. The execution does its work later;
// the client reads its status at the Location. A request becomes the parameters of the execution;
// see [Received]. The header traceparent becomes the trace context, and X-Request-Id becomes the
// label "request_id". Neither is a parameter, because they differ each time a client repeats a
// request, and a repeated idempotency key requires the same parameters.
//
//	mux.Handle("POST /reports/{customer}", api.Async("report", nil))
//
// The caller needs the right [access.RightStart] for the job, which an [access.Client] has. The
// methods GET, HEAD, OPTIONS and TRACE are refused, because requests with them must change nothing.
// Mistakes in the options are logged, and are in the answer to each request.
func (h *Handler) Async(job string, opt *AsyncOptions) http.Handler {
	e := &endpoint{h: h, job: job, root: h.root()}
	if opt != nil {
		e.opt = *opt
		e.opt.Headers, e.opt.Require = slices.Clone(opt.Headers), slices.Clone(opt.Require)
	}
	if e.opt.As == "" {
		e.opt.As = job
	}
	if e.err = e.check(); e.err != nil {
		h.log.Error("an async endpoint can't answer requests", "job", job, "error", e.err)
	}
	return e
}

// An endpoint starts executions of a job.
type endpoint struct {
	h       *Handler
	job     string
	opt     AsyncOptions
	root    string // the URL of the API
	err     error  // not nil if the settings are wrong; then no request is served
	refused atomic.Int64
}

// check returns what is wrong with the settings.
func (e *endpoint) check() error {
	for _, name := range e.opt.Headers {
		if isProof(name) {
			return problemf(codeInternal, "AsyncOptions.Headers of this endpoint has %s, which proves who somebody is: leave it out, since parameters are stored and shown", http.CanonicalHeaderKey(name))
		}
	}
	switch err := e.h.checkURL(); {
	case err != nil:
		return err
	case e.opt.Files && e.h.opt.Depot == nil:
		return problemf(codeInternal, "AsyncOptions.Files of this endpoint needs a depot for the files: set Options.Depot")
	case e.opt.Files && e.opt.Verify != nil:
		return problemf(codeInternal, "AsyncOptions.Files of this endpoint excludes AsyncOptions.Verify, since the signed body is not kept: find out who makes a request by Access.Who")
	case e.opt.JobField != "" && e.opt.Verify != nil:
		return problemf(codeInternal, "AsyncOptions.JobField of this endpoint excludes AsyncOptions.Verify, which says nothing about who may start which job")
	case !e.opt.Files && len(e.opt.Require) > 0:
		return problemf(codeInternal, "AsyncOptions.Require of this endpoint needs AsyncOptions.Files")
	case e.opt.Expires < 0:
		return problemf(codeInternal, "AsyncOptions.Expires of this endpoint is negative: write 0 for any time")
	case e.opt.Timeout != nil && *e.opt.Timeout < 0:
		return problemf(codeInternal, "AsyncOptions.Timeout of this endpoint is negative: write 0 for none")
	case utf8.RuneCountInString(e.opt.As) > 190:
		return problemf(codeInternal, "AsyncOptions.As of this endpoint has more than 190 characters")
	}
	return nil
}

// ServeHTTP answers a request.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.Pattern, "/")
	c := &call{h: e.h, w: w, r: r, root: e.root}
	c.route = &route{method: r.Method, path: path, id: "startExecution", group: "executions", need: desk.NeedOf("startExecution")}
	c.protected(func() error { return e.serve(c) })
}

func (e *endpoint) serve(c *call) error {
	if err := errors.Join(e.err, e.h.origins.err); err != nil {
		return err
	}
	switch c.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		c.w.Header().Set("Allow", "POST, PUT, PATCH, DELETE")
		return problemf(codeMethod, "a request with this method must change nothing: send POST, PUT, PATCH or DELETE")
	}
	raw, err := e.enter(c)
	if err != nil {
		return err
	}
	var u *upload
	if e.opt.Files {
		if u, err = e.files(c); err != nil {
			return err
		}
		defer u.end()
	}
	r, err := e.receive(c, raw, u)
	if err != nil {
		return err
	}
	job, err := e.pick(c, r)
	if err != nil {
		return err
	}
	key, err := e.key(c, r)
	if err != nil {
		return err
	}
	opt, err := e.options(c, job, r, u)
	if err != nil {
		return e.undefined(c, job, err)
	}
	opt.IdempotencyKey, opt.KeyAlone, opt.KeyScope = key, e.opt.KeyAlone, e.opt.KeyScope
	enqueue := func() (courier.Execution, error) { return e.h.e.Enqueue(c.ctx(), job, opt) }
	if u != nil {
		enqueue = func() (courier.Execution, error) { return u.enqueue(job, opt) }
	}
	x, err := enqueue()
	if err != nil {
		return e.undefined(c, job, startProblem(err, key))
	}
	location, body := e.root+"v1/executions/"+string(x.ID), any(Accepted{x.ID, clientStatus(&x)})
	if e.opt.Answer != nil {
		if location, body, err = e.opt.Answer(c.ctx(), &x); err != nil {
			return err
		}
	}
	c.w.Header().Set("Location", location)
	return c.answer(http.StatusAccepted, body)
}

// pick returns the job that the request starts.
func (e *endpoint) pick(c *call, r *Received) (string, error) {
	fields, _ := r.Body.(map[string]any)
	given, ok := fields[e.opt.JobField]
	if e.opt.JobField == "" || !ok {
		return e.job, nil
	}
	job, ok := given.(string)
	if !ok || job == "" {
		return "", oneProblem(item{Pointer: shortPointer("/" + jsontext.EscapePointer(e.opt.JobField)), Message: "it must be the name of a job"})
	}
	return job, c.NeedTo(c.ctx(), job, c.route.need, false)
}

// enter authenticates the caller and returns the body. If the endpoint takes files, the body stays
// unread.
func (e *endpoint) enter(c *call) (raw []byte, err error) {
	if e.opt.Verify != nil {
		if raw, err = c.readBody(); err == nil {
			err = e.verify(c, raw)
		}
		return raw, err
	}
	v, err := e.h.desk.Enter(c.r)
	if err != nil {
		return nil, err
	}
	c.Visit = v
	if err = c.NeedTo(c.ctx(), e.job, c.route.need, false); err != nil || e.opt.Files {
		return nil, err
	}
	return c.readBody()
}

// key returns the idempotency key of the request.
func (e *endpoint) key(c *call, r *Received) (key string, err error) {
	signed := e.opt.Verify != nil && c.r.Header.Get(webhook.HeaderID) != ""
	if e.opt.Key != nil {
		key, err = c.ownKey(e.opt.Key(r))
	} else if !signed {
		key, err = c.key("")
	}
	if e.opt.Key == nil && key == "" && err == nil {
		key, err = c.ownKey(c.r.Header.Get(webhook.HeaderID))
	}
	if key == "" && err == nil && e.opt.RequireKey {
		err = problemf(codeKeyRequired, "this endpoint takes no request without a header Idempotency-Key, which names the request: a repetition with the same one starts nothing")
	}
	return key, err
}

// options returns the settings of the execution, without its key.
func (e *endpoint) options(c *call, job string, r *Received, u *upload) (*courier.EnqueueOptions, error) {
	opt := &courier.EnqueueOptions{By: c.By(""), Labels: c.Labels(), Trace: traceOf(c.r), Timeout: e.opt.Timeout, Expires: e.opt.Expires}
	if id := c.r.Header.Get("X-Request-Id"); isLabel(id) {
		opt.Labels["request_id"] = id
	}
	var err error
	if opt.Timeout == nil {
		if opt.Timeout, err = e.timeout(c.ctx(), job); err != nil {
			return nil, err
		}
	}
	if err = c.Charge(c.ctx(), job, opt); err != nil {
		return nil, err
	}
	opt.Params = map[string]any{requestParam: r}
	if e.opt.Params != nil {
		if opt.Params, err = e.opt.Params(r); err != nil {
			return nil, err
		}
	}
	if u != nil {
		err = e.inputs(c, job, u, opt)
	}
	return opt, err
}

const requestParam = "request"

// inputs adds the other settings of a request with files, by the rules of uploads.
func (e *endpoint) inputs(c *call, name string, u *upload, opt *courier.EnqueueOptions) error {
	job, err := e.h.e.Jobs().Get(c.ctx(), name, 0)
	if err != nil {
		return err
	}
	declared := flow.ReadParams(job.Params)
	u.jobField = e.opt.JobField
	if err := u.expires(declared, opt); err != nil || !isDeclared(declared, filesParam) {
		return err
	}
	if e.opt.Params == nil && !isDeclared(declared, requestParam) {
		opt.Params, err = u.params(declared)
		return err
	}
	if _, given := opt.Params[filesParam]; !given {
		opt.Params = maps.Clone(opt.Params)
		if opt.Params == nil {
			opt.Params = make(map[string]any)
		}
		opt.Params[filesParam] = u.uploaded()
	}
	return nil
}

// timeout returns the timeout of an execution for which the host has set none. Nil means the
// timeout of the job.
func (e *endpoint) timeout(ctx context.Context, name string) (*time.Duration, error) {
	job, err := e.h.e.Jobs().Get(ctx, name, 0)
	if err != nil || job.Timeout > 0 {
		return nil, err
	}
	d := asyncTimeout
	return &d, nil
}

// undefined returns err. If err says that there is no such job, it returns an error that the
// service is misconfigured: the client has not named the job, unless the host lets it pick one.
func (e *endpoint) undefined(c *call, job string, err error) error {
	if job != e.job {
		return c.unknown(err)
	}
	if errors.Is(err, courier.ErrNotFound) {
		e.h.log.Error("the job of an async endpoint is not defined", "job", e.job, "error", err)
		return problemf(codeInternal, "the job of this endpoint is not defined: its operators find the name in the log")
	}
	return err
}
