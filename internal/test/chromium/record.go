package chromium

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Message is what a page or the browser wrote to the console, an exception that
// nothing caught, or a dialog, which is dismissed.
type Message struct {
	Level string // "log", "info", "debug", "warning", "error", "exception" or "dialog", or another method of console
	Text  string
	URL   string // of the document or script; may be empty
	Line  int    // from 1; 0 if it is not known
}

// String returns the message on one line with its place.
func (m Message) String() string {
	return fmt.Sprintf("%s: %s%s", m.Level, m.Text, place(m.URL, m.Line))
}

// A Report is a violation of the page's Content-Security-Policy.
type Report struct {
	Directive string // such as "script-src-elem"
	Kind      string // such as "kInlineViolation", "kURLViolation"
	Blocked   string // what was blocked, if that has an URL
	URL       string // of the document or script; may be empty
	Line      int    // from 1; 0 if it is not known
}

// String returns the report on one line with its place.
func (r Report) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Directive, r.Kind, r.Blocked)) + place(r.URL, r.Line)
}

// A Resource is a document, script, style sheet, picture or answer that was loaded.
type Resource struct {
	URL      string
	Type     string // such as "Document", "Script", "Stylesheet", "Image", "Fetch", "EventSource"
	Status   int    // of HTTP; 0 if there was no answer
	Encoding string // the header Content-Encoding, such as "gzip"
	Bytes    int    // of the body as it was transferred; 0 from the cache, and until all is there
	Done     bool   // all is there
	Failed   string // why nothing or not all came

	head int // bytes of the head
}

// Console returns what was written since the page was made, in order.
func (p *Page) Console() []Message {
	p.t.Helper()
	p.catchUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.console)
}

// Reports returns the violations of policies since the page was made, in order.
func (p *Page) Reports() []Report {
	p.t.Helper()
	p.catchUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}

// catchUp returns when all that the browser has reported before has come.
func (p *Page) catchUp() {
	p.t.Helper()
	p.look("evaluate 0", func(ctx context.Context) error { return p.evaluate(ctx, "0", nil) })
}

// Resources returns what the current document has loaded, itself and what redirected
// to it included, in the order of the requests.
func (p *Page) Resources() []Resource {
	p.t.Helper()
	p.catchUp()
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Resource, len(p.resources))
	for i, r := range p.resources {
		list[i] = *r
	}
	return list
}

// errors returns the errors of the console as the end of a message.
func (p *Page) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s strings.Builder
	for _, m := range p.console {
		if m.Level == "error" || m.Level == "exception" {
			fmt.Fprintf(&s, "\nconsole: %s", m)
		}
	}
	return s.String()
}

func place(url string, line int) string {
	switch {
	case url == "":
		return ""
	case line == 0:
		return " (" + url + ")"
	}
	return fmt.Sprintf(" (%s:%d)", url, line)
}

// take records an event of the page.
func (p *Page) take(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	take := map[string]func(json.RawMessage) error{
		"Page.lifecycleEvent":          p.takeLifecycle,
		"Page.frameNavigated":          p.takeNavigated,
		"Page.javascriptDialogOpening": p.takeDialog,
		"Runtime.consoleAPICalled":     p.takeConsole,
		"Runtime.exceptionThrown":      p.takeException,
		"Inspector.targetCrashed":      p.takeCrash,
		"Log.entryAdded":               p.takeEntry,
		"Audits.issueAdded":            p.takeIssue,
		"Network.requestWillBeSent":    p.takeRequest,
		"Network.responseReceived":     p.takeResponse,
		"Network.loadingFinished":      p.takeFinished,
		"Network.loadingFailed":        p.takeFailed,
	}[m.Method]
	if take == nil {
		return
	}
	if err := take(m.Params); err != nil {
		p.console = append(p.console, Message{Level: "error", Text: fmt.Sprintf("%s can't be read: %v", m.Method, err)})
	}
}

// signal wakes up who waits for a document.
func (p *Page) signal() {
	close(p.loads)
	p.loads = make(chan struct{})
}

func (p *Page) takeLifecycle(params json.RawMessage) error {
	var e struct{ FrameID, LoaderID, Name string }
	err := json.Unmarshal(params, &e)
	if err == nil && e.FrameID == p.target && e.Name == "load" {
		p.loader = e.LoaderID
		p.signal()
	}
	return err
}

func (p *Page) takeNavigated(params json.RawMessage) error {
	var e struct {
		Frame struct{ ID, LoaderID, UnreachableURL string }
	}
	err := json.Unmarshal(params, &e)
	if err == nil && e.Frame.ID == p.target {
		p.document = e.Frame.LoaderID
		if p.failed = ""; e.Frame.UnreachableURL != "" {
			p.failed = e.Frame.UnreachableURL + " can't be reached"
			p.signal()
		}
	}
	return err
}

func (p *Page) takeCrash(json.RawMessage) error {
	p.failed = "the process of the page has crashed"
	p.console = append(p.console, Message{Level: "error", Text: p.failed})
	p.signal()
	return nil
}

