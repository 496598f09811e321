package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// maxBody is the limit of bodies in these tests.
const maxBody = 20_000

// A contract is an API with its document.
type contract struct {
	*testing.T
	api       *httpapi.Handler
	doc       map[string]any
	validator validator.Validator
	execution string
	requests  int // that were sent
	refused   int // of them, those that the validator refuses
}

func newContract(t *testing.T) *contract {
	t.Helper()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.nothing", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir()})
	job := courier.Job{Name: "report", Params: map[string]any{"text": "a"}, Steps: []courier.StepSpec{{Type: "test.nothing"}}}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	who := func(*http.Request) (access.Principal, error) { return access.Principal{ID: "ann"}, nil }
	c := &contract{T: t, api: httpapi.New(e, &httpapi.Options{MaxBody: maxBody, Access: access.Policy{Who: who}})}
	c.load()
	var started struct{ ID string }
	c.send("POST", "/v1/jobs/report/executions", []byte("{}"), nil, &started)
	c.execution = started.ID
	return c
}

// load reads the document.
func (c *contract) load() {
	c.Helper()
	if err := json.Unmarshal(c.api.OpenAPI(), &c.doc); err != nil {
		c.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(c.api.OpenAPI())
	if err != nil {
		c.Fatal(err)
	}
	if _, err := doc.BuildV3Model(); err != nil {
		c.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if err := errors.Join(errs...); err != nil {
		c.Fatal(err)
	}
	c.validator = v
}

// The document is valid OpenAPI 3.1, and all its references lead somewhere.
func TestDocument(t *testing.T) {
	c := newContract(t)
	if ok, errs := c.validator.ValidateDocument(); !ok {
		for _, err := range errs {
			t.Error(err)
			for _, s := range err.SchemaValidationErrors {
				t.Errorf("  %+v", s)
			}
		}
	}
}

// send sends a request, and checks that its answer is in the document and no failure of the
// service. If the document forbids the request, the answer must be a problem, or that of a
// check which has found some.
func (c *contract) send(method, target string, body []byte, head http.Header, v any) {
	c.Helper()
	c.requests++
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
	defer cancel()
	if strings.HasSuffix(strings.Split(target, "?")[0], "/events") {
		ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond) // a stream has no end of its own
		defer cancel()
	}
	request := func() *http.Request {
		r := httptest.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer any")
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		for name, values := range head {
			r.Header[name] = values
		}
		return r
	}
	rec := httptest.NewRecorder()
	c.api.ServeHTTP(rec, request())
	what := method + " " + shorten(target) + " " + shorten(string(body))
	if rec.Code >= 500 && rec.Code != http.StatusNotImplemented {
		c.Errorf("%s: %d %s", what, rec.Code, rec.Body)
	}
	if rec.Code == http.StatusNotFound && rec.Header().Get("Content-Type") == "application/problem+json" && !c.has(request()) {
		return // there is no such operation
	}
	if kind := rec.Header().Get("Content-Type"); kind != "text/event-stream" {
		if ok, errs := c.validator.ValidateHttpResponse(request(), rec.Result()); !ok {
			for _, err := range errs {
				c.Errorf("%s: %d %s: %v", what, rec.Code, shorten(rec.Body.String()), err)
				for _, s := range err.SchemaValidationErrors {
					c.Errorf("  %s at %s", s.Reason, s.KeywordLocation)
				}
			}
		}
	}
	if ok, errs := c.validator.ValidateHttpRequestSync(request()); !ok {
		var check struct{ OK *bool }
		_ = json.Unmarshal(rec.Body.Bytes(), &check) // other answers have no ok
		if c.refused++; rec.Code < 400 && (check.OK == nil || *check.OK) {
			c.Errorf("%s: %d, although the document forbids the request: %v", what, rec.Code, errs[0])
		}
	}
	if v != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
			c.Fatalf("%s: %d %s: %v", what, rec.Code, rec.Body, err)
		}
	}
}

// has reports whether the document has an operation for a request.
func (c *contract) has(r *http.Request) bool {
	_, errs := c.validator.ValidateHttpRequestSync(r)
	return !slices.ContainsFunc(errs, func(err *errorOf) bool { return err.IsPathMissingError() || err.IsOperationMissingError() })
}

