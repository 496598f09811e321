package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
)

// A code identifies a problem in a problem document, for programs.
type code struct {
	name   string
	status int
	title  string
	do     string // for the page of the code
}

var (
	codeInvalid     = &code{"invalid", http.StatusBadRequest, "the request is invalid", "Correct what the problems name, and send it again. Nothing was done."}
	codeUnknown     = &code{"unauthenticated", http.StatusUnauthorized, "nobody knows who you are", "Send the credentials that the service asks for."}
	codeForbidden   = &code{"forbidden", http.StatusForbidden, "you may not do this", "Ask the operators of the service for the role that the detail names."}
	codeNotFound    = &code{"not_found", http.StatusNotFound, "it is not there", "Check the name or the id. What you may not see looks the same."}
	codeMethod      = &code{"method_not_allowed", http.StatusMethodNotAllowed, "the path has no such method", "Use a method of the header Allow."}
	codeTransition  = &code{"transition", http.StatusConflict, "its state does not permit this", "Look at its state. Nothing was changed."}
	codeDependency  = &code{"dependency_unmet", http.StatusConflict, "a dependency of the job is not met", "Start it when the jobs that the detail names have completed. Nothing was created."}
	codeConflict    = &code{"conflict", http.StatusConflict, "somebody else was first", "Read it again, and repeat the request if it still makes sense. Nothing was changed."}
	codePrecond     = &code{"precondition_failed", http.StatusPreconditionFailed, "it has changed since you read it", "Read it again, apply your change to what it is now, and send that with the new ETag."}
	codeTooLarge    = &code{"too_large", http.StatusRequestEntityTooLarge, "the request is too large", "Send less, or ask the operators to raise the limit that the detail names."}
	codeMediaType   = &code{"media_type", http.StatusUnsupportedMediaType, "the body has another media type", "Send the media type that the detail names."}
	codeUnsafeName  = &code{"unsafe_name", http.StatusBadRequest, "the name of a file can't be used", "Give the file a plain name of its own, without directories. Nothing was kept."}
	codeMissingFile = &code{"missing_file", http.StatusBadRequest, "a file is missing", "Send the files that the detail names, as parts of multipart/form-data with a file name. Nothing was kept."}
	codeIncomplete  = &code{"not_completed", http.StatusConflict, "the execution has not completed", "Read in the reason why. With ?partial=1 the answer has the results that it has kept nevertheless."}
	codeGone        = &code{"gone", http.StatusGone, "the files were removed", "Start a new execution with new files: the files of this one are kept no longer. Its record stays."}
	codeRange       = &code{"range_not_satisfiable", http.StatusRequestedRangeNotSatisfiable, "the file has no such range", "Ask for a range within the size that Content-Range names, or for the whole file."}
	codeFull        = &code{"full", http.StatusInsufficientStorage, "there is no room for the files", "Send them again later, or ask the operators for more room. Nothing was kept."}
	codeDefinition  = &code{"definition", http.StatusUnprocessableEntity, "the definition has problems", "Correct what the problems name. Nothing was saved."}
	codeKeyReused   = &code{"idempotency_key_reused", http.StatusUnprocessableEntity, "the idempotency key was used for something else", "Use a new key for a new request. Nothing was created."}
	codeKeyRequired = &code{"idempotency_key_required", http.StatusBadRequest, "the request has no idempotency key", "Name the request by a header Idempotency-Key, and use the same one when you repeat it. Nothing was created."}
	codePreRequired = &code{"precondition_required", http.StatusPreconditionRequired, "a condition is missing", `Send If-Match with the ETag that you have read, or If-None-Match: * for something new.`}
	codeTooMany     = &code{"too_many", http.StatusTooManyRequests, "you have too many of these", "Wait until some of them have begun or ended. Nothing was created."}
	codeInternal    = &code{"internal", http.StatusInternalServerError, "the service has a mistake", "Tell its operators the incident: the log has the reason under it."}
	codeUnsupported = &code{"not_supported", http.StatusNotImplemented, "this service has no such thing", "Read in the detail what it lacks, such as a role of the store."}
	codeUnavailable = &code{"unavailable", http.StatusServiceUnavailable, "the service can't do this now", "Send it again later; what has an Idempotency-Key is done once. The log has the reason under the incident."}
	codeJournal     = &code{"journal", http.StatusServiceUnavailable, "the journal can't be written", "Send it again later. Nothing was done."}
)

// codes are all codes.
var codes = []*code{
	codeInvalid, codeUnknown, codeForbidden, codeNotFound, codeMethod, codeTransition, codeDependency, codeConflict, codePrecond, codeTooLarge,
	codeMediaType, codeUnsafeName, codeMissingFile, codeIncomplete, codeGone, codeRange, codeFull, codeDefinition, codeKeyReused, codeKeyRequired, codePreRequired, codeTooMany, codeInternal, codeUnsupported, codeUnavailable, codeJournal,
}

// An item is one of the problems of a request.
type item struct {
	Pointer   string `json:"pointer,omitempty"`   // into the body, as of RFC 6901
	Parameter string `json:"parameter,omitempty"` // of the URL
	Header    string `json:"header,omitempty"`
	Step      *int   `json:"step,omitempty"` // of a definition, with its id and type
	ID        string `json:"id,omitempty"`
	StepType  string `json:"step_type,omitempty"`
	Field     string `json:"field,omitempty"`
	Line      int    `json:"line,omitempty"` // where it is in the text, from 1
	Column    int    `json:"column,omitempty"`
	Message   string `json:"message"`
}

