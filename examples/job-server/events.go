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

// An Event is an event in the life of a job, or an event that its function has emitted.
type Event struct {
	JobID   courier.ExecutionID `json:"jobId"`
	Type    string              `json:"type"`
	At      time.Time           `json:"at"`
	Payload any                 `json:"payload,omitempty"`

	seq int64 // the id, after which a stream continues; 0 for none
}

// eventOf makes an event of an audit entry of an execution.
func eventOf(a *courier.AuditEntry) Event {
	e := Event{JobID: a.Execution, Type: a.To, At: a.At, seq: a.Seq}
	if a.Error != "" {
		e.Payload = map[string]string{"error": a.Error}
	}
	switch to := courier.State(a.To); {
	case to == courier.Queued && a.Reason == courier.ReasonWorkerLost:
		e.Type = "orphaned"
	case to == courier.Queued && a.Error != "":
		e.Type = "retrying"
	case to == courier.Running:
		e.Type = "started"
	case to == courier.Completed:
		e.Type = "succeeded"
	}
	return e
}

// behind returns the events of a job after the event with an id.
func (s *server) behind(ctx context.Context, job courier.ExecutionID, seq int64) (list []Event, last int64, err error) {
	entries, err := s.engine.Executions().AuditPage(ctx, store.AuditFilter{Execution: job, After: seq})
	for i := 0; i < len(entries) && err == nil; i++ {
		a := &entries[i]
		if seq = a.Seq; a.Step == nil {
			list = append(list, eventOf(a))
			continue
		}
		var records []courier.StepExecution // of the function that has returned, with the events that it has emitted
		records, err = s.engine.Executions().StepsPage(ctx, store.StepFilter{Execution: job, Events: true, Details: true, After: a.Seq - 1, Limit: 1})
		for _, r := range records {
			for n, e := range r.Events {
				if r.Seq == a.Seq {
					list = append(list, Event{JobID: job, Type: e.Name, At: a.At, Payload: e.Payload})
				}
				if r.Seq == a.Seq && n == len(r.Events)-1 {
					list[len(list)-1].seq = a.Seq
				}
			}
		}
	}
	return list, seq, err
}

// events streams the events of a job as server-sent events until the job has ended. It starts at
// the beginning, or after the event in the header Last-Event-ID. Heartbeats are sent as they
// arrive.
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
	if w.Header().Set("Content-Type", "text/event-stream"); r.Method == http.MethodHead {
		return nil
	}
	var beat time.Time // the last heartbeat
	cancelling := false
	for {
		list, last, err := s.behind(ctx, id, seen)
		if err != nil {
			return nil // the client connects again
		}
		if seen = last; x.HeartbeatAt.After(beat) {
			beat = x.HeartbeatAt
			list = append(list, Event{JobID: id, Type: "heartbeat", At: beat})
		}
		if x.Request == courier.RequestCancel && !cancelling {
			cancelling = true
			list = append(list, Event{JobID: id, Type: "cancelling", At: x.RequestedAt})
		}
		for _, e := range list {
			if e.seq > 0 {
				fmt.Fprintf(w, "id: %d\n", e.seq)
			}
			data, _ := json.Marshal(e) // it has only values that JSON can represent
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
		}
		if http.NewResponseController(w).Flush() != nil || x.State.Ended() && seen >= x.Seq {
			return nil
		}
		wait, stop := context.WithTimeout(ctx, 15*time.Second)
		x, err = s.engine.Executions().WaitFor(wait, id, func(x *courier.Execution) bool {
			return x.Seq > seen || x.HeartbeatAt.After(beat) || x.Request == courier.RequestCancel && !cancelling
		})
		stop()
		if ctx.Err() != nil || errors.Is(err, courier.ErrNotFound) {
			return nil
		}
		if err != nil {
			fmt.Fprint(w, ":\n\n") // a comment keeps the connection
		}
	}
}
