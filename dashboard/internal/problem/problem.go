// Package problem describes errors for a page: what happened, and what the visitor can do.
package problem

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// ErrPanic is the error of a page whose code has panicked.
var ErrPanic = errors.New("panic in a page")

// An Error is shown as a page of its own, or as a notice above a form.
type Error struct {
	Status   int
	Title    string
	Text     string // what happened
	Do       string // what the visitor can do
	Problems []string
	Incident string // the id under which the reason is logged
	Again    string // reference of the page that the visitor should open again; empty for none
	Written  []Written
}

// A Written is the text that the visitor has typed into a field of a refused form.
type Written struct{ Field, Text string }

// Error returns the title and the text.
func (p *Error) Error() string { return p.Title + ": " + p.Text }

// ErrNoPage is the error of an address without a page.
var ErrNoPage = &Error{
	Status: http.StatusNotFound, Title: "There is no such page", Text: "There is nothing at this address.", Do: "Check the address, or start from the first page.",
}

// Invalid is the error of an invalid request.
func Invalid(text string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Title: "The request is invalid", Text: fmt.Sprintf(text, args...), Do: "Correct it and try again. Nothing was done."}
}

// newIncident returns an id under which an error is logged that the visitor must not see.
func newIncident() string { return strings.ToLower(rand.Text()[:12]) }

// Of returns the description of an error. Errors of the store are only logged, and the result has
// an Incident.
func Of(err error) *Error {
	if p, ok := errors.AsType[*Error](err); ok {
		return p
	}
	p := &Error{Text: format.Sentence(err.Error())}
	set := func(status int, title, do string) *Error {
		p.Status, p.Title, p.Do = status, title, do
		return p
	}
	if no, ok := errors.AsType[*access.Error](err); ok {
		if no.Unknown {
			return set(http.StatusUnauthorized, "You are not signed in", "Sign in to this service, and open the page again.")
		}
		return set(http.StatusForbidden, "You may not do this", "Ask the operators of the service for the role named here.")
	}
	if list := texts(err); list != nil {
		p.Problems = list
		return set(http.StatusUnprocessableEntity, "There are problems", "Correct them and try again. Nothing was saved or started.")
	}
	if e, ok := errors.AsType[*filter.Error](err); ok {
		p.Text, p.Problems = "The filter can't be used.", e.Problems
		return set(http.StatusBadRequest, "The filter has errors", filter.Grammar)
	}
	if e, ok := errors.AsType[*desk.BusyError](err); ok {
		p.Text = format.Sentence(e.Text)
		return set(http.StatusServiceUnavailable, "That is too much at once", "Close some pages, or reload this one later.")
	}
	if e, ok := errors.AsType[*desk.TooManyError](err); ok {
		p.Text = format.Sentence(e.Text)
		return set(http.StatusTooManyRequests, "You have too many of these", "Wait until some have started, or cancel those that you do not need.")
	}
	_, transition := errors.AsType[*courier.TransitionError](err)
	_, state := errors.AsType[*desk.StateError](err)
	_, chain := errors.AsType[*chain.RequestError](err)
	_, dependency := errors.AsType[*courier.DependencyError](err)
	_, inUse := errors.AsType[*store.InUseError](err)
	switch {
	case errors.Is(err, desk.ErrJournal):
		p.Text, p.Incident = format.Sentence(desk.ErrJournal.Error()), newIncident()
		return set(http.StatusServiceUnavailable, "The journal can't be written", "Try again later. Nothing was done.")
	case transition, chain, state:
		return set(http.StatusConflict, "Its state does not permit this", "Check its current state. Nothing was changed.")
	case dependency:
		return set(http.StatusConflict, "A dependency is not met", "Start it when the jobs named here have completed. Nothing was created.")
	case errors.Is(err, errors.ErrUnsupported): // before the other errors that it matches
		return set(http.StatusNotImplemented, "This service does not have this", "The text names what it lacks, such as a role of the store.")
	case errors.Is(err, courier.ErrNotFound):
		return set(http.StatusNotFound, "Not found", "Check the name or the id. Something that you may not see looks the same.")
	case inUse:
		return set(http.StatusConflict, "It is in use", "First change or remove what is named here. Nothing was removed.")
	case errors.Is(err, courier.ErrConflict):
		return set(http.StatusConflict, "Somebody else was first", "Check its current state, and try again if that still makes sense. Nothing was changed.")
	case errors.Is(err, courier.ErrInvalid):
		return set(http.StatusBadRequest, "The request is invalid", "Correct it and try again. Nothing was done.")
	case errors.Is(err, ErrPanic):
		p.Incident, p.Text = newIncident(), "The page could not be made."
		return set(http.StatusInternalServerError, "The service has an error", "Tell the operators of the service the incident number: the log has the reason under it.")
	}
	p.Incident, p.Text = newIncident(), "The service can't do this now."
	return set(http.StatusServiceUnavailable, "The store does not answer", "Try again. If the problem persists, tell the operators the incident number: the log has the reason under it.")
}

// texts returns the problems of an error that lists them, as texts. It is nil for other errors.
func texts(err error) (texts []string) {
	list := desk.ProblemsOf(err)
	for _, p := range list[:min(len(list), 100)] {
		texts = append(texts, p.String())
	}
	return texts
}
