package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/report"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// An editPage is the page on which a job or a chain is edited as text.
type editPage struct {
	Kind, Name, Back string
	New              bool // no version with the name exists yet
	Text             string
	Base             int // the version that is edited; 0 for none
	Dry              bool
	Problems         []problem.Placed
	Warnings         []problem.Placed
	Checked          bool       // the text was checked, and has no problem
	Diff             *diff.View // of the text with the latest version
	Conflict         *editConflict
	Report           *report.View
	Types            []definition.Entry // of steps
	Jobs             []definition.Entry // jobs that can be members
}

// An editConflict says who has saved another version in the meantime.
type editConflict struct {
	Version int
	By      string
	At      time.Time
	Diff    *diff.View // from the version that was edited; nil if there was none
}

// A textCheck is the result of checking the text of a job or a chain.
type textCheck struct {
	defined desk.Defined
	report  *report.View // of a dry run
	desk.Checked
}

const maxDryRun = 2 * time.Minute

// maxJSONDepth is how deep lists and objects may be nested, as in the API.
const maxJSONDepth = 100

// maxMembers is the number of jobs that an editor of a chain lists.
const maxMembers = 200

func (c *call) edit() (any, error) {
	name, kind := c.r.PathValue("name"), c.page.kind()
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	p := &editPage{Kind: kind, Name: name, Back: c.link(kind+"s", name), Dry: c.SeesValues(c.ctx(), c.aboutJob())}
	latest, err := c.saved(0)
	if p.New = errors.Is(err, courier.ErrNotFound) && version == 0; err != nil && !p.New {
		return nil, err
	}
	c.title = "Edit " + format.Clip(80, name)
	if p.New {
		latest = c.catalog().None()
		c.title, p.Back = "New "+kind+" "+format.Clip(80, name), c.link(kind+"s")
	}
	p.Base = *latest.Version()
	first, err := c.addNames(p)
	if err != nil {
		return nil, err
	}
	if c.form != nil {
		p.Text = c.sentText()
		if p.Base, err = c.base(); err != nil {
			return nil, err
		}
		return p, c.addFindings(p, &latest)
	}
	if p.New {
		p.Text = strings.Replace(definition.Text(first), "  \"name\": \"\",\n", "", 1) // the address has the name
		return p, nil
	}
	edited := latest
	if version != 0 {
		if edited, err = c.version(version); err != nil {
			return nil, err
		}
	}
	p.Text = definition.Text(edited.Definition)
	return p, nil
}

// addNames adds to the page the names that the text can use, and returns the initial text of a new
// definition.
func (c *call) addNames(p *editPage) (first courier.Definition, err error) {
	if p.Kind == "job" {
		p.Types = definition.Types(c.h.e.Registry())
		return definition.FirstJob(c.h.e.Registry()), nil
	}
	list, _, err := c.Jobs(c.ctx(), "", "", maxMembers)
	jobs := make([]courier.Job, len(list))
	for i := range list {
		jobs[i] = list[i].Job
	}
	p.Jobs = definition.Jobs(jobs)
	return definition.FirstChain(jobs), err
}

// sentText is the text in the form, with the original line ends.
func (c *call) sentText() string { return strings.ReplaceAll(c.form.Get("text"), "\r\n", "\n") }

