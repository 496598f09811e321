package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

var (
	ifMatchHeader     = param{name: "If-Match", kind: "string", does: `The ETag of the version that was changed, such as "v7".`}
	ifNoneMatchHeader = param{name: "If-None-Match", kind: "string", does: "* for something new."}
)

// etagForm is the form of the ETags of definitions. A proxy that compresses answers makes
// them weak.
var etagForm = regexp.MustCompile(`^(?:W/)?"v([1-9][0-9]{0,8})"$`)

// base returns the version that the request replaces, by its conditions: 0 if it is to be
// the first.
func (c *call) base() (int, error) {
	match, none := c.r.Header.Values("If-Match"), c.r.Header.Values("If-None-Match")
	switch {
	case len(match)+len(none) == 0:
		return 0, problemf(codePreRequired, "say what this replaces: send If-Match with the ETag that GET has answered with, or If-None-Match: * for something new")
	case len(match)+len(none) > 1:
		return 0, oneProblem(item{Header: "If-Match", Message: "send one of If-Match and If-None-Match, once"})
	case len(none) > 0 && strings.TrimSpace(none[0]) == "*":
		return 0, nil
	case len(none) > 0:
		return 0, oneProblem(item{Header: "If-None-Match", Message: "it must be *, which means that there is nothing yet"})
	}
	m := etagForm.FindStringSubmatch(strings.TrimSpace(match[0]))
	if m == nil {
		return 0, oneProblem(item{Header: "If-Match", Message: `it must be one ETag as GET answers with, in quotes, such as "v7"`})
	}
	return strconv.Atoi(m[1])
}

func (c *call) putDefinition(d catalog) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	raw, err := c.rawBody()
	if err != nil {
		return err
	}
	if err := checkForm(raw); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	src := &courier.Source{Text: raw}
	x, problems, err := c.readDefinition(d, name, src)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return d.failed(name, problems)
	}
	a := store.Action{Verb: "define", Kind: d.kind, Name: name, Job: c.about(), Was: json.RawMessage(strconv.Itoa(base))}
	err = c.Do(c.ctx(), a, func(ctx context.Context) (err error) {
		x, err = d.define(ctx, &x, &engine.DefineOptions{By: c.By(""), Base: &base})
		return err
	})
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		src.Locate(shown(bad.Problems))
		return bad
	} else if errors.Is(err, courier.ErrConflict) {
		return problemf(codePrecond, "%v: read it again, apply your change to what it is now, and send that with its ETag", err)
	} else if err != nil {
		return err
	}
	src.Locate(x.warnings)
	status := http.StatusOK
	if *x.version() == base+1 { // also for a repetition of the request that has saved it
		status = http.StatusCreated
	}
	c.w.Header().Set("ETag", etag(&x))
	return c.answer(status, x.view())
}

// readDefinition reads a definition that is to have a name. If there are problems, they are
// all that can be found, with their places.
func (c *call) readDefinition(d catalog, name string, src *courier.Source) (x defined, problems []courier.Problem, err error) {
	x = d.none()
	problems = src.Read(x.definition)
	given := *x.name()
	if len(problems) > 0 {
		all, err := c.checkText(d.kind, src)
		if err != nil {
			return x, nil, err
		}
		if all.one {
			problems = all.problems
		}
	}
	var more []courier.Problem
	switch *x.name() = name; given {
	case name:
	case "":
		problems = slices.DeleteFunc(problems, func(p courier.Problem) bool { return p.Step < 0 && p.Field == "name" && p.Message == "is required" })
	default:
		more = append(more, courier.Problem{Step: -1, Field: "name", Message: "it must be the name in the path, or be left out"})
	}
	hidden, err := c.hidden(x.definition)
	if err != nil {
		return x, nil, err
	}
	more = append(more, hidden...)
	src.Locate(more)
	return x, append(more, problems...), nil
}

// hidden returns the problems with what a job depends on and the visitor must not know.
// What the present version of the job depends on may stay.
func (c *call) hidden(d courier.Definition) (problems []courier.Problem, err error) {
	job, ok := d.(*courier.Job)
	if !ok {
		return nil, nil
	}
	var present courier.Job
	for i, on := range job.DependsOn {
		if on.Job == "" || c.Role(c.ctx(), on.Job) > desk.None {
			continue
		}
		if present.Name == "" {
			present, err = c.h.e.Jobs().Get(c.ctx(), job.Name, 0)
			if err != nil && !errors.Is(err, courier.ErrNotFound) {
				return nil, err
			}
			present.Name = job.Name
		}
		if !slices.ContainsFunc(present.DependsOn, func(p courier.JobDependency) bool { return p.Job == on.Job }) {
			problems = append(problems, courier.Problem{Step: -1, Field: fmt.Sprintf("depends_on[%d].job", i), Message: "there is no such job here, or you may not see it"})
		}
	}
	return problems, nil
}

// A DryRunRequest is the body of a dry run. All fields may be left out.
type DryRunRequest struct {
	Params     map[string]any  `json:"params,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"` // in place of the latest version
}

// maxDryRun is how long a dry run may take.
const maxDryRun = 2 * time.Minute

func (c *call) dryRun(d catalog) error {
	var b DryRunRequest
	if err := c.needValues(c.about()); err != nil {
		return err
	}
	if err := c.body(&b); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	var x defined
	var err error
	if len(b.Definition) == 0 || string(b.Definition) == "null" {
		x, err = d.get(c.ctx(), name, 0)
	} else {
		// It says where to connect with the credentials of the service.
		if err := c.Need(c.ctx(), c.about(), desk.Editor); err != nil {
			return err
		}
		var problems []courier.Problem
		x, problems, err = c.readDefinition(d, name, &courier.Source{Text: b.Definition})
		if err == nil && len(problems) > 0 {
			return c.answer(http.StatusOK, d.unread(name, problems))
		}
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(maxDryRun)
	defer cancel()
	report, err := d.dryRun(ctx, &x, &engine.DryRunOptions{Params: b.Params})
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		return problemf(codeUnavailable, "the dry run was stopped, because it took longer than %v or the service is stopping; connections that do not answer take long", maxDryRun)
	} else if err != nil {
		return err
	}
	return c.answer(http.StatusOK, report)
}
