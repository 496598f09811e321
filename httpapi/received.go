package httpapi

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi/internal/files"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/webhook"
)

// A Received is a request to an async endpoint. In JSON it is the parameter "request" of the
// execution.
type Received struct {
	Method string `json:"method"`
	// Route has the wildcards of the pattern under which the endpoint is mounted, by name.
	Route map[string]string `json:"route"`
	// Query has the parameters of the URL, in the order in which each was first given.
	Query []QueryParam `json:"query"`
	// Headers are Content-Type, the headers whose names begin with "webhook-" except the timestamp
	// and the signature, and the headers in AsyncOptions.Headers. Their names are in small letters,
	// and each has all values in order. The Content-Type of a form is only "multipart/form-data",
	// because the boundary between its parts differs each time a client repeats the request.
	Headers map[string][]string `json:"headers"`
	// Body is a JSON value, with numbers as [json.Number], if the Content-Type is JSON. For a form
	// (multipart/form-data) it is an object with the texts of the fields. Otherwise it is a text,
	// or base64 if the body is not text in UTF-8. It is nil for an empty body.
	Body any `json:"body"`
	// BodyEncoding is the form of Body: "json", "form", "text" or "base64"; empty for an empty
	// body.
	BodyEncoding string `json:"body_encoding,omitempty"`
	// Files are the files that came with the request, if AsyncOptions.Files is set. They are
	// ordered by the names of their fields, and keep their order within a field.
	Files []UploadedFile `json:"files,omitempty"`

	Principal access.Principal `json:"-"` // the caller
	Raw       []byte           `json:"-"` // the body as it came
	Request   *http.Request    `json:"-"` // whose body was read
}

// A QueryParam is a parameter of the URL with its values, in order.
type QueryParam struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// receive returns the request of a call in the form of parameters.
func (e *endpoint) receive(c *call, raw []byte, u *upload) (*Received, error) {
	r := &Received{
		Method: c.r.Method, Route: make(map[string]string), Headers: make(map[string][]string),
		Principal: access.Principal(c.Principal), Raw: raw, Request: c.r,
	}
	for _, name := range wildcards(c.r.Pattern) {
		r.Route[name] = c.r.PathValue(name)
		if !jsontext.Storable(r.Route[name]) {
			return nil, problemf(codeInvalid, "the path: what stands for %s %s", name, noText)
		}
	}
	for name, values := range c.r.Header {
		if !e.captured(name) {
			continue
		}
		if !jsontext.Storable(strings.Join(values, "")) {
			return nil, oneProblem(item{Header: name, Message: "it " + noText})
		}
		r.Headers[strings.ToLower(name)] = values
	}
	if c.isForm() {
		r.Headers["content-type"] = []string{formMedia}
	}
	var err error
	r.Query, err = queryOf(c.r.URL.RawQuery)
	switch {
	case err != nil:
	case u != nil:
		r.Files = u.uploaded()
		r.Body, r.BodyEncoding, err = formOf(u.Fields)
	case c.isForm() && len(raw) > 0:
		r.Body, r.BodyEncoding, err = e.form(c, raw)
	default:
		r.Body, r.BodyEncoding, err = bodyOf(raw, c.sendsJSON())
	}
	return r, err
}

// form returns the fields of a form for an endpoint without files. Only the host sees files in the
// form, in Raw.
func (e *endpoint) form(c *call, raw []byte) (body any, encoding string, err error) {
	from := files.Receiver{MaxFields: c.h.opt.MaxBody, Patience: c.h.bodyTimeout}
	sent := &http.Request{Header: c.r.Header, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw))}
	if err = from.Form(nil, sent); err != nil { // no deadline has to be set, because the body has been read
		return nil, "", uploadProblem(err)
	}
	if from.Unkept > 0 && e.opt.Params == nil {
		return nil, "", problemf(codeInvalid, "the form has a file, and this endpoint takes none (AsyncOptions.Files): send the fields alone")
	}
	return formOf(from.Fields)
}

// proofs are the headers that authenticate a caller.
var proofs = []string{"Authorization", "Cookie", "Proxy-Authorization", "Set-Cookie"}

func isProof(name string) bool {
	for _, p := range proofs {
		if strings.EqualFold(strings.TrimSpace(name), p) {
			return true
		}
	}
	return false
}

// captured reports whether a header, in its canonical form, becomes a parameter. The headers of
// webhooks that differ in each attempt to deliver the same webhook do not.
func (e *endpoint) captured(name string) bool {
	low := strings.ToLower(name)
	switch {
	case low == "content-type":
		return true
	case strings.HasPrefix(low, "webhook-") && low != webhook.HeaderTimestamp && low != webhook.HeaderSignature:
		return true
	}
	for _, h := range e.opt.Headers {
		if textproto.CanonicalMIMEHeaderKey(h) == name {
			return true
		}
	}
	return false
}

// wildcards returns the names of the wildcards in a pattern of http.ServeMux.
func wildcards(pattern string) (names []string) {
	for {
		_, rest, found := strings.Cut(pattern, "{")
		if !found {
			return names
		}
		var name string
		name, pattern, _ = strings.Cut(rest, "}")
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			names = append(names, name)
		}
	}
}

// queryOf returns the parameters of a query, in order.
func queryOf(raw string) ([]QueryParam, error) {
	list := []QueryParam{}
	index := make(map[string]int)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil || strings.Contains(pair, ";") || !jsontext.Storable(name+value) {
			return nil, problemf(codeInvalid, "the query of the URL can't be read: write each parameter as name=value, in UTF-8, and escape what is special")
		}
		i, seen := index[name]
		if !seen {
			i = len(list)
			index[name] = i
			list = append(list, QueryParam{Name: name})
		}
		list[i].Values = append(list[i].Values, value)
	}
	return list, nil
}

// bodyOf returns a body as a JSON value, and its encoding; see [Received].
func bodyOf(raw []byte, isJSON bool) (v any, encoding string, err error) {
	switch {
	case len(raw) == 0:
		return nil, "", nil
	case isJSON:
		if err = checkJSON(raw); err == nil {
			v, err = jsontext.Parse(raw)
		}
		return v, "json", err
	case jsontext.Storable(string(raw)):
		return string(raw), "text", nil
	}
	return base64.StdEncoding.EncodeToString(raw), "base64", nil
}

const noText = "has a NUL character, or is no UTF-8"

// isLabel reports whether a text is a valid value of a label.
func isLabel(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= 200 && jsontext.Storable(s)
}

var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceOf returns the trace context of a request. It is empty if there is none.
func traceOf(r *http.Request) string {
	if t := r.Header.Values("traceparent"); len(t) == 1 && traceParent.MatchString(t[0]) {
		return t[0]
	}
	return ""
}
