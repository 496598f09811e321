package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/form"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A kept is a kind of definition with pages: schedules, monitors, subscriptions and the like. All
// have a name, a definition that is replaced as a whole, and the jobs that they are about. The
// rights for these jobs decide who may see or change one. It is the counterpart of kept in package
// httpapi.
type kept[T any, D interface {
	*T
	courier.Definition
}] struct {
	desk.Kept[T]
	list    string                             // the path of the list, such as "schedules"
	fields  []form.Field                       // of the form
	first   string                             // the initial definition in the form of a new one, as JSON
	query   []string                           // of the first tab
	plain   func(T) T                          // without the state
	refused func(name string, err error) error // returns the error for the removal of one that is in use; nil: the error itself
	data    func(c *call, v *T) (any, error)   // of the first tab
	turns   []turn[T]
	off     func(*T) *bool // whether it is switched off; nil where the form can't switch it on
	try     string         // the label of the button that checks the form; empty for none
	// tried returns the data that the form shows of a checked definition that is not saved.
	tried func(c *call, v *T) any
	more  []action // besides those that all have
}

// A turn changes the state of the definition with a name.
type turn[T any] struct {
	verb string
	do   func(ctx context.Context, c *call, name string, by courier.By) (T, error)
}

// A keptPage is the data of the page of one definition.
type keptPage struct {
	Kind   string
	Tabs   []navItem
	Tab    string
	Data   any // of the first tab
	Editor *editor
	Remove *removal
}

// setEnabled is the verb that saves a definition and enables it.
const setEnabled = "set and enable"

// An editor is a form for a definition, or its text.
type editor struct {
	Kind    string
	Verb    string
	Enable  string // the verb that saves it and enables it, if it is disabled
	New     bool
	AsText  bool
	Fields  []form.Input
	Jobs    []string // suggested names
	Text    string
	Was     string    // a hash of the definition that is edited
	Wrong   bool      // there are problems that belong to no field
	Try     string    // the button that checks it
	Tried   any       // of a checked definition without problems
	Doubts  []string  // its warnings
	Refused string    // why the visitor can't edit the definition here
	Modes   []navItem // for a new one: form or text
}

// A removal is the form that removes a definition.
type removal struct{ Kind, Name, Text, Problem string }

// pages returns the page of one definition, and the page of a new one.
func (k *kept[T, D]) pages() []page {
	title := strings.ToUpper(k.Kind[:1]) + k.Kind[1:]
	actions := []action{
		{verb: "set", op: "set" + title, check: k.mayEdit, noted: k.noted, do: k.save},
		{verb: "remove", op: "remove" + title, check: k.confirmed, noted: k.noted, do: func(ctx context.Context, c *call) (string, error) {
			name := c.r.PathValue("name")
			err := k.Remove(ctx, c.h.e, name, c.by())
			if k.refused != nil && errors.Is(err, courier.ErrConflict) {
				err = k.refused(name, err)
			}
			return c.link(k.list), err
		}},
	}
	if k.off != nil {
		a := actions[0]
		a.verb, a.check = setEnabled, func(c *call) error {
			err := k.mayEdit(c)
			if v, ok := c.edited.(T); ok && err == nil {
				*k.off(&v) = false
				c.edited = v
			}
			return err
		}
		actions = append(actions, a)
	}
	for _, t := range k.turns {
		actions = append(actions, action{verb: t.verb, op: t.verb + title, noted: k.noted, do: func(ctx context.Context, c *call) (string, error) {
			was := c.subject.(T)
			now, err := t.do(ctx, c, c.r.PathValue("name"), c.by())
			if err == nil {
				err = desk.Changed(was, now)
			}
			return "", err
		}})
	}
	fresh := []action{{verb: "set", op: "set" + title, check: k.mayCreate, noted: k.noted, do: k.save}}
	if k.try != "" {
		actions = append(actions, action{verb: "check", op: "check" + k.Kind, dry: true, do: k.checked(k.mayEdit)})
		fresh = append(fresh, action{verb: "check", op: "check" + k.Kind, dry: true, do: k.checked(k.mayCreate)})
	}
	for _, a := range k.more {
		a.noted = k.noted
		actions = append(actions, a)
	}
	return []page{
		{path: k.list + "/{name}", op: "get" + title, on: onSubject, about: k.Kind, find: k.find, file: k.Kind, query: append([]string{"tab"}, k.query...), scripts: []string{"unsaved"}, data: k.one, actions: actions, live: []string{"overview"}, watch: watchEvery(15 * time.Second)},
		{
			path: "new/" + k.Kind, op: "set" + title, on: onVisible, about: k.Kind, title: "New " + k.Kind, file: "new", scripts: []string{"unsaved"}, query: []string{"as"}, data: k.fresh,
			actions: fresh,
		},
	}
}

