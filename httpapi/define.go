package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/dryrun"
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

// base returns the version that the request replaces, according to its conditional headers. It is 0
// if the definition is to be the first version.
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

func (c *call) putDefinition(d desk.Catalog) error {
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
	x, problems, err := c.Read(c.ctx(), d, name, src)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return d.Failed(name, problems)
	}
	a := store.Action{Verb: "define", Kind: d.Kind, Name: name, Job: c.about(), Was: json.RawMessage(strconv.Itoa(base))}
	err = c.Do(c.ctx(), a, func(ctx context.Context) (err error) {
		x, err = d.Define(ctx, &x, &courier.DefineOptions{By: c.By(""), Base: &base, CheckQueue: true})
		if err == nil && *x.Version() == base {
			err = desk.ErrUnchanged
		}
		return err
	})
	if list := desk.ProblemsOf(err); list != nil {
		src.Locate(shown(list))
		return err
	} else if errors.Is(err, courier.ErrConflict) {
		return problemf(codePrecond, "%v: read it again, apply your change to what it is now, and send that with its ETag", err)
	} else if err != nil {
		return err
	}
	src.Locate(x.Warnings)
	status := http.StatusOK
	if *x.Version() == base+1 { // also if the request repeats the one that saved it
		status = http.StatusCreated
	}
	c.w.Header().Set("ETag", etag(&x))
	return c.answer(status, viewOf(&x))
}

func (c *call) removeDefinition(d desk.Catalog) error {
	a := store.Action{Verb: "remove", Kind: d.Kind, Name: c.r.PathValue("name"), Job: c.about()}
	if err := c.Do(c.ctx(), a, func(ctx context.Context) error { return d.Remove(ctx, a.Name, c.By("")) }); err != nil {
		return c.unknown(err)
	}
	return c.nothing(http.StatusNoContent)
}

// A DryRunRequest is the body of a dry run. All fields may be left out.
type DryRunRequest struct {
	Params     map[string]any  `json:"params,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"` // replaces the latest version
}

// maxDryRun is the longest time that a dry run may take.
const maxDryRun = 2 * time.Minute

func (c *call) dryRun(d desk.Catalog) error {
	var b DryRunRequest
	if err := c.body(&b); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	var x desk.Defined
	var err error
	if len(b.Definition) == 0 || string(b.Definition) == "null" {
		x, err = d.Get(c.ctx(), name, 0)
	} else {
		// The definition says where to connect with the credentials of the service.
		sent := desk.NeedOf(strings.Replace(c.route.id, "dryRun", "dryRunSent", 1))
		if err := c.NeedTo(c.ctx(), c.about(), sent, false); err != nil {
			return err
		}
		var problems []courier.Problem
		x, problems, err = c.Read(c.ctx(), d, name, &courier.Source{Text: b.Definition})
		if err == nil && len(problems) > 0 {
			return c.answer(http.StatusOK, d.Unread(name, problems))
		}
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(maxDryRun)
	defer cancel()
	report, err := d.DryRun(ctx, &x, &dryrun.Options{Params: b.Params})
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		return problemf(codeUnavailable, "the dry run was stopped, because it took longer than %v or the service is stopping; connections that do not answer take long", maxDryRun)
	} else if err != nil {
		return err
	}
	return c.answer(http.StatusOK, report)
}
