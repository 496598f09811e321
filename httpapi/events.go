package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/eventstream"
	"github.com/courierhq/courier/internal/watch"
)

// A StateEvent is the data of the event "state": the new state of an execution. A client gets only
// the status and the reason.
type StateEvent struct {
	Status     string            `json:"status"`
	StatusText string            `json:"status_text,omitempty"` // for people
	Reason     courier.Reason    `json:"reason,omitempty"`      // the class of a failure
	Seq        int64             `json:"seq,omitempty"`         // the number of the last entry of the audit
	Position   *courier.Position `json:"position,omitempty"`
}

// An EndEvent is the data of the event "end".
type EndEvent struct {
	Status string `json:"status"`
}

// A RemovedEvent is the data of the event "removed".
type RemovedEvent struct {
	ID courier.ExecutionID `json:"id"`
}

var lastEventHeader = param{name: "Last-Event-ID", kind: "string", does: "The id of the last event that the client has: it is sent what came after. Browsers send it when they connect again."}

var eventRoutes = []route{
	{
		method: "GET", path: "v1/executions/{id}/events", id: "watchExecution", group: "executions", on: onExecution,
		does: "Streams the events of an execution. They are server-sent: audit (viewers; an entry, with its number as the id; that of a completed step has the events that the step emitted), " +
			"state, progress (viewers) and end, after which the stream ends. The first is the state as it is. " +
			"With Accept: application/json it returns a page of the audit.",
		query: []param{
			{name: "after", kind: "integer", does: "The number of an entry of the audit: those after it are sent first. Without it, and without Last-Event-ID, the stream begins with what happens now."},
			limitParam, cursorParam,
		},
		headers: []param{lastEventHeader},
		answers: map[int]any{http.StatusOK: page[watch.AuditEvent]{}, http.StatusNoContent: nil}, media: eventstream.Media, do: (*call).watchExecution,
	},
	{
		method: "GET", path: "v1/events", id: "watchExecutions", group: "executions", on: onVisible,
		does: "Streams the first page of a list of executions. The server-sent events are execution (one that is new or has changed) and removed (it is no longer on the page). " +
			"First all of the page is sent. With Accept: application/json it returns the page.",
		query:   append(whereParams, limitParam),
		answers: map[int]any{http.StatusOK: page[ExecutionView]{}}, media: eventstream.Media, do: (*call).watchExecutions,
	},
}

// endMark ends the id of the event "end". A viewer that sends such an id has received all events.
const endMark = ".end"

// lastEvent returns the number of the last entry of the audit that the viewer has received, and
// whether it has received the event "end" too.
func (c *call) lastEvent() (after int64, ended bool, err error) {
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		last, ended = strings.CutSuffix(last, endMark)
		after, err = strconv.ParseInt(last, 10, 64)
		if err != nil || after < 0 {
			return 0, false, oneProblem(item{Header: "Last-Event-ID", Message: "it is the id of no event of this stream: leave it out"})
		}
		return after, ended, nil
	}
	n, err := c.int("after", -1, 0, 1<<30)
	if n < 0 {
		return c.execution.Seq, false, err
	}
	return int64(n), false, err
}

func (c *call) watchExecution() error {
	viewer := c.Can(c.ctx(), c.execution.Job, access.RightSee)
	if c.wantsJSON() {
		if err := c.Need(c.ctx(), c.execution.Job, access.RightSee); err != nil {
			return err
		}
		return c.listAudit()
	}
	if _, _, err := c.after(); err != nil {
		return err // an error of the page, which does not matter for the stream
	}
	e := executionEvents{c: c, viewer: viewer, values: c.SeesValues(c.ctx(), c.execution.Job)}
	after := int64(math.MaxInt64)
	if viewer {
		var ended bool
		var err error
		if after, ended, err = c.lastEvent(); err != nil {
			return err
		}
		if ended && after >= c.execution.Seq && c.execution.State.Ended() {
			return c.nothing(http.StatusNoContent)
		}
	} else if c.execution.State.Ended() && c.r.Header.Get("Last-Event-ID") == e.clientID(&c.execution)+endMark {
		return c.nothing(http.StatusNoContent)
	}
	w, err := c.Watch(c.execution.ID, after)
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, cancel := c.lasting(eventstream.Lasts)
	defer cancel()
	if e.stream, err = c.openStream(); err != nil || c.r.Method == http.MethodHead {
		return err
	}
	return e.stream.Follow(ctx, func(ctx context.Context) (bool, error) {
		change, err := w.Next(ctx)
		if err != nil {
			return false, err
		}
		c.Renew()
		if c.NeedTo(ctx, c.execution.Job, c.route.need, c.Own(&c.execution)) != nil || c.Can(ctx, c.execution.Job, access.RightSee) != viewer {
			return false, nil // when the client connects again, its rights are checked again
		}
		e.values = c.SeesValues(ctx, c.execution.Job)
		return e.add(&change)
	})
}