// find reads the definition that the path names, if the visitor may see it.
func (k *kept[T, D]) find(c *call) ([]string, error) {
	v, err := k.Get(c.ctx(), c.h.e, c.r.PathValue("name"))
	if errors.Is(err, courier.ErrNotFound) && !c.Can(c.ctx(), "", access.RightSee) {
		return nil, desk.Unknown() // its text may name others
	} else if err != nil {
		return nil, err
	}
	jobs := desk.JobsOf(D(&v))
	if !c.Has(c.ctx(), jobs, access.RightSee) {
		return nil, desk.Unknown()
	}
	c.subject = v
	return jobs, nil
}

// seen returns a copy of v without the values that the visitor may not see.
func (k *kept[T, D]) seen(c *call, v T) T {
	if !c.Has(c.ctx(), desk.JobsOf(D(&v)), access.RightSee|access.RightValues) {
		k.Hide(&v)
	}
	return v
}

// noted completes the entry in the journal.
func (k *kept[T, D]) noted(c *call, a *store.Action) {
	if v, ok := c.subject.(T); ok {
		a.Job = desk.JobsOf(D(&v))[0]
		if was, err := json.Marshal(v); err == nil && (a.Verb == "set" || a.Verb == setEnabled || a.Verb == "remove") {
			a.Was = was
		}
	}
	if v, ok := c.edited.(T); ok {
		a.Name, a.Job = *k.Name(&v), desk.JobsOf(D(&v))[0]
	}
}

// one is the page of one definition.
func (k *kept[T, D]) one(c *call) (any, error) {
	v := c.subject.(T)
	name := *k.Name(&v)
	c.title = strings.ToUpper(k.Kind[:1]) + k.Kind[1:] + " " + name
	p := &keptPage{Kind: k.Kind, Tab: c.query.Get("tab")}
	c.still = p.Tab != ""
	editor := c.may(access.RightEdit)
	for _, tab := range []struct{ key, label string }{{"", "Overview"}, {"edit", "Edit"}, {"text", "Edit as text"}, {"remove", "Remove"}} {
		if tab.key == "" || editor {
			p.Tabs = append(p.Tabs, navItem{Label: tab.label, Href: "?" + query("tab", tab.key), Current: tab.key == p.Tab})
		}
	}
	var err error
	switch {
	case p.Tab == "edit" && editor, p.Tab == "text" && editor:
		p.Editor = k.editor(c, &v, p.Tab == "text")
		err = k.suggest(c, p.Editor)
	case p.Tab == "remove" && editor:
		p.Remove = c.removes(k.Kind, name, "This removes the "+k.Kind+" for good. What it has started continues.")
	case p.Tab == "":
		shown := k.seen(c, v)
		p.Data, err = k.data(c, &shown)
	default:
		err = problem.ErrNoPage
	}
	return p, err
}

// fresh is the page of a new definition.
func (k *kept[T, D]) fresh(c *call) (any, error) {
	p := &keptPage{Kind: k.Kind, Editor: k.editor(c, nil, c.query.Get("as") == "text")}
	if err := k.suggest(c, p.Editor); err != nil {
		return nil, err
	}
	if len(p.Editor.Jobs) == 0 && !c.Can(c.ctx(), "", access.RightEdit) {
		return nil, &access.Error{Text: "a new " + k.Kind + " needs the role editor for a job"}
	}
	p.Editor.Modes = []navItem{{Label: "Form", Href: c.with("as", ""), Current: !p.Editor.AsText}, {Label: "Text", Href: c.with("as", "text"), Current: p.Editor.AsText}}
	return p, nil
}

// suggest adds the names of jobs to a form.
func (k *kept[T, D]) suggest(c *call, e *editor) (err error) {
	e.Jobs, err = c.jobsWith(access.RightEdit)
	return err
}

