package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/webhook"
)

// defineInbound defines the job of the tests of async endpoints: it takes a request, and
// results in the customer of its route.
func (w *world) defineInbound(timeout time.Duration) {
	w.Helper()
	_, err := w.engine.Jobs().Define(w.Context(), courier.Job{
		Name: "inbound", Params: map[string]any{"request": nil, "seconds": 0, "fail": "", "text": ""}, Timeout: timeout, Result: "context:work.text",
		Steps: []courier.StepSpec{{ID: "work", Type: "test.work", Config: map[string]any{
			"text": "context:params.text", "seconds": "context:params.seconds", "fail": "context:params.fail",
		}}},
	}, nil)
	if err != nil {
		w.Fatal(err)
	}
}

// on returns the world with an async endpoint under a pattern, and the API below /api/.
func (w *world) on(pattern string, opt *httpapi.AsyncOptions) *endpoint {
	mux := http.NewServeMux()
	mux.Handle(pattern, w.api.Async("inbound", opt))
	mux.Handle("/api/", w.api)
	return &endpoint{w, mux}
}

type endpoint struct {
	*world
	mux *http.ServeMux
}

// send sends a request to the mux of the host. A nil header is that of admin.
func (e *endpoint) send(method, target, body string, header http.Header) answer {
	e.Helper()
	r := httptest.NewRequestWithContext(e.Context(), method, target, strings.NewReader(body))
	r.Header = header.Clone()
	if header == nil {
		r.Header = http.Header{"X-User": {"admin"}}
	}
	rec := httptest.NewRecorder()
	e.mux.ServeHTTP(rec, r)
	return answer{e.world, rec, method + " " + target}
}

// accepted sends a request that must be accepted, and returns its execution.
func (e *endpoint) accepted(method, target, body string, header http.Header) courier.Execution {
	e.Helper()
	var got httpapi.Accepted
	e.send(method, target, body, header).want(http.StatusAccepted, &got)
	x, err := e.engine.Executions().Get(e.Context(), got.ID)
	if err != nil {
		e.Fatal(err)
	}
	return x
}

// A request becomes the parameters of the execution, without what proves who has sent it.
func TestAsyncCaptures(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		e := w.on("/reports/{customer}/{rest...}", &httpapi.AsyncOptions{Headers: []string{"x-tenant"}})
		header := http.Header{
			"X-User": {"admin"}, "X-Tenant": {"a", "b"}, "X-Other": {"no"}, "Content-Type": {"application/json"}, "Webhook-Id": {"7"}, "Webhook-Topic": {"x"},
			"Webhook-Timestamp": {"1"}, "Webhook-Signature": {"v1,x"}, "Cookie": {canarySecret}, "Authorization": {canarySecret}, "Proxy-Authorization": {canarySecret},
			"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Request-Id": {"r-1"},
		}
		x := e.accepted("PUT", "/reports/acme%20%2F1/a/b%3Fc?tag=a&sort=x+y&tag=b&flag&tag=", `{"n": 12345678901234567890, "l": [1.50]}`, header)
		want := `{"method": "PUT", "route": {"customer": "acme /1", "rest": "a/b?c"},
			"query": [{"name": "tag", "values": ["a", "b", ""]}, {"name": "sort", "values": ["x y"]}, {"name": "flag", "values": [""]}],
			"headers": {"content-type": ["application/json"], "webhook-id": ["7"], "webhook-topic": ["x"], "x-tenant": ["a", "b"]},
			"body": {"n": 12345678901234567890, "l": [1.50]}, "body_encoding": "json"}`
		var params struct{ Request json.RawMessage }
		if err := json.Unmarshal(x.Params, &params); err != nil || canonical(t, params.Request) != canonical(t, []byte(want)) {
			t.Errorf("%v: %s\nwant %s", err, canonical(t, params.Request), canonical(t, []byte(want)))
		}
		if x.Trace != header.Get("Traceparent") || x.Labels["request_id"] != "r-1" || x.Labels["by"] != "admin" || x.By != "admin" {
			t.Errorf("trace %q, labels %v, by %q", x.Trace, x.Labels, x.By)
		}
		if strings.Contains(string(x.Params)+w.log.String(), canarySecret) {
			t.Errorf("%s\n%s", x.Params, w.log)
		}
	})
}

