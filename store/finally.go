package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// FinallyType is among the step types of a version that has a finally part. So the row of an
// execution says whether it has one, and only workers that support finally parts claim it.
const FinallyType = "flow.finally"

// HasFinally reports whether a version with these step types has a finally part.
func HasFinally(stepTypes []string) bool { return slices.Contains(stepTypes, FinallyType) }

// A Finish begins the finally part of an execution. It is stored until the execution
// ends.
type Finish struct {
	courier.Finishing
	// Counters are the counters with which the execution ends.
	Counters Counters `json:"counters"`
	// Timeout is how long the finally part may take from now on, independent of the timeout
	// of the execution; 0 means no limit.
	Timeout time.Duration `json:"timeout"`
	// Text is the text of the audit entry with which the finally part begins: the
	// outcome.
	Text string `json:"-"`
}

// After returns the counters with which the execution ends, given the counters at the end
// of its finally part: those of f, with the secrets that the part has used added.
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

// AbortedFinally returns the failure of a finally part that an operator has ended.
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

// TextOfEnd returns the text of the audit entry with which a finally part ends: text, and
// the failure of the finally part if f is not nil.
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
// failed. Do not call it for a failed execution.
func TellsFinallyError(text string) bool { return strings.Contains(text, finallyFailed) }

// PauseDropped is the text about a dropped pause in the audit entry with which an execution
// ends. The name of the actor who requested the pause follows it.
const PauseDropped = "a pause that was asked for did not take effect, since the finally part has no place for one; by "

// withPauseDropped adds that a pause was dropped to the text of an audit entry.
func withPauseDropped(text, by string) string {
	if text != "" {
		text += "; "
	}
	return text + PauseDropped + by
}

// TextOfEnd returns the audit text of a request that ends the finally part of an execution
// at once, because no worker has it.
func (r *Request) TextOfEnd(e *courier.Execution) string {
	text := TextOfEnd(r.Text(), AbortedFinally(r.By, ""))
	if e.Request == courier.RequestPause {
		return withPauseDropped(text, e.RequestedBy)
	}
	return text
}

// Ends reports whether an execution has ended, or will end without a further request: it is
// being cancelled, or its finally part is running. A caller that replaces it by another
// execution need not cancel it; a cancel would end the finally part.
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
