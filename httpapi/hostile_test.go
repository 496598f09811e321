package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// sent stands in everything wrong that is sent.
const sent = "zq81-sent"

// What a route does not take is answered with a problem that says what to do: never by a
// failure of the service.
func TestBadInput(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy(), MaxBody: 10_000, Depot: new(couriertest.Depot)})
	w.services()
	id := w.start("report", `{"params": {"text": "a"}}`)
	check := func(what string, a answer, statuses ...int) {
		t.Helper()
		ok := false
		for _, s := range statuses {
			ok = ok || a.Code == s
		}
		if !ok {
			t.Errorf("%s: %s: %d %s; want one of %v", what, a.what, a.Code, a.Body, statuses)
		}
		if a.Code >= 400 {
			var p struct {
				Code, Detail string
				Problems     []map[string]any
			}
			if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil || p.Code == "" || p.Detail == "" {
				t.Errorf("%s: %s: %v in %s", what, a.what, err, a.Body)
			}
		}
	}
	for _, r := range httpapi.Table() {
		path := fill(r.Path, id)
		send := func(query, body string, headers ...string) answer {
			if query != "" {
				query = "?" + query
			}
			return w.send(r.Method, path+query, body, headers...)
		}
		check("unknown parameter", send(sent+"=1", ""), 400)
		check("query that is none", send("a=%zz"+sent, ""), 400)
		for _, name := range r.Query {
			for _, value := range []string{sent, "%00", "%ff" + sent, "-1", strings.Repeat("9", 400), url.QueryEscape(strings.Repeat(sent, 300)), "%F0%9F%92%A9" + sent} {
				a := send(name+"="+value, "")
				if a.Code >= 500 && a.Code != 501 {
					t.Errorf("%s=%.50s: %s: %d %s", name, value, a.what, a.Code, a.Body)
				}
				check(name, a, 200, 202, 204, 304, 400, 404, 409, 501)
			}
		}
		for _, name := range []string{"limit", "cursor"} {
			if strings.Contains(" "+strings.Join(r.Query, " ")+" ", " "+name+" ") {
				check("forged "+name, send(name+"="+sent, ""), 400)
				check("repeated "+name, send(name+"=1&"+name+"=2", ""), 400)
			}
		}
		if !r.Body {
			continue
		}
		refused := []int{400, 415, 422, 428}
		if strings.HasPrefix(r.ID, "check") { // what is wrong is the answer
			refused = append(refused, 200)
		}
		for what, body := range map[string]string{
			"no JSON": `{"` + sent, "a list": `["` + sent + `"]`, "a text": `"` + sent + `"`, "a number": "1", "null": "null", "two values": `{} {}`, "NUL": "\x00",
			"not UTF-8": "{\"a\": \"\xff" + sent + "\"}", "half a character": `{"a": "\ud800` + sent + `"}`,
			"deep": strings.Repeat(`[`, 4000) + strings.Repeat(`]`, 4000), "repeated name": `{"reason": "` + sent + `", "reason": 1}`,
		} {
			a := send("", body)
			check(what, a, refused...)
			if a.Code == 200 && !strings.Contains(a.Body.String(), `"ok":false`) {
				t.Errorf("%s: %s: %s", what, a.what, a.Body)
			}
		}
		check("unknown name", send("", `{"reson": "`+sent+`", "`+strings.Repeat("x", 5000)+`": 1}`), refused...)
		check("too large", send("", `{"reason": "`+strings.Repeat(sent, 2000)+`"}`), 413, 428)
		check("media type", send("", "reason="+sent, "Content-Type", "application/x-www-form-urlencoded"), 415, 428)
		check("media type that is none", send("", "{}", "Content-Type", ";"+sent), 415, 428)
	}
}