// canonical is JSON text with sorted names, and digits as they are.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The body is a value of JSON if it says so, a text if it is one, and otherwise base64.
func TestAsyncBody(t *testing.T) {
	virtual(t, &httpapi.Options{Access: policy(), MaxBody: 100}, func(w *world) {
		w.defineInbound(0)
		e := w.on("/in", nil)
		for _, c := range []struct{ mediaType, body, want, encoding string }{
			{"application/json", `[1e2, "a"]`, `[1e2,"a"]`, "json"},
			{"application/cloudevents+json; charset=utf-8", `"x"`, `"x"`, "json"},
			{"application/json", "", "null", ""},
			{"text/plain", `{"a": 1}`, `"{\"a\": 1}"`, "text"},
			{"", "ä", `"ä"`, "text"},
			{"application/x-www-form-urlencoded", "a=b", `"a=b"`, "text"},
			{"application/octet-stream", "\xff\x00", `"/wA="`, "base64"},
			{"text/plain", "a\x00b", `"YQBi"`, "base64"},
			{"%%%", "x", `"x"`, "text"},
		} {
			x := e.accepted("POST", "/in", c.body, http.Header{"X-User": {"admin"}, "Content-Type": {c.mediaType}})
			var got struct {
				Request struct {
					Body     json.RawMessage
					Encoding string `json:"body_encoding"`
				}
			}
			if err := json.Unmarshal(x.Params, &got); err != nil || string(got.Request.Body) != c.want || got.Request.Encoding != c.encoding {
				t.Errorf("%q as %q: %v %s", c.body, c.mediaType, err, x.Params)
			}
		}
		header := http.Header{"X-User": {"admin"}, "Content-Type": {"application/json"}}
		for _, body := range []string{canaryParam, `{"a": 1} 2`, `{"a": 1, "a": 2}`, "\"\xff\"", `{"a": "\u0000"}`, `"\ud800"`} {
			a := e.send("POST", "/in", body, header)
			a.problem(http.StatusBadRequest, "invalid")
			if strings.Contains(a.Body.String(), canaryParam) {
				t.Errorf("%s", a.Body)
			}
		}
		for _, body := range []string{strings.Repeat("x", 101)} {
			e.send("POST", "/in", body, header).problem(http.StatusRequestEntityTooLarge, "too_large", "100 bytes")
		}
		for _, target := range []string{"/in?a=%ff", "/in?a=%00", "/in?a;b", "/in?%zz"} {
			e.send("POST", target, "", nil).problem(http.StatusBadRequest, "invalid", "query")
		}
		list, err := w.engine.Executions().List(w.Context(), store.Filter{})
		if err != nil || len(list) != 9 {
			t.Errorf("%d executions, %v", len(list), err)
		}
	})
}

// An async endpoint answers with the id, the status and the location in the API, where the
// client finds how its execution stands.
func TestAsyncAnswer(t *testing.T) {
	virtual(t, &httpapi.Options{Access: clientOf("inbound"), URL: "https://ops.example.com/api"}, func(w *world) {
		w.defineInbound(0)
		e := w.on("POST /reports/{customer}", &httpapi.AsyncOptions{Params: func(r *httpapi.Received) (map[string]any, error) {
			if r.Route["customer"] == "none" {
				return nil, courier.Errorf(courier.ErrInvalid, "there is no such customer")
			}
			if r.Route["customer"] == "lost" {
				return nil, errors.New("customers: " + canarySecret)
			}
			return map[string]any{"text": r.Route["customer"] + " for " + r.Principal.ID}, nil
		}})
		ann := http.Header{"X-User": {"ann"}}
		a := e.send("POST", "/reports/acme", "", ann)
		var got map[string]string
		a.want(http.StatusAccepted, &got)
		if len(got) != 2 || got["status"] != "queued" || a.Header().Get("Location") != "https://ops.example.com/api/v1/executions/"+got["id"] || a.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%v %s", a.Header(), a.Body)
		}
		w.ended(got["id"])
		path := strings.TrimPrefix(a.Header().Get("Location"), "https://ops.example.com")
		var x httpapi.ClientExecution
		e.send("GET", path, "", ann).want(http.StatusOK, &x)
		if x.Status != "completed" || string(x.Result) != `"acme for ann"` {
			t.Errorf("%+v", x)
		}
		e.send("GET", path, "", http.Header{"X-User": {"ben"}}).problem(http.StatusNotFound, "not_found")
		e.send("POST", "/reports/none", "", ann).problem(http.StatusBadRequest, "invalid", "no such customer")
		lost := e.send("POST", "/reports/lost", "", ann)
		if lost.problem(http.StatusServiceUnavailable, "unavailable"); strings.Contains(lost.Body.String(), canarySecret) || !strings.Contains(w.log.String(), canarySecret) {
			t.Errorf("%s\n%s", lost.Body, w.log)
		}
		var p struct{ Type string }
		e.send("POST", "/reports/none", "", ann).want(http.StatusBadRequest, &p)
		if p.Type != "https://ops.example.com/api/v1/problems/invalid" {
			t.Errorf("type %q", p.Type)
		}
	})
}

