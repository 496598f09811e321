package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A LimitView is a limit: the number of executions of a scope that may run at once.
type LimitView struct {
	Scope   string `json:"scope"`   // "global", "job:NAME", "key:KEY", or "key:PREFIX*" for keys without a limit of their own
	Running int    `json:"running"` // 0 means any number
}

// A LimitRequest is the body that sets a limit.
type LimitRequest struct {
	Running *int   `json:"running"` // how many executions may run at once; 0 means any number
	Reason  string `json:"reason,omitempty"`
}

var limitRoutes = []route{
	{
		method: "GET", path: "v1/limits", id: "listLimits", group: "limits", on: onVisible,
		does: "Lists the limits that were set, by scope. Viewers of single jobs see the limits of these jobs.", query: []param{limitParam, cursorParam},
		answers: map[int]any{http.StatusOK: page[LimitView]{}}, do: (*call).listLimits,
	},
	{
		method: "PUT", path: "v1/limits/{scope}", id: "setLimit", group: "limits", on: onAll,
		does: "Sets how many executions of a scope run at once: global, job:NAME, key:KEY, or key:PREFIX* for each key with this beginning.", body: LimitRequest{},
		answers: map[int]any{http.StatusOK: LimitView{}}, do: (*call).setLimit,
	},
	{
		method: "DELETE", path: "v1/limits/{scope}", id: "removeLimit", group: "limits", on: onAll,
		does:    "Removes a limit that was set.",
		answers: map[int]any{http.StatusNoContent: nil}, do: (*call).removeLimit,
	},
}

func (c *call) listLimits() error {
	return answerList(c, "limit", func(after string, limit int) ([]LimitView, string, error) {
		list, next, err := c.Limits(c.ctx(), after, limit)
		views := make([]LimitView, len(list))
		for i, l := range list {
			views[i] = LimitView{l.Scope, l.Limit}
		}
		return views, next, err
	}, func(l *LimitView) string { return l.Scope })
}

func (c *call) setLimit() error {
	var b LimitRequest
	if err := c.body(&b); err != nil {
		return err
	}
	if b.Running == nil {
		return oneProblem(item{Pointer: "/running", Message: "it is missing: a number of executions, or 0 for any number"})
	}
	l := LimitView{c.r.PathValue("scope"), *b.Running}
	a := store.Action{Verb: "set", Kind: "limit", Name: l.Scope, Now: json.RawMessage(strconv.Itoa(l.Running)), Reason: b.Reason}
	err := c.Do(c.ctx(), a, func(ctx context.Context) error {
		return c.SetLimit(ctx, l.Scope, l.Running, c.By(b.Reason))
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, l)
}

func (c *call) removeLimit() error {
	a := store.Action{Verb: "remove", Kind: "limit", Name: c.r.PathValue("scope")}
	err := c.Do(c.ctx(), a, func(ctx context.Context) error { return c.h.e.Limits().Remove(ctx, a.Name, c.By("")) })
	if errors.Is(err, courier.ErrNotFound) {
		return problemf(codeNotFound, "no limit was set for this scope")
	} else if err != nil {
		return err
	}
	return c.nothing(http.StatusNoContent)
}
