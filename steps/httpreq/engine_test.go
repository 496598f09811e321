package httpreq_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/httpreq"
)

// In an engine a secret reaches the server and nothing else: no record, event,
// audit entry, value or log, whatever the server does with it.
func TestSecretsInAnEngine(t *testing.T) {
	const canary = "canary-4711-secret"
	got := make(chan string, 10)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	})
	var mu sync.Mutex
	var events []courier.Event
	h := couriertest.New(t, &engine.Options{
		Secrets: func(context.Context, courier.SecretRequest) (string, error) { return canary, nil },
		Observers: []func(courier.Event){func(e courier.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}},
	})
	httpreq.Register(h.Registry, &httpreq.Options{AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for _, path := range []string{"/refuse", "/echo"} {
		job := courier.Job{Name: path[1:], Steps: []courier.StepSpec{{Type: "http.request", Config: map[string]any{"url": s.URL + path, "bearer_token": "secret:api"}}}}
		r := h.Run(job, nil).RequireState(courier.Failed)
		mu.Lock()
		dump, err := jsontext.Append(nil, []any{r.Execution, r.Steps, r.Audit, r.Values, events})
		mu.Unlock()
		if err != nil || strings.Contains(string(dump)+h.Log()+r.Err.Error(), canary) {
			t.Errorf("%s: the secret is in %s %s %v (%v)", path, dump, h.Log(), r.Err, err)
		}
		if sent := <-got; sent != "Bearer "+canary {
			t.Errorf("the server got %q", sent)
		}
	}
}
