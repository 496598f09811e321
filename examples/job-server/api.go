package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
)

func (s *server) addRoutes() {
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		s.routes.Handle(pattern, s.api.Func(f)) // answers errors with problem documents
	}
	handle("POST /v1/jobs", s.start)
	handle("GET /v1/jobs", s.list)
	handle("GET /v1/jobs/{jobId}", s.get)
	handle("POST /v1/jobs/{jobId}/cancel", s.cancel)
	handle("GET /v1/jobs/{jobId}/events", s.events)
	handle("GET /metrics", func(w http.ResponseWriter, r *http.Request) error { return s.engine.Metrics().Write(r.Context(), w) })
	s.routes.Handle("/courier/api/", s.api)
}

// status returns the status of a job in this API. It is queued if the execution is created, queued,
// scheduled, waiting or paused.
func status(x *courier.Execution) string {
	return cmp.Or(map[string]string{
		"running": "running", "pausing": "running", "finishing": "running", "lost": "orphaned", "completed": "succeeded", "failed": "failed", "cancelling": "cancelling", "cancelled": "cancelled",
	}[x.Status(time.Now())], "queued")
}

// states are the possible states of executions with a status.
var states = map[string][]courier.State{
	"queued": {courier.Created, courier.Queued, courier.Paused}, "running": {courier.Running}, "orphaned": {courier.Running}, "cancelling": {courier.Running},
	"succeeded": {courier.Completed}, "failed": {courier.Failed}, "cancelled": {courier.Cancelled},
}

// A Job is an execution in the form of the API.
type Job struct {
	JobID             courier.ExecutionID `json:"jobId"`
	DefinitionKey     string              `json:"definitionKey"`
	DefinitionVersion int                 `json:"definitionVersion"`
	Params            json.RawMessage     `json:"params,omitempty"` // not in lists
	Status            string              `json:"status"`
	Priority          int16               `json:"priority"`
	Attempts          int                 `json:"attempts"` // number of attempts that have begun
	MaxAttempts       int                 `json:"maxAttempts"`
	ScheduledAt       time.Time           `json:"scheduledAt,omitzero"` // when a queued job is due, if later than it was queued
	QueuedAt          time.Time           `json:"queuedAt"`
	StartedAt         time.Time           `json:"startedAt,omitzero"`
	FinishedAt        time.Time           `json:"finishedAt,omitzero"`
	HeartbeatAt       time.Time           `json:"heartbeatAt,omitzero"`
	LeaseExpiresAt    time.Time           `json:"leaseExpiresAt,omitzero"`
	CancelRequestedAt time.Time           `json:"cancelRequestedAt,omitzero"`
	WorkerID          string              `json:"workerId,omitempty"` // the last one
	IdempotencyKey    string              `json:"idempotencyKey,omitempty"`
	ErrorSummary      string              `json:"errorSummary,omitempty"`
}

func (s *server) job(ctx context.Context, x *courier.Execution) (Job, error) {
	key, version, _ := strings.Cut(x.Job, "@")
	j := Job{
		JobID: x.ID, DefinitionKey: key, Params: x.Params, Status: status(x), Priority: x.Priority, Attempts: x.Attempt, QueuedAt: x.CreatedAt, StartedAt: x.StartedAt,
		FinishedAt: x.EndedAt, HeartbeatAt: x.HeartbeatAt, LeaseExpiresAt: x.LeaseExpiresAt, WorkerID: x.Worker, IdempotencyKey: x.IdempotencyKey,
	}
	j.DefinitionVersion, _ = strconv.Atoi(version)
	if x.StepAttempts == 0 && (x.State == courier.Queued || x.State == courier.Cancelled) {
		j.Attempts-- // the next one has not begun
	}
	if x.State == courier.Queued && x.DueAt.After(x.CreatedAt) {
		j.ScheduledAt = x.DueAt
	}
	if x.Request == courier.RequestCancel {
		j.CancelRequestedAt = x.RequestedAt
	}
	if x.Failure != nil && x.State != courier.Completed {
		j.ErrorSummary = x.Failure.Message
	}
	if x.MaxRetries != nil {
		j.MaxAttempts = *x.MaxRetries + 1
		return j, nil
	}
	d, err := s.engine.Jobs().Get(ctx, x.Job, x.Version)
	j.MaxAttempts = d.FailurePolicy.Retries() + 1
	return j, err
}

func invalid(format string, args ...any) error {
	return courier.Errorf(courier.ErrInvalid, format, args...)
}