// base is the version that the form replaces: the edited version, or the latest one if the visitor
// has confirmed that.
func (c *call) base() (int, error) {
	text := c.form.Get("base")
	if over := c.form.Get("over"); over != "" {
		text = over
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<30 {
		return 0, problem.Invalid("The form does not say which version it replaces.")
	}
	return n, nil
}

// addFindings adds the result of the form to the page.
func (c *call) addFindings(p *editPage, latest *desk.Defined) (err error) {
	problems := desk.ProblemsOf(c.failed)
	if found, ok := c.found.(*textCheck); ok {
		problems = found.Problems
		p.Warnings = problem.Place(p.Text, found.Warnings)
		p.Checked = found.report == nil && len(problems) == 0
		if found.report != nil && len(found.report.Steps) > 0 {
			p.Report = found.report
			p.Report.Problems, p.Report.Warnings = nil, nil // they are shown beside the text
		}
		if !p.New && len(problems) == 0 {
			p.Diff, err = diff.Of(latest.Definition, found.defined.Definition, versionText(latest), "your text")
		}
	}
	p.Problems, c.placed = problem.Place(p.Text, problems), len(problems) > 0
	p.Text = format.Editable(p.Text)
	if err != nil || p.New || *latest.Version() == p.Base || c.failed != nil && !errors.Is(c.failed, courier.ErrConflict) {
		return err
	}
	p.Conflict = &editConflict{Version: *latest.Version(), By: latest.By, At: latest.At}
	if p.Base == 0 {
		return nil
	}
	base, err := c.version(p.Base)
	if errors.Is(err, courier.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	p.Conflict.Diff, err = diff.Of(base.Definition, latest.Definition, versionText(&base), versionText(latest))
	return err
}

// readText reads the text of the form. The result has the problems with the form of the text, and
// all other problems that can be found.
func (c *call) readText() (*textCheck, *courier.Source, error) {
	src := &courier.Source{Text: []byte(c.sentText())}
	if json.Valid(src.Text) && jsontext.Depth(src.Text) > maxJSONDepth {
		return nil, nil, problem.Invalid("The text has more than %d levels of nested lists and objects.", maxJSONDepth)
	}
	k := new(textCheck)
	var err error
	k.defined, k.Problems, err = c.Read(c.ctx(), c.catalog(), c.r.PathValue("name"), src)
	return k, src, err
}

// checkText checks the text of the form, without saving it.
func checkText(_ context.Context, c *call) (string, error) {
	k, src, err := c.readText()
	if err != nil {
		return "", err
	}
	if len(k.Problems) == 0 {
		if k.Checked, err = c.CheckText(c.ctx(), c.page.kind(), src); err != nil {
			return "", err
		}
		k.Problems = desk.WithoutName(k.Problems)
	}
	c.found = k
	return "", nil
}

// dryRunText makes a dry run of the text of the form.
func dryRunText(_ context.Context, c *call) (string, error) {
	k, src, err := c.readText()
	if err != nil {
		return "", err
	}
	if len(k.Problems) == 0 {
		if k.report, err = c.dryRun(&k.defined, nil); err != nil {
			return "", err
		}
		src.Locate(k.report.Problems)
		src.Locate(k.report.Warnings)
		k.Problems, k.Warnings = k.report.Problems, k.report.Warnings
	}
	c.found = k
	return "", nil
}

// dryRun makes a dry run of a job or a chain, in a limited time.
func (c *call) dryRun(d *desk.Defined, params map[string]any) (*report.View, error) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(maxDryRun + time.Minute)) // the host's server may have a shorter time
	ctx, cancel := context.WithTimeout(c.ctx(), maxDryRun)
	defer cancel()
	defer context.AfterFunc(c.h.closed, cancel)()
	r, err := c.catalog().DryRun(ctx, d, &dryrun.Options{Params: params})
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		return nil, &problem.Error{
			Status: http.StatusServiceUnavailable, Title: "The dry run was stopped", Text: fmt.Sprintf("It took longer than %v, or the service is stopping.", maxDryRun),
			Do: "Connections that do not answer take a long time. Try again, or check the servers that the steps use.",
		}
	}
	return report.Of(r), err
}

// saveText saves the text of the form as a new version.
func saveText(ctx context.Context, c *call) (string, error) {
	name, all := c.r.PathValue("name"), c.catalog()
	base, err := c.base()
	if err != nil {
		return "", err
	}
	k, src, err := c.readText()
	if err != nil {
		return "", err
	}
	if len(k.Problems) > 0 {
		return "", all.Failed(name, k.Problems)
	}
	saved, err := all.Define(ctx, &k.defined, &courier.DefineOptions{By: c.by(), Base: &base, CheckQueue: true})
	src.Locate(desk.ProblemsOf(err))
	c.warn(saved.Warnings)
	c.tellOld(saved.Warnings, base)
	if err == nil && *saved.Version() == base {
		err = desk.ErrUnchanged
	}
	return c.link(all.Kind+"s", name), err
}

// tellOld marks the warnings that the version before also had, because the present change did not
// cause them.
func (c *call) tellOld(list []courier.Problem, base int) {
	kept, ok := c.kept.(doubts)
	if !ok || base == 0 {
		return
	}
	was, err := c.version(base)
	if err != nil {
		return // then all of them count as new
	}
	found, err := c.CheckText(c.ctx(), c.page.kind(), &courier.Source{Text: []byte(definition.Text(was.Definition))})
	if err != nil {
		return
	}
	for i, p := range list {
		if slices.ContainsFunc(found.Warnings, func(w courier.Problem) bool {
			return w.ID == p.ID && w.Type == p.Type && w.Field == p.Field && w.Message == p.Message
		}) {
			kept[i] = fmt.Sprintf("As in version %d: %s", base, kept[i])
		}
	}
}

// noteBase records in the journal which version is replaced.
func noteBase(c *call, a *store.Action) {
	if base, err := c.base(); err == nil {
		a.Was = json.RawMessage(strconv.Itoa(base))
	}
}

// newDefinition leads to the page that edits a new definition of the given name.
func (c *call) newDefinition() (any, error) {
	name, kind := c.query.Get("name"), c.page.kind()
	if name == "" {
		return kind, nil
	}
	return nil, c.redirect(c.link(kind+"s", name, "edit"))
}
