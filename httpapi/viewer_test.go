package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
)

// A received is an event as a client has received it.
type received struct {
	name, id, data string
	at             time.Time
}

func (e received) String() string { return e.name + "#" + e.id + " " + e.data }

// into decodes the data of an event.
func (e received) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), v); err != nil {
		t.Fatalf("%v: %v", e, err)
	}
}

// A viewer is a client of a stream.
type viewer struct {
	t      *testing.T
	leave  context.CancelFunc
	ended  chan struct{} // closed when the handler has returned
	status int

	mu       sync.Mutex
	header   http.Header
	text     strings.Builder
	comments int
	events   []received
}

// watch opens a stream, with headers as name and value in turn.
func (w *world) watch(path string, headers ...string) *viewer {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "/"+path, nil)
	r.Header.Set("X-User", w.user)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	v := &viewer{t: w.T, leave: cancel, ended: make(chan struct{}), header: make(http.Header)}
	go func() {
		defer close(v.ended)
		w.api.ServeHTTP(v, r)
	}()
	return v
}

func (v *viewer) Header() http.Header { return v.header }
func (v *viewer) Flush()              {}
func (v *viewer) WriteHeader(s int)   { v.status = s }

// Write parses what was received: each call has whole events.
func (v *viewer) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text.Write(p)
	for block := range strings.SplitSeq(strings.TrimSuffix(string(p), "\n\n"), "\n\n") {
		e := received{at: time.Now()}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "":
				v.comments++
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			}
		}
		if e.name != "" {
			v.events = append(v.events, e)
		}
	}
	return len(p), nil
}

// got returns the events so far, of some names if there are any.
func (v *viewer) got(names ...string) (list []received) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.events {
		if len(names) == 0 || slices.Contains(names, e.name) {
			list = append(list, e)
		}
	}
	return list
}

// body is the answer as text, of a stream or of a problem.
func (v *viewer) body() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.String()
}

// over waits for the end of the stream.
func (v *viewer) over() {
	v.t.Helper()
	select {
	case <-v.ended:
	case <-time.After(time.Hour):
		v.t.Fatal("the stream does not end")
	}
}

// close leaves the stream.
func (v *viewer) close() {
	v.leave()
	<-v.ended
}

// moves returns the changes of state in audit events.
func moves(t *testing.T, list []received) (texts []string) {
	for _, e := range list {
		if e.name == "audit" {
			var a courier.AuditEntry
			e.into(t, &a)
			texts = append(texts, fmt.Sprintf("%d %s>%s", a.Seq, a.From, a.To))
		}
	}
	return texts
}

// states returns the statuses in state events.
func states(t *testing.T, list []received) (texts []string) {
	for _, e := range list {
		if e.name == "state" {
			var s httpapi.StateEvent
			e.into(t, &s)
			texts = append(texts, s.Status)
		}
	}
	return texts
}
