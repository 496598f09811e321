package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// FinallyType is among the step types of a version that has a finally part: so the row of an
// execution says that, and only workers that know finally parts claim it.
const FinallyType = "flow.finally"

// HasFinally reports whether a version with these step types has a finally part.
func HasFinally(stepTypes []string) bool { return slices.Contains(stepTypes, FinallyType) }

// A Finish begins the finally part of an execution, and is kept with it until it ends.
type Finish struct {
	courier.Finishing
	// Counters are those with which the execution ends.
	Counters Counters `json:"counters"`
	// Timeout is how long the finally part may take from now on, whatever the timeout of the
	// execution is; 0 means any time.
	Timeout time.Duration `json:"timeout"`
	// Text is the text of the audit entry of the beginning: the outcome.
	Text string `json:"-"`
}

// After returns the counters with which the execution ends whose finally part has come to
// some counters: its own, with the secrets that the part has used too.
func (f *Finish) After(now Counters) Counters {
	c := f.Counters
	c.Secrets = now.Secrets
	return c
}

// checkFinally reports what is wrong with a transition that is about a finally part.
func (t *Transition) checkFinally() error {
	invalid := func(format string, args ...any) error {
		return courier.Errorf(courier.ErrInvalid, "transition of %s: %s", t.Execution, fmt.Sprintf(format, args...))
	}
	f := t.Finish
	switch {
	case f != nil && t.Finally:
		return invalid("it begins the finally part, and is one of it")
	case f != nil && (!f.Outcome.Ended() || t.To != courier.Running && t.To != courier.Queued || t.RetryJob):
		return invalid("a finally part begins for the outcome %q, and the execution becomes %s", f.Outcome, t.To)
	case t.Finally && (t.To == courier.Paused || t.RetryJob):
		return invalid("a finally part does not end as %s", t.To)
	case t.FinallyError != nil && !t.To.Ended():
		return invalid("the finally part has failed, and the execution becomes %s", t.To)
	}
	return nil
}

// AbortedFinally is the failure of a finally part that an operator has ended.
func AbortedFinally(by, reason string) *courier.Failure {
	who := "an operator"
	if by != "" {
		who = fmt.Sprintf("%q", by)
	}
	message := who + " has ended the finally part by a cancel"
	if reason != "" {
		message += ": " + reason
	}
	return &courier.Failure{Step: -1, Reason: courier.ReasonCancelled, Message: message}
}

// finallyFailed begins what the audit entry of an end says of a finally part that has failed.
const finallyFailed = "the finally part has failed: "

// TextOfEnd is the text of the audit entry with which a finally part ends, which may have
// failed, given the text without that.
func TextOfEnd(text string, f *courier.Failure) string {
	switch {
	case f == nil:
		return text
	case text != "":
		text += "; "
	}
	return text + finallyFailed + f.Message
}

// TellsFinallyError reports whether the text of an audit entry says that a finally part has
// failed. It is not asked of an execution that has failed.
func TellsFinallyError(text string) bool { return strings.Contains(text, finallyFailed) }

// PauseDropped is what the audit entry of an end says of a pause that was pending, with the
// name of who asked for it behind it.
const PauseDropped = "a pause that was asked for did not take effect, since the finally part has no place for one; by "

// withPauseDropped adds that a pause was dropped to the text of an audit entry.
func withPauseDropped(text, by string) string {
	if text != "" {
		text += "; "
	}
	return text + PauseDropped + by
}

// TextOfEnd is the text in the audit of a request that ends the finally part of an execution
// at once, because no worker has it.
func (r *Request) TextOfEnd(e *courier.Execution) string {
	text := TextOfEnd(r.Text(), AbortedFinally(r.By, ""))
	if e.Request == courier.RequestPause {
		return withPauseDropped(text, e.RequestedBy)
	}
	return text
}

// Ends reports whether an execution has ended, or will, without anything else being asked of
// it: it is being cancelled, or its finally part runs. Who replaces it by another one has
// not to cancel it, which would end the finally part.
func Ends(e *courier.Execution) bool {
	return e.State.Ended() || e.Finishing != nil || e.HasFinally && (e.Request == courier.RequestCancel || e.Request == courier.RequestAbort)
}

// decideCancel returns the effect of a cancel or an abort on an execution with a finally part
// that has begun and has not ended; see [Decide].
func decideCancel(e *courier.Execution, expired bool, kind courier.RequestKind) (Decision, error) {
	held := e.State == courier.Running && !expired
	f := e.Finishing
	pending := e.Request == courier.RequestCancel || e.Request == courier.RequestAbort
	if kind == courier.RequestCancel && (f == nil && pending || f != nil && f.Outcome == courier.Cancelled) {
		kind = courier.RequestAbort // the second one
	}
	switch {
	case kind == courier.RequestAbort && held:
		return Decision{Pending: kind}, nil
	case kind == courier.RequestAbort && f != nil:
		return Decision{To: f.Outcome}, nil
	case kind == courier.RequestAbort:
		return Decision{To: courier.Cancelled}, nil
	case f != nil:
		return Decision{}, &courier.TransitionError{Execution: e.ID, From: e.State, To: courier.Cancelled, Outcome: f.Outcome}
	case e.State == courier.Paused:
		return Decision{To: courier.Queued, Pending: kind}, nil
	}
	return Decision{Pending: kind}, nil
}
