package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// deliver makes one attempt.
func (p *dispatcher) deliver(ctx context.Context, t *Due) error {
	var s Subscription
	if err := json.Unmarshal(t.Body, &s); err != nil {
		return courier.Permanent(fmt.Errorf("the stored subscription can't be read: %w; save it again", err))
	}
	n := t.Notification
	if s.Kind != KindJob {
		n.URL = p.v.pageOf(&n)
	}
	if err := p.v.addResult(ctx, &n); err != nil {
		return err
	}
	ends := n.Type == courier.EventJobCompleted || n.Type == courier.EventJobCancelled
	if s.Kind != KindJob && (n.Type == courier.EventJobFailed || ends && (n.Reason == courier.ReasonItems || store.TellsFinallyError(n.Error))) {
		if err := p.v.opt.Jobs.Items(ctx, &n); err != nil {
			return err
		}
	}
	switch {
	case s.Kind == KindFunc && p.v.opt.Subscribers[s.Func] != nil:
		return p.v.callSubscriber(ctx, p.v.opt.Subscribers[s.Func], n)
	case s.Kind == KindWebhook && s.Webhook != nil:
		return p.post(ctx, s.Webhook, n)
	case s.Kind == KindJob && s.Job != nil:
		return p.v.startJob(ctx, s.Job, n)
	case s.Kind == KindEmail && s.Email != nil && p.v.opt.Mailer != nil:
		return p.v.mail(ctx, s.Email, n)
	}
	return fmt.Errorf("this engine can't deliver to subscriptions of kind %q", s.Kind)
}

// addResult adds the result of the execution to the event of its completion.
func (v *Service) addResult(ctx context.Context, n *Notification) (err error) {
	if n.Type == courier.EventJobCompleted {
		n.Result, err = v.opt.Jobs.Result(ctx, n.Job, n.Version, n.Execution)
	}
	return err
}

// pageOf returns the address of the page of an event's execution. It is empty if BaseURL is not
// set.
func (v *Service) pageOf(n *Notification) string {
	if v.opt.BaseURL == "" {
		return ""
	}
	page, id := "executions", string(n.Execution)
	switch {
	case n.Expectation != "":
		page, id = "expectations", url.PathEscape(n.Expectation)
	case id == "":
		page, id = "chain-executions", string(n.ChainExecution)
	}
	link, err := url.JoinPath(v.opt.BaseURL, page, id)
	if err != nil {
		return "" // the engine has checked BaseURL
	}
	return link
}

// callSubscriber calls a function of the host, and returns when the function returns.
func (v *Service) callSubscriber(ctx context.Context, f func(context.Context, Notification) error, n Notification) error {
	return v.guarded("the subscriber", n, func() error { return f(ctx, n) })
}

// guarded calls f, a function of the host, in its own goroutine because f may panic or call
// runtime.Goexit.
func (v *Service) guarded(who string, n Notification, f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s called runtime.Goexit", who)
		defer func() {
			if p := recover(); p != nil {
				v.opt.Log.Error("delivery panicked", "subscription", n.Subscription, "event", n.ID, "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("%s panicked: %v", who, p)
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}