// takeDialog answers a dialog, which would stop the page: leave it, and no to
// everything else.
func (p *Page) takeDialog(params json.RawMessage) error {
	var e struct{ URL, Message, Type string }
	err := json.Unmarshal(params, &e)
	p.console = append(p.console, Message{Level: "dialog", Text: e.Type + ": " + e.Message, URL: e.URL})
	p.b.pipe.send(p.session, "Page.handleJavaScriptDialog", object{"accept": e.Type == "beforeunload"})
	return err
}

// source is where a message comes from.
type source struct {
	URL        string
	LineNumber int // from 0
}

func (p *Page) takeConsole(params json.RawMessage) error {
	var e struct {
		Type string
		Args []struct {
			Type, Description, UnserializableValue string
			Value                                  json.RawMessage
		}
		StackTrace struct{ CallFrames []source }
	}
	err := json.Unmarshal(params, &e)
	m := Message{Level: e.Type}
	var words []string
	for _, a := range e.Args {
		var s string
		switch {
		case json.Unmarshal(a.Value, &s) == nil:
		case a.Description != "":
			s = a.Description
		case a.UnserializableValue != "":
			s = a.UnserializableValue
		case a.Value != nil:
			s = string(a.Value)
		default:
			s = a.Type
		}
		words = append(words, s)
	}
	m.Text = strings.Join(words, " ")
	if f := e.StackTrace.CallFrames; len(f) > 0 {
		m.URL, m.Line = f[0].URL, f[0].LineNumber+1
	}
	p.console = append(p.console, m)
	return err
}

// exception is what the browser tells about one.
type exception struct {
	Text string
	source
	Exception struct {
		Description string
		Value       json.RawMessage
	}
}

func (e *exception) String() string {
	switch {
	case e.Exception.Description != "":
		return e.Exception.Description
	case e.Exception.Value != nil:
		return e.Text + " " + string(e.Exception.Value)
	}
	return e.Text
}

func (p *Page) takeException(params json.RawMessage) error {
	var e struct{ ExceptionDetails exception }
	err := json.Unmarshal(params, &e)
	d := e.ExceptionDetails
	p.console = append(p.console, Message{Level: "exception", Text: d.String(), URL: d.URL, Line: d.LineNumber + 1})
	return err
}

func (p *Page) takeEntry(params json.RawMessage) error {
	var e struct {
		Entry struct {
			Level, Text, URL string
			LineNumber       *int
		}
	}
	err := json.Unmarshal(params, &e)
	m := Message{Level: e.Entry.Level, Text: e.Entry.Text, URL: e.Entry.URL}
	if e.Entry.LineNumber != nil {
		m.Line = *e.Entry.LineNumber + 1
	}
	p.console = append(p.console, m)
	return err
}

func (p *Page) takeIssue(params json.RawMessage) error {
	var e struct {
		Issue struct {
			Details struct {
				ContentSecurityPolicyIssueDetails *struct {
					BlockedURL, ViolatedDirective, ContentSecurityPolicyViolationType string

					SourceCodeLocation source
				}
			}
		}
	}
	err := json.Unmarshal(params, &e)
	if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
		r := Report{Directive: d.ViolatedDirective, Kind: d.ContentSecurityPolicyViolationType, Blocked: d.BlockedURL}
		if r.URL = d.SourceCodeLocation.URL; r.URL != "" {
			r.Line = d.SourceCodeLocation.LineNumber + 1
		}
		p.reports = append(p.reports, r)
	}
	return err
}

// response is the head of an answer.
type response struct {
	Status            int
	EncodedDataLength float64 // of the head
	Headers           map[string]string
}

func (p *Page) takeRequest(params json.RawMessage) error {
	var e struct {
		RequestID, LoaderID, FrameID, Type string
		Request                            struct{ URL string }
		RedirectResponse                   *response
	}
	err := json.Unmarshal(params, &e)
	switch old := p.requests[e.RequestID]; {
	case e.RedirectResponse != nil && old != nil:
		old.Status, old.Done = e.RedirectResponse.Status, true
	case e.Type == "Document" && e.FrameID == p.target: // the page's next document
		p.resources, p.requests = nil, make(map[string]*Resource)
	}
	r := &Resource{URL: e.Request.URL, Type: e.Type}
	p.resources, p.requests[e.RequestID] = append(p.resources, r), r
	return err
}

func (p *Page) takeResponse(params json.RawMessage) error {
	var e struct {
		RequestID, Type string
		Response        response
	}
	err := json.Unmarshal(params, &e)
	if r := p.requests[e.RequestID]; r != nil {
		r.Status, r.Type = e.Response.Status, e.Type
		for name, value := range e.Response.Headers {
			if strings.EqualFold(name, "Content-Encoding") {
				r.Encoding = value
			}
		}
		r.head = int(e.Response.EncodedDataLength)
	}
	return err
}

func (p *Page) takeFinished(params json.RawMessage) error {
	var e struct {
		RequestID         string
		EncodedDataLength float64 // head and body
	}
	err := json.Unmarshal(params, &e)
	if r := p.requests[e.RequestID]; r != nil {
		r.Done, r.Bytes = true, max(0, int(e.EncodedDataLength)-r.head)
	}
	return err
}

func (p *Page) takeFailed(params json.RawMessage) error {
	var e struct{ RequestID, ErrorText string }
	err := json.Unmarshal(params, &e)
	if r := p.requests[e.RequestID]; r != nil {
		r.Failed = e.ErrorText
	}
	return err
}