// A host answers in its own words, also to a repetition, and what fails then can be repeated.
func TestAsyncAnswerOfHost(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		broken := false
		e := w.on("POST /in", &httpapi.AsyncOptions{Answer: func(ctx context.Context, x *courier.Execution) (string, any, error) {
			if broken || ctx == nil {
				return "", nil, errors.New(canarySecret)
			}
			return "/things/" + string(x.ID), map[string]any{"thing": x.ID, "state": x.State}, nil
		}})
		header := http.Header{"X-User": {"admin"}, "Idempotency-Key": {"k"}}
		first := e.send("POST", "/in", "", header)
		var got struct{ Thing, State string }
		first.want(http.StatusAccepted, &got)
		if first.Header().Get("Location") != "/things/"+got.Thing || got.State != "queued" {
			t.Errorf("%v %s", first.Header(), first.Body)
		}
		w.ended(got.Thing)
		broken = true
		e.send("POST", "/in", "", header).problem(http.StatusServiceUnavailable, "unavailable")
		broken = false
		id := got.Thing
		if e.send("POST", "/in", "", header).want(http.StatusAccepted, &got); got.Thing != id || got.State != "completed" {
			t.Errorf("%+v", got)
		}
	})
}

// clientOf is the access of ann and ben as clients of a job, and of others as in access.
func clientOf(job string) access.Policy {
	a := policy()
	role := a.Role
	a.Role = func(ctx context.Context, p access.Principal, of string) access.Role {
		if of == job && (p.ID == "ann" || p.ID == "ben") {
			return access.Client
		}
		return role(ctx, p, of)
	}
	return a
}

// Who may not start the job is refused, and so are methods that must change nothing and web
// pages elsewhere.
func TestAsyncRoles(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		e := w.on("/in", nil)
		e.send("POST", "/in", "", http.Header{"X-User": {"stranger"}}).problem(http.StatusUnauthorized, "unauthenticated")
		e.send("POST", "/in", "", http.Header{"X-User": {"ann"}}).problem(http.StatusNotFound, "not_found")
		for _, user := range []string{"operator", "editor", "admin"} {
			e.accepted("POST", "/in", "", http.Header{"X-User": {user}})
		}
		e.send("POST", "/in", "", http.Header{"X-User": {"watcher"}}).problem(http.StatusForbidden, "forbidden", "start", "client")
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
			if a := e.send(method, "/in", "", nil); a.Code != http.StatusMethodNotAllowed || a.Header().Get("Allow") == "" {
				t.Errorf("%s: %d", method, a.Code)
			}
		}
		page := http.Header{"X-User": {"admin"}, "Origin": {"https://elsewhere.example"}, "Sec-Fetch-Site": {"cross-site"}}
		e.send("POST", "/in", "", page).problem(http.StatusForbidden, "forbidden")
	})
}

