package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/outcome"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// An action carries out a form of a page. The form is sent to the address of its page by POST. It
// has the fields "do" (the verb, usually the value of the button), "key" (view.Key) and, if the
// action has a reason, "reason".
type action struct {
	verb string // such as "pause"
	op   string // the operation whose rights it needs, for the subject of the page
	// check returns an error if the form is invalid or the visitor may not carry it out. It is
	// called before the action is in the journal. Nil means that only the rights are checked.
	check func(c *call) error
	// dry says that the action changes nothing. It has no entry in the journal, and its result is
	// shown on the page of the form.
	dry bool
	// noted completes the entry in the journal. Without it the entry names the subject of the page:
	// the execution, or {name}.
	noted func(c *call, a *store.Action)
	// do carries out the action, between two entries in the journal. It returns the reference of
	// the page that shows the result; empty means the page of the form. If there was nothing to
	// change, the error is [desk.ErrUnchanged]. Any other error is shown above the form, whose
	// fields are in view.Form.
	do func(ctx context.Context, c *call) (to string, err error)
}

// maxForm is the largest size of a form in bytes.
const maxForm = 1 << 20

// readForm reads the form of a POST.
func (c *call) readForm() error {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxForm)
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(30 * time.Second)) // the server resets it
	if err := c.r.ParseForm(); err != nil {
		return problem.Invalid("The form can't be read: it is cut off, or has more than %d bytes.", maxForm)
	}
	c.form = c.r.PostForm
	for name, values := range c.form {
		for _, v := range values {
			if !jsontext.Storable(v) {
				return problem.Invalid("The field %s has characters that are not text.", name)
			}
		}
	}
	return nil
}

// reason is the reason that the visitor has given for the action.
func (c *call) reason() string { return strings.TrimSpace(c.form.Get("reason")) }

// by is the visitor as the author of the action.
func (c *call) by() courier.By { return c.By(c.reason()) }

// act carries out the action of a form, and answers with the page that shows the result.
func (c *call) act() error {
	if err := c.readForm(); err != nil {
		return err
	}
	var a *action
	for i := range c.page.actions {
		if c.page.actions[i].verb == c.form.Get("do") {
			a = &c.page.actions[i]
		}
	}
	if a == nil {
		return problem.Invalid("This page has no such action.")
	}
	if err := c.allow(a.op); err != nil {
		c.refused(a.verb, err)
		return err
	}
	if a.dry {
		if _, err := a.do(c.ctx(), c); err != nil {
			c.refused(a.verb, err)
			return c.show(problem.Of(err).Status, err)
		}
		return c.show(http.StatusOK, nil)
	}
	o := c.h.done.Once(c.formID(), c.form.Get("key") != "", func() outcome.Result { return c.carryOut(a) })
	c.h.attention.forget()
	if o.Err != nil {
		c.refused(a.verb, o.Err)
		return c.show(problem.Of(o.Err).Status, o.Err)
	}
	return c.redirect(o.To)
}

// strayed is the error of a form if the browser does not confirm that a page of this service sent
// it. The page of the error shows the texts of the form, so that the visitor can copy them.
func (c *call) strayed() error {
	e := &problem.Error{
		Status: http.StatusForbidden, Title: "The form was refused",
		Text: "The browser does not confirm that a page of this service sent it. This happens when an error page is reloaded, or when a proxy changes the host name. Nothing was done.",
		Do:   "Open the page of the form again, and send it from there.", Again: "?" + c.r.URL.RawQuery,
	}
	if c.readForm() == nil {
		for _, name := range slices.Sorted(maps.Keys(c.form)) {
			if text := c.form.Get(name); text != "" && (slices.Contains(writtenFields, name) || strings.HasPrefix(name, "f.")) {
				e.Written = append(e.Written, problem.Written{Field: strings.TrimPrefix(name, "f."), Text: text})
			}
		}
	}
	return e
}

// writtenFields are the fields of forms for free text, except the fields of definitions. Fields for
// passwords are not among them.
var writtenFields = []string{"text", "reason", "params", "set", "outputs"}

// formID identifies the form that the visitor has sent, by its key and all its fields. The same
// form is the same action; a corrected form is another one.
func (c *call) formID() string {
	h := sha256.New()
	for _, part := range []string{c.ID, c.path, c.form.Encode()} {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// carryOut carries out an action between its two entries in the journal.
func (c *call) carryOut(a *action) (o outcome.Result) {
	if a.check != nil {
		if o.Err = a.check(c); o.Err != nil {
			return o
		}
	}
	entry := store.Action{Verb: a.verb, Kind: c.page.kind(), Name: c.r.PathValue("name"), Reason: c.reason()}
	if c.page.on == onJob {
		entry.Job = entry.Name
	}
	if x := &c.execution; x.ID != "" {
		entry.Kind, entry.Name, entry.Job, entry.Execution = "execution", x.Job, x.Job, x.ID
	}
	if a.noted != nil {
		a.noted(c, &entry)
	}
	var number int64
	number, o.Err = c.Noted(c.ctx(), entry, func(ctx context.Context) (err error) {
		o.To, err = a.do(ctx, c)
		return err
	})
	o.Kept, o.By = c.kept, c.ID
	if o.To == "" {
		o.To = c.with()
	}
	kept := ""
	if _, ok := c.kept.(doubts); ok {
		kept = c.formID()
	}
	o.To = withDone(o.To, number, kept)
	return o
}

// doubts are the warnings about a saved definition, for the page that shows the result.
type doubts []string

// warn keeps warnings for the page that shows the result.
func (c *call) warn(list []courier.Problem) {
	var d doubts
	for _, p := range list {
		d = append(d, format.Sentence(p.String()))
	}
	if d != nil {
		c.kept = d
	}
}

// withDone adds to a reference the number of an entry in the journal, and the id of the form if the
// form has kept results.
func withDone(to string, number int64, kept string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to
	}
	q := u.Query()
	q.Set("done", strconv.FormatInt(number, 10))
	if kept != "" {
		q.Set("kept", kept)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// A notice says the result of an action.
type notice struct {
	Verb, Outcome, Reason string
	Name                  string
	At                    time.Time
	Kept                  bool   // the entry is in the journal
	Doubts                doubts // about the saved definition
}

// notice returns the result of the action whose journal entry the address names. It is nil if the
// entry is not the visitor's.
func (c *call) notice() *notice {
	if c.query == nil || !c.query.Has("done") {
		return nil
	}
	number, err := strconv.ParseInt(c.query.Get("done"), 10, 64)
	var warned doubts
	if c.Visit != nil && c.query.Has("kept") {
		warned, _ = c.h.done.Kept(c.query.Get("kept"), c.ID).(doubts)
	}
	switch {
	case err != nil || number < 0 || c.Visit == nil:
		return nil
	case number == 0:
		return &notice{Outcome: "done", Doubts: warned}
	}
	a, err := c.Entry(c.ctx(), number)
	if err != nil {
		return nil
	}
	return &notice{Verb: a.Verb, Name: a.Name, Outcome: a.Outcome, Reason: a.Reason, At: a.At, Kept: true, Doubts: warned}
}

// newKey returns a key for the forms of a page.
func newKey() string { return strings.ToLower(rand.Text()) }
