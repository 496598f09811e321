package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
)

// endpoints are the endpoints of this program. Another handler is another line.
var endpoints = []endpoint{
	{"POST /reports/{customer}", "report", report},
}

// report stands for real work. An error is retried, unless it is marked by courier.Permanent.
func report(ctx context.Context, r request) (any, error) {
	var body struct {
		Seconds float64 // how long it takes
		Fail    string  // if not empty, what it fails with
	}
	if err := json.Unmarshal([]byte(r.Payload), &body); err != nil && r.Payload != "" {
		return nil, courier.Permanent(fmt.Errorf("the payload: %w", err))
	}
	select {
	case <-time.After(time.Duration(body.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if body.Fail != "" {
		return nil, errors.New(body.Fail)
	}
	return map[string]any{"customer": r.RouteParams["customer"], "pages": 12}, nil
}

// A request has the parts of an HTTP request that an endpoint keeps, for the handler and the job.
type request struct {
	Headers     map[string][]string `json:"headers"`     // without Authorization, Cookie and Proxy-Authorization
	RouteParams map[string]string   `json:"routeParams"` // the wildcards of the pattern
	QueryParams []queryParam        `json:"queryParams"` // in order
	Payload     string              `json:"payload"`     // the body, byte by byte
}

type queryParam struct {
	Key   string   `json:"key"`
	Value []string `json:"value"`
}

// An endpoint runs a handler for each request to a pattern of http.ServeMux. The result of the
// handler becomes the result of the job, as JSON. The handler may be called more than once for the
// same job.
type endpoint struct {
	pattern string
	name    string // of its jobs
	handler func(ctx context.Context, r request) (any, error)
}

func (p *endpoint) stepType() string { return "endpoint." + p.name }

type output struct {
	Result string `json:"result"`
}

// work is the step of the endpoint's jobs.
func (p *endpoint) work(ctx context.Context, _ *courier.Context, r request) (output, error) {
	result, err := p.handler(ctx, r)
	if err != nil && ctx.Err() == nil {
		// A timeout of something that the handler calls is not the timeout of the job.
		err = courier.WithClass(err, courier.ReasonError)
	}
	if err != nil {
		return output{}, err
	}
	text, err := json.Marshal(result)
	return output{string(text)}, courier.Permanent(err)
}

// job is the definition of the endpoint's jobs: a step that calls the handler. A retry repeats the
// job as a whole, so that the job counts its retries until it ends. A timeout is not retried.
func (p *endpoint) job(opt *options) courier.Job {
	longest := 365 * 24 * time.Hour
	return courier.Job{
		Name: p.name,
		Params: map[string]any{
			"headers": courier.Param{Type: "object"}, "routeParams": courier.Param{Type: "object"},
			"queryParams": courier.Param{Type: "list"}, "payload": courier.Param{Type: "text"},
		},
		FailurePolicy: courier.FailurePolicy{
			Type: courier.RetryJob, MaxRetries: &opt.maxRetries, BackoffBase: &opt.retryBase, BackoffMax: &longest, Jitter: courier.JitterNone,
			NoRetryOn: []courier.Reason{courier.ReasonTimeout},
		},
		Result: "context:work.result",
		Steps: []courier.StepSpec{{ID: "work", Type: p.stepType(), Timeout: &opt.timeout, Config: map[string]any{
			"headers": "context:params.headers", "routeParams": "context:params.routeParams",
			"queryParams": "context:params.queryParams", "payload": "context:params.payload",
		}}},
	}
}

// params makes the parameters of a job from a request. It leaves out the headers that authenticate
// the sender, because parameters are stored and shown.
func params(r *httpapi.Received) (map[string]any, error) {
	headers := maps.Clone(r.Request.Header)
	for _, secret := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		delete(headers, secret)
	}
	query := []queryParam{}
	for _, q := range r.Query {
		query = append(query, queryParam{q.Name, q.Values})
	}
	return map[string]any{"headers": headers, "routeParams": r.Route, "queryParams": query, "payload": string(r.Raw)}, nil
}

// accepted is the answer to the client that has started a job.
func (s *service) accepted(ctx context.Context, x *courier.Execution) (location string, body any, err error) {
	j, err := s.view(ctx, x)
	return "/jobs/" + string(x.ID), j, err
}

// newGUID returns a random UUID.
func newGUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// find returns the execution of the job that a request names.
func (s *service) find(r *http.Request) (courier.Execution, error) {
	x, err := s.engine.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("jobId")))
	if errors.Is(err, courier.ErrNotFound) {
		err = courier.Errorf(courier.ErrNotFound, "there is no such job")
	}
	return x, err
}

// get answers GET /jobs/{jobId}.
func (s *service) get(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, &x)
}

// answer answers a request with the job of an execution.
func (s *service) answer(w http.ResponseWriter, r *http.Request, status int, x *courier.Execution) error {
	j, err := s.view(r.Context(), x)
	if err != nil {
		return err
	}
	return s.api.WriteJSON(w, r, status, j)
}