// The document says which numbers a parameter can have: the least and the most are taken,
// and those beyond are refused.
func TestBounds(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.services()
	id, tried := w.start("report", ""), 0
	for path, operations := range document().Root["paths"].(map[string]any) {
		get, _ := operations.(map[string]any)["get"].(map[string]any)
		parameters, _ := get["parameters"].([]any)
		for _, o := range parameters {
			schema := o.(map[string]any)["schema"].(map[string]any)
			if schema["type"] != "integer" {
				continue
			}
			tried++
			name := o.(map[string]any)["name"].(string)
			for key, beyond := range map[string]int64{"minimum": -1, "maximum": 1} {
				text, _ := schema[key].(json.Number)
				bound, err := text.Int64()
				if err != nil {
					t.Fatalf("%s: the parameter %s has no %s: add it to bounds", path, name, key)
				}
				at := fill(strings.TrimPrefix(path, "/"), id) + "?" + name + "="
				w.get(fmt.Sprint(at, bound+beyond)).problem(http.StatusBadRequest, "invalid", name, "from")
				if a := w.get(fmt.Sprint(at, bound)); strings.Contains(a.Body.String(), "it must be a number") {
					t.Errorf("%s: %s", a.what, a.Body)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d parameters", tried)
	}
}

// A body that ends too early or lies about its length does nothing.
func TestCutBody(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for _, body := range []io.Reader{
		io.MultiReader(strings.NewReader(`{"params": `), iotest.ErrReader(io.ErrUnexpectedEOF)),
		iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(`{"params": {}}`))),
	} {
		r := httptest.NewRequest("POST", "/v1/jobs/report/executions", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", "admin")
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		answer{w, rec, "cut body"}.problem(http.StatusBadRequest, "invalid", "again")
	}
	var list struct{ Items []any }
	w.get("v1/executions").want(http.StatusOK, &list)
	if len(list.Items) > 0 {
		t.Errorf("%d executions", len(list.Items))
	}
}

// A parameter and a secret appear in no answer, log or journal of those who may not see
// them. A secret appears nowhere.
func TestCanaries(t *testing.T) {
	a := valuesFor(access.Operator)
	a.ClientMay = func(string) []string { return []string{"limit_keys"} }
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.services()
		body := `{"params": {"text": "` + canaryParam + `", "fail": "wrong"}, "labels": {"partner": "` + canaryParam + `"}, "limit_keys": ["` + canaryParam + `"]}`
		id := w.as("ann").start("report", body, "Idempotency-Key", canaryParam)
		w.ended(id)
		held := w.as("ann").start("report", strings.Replace(body, `"wrong"`, `"wrong", "seconds": 100`, 1))
		w.as("otto").post("v1/executions/"+held+"/pause", `{"reason": "`+canaryParam+`"}`).want(http.StatusAccepted, nil)
		seen := 0
		for _, user := range []string{"ann", "vera", "otto"} {
			for _, r := range httpapi.Table() {
				if r.Method != "GET" {
					continue
				}
				for _, x := range []string{id, held} {
					path := fill(r.Path, x)
					if strings.HasSuffix(path, x+"/events") {
						path += "?after=0"
					}
					got := w.as(user).get(path).Body.String()
					if strings.Contains(got, canarySecret) {
						t.Errorf("%s sees the secret in %s: %s", user, r.Path, got)
					}
					if strings.Contains(got, canaryParam) {
						if seen++; user != "otto" {
							t.Errorf("%s sees the parameter in %s: %s", user, r.Path, got)
						}
					}
				}
			}
		}
		if seen < 6 {
			t.Errorf("otto sees the parameter in %d answers: the test shows nothing", seen)
		}
		if strings.Contains(w.log.String(), canaryParam) || strings.Contains(w.log.String(), canarySecret) {
			t.Errorf("log: %s", w.log)
		}
	})
}

// A body that comes too slowly ends with its time, and the connection stays usable by
// others.
func TestSlowBody(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.api.SetBodyTimeout(50 * time.Millisecond)
	server := httptest.NewServer(w.api)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/jobs/report/executions HTTP/1.1\r\nHost: localhost\r\nX-User: admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%+v, %v", resp, err)
	}
	resp.Body.Close()
	// The deadline of the body does not end a call that waits longer.
	if err := w.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.engine.Stop(t.Context())
	r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/jobs/report/executions", strings.NewReader(`{"params": {"seconds": 0.2}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-User", "admin")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Prefer", "wait=10")
	if resp, err = server.Client().Do(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", resp, err)
	}
	resp.Body.Close()
}
