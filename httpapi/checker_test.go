package httpapi_test

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/test/schemacheck"
)

// document is the OpenAPI document, which all answers in these tests have to fit.
var document = sync.OnceValue(func() *validator {
	doc, err := jsontext.Parse(httpapi.Document())
	if err != nil {
		panic(err)
	}
	return newValidator(doc)
})

// A validator holds answers against an OpenAPI document. It refuses fields that the document
// does not name: the document permits them in answers, so that later versions can have more.
type validator struct{ *schemacheck.Validator }

func newValidator(doc any) *validator {
	return &validator{&schemacheck.Validator{Root: doc.(map[string]any), Strict: true}}
}

// check returns what is wrong with a value.
func (v *validator) check(schema, value any) error {
	if wrong := v.Check(schema, value); wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// fitsDocument fails the test unless the answer is as the document says: its status, its
// headers, its media type and its body.
func (a answer) fitsDocument(method, path string) {
	a.Helper()
	if method == http.MethodOptions {
		return // a browser's question
	}
	if err := document().answer(method, path, a.Code, a.Header(), a.Body.Bytes()); err != nil {
		a.Errorf("%s: %d %.300s: it is not as openapi.json says: %v", a.what, a.Code, a.Body, err)
	}
}

// mayTake fails the test unless the document permits the body of a request that has
// succeeded. A check succeeds whatever its body is.
func (a answer) mayTake(method, path, body string) {
	a.Helper()
	o, _ := document().operation(method, path)
	request, ok := o["requestBody"].(map[string]any)
	if !ok || strings.HasPrefix(path, "/v1/check/") {
		return
	}
	if err := document().content(request["content"].(map[string]any), "application/json", []byte(body)); err != nil {
		a.Errorf("%s: %d, although openapi.json forbids the body %s: %v", a.what, a.Code, body, err)
	}
}

// answer returns how an answer differs from the document.
func (v *validator) answer(method, path string, status int, head http.Header, body []byte) error {
	o, operation := v.operation(method, path)
	if !operation {
		if status == http.StatusPermanentRedirect {
			return nil // to the path with a slash at its end
		}
		if !slices.Contains([]int{403, 404, 405, 500}, status) {
			return fmt.Errorf("there is no such operation, and the status is %d", status)
		}
		response, err := v.Resolve("#/components/responses/internal")
		if err != nil {
			return err
		}
		media := response["content"].(map[string]any)["application/problem+json"].(map[string]any)["schema"].(map[string]any)
		return v.body(map[string]any{"$ref": media["$ref"]}, body)
	}
	responses := o["responses"].(map[string]any)
	response, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok && status == http.StatusInternalServerError {
		response, ok = responses["default"].(map[string]any)
	}
	if !ok {
		return fmt.Errorf("this operation has no such status")
	}
	response, err := v.deref(response)
	if err != nil {
		return err
	}
	if err := v.headers(response, head); err != nil {
		return err
	}
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 || method == http.MethodHead {
		if len(body) > 0 {
			return fmt.Errorf("it has a body")
		}
		return nil
	}
	return v.content(content, head.Get("Content-Type"), body)
}

// content checks a body by its media type.
func (v *validator) content(content map[string]any, mediaType string, body []byte) error {
	media, ok := content[mediaType].(map[string]any)
	if !ok {
		return fmt.Errorf("it has the media type %q", mediaType)
	}
	if kind, _, err := mime.ParseMediaType(mediaType); err != nil || !strings.HasSuffix(kind, "json") {
		return err
	}
	return v.body(media["schema"].(map[string]any), body)
}

func (v *validator) body(schema map[string]any, body []byte) error {
	value, err := jsontext.Parse(body)
	if err != nil {
		return err
	}
	return v.check(schema, value)
}

// headers checks that the headers that are always there are, and that there are no others
// which tell a client something.
func (v *validator) headers(response map[string]any, head http.Header) error {
	declared, _ := response["headers"].(map[string]any)
	for name, h := range declared {
		o, err := v.deref(h.(map[string]any))
		if err != nil {
			return err
		}
		if o["required"] == true && head.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	for name := range v.Root["components"].(map[string]any)["headers"].(map[string]any) {
		if _, ok := declared[name]; !ok && len(head.Values(name)) > 0 {
			return fmt.Errorf("it has the header %s, which the route must have in sets", name)
		}
	}
	return nil
}

// deref follows a reference.
func (v *validator) deref(o map[string]any) (map[string]any, error) {
	if ref, ok := o["$ref"].(string); ok {
		return v.Resolve(ref)
	}
	return o, nil
}

// operation returns the operation of a request, by the most literal of the paths that fit.
func (v *validator) operation(method, path string) (operation map[string]any, ok bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	most := -1
	for template, item := range v.Root["paths"].(map[string]any) {
		o, has := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if literal := literals(template, path); has && literal > most {
			operation, most = o, literal
		}
	}
	return operation, most >= 0
}

// literals returns how many parts of a path are the same in a template that fits it, and -1
// if it does not.
func literals(template, path string) (n int) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if n := len(want); strings.HasSuffix(template, "/results/{name}") && len(got) > n {
		got = append(got[:n-1:n-1], strings.Join(got[n-1:], "/"))
	}
	if len(want) != len(got) {
		return -1
	}
	for i, s := range want {
		switch {
		case s == got[i]:
			n++
		case !strings.HasPrefix(s, "{") || got[i] == "":
			return -1
		}
	}
	return n
}
