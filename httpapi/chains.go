package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/mount"
)

// A StartChainRequest is the body that starts an execution of a chain. All fields may be
// left out.
type StartChainRequest struct {
	Params         map[string]any `json:"params,omitempty"`
	Hold           bool           `json:"hold,omitempty"`            // it stays pending until it is released
	Version        int            `json:"version,omitempty"`         // of the chain; 0 means the latest
	IdempotencyKey string         `json:"idempotency_key,omitempty"` // as the header
	KeyScope       string         `json:"key_scope,omitempty"`       // the key counts for all chains with that scope; empty: for this chain
}

// A StartedChain is the answer to a request that starts an execution of a chain. A client sees
// nothing else of its own execution, except when it ended.
type StartedChain struct {
	ID        courier.ChainExecutionID `json:"id"`
	Chain     string                   `json:"chain"`
	Status    string                   `json:"status"`
	CreatedAt time.Time                `json:"created_at"`
	EndedAt   time.Time                `json:"ended_at,omitzero"`
}

// A ChainExecutionView is an execution of a chain with its status, as viewers see it.
type ChainExecutionView struct {
	chain.Execution
	Status string `json:"status"` // the state, or pausing or cancelling while such a request is pending
}

var (
	chainRoutes = definitionRoutes("chain", onAll, onAll, chain.Chain{}, dryrun.ChainReport{})

	// A chain belongs to no job and can start any job, so the role for all jobs counts.
	chainExecutionRoutes = []route{
		{
			method: "POST", path: "v1/chains/{name}/executions", id: "startChain", group: "chains", on: onAll,
			does: "Starts an execution of a chain. The roles for chains are those for all jobs.", headers: []param{keyHeader, preferHeader}, sets: []string{"Location"}, body: StartChainRequest{}, optional: true,
			answers: map[int]any{http.StatusAccepted: StartedChain{}, http.StatusOK: ChainExecutionView{}}, problems: []*code{codeTooMany, codeConflict, codeKeyReused}, do: (*call).startChain,
		},
		{
			method: "GET", path: "v1/chain-executions", id: "listChainExecutions", group: "chains", on: onAll,
			does: "Lists executions of chains, the newest first.",
			query: []param{
				{name: "chain", kind: "string", does: "The name of a chain."},
				{name: "state", kind: "string", many: true, does: "One or several states, with commas between them: " + strings.Join(chainStates, ", ") + "."},
				limitParam, cursorParam,
			},
			answers: map[int]any{http.StatusOK: page[ChainExecutionView]{}}, do: (*call).listChainExecutions,
		},
		{
			method: "GET", path: "v1/chain-executions/{id}", id: "getChainExecution", group: "chains", on: onAll,
			does:    "Returns an execution of a chain with its members. A client sees the short form of its own.",
			answers: map[int]any{http.StatusOK: ChainExecutionView{}, http.StatusNotModified: nil}, do: (*call).getChainExecution,
		},
		askChainRoute("pause", "Pauses an execution of a chain with its members."),
		askChainRoute("resume", "Undoes a pause."),
		askChainRoute("cancel", "Cancels an execution of a chain with its members."),
		askChainRoute("release", "Releases a held execution of a chain."),
		askChainRoute("retry", "Continues a failed execution of a chain at the members that failed."),
		{
			method: "POST", path: "v1/chain-executions/{id}/rerun", id: "rerunChain", group: "chains", on: onAll,
			does: "Starts the chain again, as a new execution.", headers: []param{keyHeader}, sets: []string{"Location"}, body: RerunRequest{}, optional: true,
			answers: map[int]any{http.StatusAccepted: StartedChain{}}, problems: []*code{codeConflict, codeKeyReused}, do: (*call).rerunChain,
		},
	}
)

var chainStates = words(desk.ChainStates...)

// viewChain returns an execution of a chain in the form for the visitor.
func (c *call) viewChain(x *chain.Execution) any {
	if !c.Can(c.ctx(), "", access.RightSee) {
		return StartedChain{x.ID, x.Chain, desk.ChainStatus(x), x.CreatedAt, x.EndedAt}
	}
	v := ChainExecutionView{*x, desk.ChainStatus(x)}
	if !c.SeesValues(c.ctx(), "") {
		desk.HideChain(&v.Execution)
	}
	return v
}

