package desk

import (
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// HideValues takes away the values of an execution, and what may have them in it.
func HideValues(x *courier.Execution) {
	x.Params, x.Result, x.Repairs, x.Labels, x.LimitKeys, x.IdempotencyKey = nil, nil, nil, nil, nil, ""
	x.RequestReason, x.Secrets = "", nil
	if x.Failure != nil {
		f := *x.Failure
		f.Message = Hidden
		x.Failure = &f
	}
	if x.Current != nil {
		s := *x.Current
		HideStep(&s)
		x.Current = &s
	}
	x.Waits = nil
	if c := x.OnlyCopies; c != nil {
		x.OnlyCopies = hiddenCopies(c)
	}
}

// hiddenCopies returns only copies without names.
func hiddenCopies(c *courier.OnlyCopies) *courier.OnlyCopies {
	hidden := &courier.OnlyCopies{Count: c.Count, Bytes: c.Bytes}
	if c.Problem != "" {
		hidden.Problem = Hidden
	}
	return hidden
}

// HideStep takes away the values of a record, and what may have them in it.
func HideStep(s *courier.StepExecution) {
	s.Outputs, s.Files, s.Events, s.Stack, s.Log, s.Progress = nil, nil, nil, "", "", nil
	if s.Error != "" {
		s.Error = Hidden
	}
}

// Hidden stands in the place of a message that may have values in it.
const Hidden = "hidden: it may contain values, which need another role"

// HideCause takes away the values of a cause: keys of limits, and what people and steps
// have said.
func HideCause(c *store.Cause) {
	if c.Reason != "" || strings.HasPrefix(c.Scope, "key:") || c.Kind == store.CauseBackoff || c.Kind == store.CauseFailed {
		c.Text, c.Scope, c.Reason = Hidden, "", ""
	}
}

// HiddenIf is what stands in the place of a text that may have values in it: [Hidden], or
// nothing if the text is empty.
func HiddenIf(text string) string {
	if text == "" {
		return ""
	}
	return Hidden
}

// HideSchedule takes away the values of a schedule, and what may have them in it.
func HideSchedule(s *courier.Schedule) {
	s.Params, s.Reason, s.Problem = nil, HiddenIf(s.Reason), HiddenIf(s.Problem)
}

// HideMonitor takes away the values of a monitor, and what may have them in it.
func HideMonitor(m *courier.Monitor) {
	m.Params, m.Reason, m.Health.Problem = nil, HiddenIf(m.Reason), HiddenIf(m.Health.Problem)
}

// HideSubscription takes away what may be a value or lets somebody in. References to
// secrets stay: they are names.
func HideSubscription(s *courier.Subscription) {
	s.Reason = HiddenIf(s.Reason)
	if s.Job != nil {
		job := *s.Job
		job.Params = nil
		s.Job = &job
	}
	if s.Webhook == nil {
		return
	}
	hook := *s.Webhook
	hook.URL = hiddenUnlessSecret(hook.URL)
	hook.Headers = make(map[string]string, len(s.Webhook.Headers))
	for name, value := range s.Webhook.Headers {
		hook.Headers[name] = hiddenUnlessSecret(value)
	}
	s.Webhook = &hook
}

func hiddenUnlessSecret(value string) string {
	if strings.HasPrefix(value, "secret:") {
		return value
	}
	return HiddenIf(value)
}

// HideDelivery takes away the values of a delivery, and what may have them in it.
func HideDelivery(d *courier.Delivery) {
	d.Error, d.LastErr, d.Result, d.Payload = HiddenIf(d.Error), HiddenIf(d.LastErr), nil, nil
	d.Coalesced = slices.Clone(d.Coalesced)
	for i := range d.Coalesced {
		d.Coalesced[i].Error = HiddenIf(d.Coalesced[i].Error)
	}
}
