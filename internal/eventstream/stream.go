// Package eventstream writes server-sent events (the HTML standard, section 9.2), for the API
// and for pages.
package eventstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// How streams last.
const (
	Lasts   = 15 * time.Minute // then the client connects again, and its role is looked up again
	Beat    = 15 * time.Second // a comment, if nothing else was sent, lets proxies keep the connection
	patient = 30 * time.Second // for one write to a client that does not read
	retry   = "retry: 2000\n\n"
)

// Media is the media type of a stream.
const Media = "text/event-stream"

// A Stream is an answer of server-sent events. Its methods are for one goroutine.
type Stream struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	text bytes.Buffer // not sent yet
}

// Open begins the answer. If a server or a middleware holds the answer back, the error
// matches [errors.ErrUnsupported], and nothing was written.
func Open(w http.ResponseWriter) (*Stream, error) {
	s := &Stream{w: w, ctl: http.NewResponseController(w)}
	head := w.Header()
	head.Set("Content-Type", Media)
	head.Set("X-Accel-Buffering", "no") // for nginx
	s.extend()
	if err := s.ctl.Flush(); err != nil {
		head.Del("X-Accel-Buffering")
		return nil, err
	}
	s.text.WriteString(retry)
	return s, nil
}

// extend lets the next write take its time, whatever time the host's server gives an answer.
func (s *Stream) extend() {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(patient)) // a writer without deadlines has none to extend
}

// Event adds an event, with its data as JSON. An empty id leaves that of the event before.
func (s *Stream) Event(name, id string, data any) error {
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
func (s *Stream) send() error {
	if s.text.Len() == 0 {
		s.text.WriteString(":\n\n")
	}
	s.extend()
	_, err := s.w.Write(s.text.Bytes())
	s.text.Reset()
	return errors.Join(err, s.ctl.Flush())
}

// Follow calls next until it returns false or an error, the client goes, or ctx ends. Each
// time it sends what was added. The context of next ends when it is time for a comment.
func (s *Stream) Follow(ctx context.Context, next func(ctx context.Context) (goOn bool, err error)) error {
	sentAt := time.Now()
	for {
		beat, cancel := context.WithDeadline(ctx, sentAt.Add(Beat))
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
