package httpreq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/httpreq"
)

// TestRetryJob begins a job again behind a request that was answered. It is sent
// again, whole, with a key of its own unless the job gives one, and with once not
// at all; the outputs are those of the answer, and the file that was sent is there,
// although it was moved into the workspace from elsewhere.
func TestRetryJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		config string
		sent   int // requests that differ in their key
		of     int
	}{
		{"body", `"body": "content"`, 2, 2},
		{"file", `"body_path": "w/f"`, 2, 2},
		{"key of the job", `"body_path": "w/f", "idempotency_key": "k"`, 1, 2},
		{"once", `"body_path": "w/f", "once": true`, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var keys, bodies []string
				net := memnet.Listen()
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
					fmt.Fprintf(w, "answer to %d bytes", len(body))
				})}
				done := make(chan error, 1)
				go func() { done <- s.Serve(net) }()
				t.Cleanup(func() {
					if err := errors.Join(s.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
						t.Error(err)
					}
				})
				httpreq.Register(h.Registry, &httpreq.Options{AllowPlain: true, Lookup: lookup("93.184.215.14"), Dial: net.DialContext})
				file.Register(h.Registry, nil)
				h.Stub("demo.fails", couriertest.Fails(errors.New("boom")))
				var size any
				h.Stub("demo.looks", func(_ context.Context, job *courier.Context, cfg map[string]any) (map[string]any, error) {
					size = cfg["size"]
					_, err := job.Files().Stat("w/f")
					return nil, err
				})
				source := h.WriteFile("f", "content")
				r := h.Run(h.Job(`{"name": "a", "failure_policy": "retry_job", "steps": [
					{"type": "file.move", "config": {"source_path": "`+source+`", "destination_path": "w/f"}},
					{"id": "post", "type": "http.request", "config": {"url": "http://api.example.com/", "method": "POST", `+c.config+`}},
					{"type": "demo.fails"}, {"type": "demo.looks", "config": {"size": "context:post.size"}}]}`), nil).RequireState(courier.Completed)
				different := slices.Compact(slices.Sorted(slices.Values(keys)))
				if r.Attempt != 2 || len(keys) != c.of || len(different) != c.sent || slices.Contains(keys, "") && c.of > 1 {
					t.Errorf("attempt %d: keys %q", r.Attempt, keys)
				}
				if fmt.Sprint(size) != "17" || slices.ContainsFunc(bodies, func(b string) bool { return b != "content" }) {
					t.Errorf("sent %q, the output is %v", bodies, size)
				}
			})
		})
	}
}
