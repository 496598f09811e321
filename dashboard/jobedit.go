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
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// A jobEditPage is the page on which a job is edited as text.
type jobEditPage struct {
	Name, Back string
	New        bool // there is no job of the name yet
	Text       string
	Base       int // the version that is edited; 0 for none
	Dry        bool
	Problems   []placedProblem
	Warnings   []placedProblem
	Checked    bool       // the text was checked, and has no problem
	Diff       *diff.View // of the text with the latest version
	Conflict   *jobConflict
	Report     *reportView
	Types      []stepTypeInfo
}

// A placedProblem is a problem with the line of the text that it is about.
type placedProblem struct {
	Text         string
	Line, Column int
	Before, At   string // the line up to the place, and from there on
}

// A jobConflict says who has saved another version in the meantime.
type jobConflict struct {
	Version int
	By      string
	At      time.Time
	Diff    *diff.View // from the version that was edited; nil if that is none
}

// A stepTypeInfo is a type of steps in a list for who edits.
type stepTypeInfo struct{ Key, Doc string }

// A jobCheck is what was found in the text of a job.
type jobCheck struct {
	job    courier.Job
	report *engine.Report // of a dry run
	desk.Checked
}

const maxDryRun = 2 * time.Minute

// maxJSONDepth is how many lists and objects may lie in each other, as in the API.
const maxJSONDepth = 100

func (c *call) jobEdit() (any, error) {
	name := c.r.PathValue("name")
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	p := &jobEditPage{Name: name, Back: c.link("jobs", name), Dry: c.SeesValues(c.ctx(), name), Types: c.stepTypes()}
	latest, err := c.savedJob(name, 0)
	if p.New = errors.Is(err, courier.ErrNotFound) && version == 0; err != nil && !p.New {
		return nil, err
	}
	c.title, p.Base = "Edit "+format.Clip(80, name), latest.Job.Version
	if p.New {
		c.title, p.Back = "New job "+format.Clip(80, name), c.link("jobs")
	}
	if c.form != nil {
		p.Text = c.jobText()
		if p.Base, err = c.base(); err != nil {
			return nil, err
		}
		return p, c.jobFindings(p, &latest)
	}
	edited := latest.Job
	if version != 0 {
		if edited, err = c.jobVersion(name, version); err != nil {
			return nil, err
		}
	}
	if p.New {
		p.Text = c.firstText()
		return p, nil
	}
	p.Text, err = definition.Text(edited)
	return p, err
}

// jobText is the text that was sent, with the line ends that it had before it was.
func (c *call) jobText() string { return strings.ReplaceAll(c.form.Get("text"), "\r\n", "\n") }

// base is the version that the form replaces: the one that was edited, or the latest one if
// somebody has confirmed that.
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

// jobFindings adds to the page what came of the form that was sent.
func (c *call) jobFindings(p *jobEditPage, latest *engine.DefinedJob) (err error) {
	problems := problem.List(c.failed)
	if found, ok := c.found.(*jobCheck); ok {
		problems = found.Problems
		p.Warnings = placed(p.Text, found.Warnings)
		p.Checked = found.report == nil && len(problems) == 0
		if found.report != nil && len(found.report.Steps) > 0 {
			p.Report = reportOf(found.report)
			p.Report.Problems, p.Report.Warnings = nil, nil // they stand beside the text
		}
		if !p.New && len(problems) == 0 {
			p.Diff, err = diff.Of(&latest.Job, &found.job, "version "+strconv.Itoa(latest.Job.Version), "your text")
		}
	}
	p.Problems, c.placed = placed(p.Text, problems), len(problems) > 0
	p.Text = format.Editable(p.Text)
	if err != nil || p.New || latest.Job.Version == p.Base || c.failed != nil && !errors.Is(c.failed, courier.ErrConflict) {
		return err
	}
	p.Conflict = &jobConflict{Version: latest.Job.Version, By: latest.SavedBy, At: latest.SavedAt}
	if p.Base == 0 {
		return nil
	}
	base, err := c.jobVersion(p.Name, p.Base)
	if errors.Is(err, courier.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	p.Conflict.Diff, err = diff.Of(&base, &latest.Job, "version "+strconv.Itoa(p.Base), "version "+strconv.Itoa(latest.Job.Version))
	return err
}

// readJob reads the text of the form. What is wrong with its form is in the result, with all
// that can be found besides.
func (c *call) readJob() (*jobCheck, *courier.Source, error) {
	src := &courier.Source{Text: []byte(c.jobText())}
	if json.Valid(src.Text) && jsontext.Depth(src.Text) > maxJSONDepth {
		return nil, nil, problem.Invalid("The text has more than %d lists and objects in each other.", maxJSONDepth)
	}
	k := new(jobCheck)
	var err error
	k.Problems, err = c.ReadNamed(c.ctx(), "job", src, &k.job, &k.job.Name, c.r.PathValue("name"))
	return k, src, err
}

// checkJob checks the text of the form, and saves nothing.
func checkJob(_ context.Context, c *call) (string, error) {
	k, src, err := c.readJob()
	if err != nil {
		return "", err
	}
	if len(k.Problems) == 0 {
		if k.Checked, err = c.CheckText(c.ctx(), "job", src); err != nil {
			return "", err
		}
		k.Problems = desk.WithoutName(k.Problems)
	}
	c.found = k
	return "", nil
}

// dryRunText finds out whether the text of the form could run.
func dryRunText(_ context.Context, c *call) (string, error) {
	if err := c.needValues(); err != nil {
		return "", err
	}
	k, src, err := c.readJob()
	if err != nil {
		return "", err
	}
	if len(k.Problems) == 0 {
		if k.report, err = c.dryRun(k.job, nil); err != nil {
			return "", err
		}
		src.Locate(k.report.Problems)
		src.Locate(k.report.Warnings)
		k.Problems, k.Warnings = k.report.Problems, k.report.Warnings
	}
	c.found = k
	return "", nil
}

// needValues returns the refusal if the visitor may not see the values of the job of the
// page: a dry run shows them.
func (c *call) needValues() error {
	if c.SeesValues(c.ctx(), c.r.PathValue("name")) {
		return nil
	}
	return &desk.AccessError{Text: "this shows values, which you may not see: it needs the role " + c.ValuesRole().String()}
}

// dryRun finds out whether a job could run, in a limited time.
func (c *call) dryRun(job courier.Job, params map[string]any) (*engine.Report, error) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(maxDryRun + time.Minute)) // of a host's server with a shorter one
	ctx, cancel := context.WithTimeout(c.ctx(), maxDryRun)
	defer cancel()
	defer context.AfterFunc(c.h.closed, cancel)()
	r, err := c.h.e.Jobs().DryRun(ctx, job, &engine.DryRunOptions{Params: params})
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		return nil, &problem.Error{
			Status: http.StatusServiceUnavailable, Title: "The dry run was stopped", Text: fmt.Sprintf("It took longer than %v, or the service is stopping.", maxDryRun),
			Do: "Connections that do not answer take long. Try again, or look at the servers that the steps name.",
		}
	}
	return &r, err
}

