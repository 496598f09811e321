package problem_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// TestOf: an error has the status and the words of its kind, also when it is wrapped. What a store
// says is in no page: such an error has an incident.
func TestOf(t *testing.T) {
	list := []courier.Problem{{Step: -1, Field: "limit", Message: "is negative"}}
	lacks := fmt.Errorf("the store keeps no chains: %w", errors.Join(errors.ErrUnsupported, courier.ErrNotFound))
	for _, c := range []struct {
		err      error
		status   int
		title    string
		problems int
		hidden   bool
	}{
		{&access.Error{Unknown: true, Text: "no cookie"}, http.StatusUnauthorized, "You are not signed in", 0, false},
		{&access.Error{Text: "the role operator is needed"}, http.StatusForbidden, "You may not do this", 0, false},
		{&courier.DefinitionError{Job: "a", Problems: list}, http.StatusUnprocessableEntity, "There are problems", 1, false},
		{&schedule.Error{Problems: list}, http.StatusUnprocessableEntity, "There are problems", 1, false},
		{&filter.Error{Problems: []string{"a", "b"}}, http.StatusBadRequest, "The filter has errors", 2, false},
		{&desk.BusyError{Text: "too many pages are open"}, http.StatusServiceUnavailable, "That is too much at once", 0, false},
		{&desk.TooManyError{Text: "you have 100"}, http.StatusTooManyRequests, "You have too many of these", 0, false},
		{&courier.TransitionError{From: courier.Completed, To: courier.Queued}, http.StatusConflict, "Its state does not permit this", 0, false},
		{&desk.StateError{Text: "it is disabled"}, http.StatusConflict, "Its state does not permit this", 0, false},
		{desk.ErrJournal, http.StatusServiceUnavailable, "The journal can't be written", 0, true},
		{lacks, http.StatusNotImplemented, "This service does not have this", 0, false},
		{courier.ErrNotFound, http.StatusNotFound, "Not found", 0, false},
		{courier.ErrConflict, http.StatusConflict, "Somebody else was first", 0, false},
		{fmt.Errorf("remove: %w", store.ErrInUse(store.Job, "daily", []string{`schedule "nightly"`}, "change it first")), http.StatusConflict, "It is in use", 0, false},
		{fmt.Errorf("remove: %w", (&store.Definition{Kind: store.Job, Name: "daily"}).ErrNeeded(store.NeededByJob("other"))), http.StatusConflict, "It is in use", 0, false},
		{courier.ErrInvalid, http.StatusBadRequest, "The request is invalid", 0, false},
		{problem.ErrPanic, http.StatusInternalServerError, "The service has an error", 0, true},
		{errors.New("dial tcp 10.0.0.7: refused"), http.StatusServiceUnavailable, "The store does not answer", 0, true},
	} {
		for _, err := range []error{c.err, fmt.Errorf("start: %w", c.err)} {
			p := problem.Of(err)
			if p.Status != c.status || p.Title != c.title || len(p.Problems) != c.problems || (p.Incident != "") != c.hidden || p.Do == "" || p.Text == "" {
				t.Errorf("%v: %+v", err, p)
			}
			if c.hidden && (strings.Contains(p.Text, "10.0.0.7") || strings.Contains(p.Text, "panic")) {
				t.Errorf("%v is shown: %s", err, p.Text)
			}
		}
	}
	if a, b := problem.Of(errors.New("a")), problem.Of(errors.New("a")); a.Incident == b.Incident {
		t.Error("two incidents have one name")
	}
	if p := problem.Of(fmt.Errorf("wrapped: %w", problem.ErrNoPage)); p != problem.ErrNoPage {
		t.Errorf("%+v", p)
	}
	many := &chain.Error{Problems: make([]courier.Problem, 1000)}
	if p := problem.Of(many); len(p.Problems) != 100 {
		t.Errorf("%d problems", len(p.Problems))
	}
	if p := problem.Invalid("%d of %s", 3, "x"); p.Status != http.StatusBadRequest || p.Error() != "The request is invalid: 3 of x" {
		t.Errorf("%+v", p)
	}
}

// TestPlace: a problem has the line around its column, in characters, and no more of it than fits.
// One with no place, or with one that the text does not have, is there all the same.
func TestPlace(t *testing.T) {
	text := "{\n  \"größe\": 1,\n" + strings.Repeat("x", 500)
	for _, c := range []struct {
		line, column int
		before, at   string
	}{
		{2, 12, "  \"größe\": ", "1,"}, {1, 1, "", "{"}, {2, 0, "", "  \"größe\": 1,"}, {1, 99, "{", ""}, {0, 0, "", ""}, {9, 1, "", ""}, {-1, 1, "", ""},
		{3, 201, strings.Repeat("x", 60), strings.Repeat("x", 100)},
	} {
		list := problem.Place(text, []courier.Problem{{Step: -1, Field: "limit", Message: "is odd", Line: c.line, Column: c.column}})
		want := problem.Placed{Text: "limit: is odd", Line: c.line, Column: c.column, Before: c.before, At: c.at}
		if len(list) != 1 || list[0] != want {
			t.Errorf("%+v, want %+v", list, want)
		}
	}
}
