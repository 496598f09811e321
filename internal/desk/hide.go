package desk

import (
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// HideValues takes away the values of an execution, and what may have them in it.
func HideValues(x *courier.Execution) {
	x.Params, x.Result, x.Repairs, x.Labels, x.LimitKeys, x.IdempotencyKey = nil, nil, nil, nil, nil, ""
	x.RequestReason = ""
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
}

// HideStep takes away the values of a record, and what may have them in it.
func HideStep(s *courier.StepExecution) {
	s.Outputs, s.Files, s.Events, s.Stack, s.Log, s.Progress = nil, nil, nil, "", "", nil
	if s.Error != "" {
		s.Error = Hidden
	}
}

// HideAudit takes away what may have values in it from entries of an audit.
func HideAudit(list []courier.AuditEntry) {
	for i := range list {
		if list[i].Error != "" {
			list[i].Error = Hidden
		}
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