// saveJob saves the text of the form as a new version.
func saveJob(ctx context.Context, c *call) (string, error) {
	name := c.r.PathValue("name")
	base, err := c.base()
	if err != nil {
		return "", err
	}
	k, src, err := c.readJob()
	if err != nil {
		return "", err
	}
	if len(k.Problems) > 0 {
		return "", &courier.DefinitionError{Job: name, Problems: k.Problems}
	}
	saved, err := c.h.e.Jobs().Define(ctx, k.job, &engine.DefineOptions{By: c.by(), Base: &base, CheckQueue: true})
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		src.Locate(bad.Problems)
	}
	if err == nil && saved.Job.Version == base {
		err = desk.ErrUnchanged
	}
	if len(saved.Warnings) == 0 {
		return c.link("jobs", name), err
	}
	c.kept = saved.Warnings
	return c.link("jobs", name) + "?saved=" + c.formID(), err
}

// noteBase writes in the journal which version is replaced.
func noteBase(c *call, a *store.Action) {
	if base, err := c.base(); err == nil {
		a.Was = json.RawMessage(strconv.Itoa(base))
	}
}

// placed returns problems with the lines of a text that they are about.
func placed(text string, list []courier.Problem) (all []placedProblem) {
	lines := strings.Split(text, "\n")
	for _, p := range list {
		at := placedProblem{Line: p.Line, Column: p.Column}
		if n := p.Line - 1; n >= 0 && n < len(lines) {
			runes := []rune(lines[n])
			col := min(max(p.Column-1, 0), len(runes))
			at.Before, at.At = string(runes[max(0, col-60):col]), string(runes[col:min(len(runes), col+100)])
		}
		p.Line, p.Column = 0, 0
		at.Text = p.String()
		all = append(all, at)
	}
	return all
}

// stepTypes returns the types of the engine, by their keys.
func (c *call) stepTypes() (list []stepTypeInfo) {
	reg := c.h.e.Registry()
	for _, key := range reg.Keys() {
		if t, ok := reg.Lookup(key); ok && t.Key() == key {
			list = append(list, stepTypeInfo{key, t.Doc()})
		}
	}
	slices.SortFunc(list, func(a, b stepTypeInfo) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// firstText is the text that the edition of a new job begins with.
func (c *call) firstText() string {
	step := courier.StepSpec{ID: "first", Type: "family.verb"}
	if list := c.stepTypes(); len(list) > 0 {
		step.Type = list[0].Key
		t, _ := c.h.e.Registry().Lookup(step.Type)
		for _, p := range t.Config().Properties {
			if p.Required {
				if step.Config == nil {
					step.Config = make(map[string]any)
				}
				step.Config[p.Name] = ""
			}
		}
	}
	text, err := definition.Text(courier.Job{Params: map[string]any{}, Steps: []courier.StepSpec{step}})
	if err != nil {
		return "{}"
	}
	return strings.Replace(text, "  \"name\": \"\",\n", "", 1) // the address has the name
}

// newJob leads to the page on which a job of a name is made.
func (c *call) newJob() (any, error) {
	name := c.query.Get("name")
	if name == "" {
		return nil, nil
	}
	return nil, c.redirect(c.link("jobs", name, "edit"))
}
