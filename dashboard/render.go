package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
)

//go:embed templates/*.html
var templateFiles embed.FS

const pageMedia = "text/html; charset=utf-8"

// parseTemplates returns the templates by their names, each with the layout and the parts
// that all pages share.
func parseTemplates() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts*.html", "templates/kept.html"))
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	all := make(map[string]*template.Template)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		if name != "layout" && name != "kept" && !strings.HasPrefix(name, "parts") {
			all[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, file))
		}
	}
	return all
}

// A view is the data for the layout and for the template of a page.
type view struct {
	Root    string // the reference of the first page, with a slash at its end
	Service string // Options.Title
	Title   string // the heading
	Page    string // the path of the page in the table, "." for the first; empty for those of problems
	Nav     []navGroup
	Visitor string   // who views the page; empty if unknown
	Logout  string   // Options.LogoutURL
	Scripts []string // references of modules
	Style   string   // reference of the style sheet
	Icon    string
	Key     string         // of the forms
	Form    url.Values     // the form that was sent, on the page that shows its problems
	Notice  *notice        // the result of an action
	Problem *problem.Error // of an action that failed
	Live    bool           // a part of the page is kept up to date
	Now     time.Time
	Clock   clock
	List    *listView // of a page with lists
	Data    any       // of the page

	c            *call
	shown, other *time.Location // see [call.clocks]
}

type navItem struct {
	Label, Href, Key string
	Current          bool
}

// Link is [call.link].
func (v *view) Link(segments ...string) string { return link(v.Root, segments...) }

// With is [call.with].
func (v *view) With(pairs ...string) string { return v.c.with(pairs...) }

// May reports whether the visitor may do an operation, such as "pauseMonitor", with the subject of
// the page.
func (v *view) May(op string) bool { return v.c.mayDo(op) }

// mayDo reports whether the visitor may do an operation with the subject of the page.
func (c *call) mayDo(op string) bool {
	n := desk.NeedOf(op)
	return c.may(n.Rights) || c.page.on == onExecution && n.Granted(c.Role(c.ctx(), c.aboutJob()), c.Own(&c.execution))
}

// may reports whether the visitor has some rights for the subject of the page.
func (c *call) may(rights access.Role) bool {
	if c.page.on == onSubject {
		return c.Has(c.ctx(), c.about, rights)
	}
	return c.Can(c.ctx(), c.aboutJob(), rights)
}

// maySee reports whether the visitor may see a page that is about all jobs.
func (c *call) maySee(p *page) bool {
	return desk.NeedOf(p.op).Granted(c.Role(c.ctx(), ""), true)
}

// aboutJob is the job whose roles count for the page. It is empty if the roles for all jobs count.
func (c *call) aboutJob() string {
	switch c.page.on {
	case onJob:
		return c.r.PathValue("name")
	case onExecution:
		return c.execution.Job
	}
	return ""
}

// view returns the data that all pages have.
func (c *call) view() *view {
	v := &view{Root: c.root, Service: c.h.opt.Title, Title: c.title, Style: c.h.assets.link(c.root, "style.css"), Icon: c.h.assets.link(c.root, "icon.svg"), Key: cmp.Or(c.key, newKey()), Form: c.form, Now: now(), c: c}
	v.shown, v.other = c.clocks()
	v.List = c.listed
	v.Clock = clock{Zone: v.shown.String(), Again: c.r.Method != http.MethodPost}
	if v.other != v.shown {
		v.Clock.Other = v.other.String()
	}
	scripts := []string{"keys", "time"}
	if c.page != nil {
		if v.Live = c.page.watch != nil && !c.still; v.Live {
			scripts = append(scripts, "live")
		}
		scripts = append(scripts, c.page.scripts...)
		v.Page = cmp.Or(c.page.path, ".")
		if v.Title == "" {
			v.Title = c.page.title
		}
	}
	for _, name := range scripts {
		v.Scripts = append(v.Scripts, c.h.assets.link(c.root, name+".js"))
	}
	if c.Visit == nil {
		return v
	}
	if v.Visitor = c.Name; v.Visitor == "" {
		v.Visitor = c.ID
	}
	v.Logout = c.h.opt.LogoutURL
	v.Nav = c.nav()
	return v
}

// show answers with the page of the call. Failed is the error of the action that its form has
// requested, if any; it is shown at the top.
func (c *call) show(status int, failed error) error {
	c.failed = failed
	data, err := c.data()
	if err != nil || c.wrote {
		return err
	}
	v := c.view()
	v.Data, v.Notice = data, c.notice()
	if failed = c.failed; failed != nil {
		v.Problem, v.Notice = problem.Of(failed), nil
		if c.placed {
			above := *v.Problem
			above.Text, above.Problems = "Each stands at its place below.", nil
			v.Problem = &above
		}
		if v.Problem.Incident != "" {
			c.h.log.Error("an action has failed", "incident", v.Problem.Incident, "page", c.page.name(), "error", failed)
		}
	}
	if p, ok := data.(interface{ status() int }); ok && status == 200 {
		status = p.status()
	}
	body, err := c.h.render(c.page.file, v)
	if err != nil {
		return fmt.Errorf("template %s: %w", c.page.file, err)
	}
	c.write(status, pageMedia, body)
	return nil
}

// fail answers with the page of an error.
func (c *call) fail(err error) {
	if c.wrote || errors.Is(c.r.Context().Err(), context.Canceled) {
		return // the answer has begun, or nobody waits for it
	}
	p := problem.Of(err)
	if p.Incident != "" {
		c.h.log.Error("a page has failed", "incident", p.Incident, "method", c.r.Method, "page", c.page.name(), "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		challenge := c.h.opt.Access.Challenge
		if challenge == "" {
			challenge = "Bearer"
		}
		c.w.Header().Set("WWW-Authenticate", challenge)
	}
	if p.Status == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", "5")
	}
	v := c.view()
	v.Title, v.Data, v.Live = p.Title, p, false
	body, err := c.h.render("problem", v)
	if err != nil {
		c.h.log.Error("the page of a problem can't be made", "error", err)
		c.write(p.Status, "text/plain; charset=utf-8", []byte(p.Title+"\n"))
		return
	}
	c.write(p.Status, pageMedia, body)
}

// render returns the text of a page.
func (h *Handler) render(file string, v *view) ([]byte, error) {
	var b bytes.Buffer
	if err := h.templates[file].ExecuteTemplate(&b, "layout", v); err != nil {
		return nil, err
	}
	return v.finished(b.Bytes()), nil
}
