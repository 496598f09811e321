package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
)

// A call is one request, with its visitor unless the route is open.
type call struct {
	*desk.Visit
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request // with the path below the mount
	path  string
	root  string // the reference to the root of the API
	route *route
	query url.Values
	wrote bool
	whole bool // the body was read to its end
	cut   bool // the body was read in part, and the rest may come slowly

	execution courier.Execution // of routes about one execution
}

func (c *call) ctx() context.Context { return c.r.Context() }

// checkQuery reads the parameters of the URL. It returns an error that lists the parameters that
// the route does not have.
func (c *call) checkQuery() error {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problemf(codeInvalid, "the query of the URL can't be read: write each parameter as name=value, and escape what is special")
	}
	c.query = q
	var p problem
	for name, values := range q {
		i := slices.IndexFunc(c.route.query, func(d param) bool { return d.name == name })
		switch {
		case i < 0:
			p.add(item{Parameter: name, Message: fmt.Sprintf("there is no parameter %.100q here; %s", name, nearest.DidYouMean(name, names(c.route.query)))})
		case len(values) > 1 && !c.route.query[i].many:
			p.add(item{Parameter: name, Message: "it is given more than once"})
		case !jsontext.Storable(strings.Join(values, "")):
			p.add(item{Parameter: name, Message: "it is no UTF-8, or has a NUL character"})
		default:
			if wrong := c.route.query[i].wrong(values); wrong != "" {
				p.add(item{Parameter: name, Message: wrong})
			}
		}
	}
	return p.invalid("the query of the URL")
}

func names(list []param) (all []string) {
	for _, d := range list {
		all = append(all, d.name)
	}
	return all
}

// int returns a parameter of the URL that is a number within bounds, or def if it is not given. The
// bounds in the document, which [call.checkQuery] has checked, are not wider.
func (c *call) int(name string, def, least, most int) (int, error) {
	text := c.query.Get(name)
	if !c.query.Has(name) {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, oneProblem(item{Parameter: name, Message: fmt.Sprintf("it must be a number from %d to %d", least, most)})
	}
	return n, nil
}

// body decodes the JSON object in the body, strictly: unknown and repeated names are
// errors, and numbers keep their digits. No body is the empty object.
func (c *call) body(v any) error {
	raw, err := c.rawBody()
	if err != nil || len(raw) == 0 {
		return err
	}
	if err := checkJSON(raw); err != nil {
		return err
	}
	if string(bytes.TrimSpace(raw)) == "null" {
		return problemf(codeInvalid, "the body must be an object, and is null")
	}
	if err := jsontext.DecodeStrict(raw, v); err != nil {
		return bodyProblem(err)
	}
	return nil
}

// rawBody returns the body, whose media type must be JSON. It is empty if there is no body.
func (c *call) rawBody() ([]byte, error) {
	raw, err := c.readBody()
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return nil, err
	}
	if !c.sendsJSON() {
		return nil, problemf(codeMediaType, "the body must be JSON: send it with the header Content-Type: application/json")
	}
	return raw, nil
}

// sendsJSON reports whether the media type of the body is JSON.
func (c *call) sendsJSON() bool {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// bodyTimeout is how long a body may take, unless the host's server sets a shorter time.
const bodyTimeout = 30 * time.Second

// readBody returns the body, of any media type.
func (c *call) readBody() ([]byte, error) {
	if c.r.ContentLength > c.h.opt.MaxBody {
		return nil, c.tooLarge()
	}
	if c.r.Body != nil && c.r.Body != http.NoBody {
		// The server resets the deadline at the end of the body.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.h.bodyTimeout))
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.h.opt.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, c.tooLarge()
	} else if err != nil {
		return nil, problemf(codeInvalid, "the body has ended too early, or came too slowly: send the request again")
	}
	c.whole = true
	return raw, nil
}

func (c *call) tooLarge() error {
	return problemf(codeTooLarge, "the body has more than %d bytes, which is the limit of this service (Options.MaxBody)", c.h.opt.MaxBody)
}

// answer writes a value as JSON, completely or not at all.
func (c *call) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.write(status, "application/json", append(body, '\n'))
	return nil
}

func (c *call) write(status int, mediaType string, body []byte) {
	c.wrote = true
	c.w.Header().Set("Content-Type", mediaType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // an error means that the client has gone
	}
}

// nothing answers without a body.
func (c *call) nothing(status int) error {
	c.wrote = true
	c.w.WriteHeader(status)
	return nil
}

// tag answers with 304 if the client already has the entity, and reports whether it did.
func (c *call) tag(etag string) bool {
	c.w.Header().Set("ETag", etag)
	if !matches(c.r.Header.Get("If-None-Match"), etag) {
		return false
	}
	_ = c.nothing(http.StatusNotModified)
	return true
}

// matches reports whether a list of entity tags contains etag, by weak comparison (RFC 9110,
// 13.1.2).
func matches(list, etag string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}

// A page is the JSON of a page of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// answerPage answers with a page of a list and the link to the next one.
func answerPage[T any](c *call, items []T, next string) error {
	if items == nil {
		items = []T{}
	}
	if next != "" {
		q := url.Values{}
		for name, values := range c.query {
			q[name] = values
		}
		q.Set("cursor", next)
		c.w.Header().Set("Link", "<?"+q.Encode()+`>; rel="next"`)
	}
	return c.answer(http.StatusOK, page[T]{items, next})
}