// An executionEvents makes events of the changes of an execution, in the form for one visitor.
type executionEvents struct {
	c              *call
	stream         *eventstream.Stream
	viewer, values bool
	state          []byte // the last one that was sent
	progress       *watch.Progress
}

// add adds the events of a change, and reports whether there will be more.
func (e *executionEvents) add(change *watch.Change) (bool, error) {
	x := &change.Execution
	id := strconv.FormatInt(x.Seq, 10)
	s := StateEvent{Status: clientStatus(x)}
	if x.Failure != nil {
		s.Reason = x.Failure.Reason
	}
	if !e.viewer {
		id = e.clientID(x)
	} else {
		if err := e.audit(change.Audit); err != nil {
			return false, err
		}
		if n := len(change.Audit); n > 0 && change.Audit[n-1].Seq < x.Seq {
			return true, nil // the rest of the audit comes first
		}
		v, _ := e.c.view(x).(ExecutionView)
		s.Status, s.StatusText, s.Seq, s.Position = v.Status, v.StatusText, x.Seq, &x.Position
	}
	state, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(state, e.state) {
		e.state = state
		if err := e.stream.Event("state", id, json.RawMessage(state)); err != nil {
			return false, err
		}
	}
	if p := change.Progress; e.viewer && p != nil && (e.progress == nil || *e.progress != *p) {
		e.progress = p
		shown := *p
		if !e.values {
			shown.Item, shown.Stage = "", ""
		}
		if err := e.stream.Event("progress", "", shown); err != nil {
			return false, err
		}
	}
	if !x.State.Ended() {
		return true, nil
	}
	return false, e.stream.Event("end", id+endMark, EndEvent{s.Status})
}

// audit adds entries of the audit.
func (e *executionEvents) audit(list []watch.AuditEvent) error {
	if !e.values {
		list = slices.Clone(list) // others share the list
		desk.HideEvents(list)
	}
	for i := range list {
		if err := e.stream.Event("audit", strconv.FormatInt(list[i].Seq, 10), &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// clientID is the id of an event for a client. It only shows whether two events are the same.
func (e *executionEvents) clientID(x *courier.Execution) string {
	sum := sha256.Sum256([]byte(string(x.ID) + " " + strconv.FormatInt(x.Seq, 10)))
	return hex.EncodeToString(sum[:8])
}

func (c *call) watchExecutions() error {
	if c.wantsJSON() {
		return c.listExecutions()
	}
	where, err := c.where()
	if err != nil {
		return err
	}
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	if _, err := c.Executions(c.ctx(), where, "", 1); err != nil {
		return err // there is no such job; the answer has not begun
	}
	w, err := c.WatchExecutions(c.ctx(), where, limit)
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, cancel := c.lasting(eventstream.Lasts)
	defer cancel()
	s, err := c.openStream()
	if err != nil || c.r.Method == http.MethodHead {
		return err
	}
	sent := make(map[courier.ExecutionID][sha256.Size]byte)
	return s.Follow(ctx, func(ctx context.Context) (bool, error) {
		items, err := w.Next(ctx)
		if err != nil {
			return false, err
		}
		c.Renew()
		return true, c.addPage(s, items, sent)
	})
}

// addPage adds the events of a page of executions. Sent says what the client already has.
func (c *call) addPage(s *eventstream.Stream, items []courier.Execution, sent map[courier.ExecutionID][sha256.Size]byte) error {
	present := make(map[courier.ExecutionID]bool, len(items))
	for i := range slices.Backward(items) { // the newest last, as if they had been sent one by one
		id := items[i].ID
		present[id] = true
		body, err := json.Marshal(c.view(&items[i]))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		if sent[id] == sum {
			continue
		}
		sent[id] = sum
		if err := s.Event("execution", "", json.RawMessage(body)); err != nil {
			return err
		}
	}
	for id := range sent {
		if !present[id] {
			delete(sent, id)
			if err := s.Event("removed", "", RemovedEvent{id}); err != nil {
				return err
			}
		}
	}
	return nil
}
