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
	query url.Values // the parameters that the page has
	form  url.Values // of a POST, and on the page that shows what was wrong with it
	wrote bool
	title string // the heading; empty for that of the page
	key   string // of the forms; empty for a new one

	execution courier.Execution     // of pages about one
	report    *courier.ResumeReport // of a resume that was tried
	failed    error                 // of the action whose form the page shows again
	found     any                   // what a dry action has found out
	still     bool                  // nothing on the page is kept up to date, though it has a watch
	placed    bool                  // the page has the problems of failed where they belong
	kept      any                   // what an action leaves for the page that says the result
	subject   any                   // of pages with the scope onSubject
	about     []string              // the jobs of the subject
	edited    any                   // the definition in the form that was sent
	listed    *listView             // of a page with lists

	shown, other *time.Location // see [call.clocks]; nil until they are asked for
}

func (c *call) ctx() context.Context { return c.r.Context() }

// everywhere are the parameters of all pages that no reference keeps: the result of an action, for
// [call.live], and for [call.csv].
var everywhere = []string{"done", "kept", "live", "have", csvParam}

// readQuery reads the parameters of the URL that the page has. Others, such as those that a
// mail program adds, are ignored.
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

// number returns a parameter of the URL that is a number within bounds; without it, def.
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

// link returns the relative reference to a page, such as link("jobs", name), whatever
// characters the segments have.
func (c *call) link(segments ...string) string { return link(c.root, segments...) }

func link(root string, segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return root + strings.Join(escaped, "/")
}

// with returns the reference to this page with the parameters of its URL, of which some are
// set: with("tab", "audit", "cursor", ""). An empty value takes a parameter away.
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

// redirect answers with the reference of another page, which the browser asks for by GET.
func (c *call) redirect(to string) error {
	c.wrote = true
	c.w.Header().Set("Location", to)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// write answers with a text, whole or not at all.
func (c *call) write(status int, mediaType string, body []byte) {
	c.wrote = true
	c.w.Header().Set("Content-Type", mediaType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if c.r.Method == http.MethodPost {
		c.w.Header().Set("Cache-Control", shownAgain)
	}
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // an error is the client's, who has gone
	}
}

// shownAgain is the Cache-Control of the page that answers a form. The browser keeps it for who
// goes back to it, and asks in all other cases. With "no-store" the browser shows a page of its
// own instead, and says of the form that is sent from there that it does not know its origin.
const shownAgain = "private, no-cache"

// now is the instant of the page.
func now() time.Time { return time.Now().UTC() }
