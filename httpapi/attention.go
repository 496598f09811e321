package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// An AcknowledgeRequest is the body that acknowledges a problem, which hides it.
type AcknowledgeRequest struct {
	Reason string    `json:"reason"` // such as: the bank has been told
	Until  time.Time `json:"until"`  // in the next 30 days
	// Snooze keeps the problem hidden whatever is added to it. Otherwise the problem is shown again
	// when a part of it is newer than the acknowledgement.
	Snooze bool `json:"snooze,omitempty"`
}

var attentionRoutes = []route{
	{
		method: "POST", path: "v1/attention/{key}/acknowledge", id: "acknowledge", group: "overview", on: onBody,
		does: "Hides an entry of v1/attention until an instant, with a reason.", body: AcknowledgeRequest{},
		answers: map[int]any{http.StatusOK: store.Acknowledgement{}}, problems: []*code{codeConflict, codeUnsupported}, do: (*call).acknowledge,
	},
	{
		method: "DELETE", path: "v1/attention/{key}/acknowledgement", id: "withdrawAcknowledgement", group: "overview", on: onBody,
		does: "Shows a hidden entry again.", answers: map[int]any{http.StatusNoContent: nil}, problems: []*code{codeUnsupported}, do: (*call).withdraw,
	},
}

// trouble returns the entry that the path names, if the visitor may acknowledge it.
func (c *call) trouble() (attention.Entry, error) {
	e, err := c.Trouble(c.ctx(), c.r.PathValue("key"))
	if err != nil {
		return e, err
	}
	return e, c.Need(c.ctx(), e.Owner(), desk.NeedOf(c.route.id).Rights)
}

func (c *call) acknowledge() error {
	var b AcknowledgeRequest
	if err := c.body(&b); err != nil {
		return err
	}
	e, err := c.trouble()
	if err != nil {
		return err
	}
	if b.Reason = strings.TrimSpace(b.Reason); b.Reason == "" {
		return oneProblem(item{Pointer: "/reason", Message: "it is missing: say why, such as: the bank has been told"})
	}
	a := store.Acknowledgement{Key: e.Key, Title: e.Title, Until: b.Until, Snoozed: b.Snooze}
	err = c.Do(c.ctx(), store.Action{Verb: "acknowledge", Kind: "attention", Name: e.Title, Job: e.Owner(), Reason: b.Reason}, func(ctx context.Context) (err error) {
		a, err = c.h.e.Executions().Acknowledge(ctx, a, c.By(b.Reason))
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a)
}

func (c *call) withdraw() error {
	e, err := c.trouble()
	if err != nil {
		return err
	}
	err = c.Do(c.ctx(), store.Action{Verb: "withdraw", Kind: "attention", Name: e.Title, Job: e.Owner()}, func(ctx context.Context) error {
		return c.h.e.Executions().Withdraw(ctx, e.Key, e.Title, c.By(""))
	})
	if err != nil {
		return err
	}
	return c.nothing(http.StatusNoContent)
}
