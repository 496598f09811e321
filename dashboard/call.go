package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
)

// A call is one request of a visitor.
type call struct {
	*desk.Visit
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request // with the path below the mount
	path  string
	root  string // the reference to the first page, with a slash at its end
	page  *page
	query url.Values // the parameters of the page
	form  url.Values // of a POST, and on the page that shows its problems
	wrote bool
	title string // the heading; empty for that of the page
	key   string // of the forms; empty for a new one

	execution courier.Execution     // of pages about one
	report    *courier.ResumeReport // of a resume that was tried
	failed    error                 // of the action whose form the page shows again
	found     any                   // the result of a dry action
	still     bool                  // the page is not updated, although it has a watch
	placed    bool                  // the page shows the problems of failed at their places
	kept      any                   // results that an action keeps for the page that shows them
	subject   any                   // of pages with the scope onSubject
	about     []string              // the jobs of the subject
	edited    any                   // the definition in the form that was sent
	listed    *listView             // of a page with lists

	shown, other *time.Location // see [call.clocks]; nil until they are asked for
}

func (c *call) ctx() context.Context { return c.r.Context() }

// everywhere are the parameters that all pages have and no reference keeps: the result of an
// action, the parameters of [call.live], and the parameter of [call.csv].
var everywhere = []string{"done", "kept", "live", "have", csvParam}

// readQuery reads the parameters of the URL. It ignores parameters that the page does not have,
// such as those that a mail program adds.
func (c *call) readQuery() error {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Title: "The address can't be read", Text: "The part after the question mark is not in the form name=value.", Do: "Open the page without it, or go back."}
	}
	c.query = url.Values{}
	for name, values := range q {
		if name != textParam && !slices.Contains(c.page.query, name) && !slices.Contains(everywhere, name) {
			continue
		}
		for _, v := range values {
			if !jsontext.Storable(v) {
				return problem.Invalid("The value of %s in the address is not text.", name)
			}
		}
		c.query[name] = values
	}
	return nil
}

// number returns a parameter of the URL that is a number within bounds, or def if it is not given.
func (c *call) number(name string, def, least, most int) (int, error) {
	if c.query.Get(name) == "" {
		return def, nil
	}
	n, err := strconv.Atoi(c.query.Get(name))
	if err != nil || n < least || n > most {
		return 0, problem.Invalid("%s in the address must be a number from %d to %d.", name, least, most)
	}
	return n, nil
}

// link returns the relative reference of a page, such as link("jobs", name). The segments may have
// any characters.
func (c *call) link(segments ...string) string { return link(c.root, segments...) }

func link(root string, segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return root + strings.Join(escaped, "/")
}

// with returns the reference of this page with some parameters of its URL changed: with("tab",
// "audit", "cursor", ""). An empty value removes a parameter.
func (c *call) with(pairs ...string) string {
	q := url.Values{}
	for name, values := range c.query {
		if !slices.Contains(everywhere, name) {
			q[name] = values
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + q.Encode()
}

// redirect answers with a redirect to another page, which the browser requests by GET.
func (c *call) redirect(to string) error {
	c.wrote = true
	c.w.Header().Set("Location", to)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// write answers with a text, completely or not at all.
func (c *call) write(status int, mediaType string, body []byte) {
	c.wrote = true
	c.w.Header().Set("Content-Type", mediaType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if c.r.Method == http.MethodPost {
		c.w.Header().Set("Cache-Control", shownAgain)
	}
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // an error means that the client has gone
	}
}

// shownAgain is the Cache-Control of the page that answers a form. The browser shows its copy when
// the visitor goes back to it, and asks the server in all other cases. With "no-store" the browser
// would show a page of its own instead, and would send the form from there without its origin.
const shownAgain = "private, no-cache"

// now is the instant of the page.
func now() time.Time { return time.Now().UTC() }
