package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// maxBody is how many bytes the body of a request may have.
const maxBody = 1 << 20

// A service answers HTTP requests with what the engine says.
type service struct {
	engine   *engine.Engine
	log      *slog.Logger
	routes   *http.ServeMux
	guard    *http.CrossOriginProtection
	stopping atomic.Bool
}

// newService returns a service with an engine that is not started yet.
func newService(ctx context.Context, work string, running int, log *slog.Logger) (*service, error) {
	var reg courier.Registry
	register(&reg)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: work, Slots: running, Around: logged(log), Log: log})
	if err := e.Limits().Set(ctx, "global", running, courier.By{}); err != nil {
		return nil, err
	}
	if _, err := e.Jobs().Define(ctx, demo(), nil); err != nil {
		return nil, err
	}
	s := &service{engine: e, log: log, routes: http.NewServeMux(), guard: http.NewCrossOriginProtection()}
	s.routes.HandleFunc("POST /jobs/{name}/executions", s.enqueue)
	s.routes.HandleFunc("GET /executions/{id}", s.execution)
	s.routes.HandleFunc("GET /executions/{id}/audit", s.audit)
	s.routes.HandleFunc("POST /executions/{id}/pause", s.request(e.Pause))
	s.routes.HandleFunc("POST /executions/{id}/resume", s.request(s.resume))
	s.routes.HandleFunc("POST /executions/{id}/cancel", s.request(e.Cancel))
	s.routes.HandleFunc("GET /healthz", s.health)
	return s, nil
}

// resume is Resume in the form of the other requests.
func (s *service) resume(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
	return s.engine.Resume(ctx, id, &engine.ResumeOptions{By: by})
}

// ServeHTTP answers in JSON, also what no route matches.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A web page must not use the browser of somebody on this host.
	if err := s.guard.Check(r); err != nil {
		problem(w, http.StatusForbidden, err.Error())
		return
	}
	h, route := s.routes.Handler(r)
	if route != "" {
		s.routes.ServeHTTP(w, r)
		return
	}
	none := noBody{w, http.StatusNotFound}
	h.ServeHTTP(&none, r)
	problem(w, none.status, fmt.Sprintf("there is no %s %s here", r.Method, r.URL.Path))
}

// A noBody takes the status and the headers of an answer, and drops its text.
type noBody struct {
	http.ResponseWriter
	status int
}

func (b *noBody) WriteHeader(status int)      { b.status = status }
func (b *noBody) Write(p []byte) (int, error) { return len(p), nil }

// enqueue creates an execution. A client that gets no answer sends the request
// again with the same Idempotency-Key, and gets the same execution.
func (s *service) enqueue(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Params   map[string]any `json:"params"`
		Priority int16          `json:"priority"`
	}
	if err := decode(w, r, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	x, err := s.engine.Enqueue(r.Context(), r.PathValue("name"), &engine.EnqueueOptions{
		Params: body.Params, Priority: body.Priority, IdempotencyKey: r.Header.Get("Idempotency-Key"), By: courier.By{Actor: who(r)},
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/executions/"+url.PathEscape(string(x.ID)))
	write(w, http.StatusAccepted, newView(&x))
}

// decode reads the JSON object in the body of a request, strictly; no body is
// the empty object.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	dec.UseNumber() // keeps the digits of large numbers
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.Join(errors.New("more than one JSON value"), err)
	}
	return fmt.Errorf("body: %w: %w", err, courier.ErrInvalid)
}

func (s *service) execution(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, http.StatusOK)
}

// show answers with the execution as it is now.
func (s *service) show(w http.ResponseWriter, r *http.Request, status int) {
	x, err := s.engine.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("id")))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	write(w, status, newView(&x))
}

// A view is what clients see of an execution.
type view struct {
	ID        courier.ExecutionID `json:"id"`
	Job       string              `json:"job"`
	Version   int                 `json:"version"`
	Status    string              `json:"status"`
	Position  courier.Position    `json:"position"`
	Step      string              `json:"step,omitempty"` // in progress, for people
	Failure   *courier.Failure    `json:"failure,omitempty"`
	CreatedAt time.Time           `json:"created_at"`
	StartedAt time.Time           `json:"started_at,omitzero"`
	EndedAt   time.Time           `json:"ended_at,omitzero"`
}

func newView(x *courier.Execution) view {
	v := view{
		ID: x.ID, Job: x.Job, Version: x.Version, Status: x.Status(time.Now()), Position: x.Position,
		Failure: x.Failure, CreatedAt: x.CreatedAt, StartedAt: x.StartedAt, EndedAt: x.EndedAt,
	}
	if c := x.Current; c != nil {
		v.Step = courier.StepLabel(c.Step, c.ID, c.Type)
	}
	return v
}

func (s *service) audit(w http.ResponseWriter, r *http.Request) {
	list, err := s.engine.Executions().Audit(r.Context(), courier.ExecutionID(r.PathValue("id")))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	write(w, http.StatusOK, list)
}

// request answers when the engine has recorded what is asked for, with the
// execution as it then is; a running one obeys soon.
func (s *service) request(ask func(context.Context, courier.ExecutionID, courier.By) (courier.Execution, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := ask(r.Context(), courier.ExecutionID(r.PathValue("id")), courier.By{Actor: who(r)}); err != nil {
			s.fail(w, r, err)
			return
		}
		s.show(w, r, http.StatusAccepted)
	}
}

// health tells load balancers whether to send requests here.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		write(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping"})
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "ready"})
}

// fail answers with the status that belongs to an error of the engine. Those of
// the store are for the log: they may name what is no client's business.
func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, courier.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, courier.ErrConflict): // a *courier.TransitionError too
		status = http.StatusConflict
	case errors.Is(err, courier.ErrInvalid): // a *courier.DefinitionError too
		status = http.StatusBadRequest
	default:
		s.log.Error("request", "method", r.Method, "path", r.URL.Path, "error", err)
		err = errors.New("something is wrong on this side and was logged; a request with an Idempotency-Key can be sent again")
	}
	problem(w, status, err.Error())
}

func problem(w http.ResponseWriter, status int, text string) {
	write(w, status, map[string]string{"error": text})
}

// write answers with v, whole or not at all.
func write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error": "the answer is no JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
