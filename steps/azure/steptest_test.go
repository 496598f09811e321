package azure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/steptest"
)

type object = map[string]any

const (
	functionKey = "canary-function-key"
	masterKey   = "canary-master-key"
	systemKey   = "canary-system-key"
	clientKey   = "canary-client-secret"
	accessToken = "canary-access-token"
)

// A cloud is a function app, the authority that hands out tokens, and the
// telemetry.
type cloud struct {
	mu        sync.Mutex
	runs      []string // trace ids of calls that were run
	parents   []string // span ids of these calls
	late      time.Duration
	seen      time.Time // of the first run
	polls     int       // until an orchestration ends
	status    string    // that it ends with
	tokens    int
	queries   []string
	stopped   int
	lastInput string
	headers   []http.Header
	propagate bool                                              // the admin endpoint hands the trace id on
	extra     int                                               // further runs in telemetry
	on        func(w http.ResponseWriter, r *http.Request) bool // answers in place of the cloud
}

func (c *cloud) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	distinct := map[string]bool{}
	for _, r := range c.runs {
		distinct[r] = true
	}
	return fmt.Sprint(len(distinct))
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.on != nil && c.on(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/oauth2/v2.0/token"):
		if !strings.Contains(string(body), clientKey) {
			http.Error(w, "bad client: "+string(body), http.StatusUnauthorized)
			return
		}
		c.tokens++
		fmt.Fprintf(w, `{"access_token": %q, "expires_in": 3600}`, accessToken)
	case strings.HasPrefix(path, "/v1/"):
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			http.Error(w, "bad token "+r.Header.Get("Authorization"), http.StatusForbidden)
			return
		}
		c.telemetry(w, string(body))
	case strings.HasPrefix(path, "/runtime/"):
		c.durable(w, r)
	case path == "/admin/host/status" && r.Method == http.MethodGet && r.Header.Get("X-Functions-Key") == masterKey:
		io.WriteString(w, `{"id": "a", "state": "Running", "version": "4.1.0"}`)
	case strings.HasPrefix(path, "/admin/functions/") && r.Header.Get("X-Functions-Key") == masterKey:
		c.run(r, body)
		w.WriteHeader(http.StatusAccepted)
	case strings.HasPrefix(path, "/api/") && r.Header.Get("X-Functions-Key") == functionKey:
		c.run(r, body)
		switch path {
		case "/api/durable":
			at := "http://" + r.Host + "/runtime/webhooks/durabletask/instances/i1"
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, `{"id": "i1", "statusQueryGetUri": "%s?code=%s", "terminatePostUri": "%s/terminate?reason={text}&code=%s"}`, at, systemKey, at, systemKey)
		case "/api/fails":
			http.Error(w, "no luck with "+functionKey, http.StatusInternalServerError)
		default:
			fmt.Fprintf(w, `{"got": %s}`, body)
		}
	default:
		http.Error(w, "who are you, "+r.Header.Get("X-Functions-Key"), http.StatusUnauthorized)
	}
}

func (c *cloud) run(r *http.Request, body []byte) {
	trace := strings.Split(r.Header.Get("Traceparent"), "-")[1]
	if len(c.runs) == 0 {
		c.seen = time.Now()
	}
	c.runs, c.lastInput = append(c.runs, trace), string(body)
	c.parents = append(c.parents, strings.Split(r.Header.Get("Traceparent"), "-")[2])
}

