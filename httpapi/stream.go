package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/desk"
)

// How streams last.
const (
	streamLasts   = 15 * time.Minute // then the client connects again, and its role is looked up again
	streamBeat    = 15 * time.Second // a comment, if nothing else was sent, lets proxies keep the connection
	streamPatient = 30 * time.Second // for one write to a client that does not read
	streamRetry   = "retry: 2000\n\n"
)

const streamMedia = "text/event-stream"

// A stream is an answer of server-sent events (the HTML standard, section 9.2).
type stream struct {
	c    *call
	ctl  *http.ResponseController
	text bytes.Buffer // not sent yet
}

// openStream begins the answer. A server or a middleware that holds the answer back makes it
// an error.
func (c *call) openStream() (*stream, error) {
	s := &stream{c: c, ctl: http.NewResponseController(c.w)}
	head := c.w.Header()
	head.Set("Content-Type", streamMedia)
	head.Set("X-Accel-Buffering", "no") // for nginx
	s.extend()
	if err := s.ctl.Flush(); err != nil {
		head.Del("X-Accel-Buffering")
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, problemf(codeUnsupported, "what stands before the API in this service can't pass on a stream (its http.ResponseWriter has neither Flush nor Unwrap): poll instead, with Accept: application/json")
		}
		return nil, err
	}
	c.wrote = true
	s.text.WriteString(streamRetry)
	return s, nil
}

// extend lets the next write take its time, whatever time the host's server gives an answer.
func (s *stream) extend() {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(streamPatient)) // a writer without deadlines has none to extend
}

// event adds an event. An empty id leaves that of the event before.
func (s *stream) event(name, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.text.WriteString("event: " + name + "\n")
	if id != "" {
		s.text.WriteString("id: " + id + "\n")
	}
	s.text.WriteString("data: ")
	s.text.Write(body) // JSON has no line breaks
	s.text.WriteString("\n\n")
	return nil
}

// send sends what was added; a comment if there is nothing.
func (s *stream) send() error {
	if s.text.Len() == 0 {
		s.text.WriteString(":\n\n")
	}
	s.extend()
	_, err := s.c.w.Write(s.text.Bytes())
	s.text.Reset()
	return errors.Join(err, s.ctl.Flush())
}

// follow calls next until it returns false or an error, the client goes, the handler closes,
// or the stream has lasted long enough. Each time it sends what was added. The context of
// next ends when it is time for a comment.
func (s *stream) follow(ctx context.Context, next func(ctx context.Context) (goOn bool, err error)) error {
	sentAt := time.Now()
	for {
		beat, cancel := context.WithDeadline(ctx, sentAt.Add(streamBeat))
		goOn, err := next(beat)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		late := errors.Is(err, context.DeadlineExceeded)
		if err != nil && !late {
			return err
		}
		if s.text.Len() > 0 || late {
			if err := s.send(); err != nil {
				return nil // the client has gone, or does not read
			}
			sentAt = time.Now()
		}
		if !goOn && !late {
			return nil
		}
	}
}

// wantsJSON reports whether the client asks for a page in JSON in the place of a stream.
func (c *call) wantsJSON() bool {
	accept := strings.Join(c.r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, streamMedia)
}

// streamProblem returns the problem of a stream that can't begin.
func streamProblem(err error) error {
	if busy, ok := errors.AsType[*desk.BusyError](err); ok {
		return problemf(codeUnavailable, "%s", busy.Text)
	}
	return err
}