// editor returns the form for a definition, or for a new one if v is nil.
func (k *kept[T, D]) editor(c *call, v *T, asText bool) *editor {
	e := &editor{Kind: k.Kind, Verb: "set", New: v == nil, AsText: asText, Try: k.try}
	if found, ok := c.found.(desk.Checked); ok {
		edited := c.edited.(T)
		e.Tried = k.tried(c, &edited)
		for i := range found.Warnings {
			e.Doubts = append(e.Doubts, found.Warnings[i].String())
		}
	}
	text := []byte(k.first)
	if v != nil {
		text = k.text(*v)
		e.Was = hashOf(text)
		if k.off != nil && *k.off(v) {
			e.Enable = setEnabled
		}
		if e.Refused = k.keepsHidden(c, *v); e.Refused != "" {
			return e
		}
	}
	problems := desk.ProblemsOf(c.failed)
	if !asText {
		sent := c.form
		if do := sent.Get("do"); do != e.Verb && do != e.Enable && do != "check" {
			sent = nil
		}
		e.Fields, problems = form.Inputs(k.fields, text, sent, problems, e.New)
	} else if e.Text = c.form.Get("text"); e.Text == "" {
		e.Text = format.JSON(json.RawMessage(text))
	}
	e.Wrong = len(problems) > 0
	return e
}

// text returns the definition in JSON.
func (k *kept[T, D]) text(v T) []byte {
	text, err := json.Marshal(k.plain(v))
	if err != nil {
		panic(err) // it was read from JSON
	}
	return text
}

// keepsHidden says why a visitor can't edit a definition: it has values that the visitor may not
// see, and saving it would lose them.
func (k *kept[T, D]) keepsHidden(c *call, v T) string {
	if c.Has(c.ctx(), desk.JobsOf(D(&v)), access.RightSee|access.RightValues) {
		return ""
	}
	hidden := v
	if k.Hide(&hidden); bytes.Equal(k.text(v), k.text(hidden)) {
		return ""
	}
	return "This " + k.Kind + " has values that you may not see, and saving it without them would remove them. To edit it here you need the right values."
}

// hashOf returns a hash that identifies a definition.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// mayEdit reads the form that replaces a definition.
func (k *kept[T, D]) mayEdit(c *call) error {
	v := c.subject.(T)
	if text := k.keepsHidden(c, v); text != "" {
		return &access.Error{Text: text}
	}
	was := k.text(v)
	if c.form.Get("was") != hashOf(was) {
		return &problem.Error{
			Status: http.StatusConflict, Title: "Somebody else was first", Text: "The " + k.Kind + " was changed after you opened this form. Nothing was saved.",
			Do: "Open the page again to see the change. Your text is still here. Saving it now replaces the change.",
		}
	}
	return k.read(c, was, *k.Name(&v))
}

// mayCreate reads the form of a new definition, whose name must be free.
func (k *kept[T, D]) mayCreate(c *call) error {
	if err := k.read(c, []byte("{}"), ""); err != nil {
		return err
	}
	v := c.edited.(T)
	there, err := k.Get(c.ctx(), c.h.e, *k.Name(&v))
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !c.Has(c.ctx(), desk.JobsOf(D(&there)), access.RightSee):
		return desk.Unknown()
	}
	return k.Wrong(*k.Name(&v), []courier.Problem{{Step: -1, Field: "name", Message: "there is a " + k.Kind + " of this name: choose another name, or edit that one"}})
}

// read reads the definition in the form, from its fields or as a text. Name is the name of the
// definition to be replaced.
func (k *kept[T, D]) read(c *call, was []byte, name string) error {
	text, problems := []byte(c.form.Get("text")), []courier.Problem(nil)
	asText := c.form.Has("text")
	if !asText {
		text, problems = form.Read(k.fields, was, c.form, name == "")
	}
	var v T
	problems = append(problems, (&courier.Source{Text: text}).Read(D(&v))...)
	if !asText {
		for i := range problems {
			problems[i].Line, problems[i].Column = 0, 0 // nobody has seen that text
		}
	}
	switch given := k.Name(&v); {
	case name == "" && strings.TrimSpace(*given) == "":
		problems = append(problems, courier.Problem{Step: -1, Field: "name", Message: "it is missing: give the " + k.Kind + " a name"})
	case name != "" && *given == "":
		*given = name
	case name != "" && *given != name:
		problems = append(problems, courier.Problem{Step: -1, Field: "name", Message: "it can't be changed: leave it as it is, or create a new " + k.Kind})
	}
	if len(problems) == 0 {
		if err := c.MayChange(c.ctx(), k.Kind, D(&v)); err != nil {
			return err
		}
		c.edited = v
		return nil
	}
	return k.Wrong(*k.Name(&v), problems)
}

