package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
)

// A state is the state of a job, as README.md describes it and shows it in the database.
type state string

const (
	created state = "CREATED" // recorded, but not accepted yet: only the API changes this state
	queued  state = "QUEUED"
	running state = "RUNNING"
	success state = "SUCCESS"
	retry   state = "RETRY" // queued, but not due until its backoff has passed
	dead    state = "DEAD"
)

// stateOf returns the state of the job that an execution stands for.
func stateOf(x *courier.Execution) state {
	switch x.State {
	case courier.Created:
		return created
	case courier.Running:
		return running
	case courier.Completed:
		return success
	case courier.Failed, courier.Cancelled: // no client cancels jobs; an operator of the database may
		return dead
	case courier.Queued:
		if x.DueAt.After(time.Now()) {
			return retry
		}
	}
	return queued
}

// visible has the states in the form for clients.
var visible = map[state]string{
	created: "PENDING", queued: "PENDING", retry: "PENDING", running: "RUNNING", success: "COMPLETED", dead: "FAILED",
}

// keyScope is the scope of the idempotency keys: each type is a Courier job of its own, and a
// key is unique among the jobs of all types.
const keyScope = "jobs"

// A work is the input of a job type. It may be executed more than once for the same job. ID is the
// key by which an e-mail provider, for example, recognises a repetition.
type work struct {
	ID      courier.ExecutionID
	Attempt int             // from 1
	Payload json.RawMessage // an object, as the client has sent it
}

// jobTypes are the functions of the job types, by the names of their Courier jobs. An error is
// recoverable unless it is marked by courier.Permanent.
var jobTypes = map[string]func(ctx context.Context, w work) error{
	"SEND_EMAIL": sendEmail, "GENERATE_REPORT": pretend, "RUN_BATCH": pretend,
}

// sendEmail would pass the job's ID to the provider, which sends one e-mail for each ID.
func sendEmail(ctx context.Context, w work) error {
	var mail struct{ To string }
	if err := json.Unmarshal(w.Payload, &mail); err != nil || !strings.Contains(mail.To, "@") {
		return courier.Permanent(errors.New("there is no address to send it to"))
	}
	return pretend(ctx, w)
}