// A problem is a problem document (RFC 9457), and the error that becomes one.
type problem struct {
	Type     string `json:"type"` // a relative reference to the page of the code
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Incident string `json:"incident,omitempty"` // the id under which the reason is logged
	Problems []item `json:"problems,omitempty"`
	// Reason is the class of the failure of an execution that has no results.
	Reason courier.Reason `json:"reason,omitempty"`

	code *code
}

func (p *problem) Error() string { return p.Detail }

func problemf(c *code, format string, args ...any) error {
	return &problem{code: c, Detail: fmt.Sprintf(format, args...)}
}

// oneProblem is the error of a request with one problem.
func oneProblem(i item) error {
	p := problem{Problems: []item{i}}
	return p.invalid("the request")
}

// add adds a problem.
func (p *problem) add(i item) { p.Problems = append(p.Problems, i) }

// invalid returns the error of the problems with a part of a request; nil if there are none.
func (p *problem) invalid(what string) error {
	if len(p.Problems) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(what)
	for i, item := range p.Problems {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep)
		if where := item.Parameter + item.Pointer + item.Header; where != "" {
			b.WriteString(where + ": ")
		}
		b.WriteString(item.Message)
	}
	p.code, p.Detail = codeInvalid, b.String()
	return p
}

// fail answers with the problem document of an error. The errors of the store are only logged,
// because they may name what a client must not see.
func (c *call) fail(err error) {
	_, ok := errors.AsType[*problem](err)
	if c.wrote || !ok && errors.Is(c.r.Context().Err(), context.Canceled) {
		return // the answer has begun, or nobody waits for it
	}
	p := problemOf(err)
	if p.code == codeUnknown {
		challenge := c.h.opt.Access.Challenge
		if challenge == "" {
			challenge = "Bearer"
		}
		c.w.Header().Set("WWW-Authenticate", challenge)
	}
	if p.Incident != "" {
		c.h.log.Error("a request to the API has failed", "incident", p.Incident, "method", c.r.Method, "route", c.route.name(), "error", err)
	}
	if p.code == codeUnavailable || p.code == codeJournal {
		c.w.Header().Set("Retry-After", "5")
	}
	p.Type = c.root + "v1/problems/" + p.code.name
	p.Title, p.Status, p.Code = p.code.title, p.code.status, p.code.name
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"code": "internal"}`)
	}
	c.refuse(func() { c.write(p.Status, problemMedia, append(body, '\n')) })
}

// problemOf returns the problem of an error.
func problemOf(err error) problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return *p
	}
	p := problem{code: codeUnavailable, Detail: err.Error()}
	if no, ok := errors.AsType[*access.Error](err); ok {
		if p.code = codeForbidden; no.Unknown {
			p.code = codeUnknown
		}
		return p
	}
	if busy, ok := errors.AsType[*desk.BusyError](err); ok {
		return problem{code: codeUnavailable, Detail: busy.Text}
	}
	if list := desk.ProblemsOf(err); list != nil {
		p.code = codeDefinition
		if _, params := errors.AsType[*courier.ParamsError](err); params {
			p.code = codeInvalid
		}
		p.Problems = itemsOf(list)
		return p
	}
	_, transition := errors.AsType[*courier.TransitionError](err)
	_, chain := errors.AsType[*chain.RequestError](err)
	_, dependency := errors.AsType[*courier.DependencyError](err)
	_, tooMany := errors.AsType[*desk.TooManyError](err)
	switch {
	case errors.Is(err, desk.ErrJournal):
		p.code, p.Detail, p.Incident = codeJournal, desk.ErrJournal.Error(), newIncident()
	case transition, chain:
		p.code = codeTransition
	case tooMany:
		p.code = codeTooMany
	case dependency:
		p.code = codeDependency
	case errors.Is(err, depot.ErrFull):
		p.code, p.Detail = codeFull, "the service has no room for the files, and has kept none of them: send them again later, or ask its operators for more room"
	case errors.Is(err, errors.ErrUnsupported): // before the other errors that it matches
		p.code = codeUnsupported
	case errors.Is(err, courier.ErrNotFound):
		p.code = codeNotFound
	case errors.Is(err, courier.ErrConflict):
		p.code = codeConflict
	case errors.Is(err, courier.ErrInvalid):
		p.code = codeInvalid
	case errors.Is(err, errPanic):
		p.code, p.Incident = codeInternal, newIncident()
		p.Detail = "the service has a mistake, and its log the reason, with the incident " + p.Incident
	default:
		p.Incident = newIncident()
		p.Detail = "the service can't do this now, and its log has the reason, with the incident " + p.Incident + "; a request with an Idempotency-Key can be sent again"
	}
	return p
}

// maxProblems is how many problems an answer has.
const maxProblems = 1000

// shown returns the problems that an answer includes.
func shown(list []courier.Problem) []courier.Problem { return list[:min(len(list), maxProblems)] }

// itemsOf returns problems of a definition in the form for answers.
func itemsOf(list []courier.Problem) (items []item) {
	for _, p := range shown(list) {
		items = append(items, itemOf(&p))
	}
	return items
}

// itemOf returns a problem of a definition, with a pointer to its place.
func itemOf(p *courier.Problem) item {
	i := item{ID: p.ID, StepType: p.Type, Field: p.Field, Line: p.Line, Column: p.Column, Message: p.Message}
	if p.Step >= 0 {
		i.Step = &p.Step
		i.Pointer = fmt.Sprintf("/steps/%d", p.Step)
	}
	for _, name := range jsontext.FieldPath(p.Field) {
		i.Pointer += "/" + jsontext.EscapePointer(name)
	}
	return i
}
