package httpapi

import (
	"errors"
	"net/http"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/webhook"
)

// StandardWebhook returns a function for [AsyncOptions].Verify that accepts requests signed with
// one of the secrets, as the specification of Standard Webhooks says. Give several secrets while
// one is being replaced. A secret is "whsec_" and 24 to 64 bytes in base64. If the secrets change
// while the program runs, the program calls [webhook.Verify] itself.
func StandardWebhook(secrets ...string) func(r *http.Request, body []byte) error {
	wrong := len(secrets) == 0
	for _, s := range secrets {
		_, err := webhook.ParseSecret(s)
		wrong = wrong || err != nil
	}
	return func(r *http.Request, body []byte) error {
		if wrong {
			return problemf(codeInternal, `the secrets of this endpoint are none: give StandardWebhook texts of "whsec_" and 24 to 64 bytes in base64`)
		}
		return webhook.Verify(r.Header, body, secrets...)
	}
}

// verify returns an error if Verify refuses the webhook. The error gives no reason.
func (e *endpoint) verify(c *call, raw []byte) error {
	err := e.opt.Verify(c.r, raw)
	if err == nil {
		c.Visit = e.h.desk.Visitor(e.sender())
		return nil
	}
	n := e.refused.Add(1)
	e.h.log.Warn("a request to an async endpoint was rejected", "job", e.job, "as", e.sender().ID, "refused", n, "error", err)
	if p, ok := errors.AsType[*problem](err); ok {
		return p // a problem of the settings
	}
	c.Visit = e.h.desk.Visitor(e.sender())
	c.Refused(c.ctx(), store.Action{Verb: c.route.id, Kind: c.route.kind(), Name: e.job, Job: e.job, Reason: "the request does not prove who has sent it"})
	return &access.Error{Unknown: true, Text: "nobody knows who you are: this endpoint takes requests that prove who has sent them"}
}

// sender is the principal of requests that Verify accepts.
func (e *endpoint) sender() access.Principal {
	id := "webhook:" + e.opt.As
	return access.Principal{ID: id, Name: id}
}
