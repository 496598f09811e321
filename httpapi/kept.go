package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A kept is a kind of resource: calendars, schedules, monitors or subscriptions. All have a name, a
// definition that is replaced as a whole, and the jobs that they are about. The rights for these
// jobs decide who may see or change a resource.
type kept[T any, D interface {
	*T
	courier.Definition
}] struct {
	desk.Kept[T]
	list func(c *call, after string, limit int) ([]T, string, error)
	// kept are the problems that can prevent the removal of a resource; nil if it can always be
	// removed.
	kept []*code
}

// routes returns the routes that list, read, replace and remove resources.
func (k *kept[T, D]) routes() []route {
	kinds := k.Kind + "s"
	title := strings.ToUpper(k.Kind[:1]) + k.Kind[1:]
	var zero T
	return []route{
		{
			method: "GET", path: "v1/" + kinds, id: "list" + title + "s", group: kinds, on: onVisible,
			does: "Lists the " + kinds + " of jobs that you may see, by name.", query: []param{limitParam, cursorParam},
			answers: map[int]any{http.StatusOK: page[T]{}}, do: k.listAll,
		},
		{
			method: "GET", path: "v1/" + kinds + "/{name}", id: "get" + title, group: kinds, on: onBody,
			does: "Returns the " + k.Kind + ".", answers: map[int]any{http.StatusOK: zero}, do: k.getOne,
		},
		{
			method: "PUT", path: "v1/" + kinds + "/{name}", id: "set" + title, group: kinds, on: onBody,
			does: "Creates the " + k.Kind + ", or replaces it. It needs the role for the jobs of both; for all jobs if it names none, or a chain.", body: zero,
			answers:  map[int]any{http.StatusCreated: saved[T]{}, http.StatusOK: saved[T]{}},
			problems: []*code{codeDefinition, codeConflict}, do: k.put,
		},
		{
			method: "DELETE", path: "v1/" + kinds + "/{name}", id: "remove" + title, group: kinds, on: onBody,
			does: "Removes the " + k.Kind + ".", answers: map[int]any{http.StatusNoContent: nil}, problems: k.kept, do: k.delete,
		},
	}
}

func (k *kept[T, D]) listAll(c *call) error {
	return answerList(c, k.Kind, func(after string, limit int) ([]T, string, error) {
		list, next, err := k.list(c, after, limit)
		for i := range list {
			k.hidden(c, &list[i])
		}
		return list, next, err
	}, func(v *T) string { return *k.Name(v) })
}

// hidden returns v without the values that the visitor may not see.
func (k *kept[T, D]) hidden(c *call, v *T) *T {
	if !c.Has(c.ctx(), desk.JobsOf(D(v)), access.RightSee|access.RightValues) {
		k.Hide(v)
	}
	return v
}

// find returns the resource that the path names, if the visitor may see it and has the rights of
// the route for its jobs.
func (k *kept[T, D]) find(c *call) (T, error) {
	v, err := k.Get(c.ctx(), c.h.e, c.r.PathValue("name"))
	switch {
	case errors.Is(err, courier.ErrNotFound) && !c.Can(c.ctx(), "", access.RightSee):
		return v, desk.Unknown() // its text may name others
	case err != nil:
		return v, err
	case !c.Has(c.ctx(), desk.JobsOf(D(&v)), access.RightSee):
		return v, desk.Unknown()
	}
	return v, c.NeedEach(c.ctx(), desk.JobsOf(D(&v)), c.route.need.Rights)
}

func (k *kept[T, D]) getOne(c *call) error {
	v, err := k.find(c)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, k.hidden(c, &v))
}

func (k *kept[T, D]) put(c *call) error {
	a := store.Action{Verb: "set", Kind: k.Kind, Name: c.r.PathValue("name")}
	status := http.StatusOK
	was, err := k.find(c)
	if errors.Is(err, courier.ErrNotFound) {
		status, err = http.StatusCreated, k.free(c)
	} else if err == nil {
		a.Was, err = json.Marshal(was)
	}
	if err != nil {
		return err
	}
	sent, err := k.read(c)
	if err != nil {
		return err
	}
	a.Job = desk.JobsOf(D(&sent))[0]
	var now T
	var warnings []courier.Problem
	err = c.Do(c.ctx(), a, func(ctx context.Context) (err error) {
		if now, warnings, err = k.Set(ctx, c.h.e, sent, c.By("")); err != nil || status == http.StatusCreated {
			return err
		}
		return desk.Changed(was, now)
	})
	if err != nil {
		return err
	}
	return c.answer(status, saved[T]{*k.hidden(c, &now), itemsOf(warnings)})
}