// A repeated key starts nothing, also if the request differs in what differs by itself.
func TestAsyncKey(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		e := w.on("/in", nil)
		header := func(more ...string) http.Header {
			h := http.Header{"X-User": {"admin"}, "Idempotency-Key": {"k"}}
			for i := 0; i < len(more); i += 2 {
				h.Set(more[i], more[i+1])
			}
			return h
		}
		first := e.send("POST", "/in", "a", header("X-Request-Id", "1", "Webhook-Timestamp", "1"))
		again := e.send("POST", "/in", "a", header("X-Request-Id", "2", "Webhook-Timestamp", "2", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
		first.want(http.StatusAccepted, nil)
		again.want(http.StatusAccepted, nil)
		if a, b := first.Header(), again.Header(); a.Get("Location") != b.Get("Location") || len(a) != len(b) {
			t.Errorf("%v and then %v", a, b)
		}
		e.send("POST", "/in", "b", header()).problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		alone := w.on("/in", &httpapi.AsyncOptions{KeyAlone: true}).send("POST", "/in", "b", header())
		if alone.want(http.StatusAccepted, nil); alone.Header().Get("Location") != first.Header().Get("Location") {
			t.Errorf("%v and then %v", first.Header(), alone.Header())
		}
		w.put("v1/jobs/second", `{"steps": [{"type": "test.work"}]}`, "If-None-Match", "*").want(http.StatusCreated, nil)
		for _, scope := range []string{"", "orders"} {
			mux, opt := http.NewServeMux(), &httpapi.AsyncOptions{KeyAlone: true, KeyScope: scope}
			mux.Handle("POST /one", w.api.Async("inbound", opt))
			mux.Handle("POST /two", w.api.Async("second", opt))
			e := &endpoint{w, mux}
			one, two := e.send("POST", "/one", "a", header("Idempotency-Key", "scoped")), e.send("POST", "/two", "b", header("Idempotency-Key", "scoped"))
			if one.want(http.StatusAccepted, nil); (one.Header().Get("Location") == two.want(http.StatusAccepted, nil).Header().Get("Location")) != (scope != "") {
				t.Errorf("scope %q: %v and then %v", scope, one.Header(), two.Header())
			}
		}
		if other := e.send("POST", "/in", "a", header("X-User", "operator")); other.Header().Get("Location") == first.Header().Get("Location") {
			t.Error("operator got the execution of admin")
		}
		e.send("POST", "/in", "", header("Idempotency-Key", strings.Repeat("k", 201))).problem(http.StatusBadRequest, "invalid", "200")

		own := w.on("/in", &httpapi.AsyncOptions{RequireKey: true, Key: func(r *httpapi.Received) string {
			body, _ := r.Body.(map[string]any)
			key, _ := body["key"].(string)
			return key
		}})
		h := http.Header{"X-User": {"admin"}, "Content-Type": {"application/json"}}
		if a, b := own.accepted("POST", "/in", `{"key": "x"}`, h), own.accepted("POST", "/in", `{"key": "x"}`, h); a.ID != b.ID {
			t.Errorf("%s and %s", a.ID, b.ID)
		}
		own.send("POST", "/in", `{}`, h).problem(http.StatusBadRequest, "idempotency_key_required", "Idempotency-Key")
	})
}

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// signed are the headers of a webhook.
func signed(t *testing.T, id, body string, at time.Time) http.Header {
	t.Helper()
	signature, err := webhook.Sign(id, at, []byte(body), hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {fmt.Sprint(at.Unix())}, "Webhook-Signature": {signature}}
}

// A signature is the identity of a webhook: its id is the key, whatever stands beside it,
// and what is not signed gets no reason.
func TestAsyncWebhook(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		e := w.on("/hook", &httpapi.AsyncOptions{Verify: httpapi.StandardWebhook(hookSecret), As: "shop"})
		h := signed(t, "m1", "paid", time.Now())
		x := e.accepted("POST", "/hook", "paid", h)
		if x.By != "webhook:shop" || x.Labels["by"] != "webhook:shop" {
			t.Errorf("by %q, labels %v", x.By, x.Labels)
		}
		h.Set("Idempotency-Key", "another")
		if again := e.accepted("POST", "/hook", "paid", h); again.ID != x.ID {
			t.Error("a header that is not signed has started another execution")
		}
		time.Sleep(time.Minute)
		if again := e.accepted("POST", "/hook", "paid", signed(t, "m1", "paid", time.Now())); again.ID != x.ID {
			t.Error("a webhook that was delivered again has started another execution")
		}
		time.Sleep(5 * time.Minute)
		late, forged := signed(t, "m2", "paid", time.Now().Add(-6*time.Minute)), signed(t, "m3", "paid", time.Now())
		forged.Set("Webhook-Signature", "v1,"+strings.Repeat("A", 43)+"=")
		bodies := make(map[string]bool)
		for _, header := range []http.Header{late, forged, {}, {"X-User": {"admin"}}} {
			a := e.send("POST", "/hook", "paid", header)
			a.problem(http.StatusUnauthorized, "unauthenticated")
			bodies[a.Body.String()] = true
		}
		if len(bodies) != 1 {
			t.Errorf("the answers tell why: %v", bodies)
		}
		if !strings.Contains(w.log.String(), "refused=4") || !strings.Contains(w.log.String(), "five minutes") {
			t.Errorf("%s", w.log)
		}
		list, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "execution"})
		if err != nil || len(list) != 4 || list[0].Outcome != "refused" || list[0].By != "webhook:shop" {
			t.Errorf("%v, %+v", err, list)
		}
		for range 100 {
			e.send("POST", "/hook", "paid", forged).problem(http.StatusUnauthorized, "unauthenticated")
		}
		if list, err = w.engine.Journal(w.Context(), store.ActionFilter{Kind: "execution"}); err != nil || len(list) != 60 {
			t.Errorf("%d entries, %v", len(list), err)
		}
	})
}

