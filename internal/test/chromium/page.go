package chromium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Page is a tab with cookies, storage and a cache of its own, of 1280 by 800
// pixels at first. It has the focus, whichever other pages there are.
type Page struct {
	t       testing.TB
	b       *Browser
	target  string // its id, and that of its main frame
	session string

	mu        sync.Mutex
	document  string        // id of the document
	loader    string        // id of the last document that was loaded
	failed    string        // what made the last navigation fail
	loads     chan struct{} // closed when loader or failed changes
	console   []Message
	reports   []Report
	resources []*Resource
	requests  map[string]*Resource
}

type object = map[string]any

// Page opens an empty page, which is closed when the test t ends. That is the test
// that its methods fail.
func (b *Browser) Page(t testing.TB) *Page {
	t.Helper()
	p := &Page{t: t, b: b, loads: make(chan struct{}), requests: make(map[string]*Resource)}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := p.open(ctx); err != nil {
		t.Fatalf("chromium: a new page: %v; the browser said:\n%s", err, b.said())
	}
	p.Emulate(Device{})
	return p
}

func (p *Page) open(ctx context.Context) error {
	var made struct{ BrowserContextID, TargetID, SessionID string }
	if err := p.b.pipe.call(ctx, "", "Target.createBrowserContext", nil, &made); err != nil {
		return err
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		p.b.pipe.listen(p.session, nil)
		p.b.pipe.call(ctx, "", "Target.disposeBrowserContext", object{"browserContextId": made.BrowserContextID}, nil)
	})
	err := p.b.pipe.call(ctx, "", "Target.createTarget", object{"url": "about:blank", "browserContextId": made.BrowserContextID, "newWindow": true}, &made)
	if err != nil {
		return err
	}
	if err := p.b.pipe.call(ctx, "", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &made); err != nil {
		return err
	}
	p.target, p.session = made.TargetID, made.SessionID
	p.b.pipe.listen(p.session, p.take)
	for _, r := range []struct {
		method string
		params object
	}{
		{"Page.enable", nil},
		{"Page.setLifecycleEventsEnabled", object{"enabled": true}},
		{"Runtime.enable", nil},
		{"Log.enable", nil},
		{"Network.enable", nil},
		{"Audits.enable", nil},
		{"Emulation.setFocusEmulationEnabled", object{"enabled": true}},
	} {
		if err := p.call(ctx, r.method, r.params, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *Page) call(ctx context.Context, method string, params object, result any) error {
	return p.b.pipe.call(ctx, p.session, method, params, result)
}

// do calls f with a context of [Timeout], and fails the test with the subject if f
// returns an error.
func (p *Page) do(subject string, f func(ctx context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := f(ctx); err != nil {
		p.t.Fatalf("chromium: %s: %v%s", subject, err, p.errors())
	}
}

// isReplaced reports whether a call failed because a link, a form or a script replaces the
// document.
func isReplaced(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"Inspected target navigated or closed", "Execution context was destroyed",
		"Cannot find default execution context"}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// look calls f, which changes nothing, once the document is loaded. If that is replaced
// meanwhile, look calls f again for the next one. In all else it is as do is.
func (p *Page) look(subject string, f func(ctx context.Context) error) {
	p.t.Helper()
	p.do(subject, func(ctx context.Context) error {
		for {
			before, err := p.settle(ctx)
			if err != nil {
				return err
			}
			if err = f(ctx); ctx.Err() != nil || !isReplaced(err) && p.current() == before {
				return err
			}
		}
	})
}

// settle waits until the document is loaded, and returns the id that it had before.
func (p *Page) settle(ctx context.Context) (id string, err error) {
	for {
		var is bool
		id = p.current()
		if err := p.evaluate(ctx, `document.readyState == "complete"`, &is); is || err != nil && !isReplaced(err) {
			return id, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.New("the document is not loaded in time")
		}
	}
}

// current returns the id of the document.
func (p *Page) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.document
}

// Open loads a page and returns after its load event. A status such as 404 is no
// failure: [Page.Resources] has it.
func (p *Page) Open(url string) {
	p.t.Helper()
	p.mu.Lock()
	p.failed = ""
	p.mu.Unlock()
	p.do("open "+url, func(ctx context.Context) error {
		var r struct{ LoaderID, ErrorText string }
		err := p.call(ctx, "Page.navigate", object{"url": url}, &r)
		if err != nil || r.ErrorText != "" {
			return errors.Join(err, text(r.ErrorText))
		}
		if r.LoaderID == "" { // another place of the same document
			return nil
		}
		return p.loaded(ctx, func(id string) bool { return id == r.LoaderID })
	})
}

// Navigate calls action and waits until the document that this leads to is loaded:
// for links and forms.
func (p *Page) Navigate(action func()) {
	p.t.Helper()
	p.mu.Lock()
	before := p.loader
	p.failed = ""
	p.mu.Unlock()
	action()
	p.do("wait for another document", func(ctx context.Context) error {
		return p.loaded(ctx, func(id string) bool { return id != before })
	})
}

// loaded waits until a document with such an id is loaded.
func (p *Page) loaded(ctx context.Context, is func(id string) bool) error {
	for {
		p.mu.Lock()
		id, failed, loads := p.loader, p.failed, p.loads
		p.mu.Unlock()
		if failed != "" {
			return errors.New(failed)
		}
		if is(id) {
			return nil
		}
		select {
		case <-loads:
		case <-p.b.pipe.done:
			return p.b.pipe.err
		case <-ctx.Done():
			return errors.New("no load event in time")
		}
	}
}

// Eval evaluates an expression of JavaScript, awaits it if it is a promise, and puts
// the value into v as package json does. If the document is replaced meanwhile, the value
// is that of the next one, once it is loaded. Where v is nil the expression is an action:
// it is evaluated once. Eval also works where the page's policy permits no script.
func (p *Page) Eval(js string, v any) {
	p.t.Helper()
	subject := "evaluate " + short(js)
	if v == nil {
		p.do(subject, func(ctx context.Context) error { return p.evaluate(ctx, js, nil) })
		return
	}
	var value json.RawMessage
	p.look(subject, func(ctx context.Context) error { return p.evaluate(ctx, js, &value) })
	p.do(subject, func(context.Context) error { return json.Unmarshal(value, v) })
}

func (p *Page) evaluate(ctx context.Context, js string, v any) error {
	var r struct {
		Result struct {
			Type, UnserializableValue string
			Value                     json.RawMessage
		}
		ExceptionDetails *exception
	}
	err := p.call(ctx, "Runtime.evaluate", object{"expression": js, "returnByValue": true, "awaitPromise": true}, &r)
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return errors.New(r.ExceptionDetails.String())
	case v == nil:
		return nil
	case r.Result.Value == nil:
		return fmt.Errorf("the value is %s, which JSON has not", r.Result.Type+" "+r.Result.UnserializableValue)
	}
	return json.Unmarshal(r.Result.Value, v)
}