// start starts a job.
func (s *server) start(w http.ResponseWriter, r *http.Request) error {
	q := struct {
		DefinitionKey     string         `json:"definitionKey"`
		DefinitionVersion int            `json:"definitionVersion"`
		Params            map[string]any `json:"params"`
		Priority          int16          `json:"priority"`
		MaxAttempts       *int           `json:"maxAttempts"`
		IdempotencyKey    string         `json:"idempotencyKey"`
	}{DefinitionVersion: 1}
	if err := s.api.ReadJSON(w, r, &q); err != nil {
		return err
	}
	opt := &courier.EnqueueOptions{Params: q.Params, Priority: q.Priority, IdempotencyKey: q.IdempotencyKey, By: courier.By{Actor: "api"}}
	switch {
	case q.DefinitionKey == "":
		return invalid("definitionKey is missing")
	case q.DefinitionVersion < 1:
		return invalid("definitionVersion must be at least 1")
	case q.MaxAttempts != nil && *q.MaxAttempts < 1:
		return invalid("maxAttempts must be at least 1")
	case q.MaxAttempts != nil:
		opt.MaxRetries = new(*q.MaxAttempts - 1)
	}
	x, err := s.engine.Enqueue(r.Context(), jobName(q.DefinitionKey, q.DefinitionVersion), opt)
	if errors.Is(err, courier.ErrConflict) {
		err = httpapi.ErrKeyReused
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+string(x.ID))
	return s.api.WriteJSON(w, r, http.StatusAccepted, map[string]any{"jobId": x.ID, "status": status(&x)})
}

func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	x, err := s.engine.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("jobId")))
	if err != nil {
		return err
	}
	j, err := s.job(r.Context(), &x)
	if err != nil {
		return err
	}
	return s.api.WriteJSON(w, r, http.StatusOK, j)
}

// cancel asks a job to stop. A failed job stays failed here, although Courier could cancel it.
func (s *server) cancel(w http.ResponseWriter, r *http.Request) error {
	x, err := s.engine.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("jobId")))
	switch {
	case err == nil && x.State == courier.Failed:
		err = &courier.TransitionError{Execution: x.ID, From: x.State, To: courier.Cancelled}
	case err == nil && x.State != courier.Cancelled:
		x, err = s.engine.Cancel(r.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "api"}})
	}
	if err != nil {
		return err
	}
	return s.api.WriteJSON(w, r, http.StatusAccepted, map[string]any{"jobId": x.ID, "status": status(&x)})
}

// list answers with a page of jobs, the newest first. A page can have fewer jobs than the limit
// even if there is a next page.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	q, f := r.URL.Query(), store.Filter{Limit: 100}
	for name := range q {
		if !slices.Contains([]string{"status", "definitionKey", "limit", "cursor"}, name) {
			return invalid("there is no parameter %.100q; there are status, definitionKey, limit and cursor", name)
		}
	}
	var wanted []string
	if q.Has("status") {
		wanted = strings.Split(q.Get("status"), ",")
	}
	for _, name := range wanted {
		if states[name] == nil {
			return invalid("status: %.100q is none; there are queued, running, succeeded, failed, cancelled, cancelling and orphaned", name)
		}
		f.States = append(f.States, states[name]...)
	}
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > 1000 {
			return invalid("limit must be a number from 1 to 1000")
		}
		f.Limit = n
	}
	f.Before = courier.ExecutionID(q.Get("cursor"))
	page := struct {
		Items []Job               `json:"items"`
		Next  courier.ExecutionID `json:"next,omitempty"` // the cursor of the next page
	}{Items: []Job{}}
	if q.Has("definitionKey") {
		names, err := s.versions(r.Context(), q.Get("definitionKey"))
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return s.api.WriteJSON(w, r, http.StatusOK, page)
		}
		f.Jobs = names
	}
	found, err := s.engine.Executions().List(r.Context(), f)
	if err != nil {
		return err
	}
	for i := range found {
		j, err := s.job(r.Context(), &found[i])
		if err != nil {
			return err
		}
		if wanted == nil || slices.Contains(wanted, j.Status) {
			page.Items = append(page.Items, j)
		}
	}
	if len(found) == f.Limit {
		page.Next = found[len(found)-1].ID
	}
	return s.api.WriteJSON(w, r, http.StatusOK, page)
}

// versions returns the names of the Courier jobs of a definition, one for each of its versions.
func (s *server) versions(ctx context.Context, key string) (names []string, err error) {
	for f := (store.DefinitionFilter{}); ; {
		page, err := s.engine.Jobs().Names(ctx, f)
		if err != nil || len(page) == 0 {
			return names, err
		}
		for _, name := range page {
			if strings.HasPrefix(name, key+"@") {
				names = append(names, name)
			}
		}
		f.After = page[len(page)-1]
	}
}