// Without a timeout of the host, that of the job counts, and then half an hour.
func TestAsyncTimeout(t *testing.T) {
	none, hour := time.Duration(0), time.Hour
	for _, c := range []struct {
		opt       *time.Duration
		job, want time.Duration
	}{{nil, 0, 30 * time.Minute}, {nil, 2 * time.Hour, 2 * time.Hour}, {&hour, 2 * time.Hour, time.Hour}, {&none, 2 * time.Hour, 0}} {
		virtual(t, nil, func(w *world) {
			w.defineInbound(c.job)
			if x := w.on("/in", &httpapi.AsyncOptions{Timeout: c.opt}).accepted("POST", "/in", "", nil); x.Timeout != c.want {
				t.Errorf("%v, not %v", x.Timeout, c.want)
			}
		})
	}
}

// What exceeds a quota is accepted and waits; the limit holds exactly, also for requests at
// the same time, and follows the figure.
func TestAsyncQuota(t *testing.T) {
	quota := map[string]int{"admin": 2, "operator": 3, "editor": 0}
	a := policy()
	a.Quota = func(p access.Principal, _ string) int { return quota[p.ID] }
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.defineInbound(0)
		if err := w.engine.Limits().Set(w.Context(), "global", 0, courier.By{}); err != nil {
			t.Fatal(err)
		}
		e := w.on("/in", &httpapi.AsyncOptions{
			Params: func(*httpapi.Received) (map[string]any, error) { return map[string]any{"seconds": 60}, nil },
		})
		running := func() map[string]int {
			list, err := w.engine.Executions().List(w.Context(), store.Filter{States: []courier.State{courier.Running}})
			if err != nil {
				t.Fatal(err)
			}
			n := make(map[string]int)
			for _, x := range list {
				n[x.By]++
			}
			return n
		}
		var all sync.WaitGroup
		for user := range quota {
			for range 8 {
				all.Go(func() { e.accepted("POST", "/in", "", http.Header{"X-User": {user}}) })
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := running(); n["admin"] != 2 || n["operator"] != 3 || n["editor"] != 8 {
			t.Errorf("running: %v", n)
		}
		quota["admin"] = 4
		e.accepted("POST", "/in", "", nil)
		time.Sleep(time.Second)
		if n := running(); n["admin"] != 4 {
			t.Errorf("running: %v", n)
		}
		limits, err := w.engine.Limits().List(w.Context(), engine.LimitFilter{})
		if err != nil || len(limits) != 3 || limits[1] != (engine.Limit{Scope: "key:user:admin/inbound", Limit: 4}) {
			t.Errorf("%v, %v", limits, err)
		}
	})
}

// Settings that are wrong are in the log, and in the answer to each request.
func TestAsyncSettings(t *testing.T) {
	minus := -time.Second
	for _, c := range []struct {
		url  string
		opt  httpapi.AsyncOptions
		text string
	}{
		{"", httpapi.AsyncOptions{Headers: []string{"X-Tenant", "authorization"}}, "Authorization"},
		{"", httpapi.AsyncOptions{Headers: []string{"Set-Cookie "}}, "Set-Cookie"},
		{"", httpapi.AsyncOptions{Timeout: &minus}, "Timeout"},
		{"", httpapi.AsyncOptions{As: strings.Repeat("x", 191)}, "As"},
		{"", httpapi.AsyncOptions{Verify: httpapi.StandardWebhook("secret")}, "whsec_"},
		{"", httpapi.AsyncOptions{Verify: httpapi.StandardWebhook()}, "whsec_"},
		{"ops.example.com/api", httpapi.AsyncOptions{}, "Options.URL"},
		{"https://ops.example.com/api?x=1", httpapi.AsyncOptions{}, "Options.URL"},
	} {
		virtual(t, &httpapi.Options{Access: policy(), URL: c.url}, func(w *world) {
			w.defineInbound(0)
			e := w.on("/in", &c.opt)
			e.send("POST", "/in", "", nil).problem(http.StatusInternalServerError, "internal", c.text)
			if !strings.Contains(w.log.String(), c.text) {
				t.Errorf("%q lacks %q", w.log, c.text)
			}
		})
	}
	virtual(t, nil, func(w *world) { // no such job
		w.on("/in", nil).send("POST", "/in", "", nil).problem(http.StatusInternalServerError, "internal", "not defined")
	})
	virtual(t, nil, func(w *world) {
		w.defineInbound(0)
		e := w.on("/in", &httpapi.AsyncOptions{Params: func(*httpapi.Received) (map[string]any, error) { panic(canarySecret) }})
		if a := e.send("POST", "/in", "", nil); a.Code != 500 || strings.Contains(a.Body.String(), canarySecret) {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	})
}
