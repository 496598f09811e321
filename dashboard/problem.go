package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
)

// A problem is the error that becomes a page, or a notice above a form.
type problem struct {
	Status   int
	Title    string
	Text     string // what happened
	Do       string // what the visitor can do
	Problems []string
	Incident string // under which the log has the reason
}

func (p *problem) Error() string { return p.Title + ": " + p.Text }

var errNoPage = &problem{
	Status: http.StatusNotFound, Title: "There is no such page", Text: "Nothing is at this address.", Do: "Check the address, or begin with the first page.",
}

// invalid is the error of a request that can't be understood.
func invalid(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Title: "The request is invalid", Text: fmt.Sprintf(format, args...), Do: "Correct it, and try again. Nothing was done."}
}

// newIncident returns a name under which the log has what a visitor is not told.
func newIncident() string { return strings.ToLower(rand.Text()[:12]) }

// problemOf returns the problem of an error. What the store says is for the log.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{Text: format.Sentence(err.Error())}
	set := func(status int, title, do string) *problem {
		p.Status, p.Title, p.Do = status, title, do
		return p
	}
	if no, ok := errors.AsType[*desk.AccessError](err); ok {
		if no.Unknown {
			return set(http.StatusUnauthorized, "You are not signed in", "Sign in to this service, and open the page again.")
		}
		return set(http.StatusForbidden, "You may not do this", "Ask the operators of the service for the role that is named here.")
	}
	if list := problemsOf(err); list != nil {
		p.Problems = list
		return set(http.StatusUnprocessableEntity, "There are problems", "Correct what they name. Nothing was saved or started.")
	}
	if e, ok := errors.AsType[*desk.FilterError](err); ok {
		p.Text, p.Problems = "The filter can't be used.", e.Problems
		return set(http.StatusBadRequest, "The filter has mistakes", desk.Grammar)
	}
	if e, ok := errors.AsType[*desk.BusyError](err); ok {
		p.Text = format.Sentence(e.Text)
		return set(http.StatusServiceUnavailable, "Too many pages are open", "Close some, or load the page by hand.")
	}
	_, transition := errors.AsType[*courier.TransitionError](err)
	_, state := errors.AsType[*desk.StateError](err)
	_, chain := errors.AsType[*courier.ChainRequestError](err)
	_, dependency := errors.AsType[*courier.DependencyError](err)
	switch {
	case errors.Is(err, desk.ErrJournal):
		p.Text, p.Incident = format.Sentence(desk.ErrJournal.Error()), newIncident()
		return set(http.StatusServiceUnavailable, "The journal can't be written", "Try again later. Nothing was done.")
	case transition, chain, state:
		return set(http.StatusConflict, "Its state does not permit this", "Look at how it stands now. Nothing was changed.")
	case dependency:
		return set(http.StatusConflict, "A dependency is not met", "Start it when the jobs named here have completed. Nothing was created.")
	case errors.Is(err, errors.ErrUnsupported): // before what it matches besides
		return set(http.StatusNotImplemented, "This service has no such thing", "The text names what it lacks, such as a role of the store.")
	case errors.Is(err, courier.ErrNotFound):
		return set(http.StatusNotFound, "It is not there", "Check the name or the id. What you may not see looks the same.")
	case errors.Is(err, courier.ErrConflict):
		return set(http.StatusConflict, "Somebody else was first", "Look at how it is now, and try again if it still makes sense. Nothing was changed.")
	case errors.Is(err, courier.ErrInvalid):
		return set(http.StatusBadRequest, "The request is invalid", "Correct it, and try again. Nothing was done.")
	case errors.Is(err, errPanic):
		p.Incident, p.Text = newIncident(), "The page could not be made."
		return set(http.StatusInternalServerError, "The service has a mistake", "Tell its operators the incident: the log has the reason under it.")
	}
	p.Incident, p.Text = newIncident(), "The service can't do this now."
	return set(http.StatusServiceUnavailable, "The store does not answer", "Try again. If it lasts, tell the operators the incident: the log has the reason under it.")
}

// problemsOf returns the problems of an error that lists them, as texts; nil if it does not.
func problemsOf(err error) (texts []string) {
	list := problemList(err)
	for _, p := range list[:min(len(list), 100)] {
		texts = append(texts, p.String())
	}
	return texts
}

// problemList returns the problems of an error that lists them; nil if it does not.
func problemList(err error) []courier.Problem {
	if e, ok := errors.AsType[*courier.DefinitionError](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*courier.ParamsError](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*courier.ScheduleError](err); ok {
		return e.Problems
	} else if e, ok := errors.AsType[*courier.MonitorError](err); ok {
		return e.Problems
	}
	return nil
}

// fail answers with the page of an error.
func (c *call) fail(err error) {
	if c.wrote || errors.Is(c.r.Context().Err(), context.Canceled) {
		return // the answer has begun, or nobody waits for it
	}
	p := problemOf(err)
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
