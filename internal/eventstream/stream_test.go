package eventstream_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/eventstream"
)

// A client is the answer that a client has got so far.
type client struct {
	*httptest.ResponseRecorder
	deadline time.Time
	gone     bool
	sent     []string // by each flush
	at       []time.Duration
	began    time.Time
}

func newClient() *client { return &client{ResponseRecorder: httptest.NewRecorder(), began: time.Now()} }

func (c *client) SetWriteDeadline(t time.Time) error { c.deadline = t; return nil }

func (c *client) Write(p []byte) (int, error) {
	if c.gone {
		return 0, errors.New("the connection is broken")
	}
	return c.ResponseRecorder.Write(p)
}

func (c *client) FlushError() error {
	c.sent, c.at = append(c.sent, c.Body.String()), append(c.at, time.Since(c.began))
	c.Body.Reset()
	return nil
}

// TestEvents: what was added since the last call is sent at once, in the form of the standard. Data
// can't end an event.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient()
		s, err := eventstream.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = s.Follow(t.Context(), func(context.Context) (bool, error) {
			time.Sleep(time.Second)
			switch n++; n {
			case 1:
				return true, errors.Join(s.Event("state", "7", map[string]string{"error": "a\n\ndata: b\r"}), s.Event("end", "", nil))
			case 2:
				return true, nil // nothing to send
			case 3:
				if s.Event("bad", "8", func() {}) == nil {
					t.Error("data without a JSON text is sent")
				}
			}
			return false, s.Event("last", "9", 1)
		})
		want := []string{"", "retry: 2000\n\nevent: state\nid: 7\ndata: {\"error\":\"a\\n\\ndata: b\\r\"}\n\nevent: end\ndata: null\n\n", "event: last\nid: 9\ndata: 1\n\n"}
		if err != nil || strings.Join(c.sent, "|") != strings.Join(want, "|") {
			t.Errorf("%v, sent %q", err, c.sent)
		}
		if c.Header().Get("Content-Type") != "text/event-stream" || c.Header().Get("X-Accel-Buffering") != "no" {
			t.Errorf("header %v", c.Header())
		}
	})
}

// TestBeats: where nothing happens a comment is sent every 15 seconds, and each write has time of
// its own.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient()
		s, err := eventstream.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		n := 0
		err = s.Follow(ctx, func(ctx context.Context) (bool, error) {
			if n++; n == 2 { // an event puts the next comment off
				time.Sleep(5 * time.Second)
				return true, s.Event("state", "", 1)
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		var got []string
		for i, text := range c.sent[1:] {
			got = append(got, c.at[i+1].String()+" "+text)
		}
		if want := "15s retry: 2000\n\n|20s event: state\ndata: 1\n\n|35s :\n\n|50s :\n\n"; err != nil || !strings.HasPrefix(want, strings.Join(got, "|")) || len(got) < 3 {
			t.Errorf("%v, sent %q", err, got)
		}
		if left := c.deadline.Sub(c.began.Add(c.at[len(c.at)-1])); left != 30*time.Second {
			t.Errorf("a write may take %v", left)
		}
	})
}

// TestEnds: a stream ends without an error when the client has gone or ctx ends. An error of what
// it shows is returned.
func TestEnds(t *testing.T) {
	broken := errors.New("out of reach")
	for name, c := range map[string]struct {
		next func(*client, *eventstream.Stream, context.CancelFunc) (bool, error)
		want error
	}{
		"failed": {func(*client, *eventstream.Stream, context.CancelFunc) (bool, error) { return true, broken }, broken},
		"client": {func(c *client, s *eventstream.Stream, _ context.CancelFunc) (bool, error) {
			c.gone = true
			return true, s.Event("x", "", 1)
		}, nil},
		"context": {func(_ *client, _ *eventstream.Stream, end context.CancelFunc) (bool, error) {
			end()
			return true, context.Canceled
		}, nil},
		"no more": {func(*client, *eventstream.Stream, context.CancelFunc) (bool, error) { return false, nil }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newClient()
			s, err := eventstream.Open(w)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := s.Follow(ctx, func(context.Context) (bool, error) { return c.next(w, s, cancel) }); err != c.want {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestHeldBack: where an answer can't be sent in parts, nothing was written, so that another answer
// can be given.
func TestHeldBack(t *testing.T) {
	w := httptest.NewRecorder()
	s, err := eventstream.Open(struct{ http.ResponseWriter }{w})
	if !errors.Is(err, errors.ErrUnsupported) || s != nil || w.Body.Len() > 0 || w.Header().Get("X-Accel-Buffering") != "" {
		t.Errorf("%v, %v, header %v", s, err, w.Header())
	}
}