// save saves the definition that was read.
func (k *kept[T, D]) save(ctx context.Context, c *call) (string, error) {
	v := c.edited.(T)
	name := *k.Name(&v)
	now, doubts, err := k.Set(ctx, c.h.e, v, c.by())
	if c.warn(doubts); err != nil {
		c.locate(desk.ProblemsOf(err))
		return "", err
	}
	if was, ok := c.subject.(T); ok {
		err = desk.Changed(was, now)
	}
	return c.link(k.list, name), err
}

// locate adds to problems their places in the text of the form, if the form has a text.
func (c *call) locate(problems []courier.Problem) {
	if text := c.form.Get("text"); text != "" {
		(&courier.Source{Text: []byte(text)}).Locate(problems)
	}
}

// checked returns a function that checks the definition in the form without saving it. Read reads
// the definition.
func (k *kept[T, D]) checked(read func(c *call) error) func(ctx context.Context, c *call) (string, error) {
	return func(ctx context.Context, c *call) (string, error) {
		if err := read(c); err != nil {
			return "", err
		}
		v := c.edited.(T)
		found, err := c.CheckText(ctx, k.Kind, &courier.Source{Text: k.text(v)})
		if err != nil {
			return "", err
		}
		for _, list := range [][]courier.Problem{found.Problems, found.Warnings} {
			for i := range list {
				list[i].Line, list[i].Column = 0, 0 // nobody has seen that text
			}
			c.locate(list)
		}
		if len(found.Problems) > 0 {
			return "", k.Wrong(*k.Name(&v), found.Problems)
		}
		c.found = found
		return "", nil
	}
}

// removes returns the form that removes a definition, with the problems of the form that was sent.
func (c *call) removes(kind, name, text string) *removal {
	r := &removal{Kind: kind, Name: name, Text: text}
	if list := desk.ProblemsOf(c.failed); len(list) > 0 {
		r.Problem = format.Sentence(list[0].Message)
	}
	return r
}

// confirmed returns a problem unless the visitor has typed the name of the definition to be
// removed.
func (k *kept[T, D]) confirmed(c *call) error {
	name := c.r.PathValue("name")
	if wrong := c.confirmed(k.Kind, name); wrong != nil {
		return k.Wrong(name, wrong)
	}
	return nil
}

// confirmed returns a problem unless the visitor has typed the name of the subject to be removed.
func (c *call) confirmed(kind, name string) []courier.Problem {
	typed := strings.TrimSpace(c.form.Get("confirm"))
	if typed == strings.TrimSpace(name) || typed == strings.TrimSpace(string(format.Visible([]byte(name)))) {
		return nil
	}
	return []courier.Problem{{Step: -1, Field: "confirm", Message: "type the name of the " + kind + " to remove it; this is a different name"}}
}

// query returns a parameter of a URL. It is empty if the value is empty.
func query(name, value string) string {
	if value == "" {
		return ""
	}
	return name + "=" + url.QueryEscape(value)
}

// jobsWith returns the names of the first 200 jobs for which the visitor has some rights.
func (c *call) jobsWith(rights access.Role) (names []string, err error) {
	_, _, err = desk.Pick("", 200, func(after string, limit int) ([]string, error) {
		list, err := c.h.e.Jobs().List(c.ctx(), store.DefinitionFilter{After: after, Limit: limit})
		found := make([]string, len(list))
		for i := range list {
			found[i] = list[i].Job.Name
		}
		return found, err
	}, func(name *string) string { return *name }, func(name *string) bool {
		has := c.Can(c.ctx(), *name, rights)
		if has {
			names = append(names, *name)
		}
		return has
	})
	return names, err
}