// free returns an error if a resource has the name and the visitor may not see it.
func (k *kept[T, D]) free(c *call) error {
	_, err := k.Get(c.ctx(), c.h.e, c.r.PathValue("name"))
	if errors.Is(err, courier.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return desk.Unknown()
}

// read reads the definition in the body, whose name must be the name in the path. The visitor must
// have the right to change resources of its jobs.
func (k *kept[T, D]) read(c *call) (v T, err error) {
	raw, err := c.rawBody()
	if err != nil {
		return v, err
	}
	if len(raw) == 0 {
		return v, problemf(codeInvalid, "the body is missing: send the %s as JSON", k.Kind)
	}
	if err := checkJSON(raw); err != nil {
		return v, err
	}
	problems := (&courier.Source{Text: raw}).Read(D(&v))
	name := k.Name(&v)
	if *name == "" {
		*name = c.r.PathValue("name")
	} else if *name != c.r.PathValue("name") {
		problems = append(problems, courier.Problem{Step: -1, Field: "name", Message: "it differs from the name in the path: send the same, or leave it out"})
	}
	if len(problems) > 0 && slices.Contains(desk.JobsOf(D(&v)), "") && !c.Can(c.ctx(), "", access.RightEdit) {
		return v, k.Wrong(*name, problems) // the job may be what could not be read
	}
	if err := c.MayChange(c.ctx(), k.Kind, D(&v)); err != nil {
		return v, err
	}
	if len(problems) > 0 {
		return v, k.Wrong(*name, problems)
	}
	return v, nil
}

func (k *kept[T, D]) delete(c *call) error {
	v, err := k.find(c)
	if err != nil {
		return err
	}
	a := store.Action{Verb: "remove", Kind: k.Kind, Name: *k.Name(&v), Job: desk.JobsOf(D(&v))[0]}
	if a.Was, err = json.Marshal(v); err != nil {
		return err
	}
	if err := c.Do(c.ctx(), a, func(ctx context.Context) error { return k.Remove(ctx, c.h.e, a.Name, c.By("")) }); err != nil {
		return err
	}
	return c.nothing(http.StatusNoContent)
}

// A turn is a method of the engine that changes the state of the resource with a name.
type turn[T any] func(c *call, ctx context.Context, name string, by courier.By) (T, error)

// turnRoute is the route of a request that calls a turn.
func (k *kept[T, D]) turnRoute(verb, does string, f turn[T]) route {
	var zero T
	kinds := k.Kind + "s"
	return route{
		method: "POST", path: "v1/" + kinds + "/{name}/" + verb, id: verb + strings.ToUpper(k.Kind[:1]) + k.Kind[1:], group: kinds, on: onBody,
		does: does, body: ReasonRequest{}, optional: true, answers: map[int]any{http.StatusOK: zero}, problems: []*code{codeTransition, codeConflict, codeDefinition},
		do: func(c *call) error {
			v, err := k.find(c)
			if err != nil {
				return err
			}
			var b ReasonRequest
			if err := c.body(&b); err != nil {
				return err
			}
			a := store.Action{Verb: verb, Kind: k.Kind, Name: *k.Name(&v), Job: desk.JobsOf(D(&v))[0], Reason: b.Reason}
			err = c.Do(c.ctx(), a, func(ctx context.Context) (err error) {
				was := v
				if v, err = f(c, ctx, a.Name, c.By(b.Reason)); err != nil {
					return err
				}
				return desk.Changed(was, v)
			})
			if err != nil {
				return err
			}
			return c.answer(http.StatusOK, k.hidden(c, &v))
		},
	}
}

// A saved is the JSON of a saved definition, with its warnings in the field warnings.
type saved[T any] struct {
	Value    T
	Warnings []item
}

// MarshalJSON writes the fields of the value, and warnings if there are any.
func (s saved[T]) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(s.Value)
	if err != nil || len(s.Warnings) == 0 {
		return body, err
	}
	more, err := json.Marshal(map[string]any{"warnings": s.Warnings})
	if err != nil {
		return nil, err
	}
	return append(append(body[:len(body)-1], ','), more[1:]...), nil
}

// answerList answers with a page of a list that is ordered by a text. Read returns the elements
// after a text, and the text of the last element if there are more. Key returns the text of an
// element.
func answerList[T any](c *call, what string, read func(after string, limit int) ([]T, string, error), key func(*T) string) error {
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	after, err := readAfter(c.query.Get("cursor"), what)
	if err != nil {
		return err
	}
	items, next, err := inParts(limit, partSize, after, read, key, asIs)
	if err != nil {
		return err
	}
	return answerPage(c, items, writeAfter(next, what))
}

// writeAfter returns the cursor of the page after a text, in the list of what. It is empty for an
// empty text.
func writeAfter(after, what string) string {
	if after == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(what + ":" + after))
}

// readAfter returns the text of a cursor.
func readAfter(cursor, what string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	after, ok := strings.CutPrefix(string(text), what+":")
	if err != nil || !ok || after == "" || !utf8.ValidString(after) || strings.ContainsFunc(after, unicode.IsControl) {
		return "", errCursor()
	}
	return after, nil
}
