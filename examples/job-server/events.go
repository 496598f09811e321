package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// An Event is one in the life of a job, or one that its function has emitted.
type Event struct {
	JobID   courier.ExecutionID `json:"jobId"`
	Type    string              `json:"type"`
	At      time.Time           `json:"at"`
	Payload json.RawMessage     `json:"payload,omitempty"`

	id int64 // after which a stream goes on; 0 for none
}

// eventType names a change of state; empty for one of the step within the job.
func eventType(a *courier.AuditEntry) string {
	switch {
	case a.Step != nil:
		return ""
	case courier.State(a.To) == courier.Queued && a.Reason == courier.ReasonWorkerLost:
		return "orphaned"
	case courier.State(a.To) == courier.Queued && a.Error != "":
		return "retrying"
	}
	return map[courier.State]string{courier.Running: "started", courier.Completed: "succeeded"}[courier.State(a.To)]
}

// after returns the events of a job behind the one with an id.
func (s *server) after(ctx context.Context, job courier.ExecutionID, id int64) (list []Event, last int64, err error) {
	entries, err := s.engine.Executions().AuditPage(ctx, store.AuditFilter{Execution: job, After: id})
	if err != nil {
		return nil, id, err
	}
	for _, a := range entries {
		last = a.Seq
		if a.Step == nil {
			e := Event{JobID: job, Type: cmp.Or(eventType(&a), a.To), At: a.At, id: a.Seq}
			if a.Error != "" {
				e.Payload, err = json.Marshal(map[string]string{"error": a.Error})
			}
			list = append(list, e)
		} else if courier.StepState(a.To) == courier.StepCompleted {
			emitted, failed := s.emitted(ctx, &a)
			list, err = append(list, emitted...), errors.Join(err, failed)
		}
	}
	return list, max(id, last), err
}

// emitted returns the events of a function that has returned nil.
func (s *server) emitted(ctx context.Context, a *courier.AuditEntry) (list []Event, err error) {
	steps, err := s.engine.Executions().StepsPage(ctx, store.StepFilter{Execution: a.Execution, Events: true, Details: true, After: a.Seq - 1, Limit: 1})
	for _, r := range steps {
		for i, e := range r.Events {
			v := Event{JobID: a.Execution, Type: e.Name, At: a.At, Payload: e.Payload}
			if i == len(r.Events)-1 {
				v.id = a.Seq
			}
			list = append(list, v)
		}
	}
	return list, err
}

// events streams what becomes of a job, from its beginning or from the header Last-Event-ID on,
// as server-sent events, until it has ended.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	id := courier.ExecutionID(r.PathValue("jobId"))
	seen, err := strconv.ParseInt(cmp.Or(r.Header.Get("Last-Event-ID"), "0"), 10, 64)
	if err != nil || seen < 0 {
		return invalid("Last-Event-ID is the id of no event")
	}
	x, err := s.engine.Executions().Get(r.Context(), id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closed, cancel)()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(list ...Event) {
		for _, e := range list {
			body, _ := json.Marshal(e) // which has nothing that JSON can't hold
			if e.id > 0 {
				fmt.Fprintf(w, "id: %d\n", e.id)
			}
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, body)
		}
	}
	var beat time.Time // the last heartbeat
	cancelling := false
	for {
		list, last, err := s.after(ctx, id, seen)
		if err != nil {
			return nil // the client connects again
		}
		seen = last
		send(list...)
		if x.HeartbeatAt.After(beat) {
			beat = x.HeartbeatAt
			send(Event{JobID: id, Type: "heartbeat", At: beat})
		}
		if x.Request == courier.RequestCancel && !cancelling {
			cancelling = true
			send(Event{JobID: id, Type: "cancelling", At: x.RequestedAt})
		}
		if http.NewResponseController(w).Flush() != nil || x.State.Ended() && seen >= x.Seq {
			return nil
		}
		wait, stop := context.WithTimeout(ctx, 15*time.Second)
		x, err = s.engine.Executions().WaitFor(wait, id, func(x *courier.Execution) bool {
			return x.Seq > seen || x.HeartbeatAt.After(beat) || x.Request == courier.RequestCancel && !cancelling
		})
		stop()
		switch {
		case ctx.Err() != nil || errors.Is(err, courier.ErrNotFound):
			return nil
		case err != nil:
			fmt.Fprint(w, ":\n\n") // a comment keeps the connection
		}
	}
}