// pretend stands for real work. It takes as many seconds as the field "seconds" of the payload
// says, and fails in as many first attempts as the field "failures" says.
func pretend(ctx context.Context, w work) error {
	var p struct {
		Seconds  float64
		Failures int
	}
	if err := json.Unmarshal(w.Payload, &p); err != nil {
		return courier.Permanent(err)
	}
	select {
	case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if w.Attempt <= p.Failures {
		return fmt.Errorf("attempt %d has failed", w.Attempt)
	}
	return nil
}

// Options are the settings of a platform.
type options struct {
	workers    int
	maxRetries int
	backoff    time.Duration // before retry n, counted from 0, it is 2^n times this
	lease      time.Duration
	dir        string // of the engines, for this process alone: jobs have no files
	log        *slog.Logger
}

// A platform is an API and its workers on one store.
type platform struct {
	api     *engine.Engine   // never started, so that it executes nothing
	workers []*engine.Engine // each executes one job at a time
	http    *httpapi.Handler // answers with problem documents
	routes  *http.ServeMux
}

// newPlatform returns a platform whose workers are not started yet.
func newPlatform(ctx context.Context, st store.Store, opt options) (*platform, error) {
	var reg courier.Registry
	type config struct {
		Payload json.RawMessage `json:"payload"`
	}
	for name, do := range jobTypes { // workers leave jobs of other types to workers that have these types
		courier.RegisterFunc(&reg, stepType(name), func(ctx context.Context, job *courier.Context, c config) (none struct{}, err error) {
			return none, do(ctx, work{job.Execution(), job.ExecutionAttempt(), c.Payload})
		}, nil)
	}
	p := &platform{api: engine.New(st, &reg, &engine.Options{Workspace: opt.dir, Log: opt.log}), routes: http.NewServeMux()}
	for range opt.workers { // they are notified of jobs, and poll in case a server dies before it sends the notification
		p.workers = append(p.workers, engine.New(st, &reg, &engine.Options{Workspace: opt.dir, Slots: 1, Lease: opt.lease, Poll: time.Second, Log: opt.log}))
	}
	longest, unlimited := 365*24*time.Hour, time.Duration(0)
	err := p.api.Limits().Set(ctx, "global", 0, courier.By{}) // each worker has its own limit
	for name := range jobTypes {
		_, failed := p.api.Jobs().Define(ctx, courier.Job{
			Name:   name,
			Params: map[string]any{"payload": courier.Param{Type: "object"}},
			FailurePolicy: courier.FailurePolicy{ // of the job as a whole, so that its attempts are counted until it ends
				Type: courier.RetryJob, MaxRetries: &opt.maxRetries, BackoffBase: &opt.backoff, BackoffMax: &longest, Jitter: courier.JitterNone,
			},
			Steps: []courier.StepSpec{{ID: "execute", Type: stepType(name), Timeout: &unlimited, Config: map[string]any{"payload": "context:params.payload"}}},
		}, nil)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	p.http = httpapi.New(p.api, &httpapi.Options{URL: "/courier/api/", Log: opt.log, Access: access.Policy{
		Who:  func(*http.Request) (access.Principal, error) { return access.Principal{ID: "anyone"}, nil },
		Role: func(context.Context, access.Principal, string) access.Role { return access.None },
	}})
	p.routes.Handle("POST /jobs", p.http.Func(p.post))
	p.routes.Handle("GET /jobs/{jobId}", p.http.Func(p.get))
	p.routes.Handle("/courier/api/", p.http) // it permits no calls, and has the pages of the problem types
	return p, nil
}

// stepType is the key of the only step of a job type.
func stepType(jobType string) string { return "platform." + strings.ToLower(jobType) }

// start starts the workers.
func (p *platform) start(ctx context.Context) (err error) {
	for _, w := range p.workers {
		err = errors.Join(err, w.Start(ctx))
	}
	return err
}

// stop stops the workers, all at the same time.
func (p *platform) stop(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(p.workers))
	for i, w := range p.workers {
		all.Go(func() { errs[i] = w.Stop(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// An accepted is the answer to a request that has recorded a job, and to its repetitions.
type accepted struct {
	JobID  courier.ExecutionID `json:"jobId"`
	Status string              `json:"status"`
}

// post answers POST /jobs. It inserts the job in the state CREATED, unless a job with the
// idempotency key exists, and then accepts it, which makes it QUEUED. If the process dies in
// between, the job stays CREATED until the client repeats the request.
func (p *platform) post(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	var body map[string]any
	if err := p.http.ReadJSON(w, r, &body); err != nil {
		return err
	}
	kind, key, err := intent(body)
	if err != nil {
		return err
	}
	x, err := p.api.Enqueue(ctx, kind, &courier.EnqueueOptions{
		Params: map[string]any{"payload": body["payload"]}, IdempotencyKey: key, KeyScope: keyScope, KeyAlone: true, Hold: true,
	})
	if err == nil && x.State == courier.Created {
		id := x.ID
		if x, err = p.api.Release(ctx, id, courier.By{}); errors.Is(err, courier.ErrConflict) { // another request was faster
			x, err = p.api.Executions().Get(ctx, id)
		}
	}
	if err != nil {
		return err
	}
	return p.http.WriteJSON(w, r, http.StatusAccepted, accepted{x.ID, visible[stateOf(&x)]})
}

// intent returns the job type and the key in the body of a request, or all problems with them.
func intent(body map[string]any) (kind, key string, err error) {
	var wrong []string
	for name := range body {
		if !slices.Contains([]string{"jobType", "payload", "idempotencyKey"}, name) {
			wrong = append(wrong, fmt.Sprintf("there is no field %.100q", name))
		}
	}
	kind, _ = body["jobType"].(string)
	if jobTypes[kind] == nil {
		wrong = append(wrong, "jobType must be one of "+strings.Join(slices.Sorted(maps.Keys(jobTypes)), ", "))
	}
	if _, ok := body["payload"].(map[string]any); !ok && body["payload"] != nil {
		wrong = append(wrong, "payload must be an object")
	}
	if key, _ = body["idempotencyKey"].(string); key == "" || utf8.RuneCountInString(key) > 200 {
		wrong = append(wrong, "idempotencyKey must be a text of 1 to 200 characters, and the same one when the request is repeated")
	}
	if wrong != nil {
		slices.Sort(wrong)
		return "", "", courier.Errorf(courier.ErrInvalid, "%s; nothing was recorded", strings.Join(wrong, "; "))
	}
	return kind, key, nil
}

// A view has the properties of a job that clients see.
type view struct {
	JobID     courier.ExecutionID `json:"jobId"`
	JobType   string              `json:"jobType"`
	Status    string              `json:"status"`
	CreatedAt time.Time           `json:"createdAt"`
	UpdatedAt time.Time           `json:"updatedAt"`
}

// get answers GET /jobs/{jobId}.
func (p *platform) get(w http.ResponseWriter, r *http.Request) error {
	x, err := p.api.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("jobId")))
	if errors.Is(err, courier.ErrNotFound) || err == nil && x.KeyScope != keyScope {
		return courier.Errorf(courier.ErrNotFound, "there is no such job")
	}
	if err != nil {
		return err
	}
	return p.http.WriteJSON(w, r, http.StatusOK, view{x.ID, x.Job, visible[stateOf(&x)], x.CreatedAt, x.UpdatedAt})
}