func (c *call) startChain() error {
	var b StartChainRequest
	if err := c.body(&b); err != nil {
		return err
	}
	if b.Version < 0 {
		return oneProblem(item{Pointer: "/version", Message: "it must be a version of the chain, or 0 for the latest"})
	}
	key, err := c.key(b.IdempotencyKey)
	if err != nil {
		return err
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	opt := &chain.StartOptions{
		Params: b.Params, Version: b.Version, IdempotencyKey: key, KeyScope: b.KeyScope, Hold: b.Hold, By: c.By(""), Labels: c.Labels(),
	}
	if err := c.MaySetVersion(c.ctx(), b.Version); err != nil {
		return err
	}
	x, err := c.h.e.Chains().Start(c.ctx(), c.r.PathValue("name"), opt)
	if err != nil {
		return startProblem(err, key)
	}
	if wait == 0 {
		return c.startedChain(x)
	}
	ctx, cancel := c.lasting(wait)
	defer cancel()
	ended, err := c.h.e.Chains().Wait(ctx, x.ID)
	if err != nil && (ctx.Err() == nil || c.ctx().Err() != nil) {
		return err
	}
	c.w.Header().Set("Preference-Applied", applied(wait))
	if err != nil {
		return c.startedChain(x)
	}
	c.w.Header().Set("Location", c.chainPath(ended.ID))
	return c.answer(http.StatusOK, c.viewChain(&ended))
}

// chainPath is the relative path of an execution of a chain.
func (c *call) chainPath(id courier.ChainExecutionID) string {
	return mount.Up(c.path) + "v1/chain-executions/" + string(id)
}

// startedChain answers with an execution of a chain that was created, or that already has the key
// of the request.
func (c *call) startedChain(x chain.Execution) error {
	c.w.Header().Set("Location", c.chainPath(x.ID))
	return c.answer(http.StatusAccepted, StartedChain{ID: x.ID, Chain: x.Chain, Status: desk.ChainStatus(&x), CreatedAt: x.CreatedAt})
}

func (c *call) listChainExecutions() error {
	f := chain.Filter{Chain: c.query.Get("chain")}
	for _, list := range c.query["state"] {
		for s := range strings.SplitSeq(list, ",") {
			if !slices.Contains(chainStates, s) {
				return oneProblem(item{Parameter: "state", Message: "each must be one of " + strings.Join(chainStates, ", ")})
			}
			f.States = append(f.States, chain.State(s))
		}
	}
	slices.Sort(f.States)
	f.States = slices.Compact(f.States)
	what := fmt.Sprintf("chain execution %s %s", f.Chain, f.States) // a cursor belongs to its filter
	before, err := readAfter(c.query.Get("cursor"), what)
	if err == nil && before != "" && !filter.IsID(before) {
		err = errCursor()
	}
	if err != nil {
		return err
	}
	f.Before = courier.ChainExecutionID(before)
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	if f.Chain != "" {
		if !isName(f.Chain) {
			return oneProblem(item{Parameter: "chain", Message: "it must be the name of a chain"})
		}
		if _, err := c.h.e.Chains().Get(c.ctx(), f.Chain, 0); err != nil {
			return err
		}
	}
	id := func(x *chain.Execution) courier.ChainExecutionID { return x.ID }
	items, next, err := inParts(limit, partSize, f.Before, func(before courier.ChainExecutionID, limit int) ([]chain.Execution, courier.ChainExecutionID, error) {
		f.Before, f.Limit = before, limit
		list, err := c.h.e.Chains().Executions(c.ctx(), f)
		list, next := fullPage(list, limit, id)
		return list, next, err
	}, id, c.viewChain)
	if err != nil {
		return err
	}
	return answerPage(c, items, writeAfter(string(next), what))
}

// chainExecution returns the execution of a chain that the route is about.
func (c *call) chainExecution() (chain.Execution, error) {
	return c.Visit.ChainExecution(c.ctx(), c.r.PathValue("id"))
}

func (c *call) getChainExecution() error {
	x, err := c.chainExecution()
	if err != nil {
		return err
	}
	return c.tagged(c.viewChain(&x))
}

func askChainRoute(verb, does string) route {
	return route{
		method: "POST", path: "v1/chain-executions/{id}/" + verb, id: verb + "Chain", group: "chains", on: onAll,
		does: does + " If that is so or asked already, it succeeds.", body: ReasonRequest{}, optional: true,
		answers: map[int]any{http.StatusAccepted: ChainExecutionView{}}, problems: []*code{codeTransition},
		do: func(c *call) error { return c.askChain(verb) },
	}
}

// askChain sends a request to an execution of a chain, and answers with the execution as it is
// afterwards.
func (c *call) askChain(verb string) error {
	var b ReasonRequest
	if err := c.body(&b); err != nil {
		return err
	}
	x, err := c.chainExecution()
	if err != nil {
		return err
	}
	if err = c.NeedTo(c.ctx(), "", c.route.need, c.OwnChain(&x)); err != nil {
		return err
	}
	err = c.Do(c.ctx(), desk.ChainAction(&x, verb, b.Reason), func(ctx context.Context) error {
		x, err = c.AskChain(ctx, x.ID, verb, b.Reason)
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusAccepted, c.viewChain(&x))
}

func (c *call) rerunChain() error {
	var b RerunRequest
	if err := c.body(&b); err != nil {
		return err
	}
	key, err := c.key(b.IdempotencyKey)
	if err != nil {
		return err
	}
	if b.Version < 0 {
		return oneProblem(item{Pointer: "/version", Message: "it must be a version of the chain, or 0 for the latest"})
	}
	x, err := c.chainExecution()
	if err != nil {
		return err
	}
	err = c.Do(c.ctx(), desk.ChainAction(&x, "rerun", b.Reason), func(ctx context.Context) error {
		x, err = c.h.e.Chains().Rerun(ctx, x.ID, &chain.StartOptions{By: c.By(b.Reason), Labels: c.Labels(), Params: b.Params, Version: b.Version, IdempotencyKey: key})
		return err
	})
	if err != nil {
		return startProblem(err, key)
	}
	return c.startedChain(x)
}