// truth returns whether a value is true, or becomes true if it is a promise.
const truth = "(v => v instanceof Promise ? v.then(Boolean) : !!v)"

// WaitFor waits until an expression of JavaScript, or the promise that it is, is true,
// also in a document that is loaded meanwhile. Zero stands for [Timeout].
func (p *Page) WaitFor(js string, within time.Duration) {
	p.t.Helper()
	if within <= 0 {
		within = Timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var last error
	for {
		var is bool
		err := p.evaluate(ctx, truth+"("+js+"\n)", &is)
		if err == nil && is {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			var now string
			if last != nil {
				now = "; " + last.Error()
			}
			p.t.Fatalf("chromium: wait for %s: not so within %v%s%s", short(js), within, now, p.errors())
		case <-p.b.pipe.done:
			p.t.Fatalf("chromium: wait for %s: %v", short(js), p.b.pipe.err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Text returns the text of the page as it is shown.
func (p *Page) Text() string {
	p.t.Helper()
	var s string
	p.Eval("document.body.innerText", &s)
	return s
}

// apply returns an expression that calls a function with arguments.
func apply(function string, args ...any) string {
	list := make([]string, len(args))
	for i, a := range args {
		text, err := json.Marshal(a)
		if err != nil {
			panic(err) // only strings and numbers are passed
		}
		list[i] = string(text)
	}
	return "(" + function + ")(" + strings.Join(list, ", ") + ")"
}

// text returns an error with a text, or nil if there is none.
func text(s string) error {
	if s == "" {
		return nil
	}
	return errors.New(s)
}

// short returns the beginning of a text, on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 120 {
		return string(r[:120]) + "..."
	}
	return s
}