func shorten(text string) string {
	if len(text) > 200 {
		return strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}

// Whatever a route does not take has an answer that is in the document, and never one that
// says that the service has failed.
func TestForbidden(t *testing.T) {
	c := newContract(t)
	for _, path := range sorted(c.doc["paths"]) {
		item := c.doc["paths"].(map[string]any)[path].(map[string]any)
		for _, method := range sorted(item) {
			o := operation{c, strings.ToUpper(method), path, item[method].(map[string]any)}
			o.paths()
			o.parameters()
			o.bodies()
		}
	}
	t.Logf("%d requests, of which the document forbids %d", c.requests, c.refused)
	if c.refused < 100 {
		t.Error("so few show nothing")
	}
}

// An operation is one of the document.
type operation struct {
	*contract
	method, path string
	doc          map[string]any
}

// target returns a path of the operation, with a value in the place of its last wildcard if
// it is not empty.
func (o *operation) target(value string) string {
	parts := strings.Split(o.path, "/")
	last := true
	for i := len(parts) - 1; i >= 0; i-- {
		if !strings.HasPrefix(parts[i], "{") {
			continue
		}
		switch {
		case last && value != "":
			parts[i] = value
		case parts[i-1] == "executions":
			parts[i] = o.execution
		case parts[i-1] == "jobs":
			parts[i] = "report"
		default:
			parts[i] = "1"
		}
		last = false
	}
	return strings.Join(parts, "/")
}

// paths sends odd values in the path.
func (o *operation) paths() {
	for _, value := range []string{
		"x", "%00", "%ff%fe", "a%2Fb", "%2e%2e", "..%2f..%2fetc", "%25", "%F0%9F%92%A9", "{id}", "*", "-1", strings.Repeat("9", 30),
		strings.Repeat("x", 5000), "00000000-0000-0000-0000-000000000000", "%22%3E%3Cscript%3E", ";a=b", "a%20b", "%0d%0aX-A:%20b",
	} {
		if strings.Contains(o.path, "{") {
			o.send(o.method, o.target(value), o.valid(), nil, nil)
		}
	}
}

// parameters sends values that parameters don't have.
func (o *operation) parameters() {
	o.send(o.method, o.target("")+"?no_such_parameter=1", o.valid(), nil, nil)
	list, _ := o.doc["parameters"].([]any)
	for _, p := range list {
		p := p.(map[string]any)
		name := p["name"].(string)
		for _, value := range []string{"", "x", "1.5", "-1", "true", strings.Repeat("9", 30), strings.Repeat("x", 5000), "\x00", "ä\xff", "wait=x", `"v1`} {
			switch p["in"] {
			case "query":
				o.send(o.method, o.target("")+"?"+name+"="+url.QueryEscape(value), o.valid(), nil, nil)
			case "header":
				o.send(o.method, o.target(""), o.valid(), http.Header{name: {value}}, nil)
			}
		}
	}
}

// bodies sends bodies that the schema forbids.
func (o *operation) bodies() {
	request, ok := o.doc["requestBody"].(map[string]any)
	if !ok {
		return
	}
	target := o.target("")
	send := func(body string) { o.send(o.method, target, []byte(body), o.unconditional(), nil) }
	for _, body := range []string{
		"[]", `"text"`, "1", "null", "true", "{", "{} {}", "\x00", "{\"a\": \"\xff\"}", `{"no_such_field": 1}`, `{"a": 1, "a": 1}`,
		strings.Repeat("[", 5000), `{"x": "` + strings.Repeat("x", maxBody) + `"}`,
	} {
		send(body)
	}
	for _, kind := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ";", ""} {
		o.send(o.method, target, []byte("{}"), http.Header{"Content-Type": {kind}}, nil)
	}
	schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
	for _, body := range o.mutants(schema, 3) {
		if text, err := json.Marshal(body); err == nil {
			send(string(text))
		}
	}
}

// unconditional are the headers with which a definition is saved.
func (o *operation) unconditional() http.Header {
	if o.method == http.MethodPut {
		return http.Header{"If-Match": {`"v1"`}}
	}
	return nil
}

// valid is the empty body of operations that take one.
func (o *operation) valid() []byte {
	if o.doc["requestBody"] == nil {
		return nil
	}
	return []byte("{}")
}

func sorted(v any) []string {
	var names []string
	for name := range v.(map[string]any) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
