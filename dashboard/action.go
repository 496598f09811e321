package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// An action is what a form of a page does. The form is sent to the address of its page by
// POST, with the fields "do" (the verb, usually of the button), "key" (view.Key) and, if the
// action takes one, "reason".
type action struct {
	verb string    // such as "pause"
	role desk.Role // for what the page is about
	// check returns what is wrong with the form, or that the visitor may not do what it says,
	// before anything is in the journal; nil means that the role is enough.
	check func(c *call) error
	// dry says that it changes nothing: it has no entry in the journal, and what it finds out
	// is shown on the page of the form.
	dry bool
	// noted completes the entry of the journal. Without it the entry names what the page is
	// about: the execution, or {name}.
	noted func(c *call, a *store.Action)
	// do carries the action out, between two entries of the journal. It returns the reference
	// to the page that says what came of it; empty for the page of the form. If all was so
	// already, the error is [desk.ErrUnchanged]. Any other error is shown above the form,
	// whose fields are in view.Form.
	do func(ctx context.Context, c *call) (to string, err error)
}

// maxForm is how many bytes a form can have.
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
			if !isText(v) {
				return problem.Invalid("The field %s has characters that are no text.", name)
			}
		}
	}
	return nil
}

// reason is why the visitor wants an action, in its own words.
func (c *call) reason() string { return strings.TrimSpace(c.form.Get("reason")) }

// by is the visitor as the author of the action.
func (c *call) by() courier.By { return c.By(c.reason()) }

// act carries out the action of a form, and answers with the page that says what came of it.
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
	if err := c.allow(a.role); err != nil {
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
	o := c.h.done.once(c.formID(), c.form.Get("key") != "", func() outcome { return c.carryOut(a) })
	if o.err != nil {
		c.refused(a.verb, o.err)
		return c.show(problem.Of(o.err).Status, o.err)
	}
	return c.redirect(o.to)
}

// formID identifies the form that the visitor has sent: by its key and all else in it, so that
// the same form is the same action, and one that was corrected is another.
func (c *call) formID() string {
	h := sha256.New()
	for _, part := range []string{c.ID, c.path, c.form.Encode()} {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// carryOut carries out an action between its entries of the journal.
func (c *call) carryOut(a *action) (o outcome) {
	if a.check != nil {
		if o.err = a.check(c); o.err != nil {
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
	number, o.err = c.Noted(c.ctx(), entry, func(ctx context.Context) (err error) {
		o.to, err = a.do(ctx, c)
		return err
	})
	o.kept, o.by = c.kept, c.ID
	if o.to == "" {
		o.to = c.with()
	}
	o.to = withDone(o.to, number)
	return o
}

// withDone adds the number of an entry of the journal to a reference.
func withDone(to string, number int64) string {
	u, err := url.Parse(to)
	if err != nil {
		return to
	}
	q := u.Query()
	q.Set("done", strconv.FormatInt(number, 10))
	u.RawQuery = q.Encode()
	return u.String()
}

// A notice says what came of an action.
type notice struct {
	Verb, Outcome, Reason string
	Name                  string
	At                    time.Time
	Kept                  bool // the journal has an entry
}

// notice returns what came of the action whose entry of the journal the address names; nil
// if it names none of the visitor's.
func (c *call) notice() *notice {
	if c.query == nil || !c.query.Has("done") {
		return nil
	}
	number, err := strconv.ParseInt(c.query.Get("done"), 10, 64)
	switch {
	case err != nil || number < 0 || c.Visit == nil:
		return nil
	case number == 0:
		return &notice{Outcome: "done"}
	}
	a, err := c.Entry(c.ctx(), number)
	if err != nil {
		return nil
	}
	return &notice{Verb: a.Verb, Name: a.Name, Outcome: a.Outcome, Reason: a.Reason, At: a.At, Kept: true}
}

// An outcome is what came of an action.
type outcome struct {
	to   string
	err  error
	kept any    // for the page that says what came of it
	by   string // the ID of the visitor
}

// outcomes are those of the last forms. A form that is sent twice is carried out once, and
// both are answered alike; one that was refused can be sent again.
type outcomes struct {
	mu    sync.Mutex
	list  map[string]*sent // by formID
	order []*sent          // the oldest first
}

type sent struct {
	id   string
	at   time.Time
	done chan struct{} // closed when outcome is there
	outcome
}

// What is kept of forms.
const (
	keptForms = 1000
	keptFor   = 10 * time.Minute
	sameFor   = time.Minute // in which the same form is the same action
)

// once returns what came of the first call with an id, whose f it has called.
func (o *outcomes) once(id string, keyed bool, f func() outcome) outcome {
	if !keyed {
		return f()
	}
	o.mu.Lock()
	at := time.Now()
	for len(o.order) > 0 && (len(o.order) >= keptForms || at.Sub(o.order[0].at) > keptFor) {
		o.forget(o.order[0])
		o.order = o.order[1:]
	}
	if s := o.list[id]; s != nil && at.Sub(s.at) < sameFor {
		o.mu.Unlock()
		<-s.done
		return s.outcome
	}
	if o.list == nil {
		o.list = make(map[string]*sent)
	}
	s := &sent{id: id, at: at, done: make(chan struct{}), outcome: outcome{err: problem.ErrPanic}}
	o.list[id] = s
	o.order = append(o.order, s)
	o.mu.Unlock()
	defer func() {
		if s.err != nil {
			o.mu.Lock()
			o.forget(s)
			o.mu.Unlock()
		}
		close(s.done)
	}()
	s.outcome = f()
	return s.outcome
}

// forget removes a form, if it is not there again.
func (o *outcomes) forget(s *sent) {
	if o.list[s.id] == s {
		delete(o.list, s.id)
	}
}

// kept returns what a form of a visitor has left; nil if it is not there.
func (o *outcomes) kept(id, by string) any {
	o.mu.Lock()
	s := o.list[id]
	o.mu.Unlock()
	if s == nil {
		return nil
	}
	if <-s.done; s.by != by {
		return nil
	}
	return s.outcome.kept
}

// newKey returns a key for the forms of a page.
func newKey() string { return strings.ToLower(rand.Text()) }