func (c *cloud) durable(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("code") != systemKey:
		http.Error(w, "bad code "+r.URL.RawQuery, http.StatusUnauthorized)
	case strings.HasSuffix(r.URL.Path, "/terminate"):
		c.stopped++
		w.WriteHeader(http.StatusAccepted)
	case c.polls > 0:
		c.polls--
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"instanceId": "i1", "runtimeStatus": "Running", "output": null}`)
	default:
		fmt.Fprintf(w, `{"instanceId": "i1", "runtimeStatus": %q, "output": {"sum": 12345678901234567890}}`, c.status)
	}
}

func (c *cloud) telemetry(w http.ResponseWriter, body string) {
	c.queries = append(c.queries, body)
	var rows [][]any
	if len(c.runs) > 0 && time.Since(c.seen) >= c.late {
		operation, parent := "0123", c.parents[0]
		if c.propagate {
			operation = c.runs[0]
		}
		for range 1 + c.extra {
			rows = append(rows, []any{"2026-01-02T03:04:05Z", operation, parent, c.status != "Failed", "0"})
		}
	}
	text, err := json.Marshal(object{"tables": []any{object{
		"name":    "PrimaryResult",
		"columns": []any{object{"name": "at"}, object{"name": "operation"}, object{"name": "parent"}, object{"name": "success"}, object{"name": "code"}},
		"rows":    rows,
	}}})
	if err != nil {
		panic(err)
	}
	w.Write(text)
}

func newCloud() *cloud { return &cloud{polls: 2, status: "Completed", late: 30 * time.Second} }

// options are those with which the step reaches a cloud that listens at net.
func options(net *memnet.Listener) *azure.Options {
	at := azure.HTTP{AllowPlain: true, Dial: net.DialContext, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}}
	tokens := &azure.ClientCredentials{
		Tenant: "tenant", ClientID: "client", Authority: "http://login.example.com", HTTP: at,
		Secret: func(context.Context) (string, error) { return clientKey, nil },
	}
	return &azure.Options{HTTP: at, Connections: azure.Map{
		"http":  {URL: "http://acme.example.com", FunctionKey: functionKey},
		"admin": {URL: "http://acme.example.com", MasterKey: masterKey, AppID: "app1", Tokens: tokens, QueryURL: "http://query.example.com"},
		"wrong": {URL: "http://acme.example.com", MasterKey: "canary-wrong", AppID: "app1", Tokens: tokens, QueryURL: "http://query.example.com"},
		"both":  {URL: "http://acme.example.com", FunctionKey: functionKey, WorkspaceID: "ws1", Tokens: tokens, QueryURL: "http://query.example.com"},
	}}
}

// serve starts a server at which all names lead.
func serve(t testing.TB, h http.Handler) (net *memnet.Listener, stop func()) {
	net = memnet.Listen()
	s := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- s.Serve(net) }()
	return net, func() {
		if err := s.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("server: %v", err)
		}
		time.Sleep(time.Second) // in which its connections linger
	}
}

// TestContract holds the step against the contract for retries. Requests that
// reach the cloud are places at which it is disturbed.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name, connection string
		cfg              object
	}{
		{"http", "http", object{"function_name": "plain", "input_payload": object{"a": 1}}},
		{"durable", "http", object{"function_name": "durable"}},
		{"admin", "admin", object{"function_name": "nightly", "input_payload": "x", "telemetry_delay_seconds": 60}},
		{"no wait", "http", object{"function_name": "durable", "wait_for_callback": false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var clouds sync.Map
			c.cfg["connection_id"] = c.connection
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Setup: func(w *steptest.World) {
					fake := newCloud()
					clouds.Store(w.Dir, fake)
					net, stop := serve(w, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						if err := w.Reach(r.Method + " " + r.URL.Path); err != nil {
							rw.WriteHeader(http.StatusServiceUnavailable)
							return
						}
						fake.ServeHTTP(rw, r)
					}))
					w.Cleanup(stop)
					azure.Register(w.Registry, options(net))
				},
				Config: c.cfg,
				State: func(w *steptest.World) string {
					fake, _ := clouds.Load(w.Dir)
					return fake.(*cloud).state()
				},
				// A new attempt of the job calls the function again, by a trace of its own.
				Except:  []string{"again"},
				Virtual: true, Tidy: true, Places: 10,
			})
		})
	}
	var r courier.Registry
	azure.Register(&r, nil)
	steptest.Cover(t, &r, "azure_function.execute")
}
