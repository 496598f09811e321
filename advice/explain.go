// Package advice says in words why an execution does not go on, and what an operator can do about
// it. A store has the facts: [store.Circumstances] of one execution, [store.Stranded] of a group
// that no worker can claim. [Explain] and [Stranded] make sentences of them for logs, the HTTP API
// and pages, so that all of these say the same.
package advice

import (
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// An Explanation says why an execution does not go on.
type Explanation struct {
	Execution courier.ExecutionID `json:"execution_id"`
	At        time.Time           `json:"at"`     // by the clock of the store
	Seq       int64               `json:"seq"`    // of the execution at that instant
	Status    string              `json:"status"` // as by [courier.Execution.Status]
	// Because has all causes that hold now, the most decisive first. It is empty if the
	// execution runs, is next, or has completed or was cancelled.
	Because []Cause `json:"because"`
}

// A Cause is a reason why an execution does not go on.
type Cause struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"` // a sentence, such as `The limit of "key:acme" is full: 2 of 2 are running.`
	// Scope, Limit and Running are of a limit.
	Scope   string `json:"scope,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Running int    `json:"running,omitempty"`
	// Until is when a delay or backoff ends. Since is when the cause began, if known.
	Until time.Time `json:"until,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// Job and Execution are the cause: an execution that runs under the limit, or the job that the
	// execution waits for. Chain is the chain execution that holds it.
	Job       string                   `json:"job,omitempty"`
	Execution courier.ExecutionID      `json:"execution_id,omitempty"`
	Chain     courier.ChainExecutionID `json:"chain_execution_id,omitempty"`
	// By is who has held, paused or requested it, and Reason is why.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Do is what an operator can do, as a sentence. Call is the engine's call for it, such
	// as "Engine.Resume"; empty if there is none.
	Do   string `json:"do"`
	Call string `json:"call,omitempty"`
}

// A Kind is a kind of [Cause].
type Kind string

// The kinds of causes.
const (
	Held        Kind = "held"         // created with Hold, and not released
	Paused      Kind = "paused"       // an operator has paused it
	Chain       Kind = "chain"        // its chain execution has paused it
	Failed      Kind = "failed"       // it has failed
	Dependency  Kind = "dependency"   // it waits for another job
	Due         Kind = "due"          // its delay has not passed
	Backoff     Kind = "backoff"      // it waits for the next retry
	Request     Kind = "request"      // its worker has not carried out a request yet
	Finally     Kind = "finally"      // its outcome is decided, and its finally part waits for a worker
	Lost        Kind = "lost"         // the lease of its worker has ended
	NoWorker    Kind = "no_worker"    // no worker has its queue, or its step types
	Workspace   Kind = "workspace"    // no worker has its workspace
	Limit       Kind = "limit"        // a limit is full
	QueueBehind Kind = "queue_behind" // others are claimed before it
	Files       Kind = "files"        // retention removes its files in a depot; the server of the depot adds it, and no store does
)

// Explain says why an execution does not go on. It is a pure function: the same
// circumstances give the same explanation.
func Explain(c *store.Circumstances) Explanation {
	x := &c.Execution
	e := Explanation{Execution: x.ID, At: c.At, Seq: x.Seq, Status: x.Status(c.At), Because: []Cause{}}
	add := func(list ...Cause) { e.Because = append(e.Because, list...) }
	switch x.State {
	case courier.Created:
		add(held(c))
	case courier.Paused:
		add(paused(c))
	case courier.Failed:
		add(failed(c))
	case courier.Running:
		if x.Request != "" {
			add(requested(c))
		}
		if e.Status == "lost" {
			add(lost(c))
			add(lacks(c)...)
		}
	case courier.Queued:
		if x.Request == courier.RequestCancel || x.Request == courier.RequestAbort || x.Finishing != nil {
			add(finishing(c))
		}
		add(dependencies(c)...)
		if x.DueAt.After(c.At) {
			add(delayed(c))
		}
		add(lacks(c)...)
		add(limits(c)...)
		if len(e.Because) == 0 && c.Ahead > 0 {
			add(behind(c))
		}
	}
	return e
}

// finishing is the cause of an execution that waits for a worker although it is cancelled or its
// outcome is decided.
func finishing(c *store.Circumstances) Cause {
	x := &c.Execution
	cause := Cause{Kind: Finally, Text: "It is cancelled, and its finally part waits for a worker.", Since: x.RequestedAt, By: x.RequestedBy, Reason: x.RequestReason}
	if f := x.Finishing; f != nil {
		cause = Cause{Kind: Finally, Text: fmt.Sprintf("Its outcome is decided: %s. Its finally part waits for a worker.", f.Outcome), By: f.By, Reason: f.Reason}
	}
	cause.Do, cause.Call = "Wait for a worker with its queue and workspace, or cancel it without the finally part, which ends it at once.", "Engine.Cancel"
	return cause
}

func held(c *store.Circumstances) Cause {
	return Cause{
		Kind: Held, Text: "It is held until somebody releases it.", Since: c.Execution.CreatedAt, By: c.Execution.By,
		Do: "Release it.", Call: "Engine.Release",
	}
}

func paused(c *store.Circumstances) Cause {
	x, a := &c.Execution, &c.Entry
	cause := Cause{Kind: Paused, Text: "It is paused.", Do: "Resume it.", Call: "Engine.Resume"}
	if c.ChainPaused {
		cause = Cause{
			Kind: Chain, Text: "Its chain execution is paused.", Chain: x.Chain,
			Do: "Resume the chain execution.", Call: "Chains.Resume",
		}
	}
	if a.To == string(courier.Paused) && a.Step == nil {
		cause.Since, cause.By, cause.Reason = a.At, a.By, a.Error
	}
	return cause
}

func failed(c *store.Circumstances) Cause {
	x := &c.Execution
	cause := Cause{
		Kind: Failed, Text: "It has failed.", Since: x.EndedAt,
		Call: "Engine.Resume",
	}
	var reason courier.Reason
	if f := x.Failure; f != nil {
		reason, cause.Reason = f.Reason, string(f.Reason)
		cause.Text = fmt.Sprintf("It has failed: %s", f.Message)
		if f.Step >= 0 {
			cause.Text = fmt.Sprintf("It has failed at step %d: %s", f.Step, f.Message)
		}
	}
	cause.Do = fmt.Sprintf("Fix the cause, then resume it: %s. Or cancel it.", resumeRuns(reason))
	return cause
}

// resumeRuns says which steps a resume runs again, for an execution that failed for the given
// reason.
func resumeRuns(reason courier.Reason) string {
	if reason == courier.ReasonItems {
		return "each failed item continues at the step that failed"
	}
	if reason == courier.ReasonRescued {
		return "it then completes, and nothing runs again"
	}
	return "completed steps are not run again"
}

func requested(c *store.Circumstances) Cause {
	x := &c.Execution
	what, do := "stops before the next step", "Wait until the current step ends, or cancel the execution, which interrupts the step."
	call := "Engine.Cancel"
	switch {
	case x.Request == courier.RequestPause && x.Finishing != nil:
		what, do = "continues with the finally part, and drops the pause at its end", "Wait until the finally part ends, or cancel the execution without it."
		call = "Engine.Cancel"
	case x.Request == courier.RequestCancel || x.Request == courier.RequestAbort:
		what, do, call = "interrupts the step and rolls it back", "Wait until the step returns.", ""
	}
	if !x.LeaseExpiresAt.After(c.At) {
		do, call = fmt.Sprintf("Request the %s again: without a worker it takes effect at once.", x.Request), "Engine.Cancel"
		if x.Request == courier.RequestPause {
			call = "Engine.Pause"
		}
	}
	return Cause{
		Kind: Request, Text: fmt.Sprintf("A %s was requested. Its worker %q %s.", x.Request, x.Worker, what),
		Since: x.RequestedAt, By: x.RequestedBy, Reason: x.RequestReason, Do: do, Call: call,
	}
}

func lost(c *store.Circumstances) Cause {
	x := &c.Execution
	return Cause{
		Kind: Lost, Text: fmt.Sprintf("The lease of its worker %q has ended. Another worker takes it over.", x.Worker), Since: x.LeaseExpiresAt,
		Do: "Wait for another worker. If the lease ended more than a minute ago, check that workers are running and reach the store.",
	}
}

// dependencies returns the causes of an execution that waits for other jobs.
func dependencies(c *store.Circumstances) []Cause {
	var list []Cause
	for _, w := range c.Execution.Waits {
		do, call := fmt.Sprintf("Start the job %q.", w.Job), "Engine.Enqueue"
		if w.Execution != "" && !w.State.Final() {
			do, call = "Let that execution continue. Its own page says what it waits for.", "Executions.Explain"
		}
		list = append(list, Cause{
			Kind: Dependency, Text: fmt.Sprintf("It waits for the job %q: %s.", w.Job, w.Reason), Job: w.Job, Execution: w.Execution,
			Since: c.Execution.CreatedAt, Do: do, Call: call,
		})
	}
	return list
}

// delayed is the cause of an execution that is not due yet.
func delayed(c *store.Circumstances) Cause {
	x := &c.Execution
	if f := x.Failure; f != nil {
		return Cause{
			Kind: Backoff, Until: x.DueAt, Reason: string(f.Reason),
			Text: fmt.Sprintf("An attempt has failed, and the next one starts at %s: %s", instant(x.DueAt), f.Message),
			Do:   "Wait, or pause and resume it, which starts the next attempt at once.", Call: "Engine.Pause",
		}
	}
	return Cause{
		Kind: Due, Until: x.DueAt, Text: fmt.Sprintf("It is due at %s.", instant(x.DueAt)),
		Do: "Wait, or pause and resume it, which makes it due at once.", Call: "Engine.Pause",
	}
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// lacks returns the causes of an execution that no present worker can claim.
func lacks(c *store.Circumstances) []Cause {
	g, stranded := c.Stranded()
	if !stranded {
		return nil
	}
	return []Cause{Stranded(&g)}
}

// Stranded says why no worker can claim a group of executions. It is the cause that an
// [Explanation] of one of them has.
func Stranded(s *store.Stranded) Cause {
	cause := Cause{Kind: NoWorker, Text: sentence(StrandedReason(s))}
	switch s.Reason {
	case store.StrandedQueue:
		cause.Do = fmt.Sprintf("Have a worker started that serves the queue: its engine needs %q in Options.Queues.", s.Queue)
		if len(s.Served) == 0 {
			cause.Text = "No worker is active."
			break
		}
		const correct = "correct the queue of the job, cancel the execution, and start it again: it keeps the queue that it has."
		cause.Text += " " + sentence(nearest.DidYouMean(s.Queue, s.Served))
		if nearest.Name(s.Queue, s.Served) != "" {
			cause.Do = "If the name is a mistake, " + correct + " Otherwise h" + cause.Do[1:]
		} else {
			cause.Do += " If the name is a mistake, " + correct
		}
	case store.StrandedWorkspace:
		cause.Kind = Workspace
		cause.Text = fmt.Sprintf("Its files are in the workspace %q, which no worker of the queue %q has.", s.Workspace, s.Queue)
		cause.Do = "Have a worker started that has this workspace: its engine needs the WorkspaceID, and the directory. If the files are gone for good, pause the execution and resume it with Elsewhere."
		if s.Lost {
			cause.Do = "Have a worker started that has this workspace: its engine needs the WorkspaceID, and the directory. If the files are gone for good, resume the execution with Elsewhere."
		}
		cause.Call = "Engine.Resume"
	case store.StrandedStepTypes:
		cause.Do = "Register them in an engine that serves the queue. Or change the job, and resume the execution with the new version."
	}
	return cause
}

// StrandedReason says in a clause what workers lack for a group of executions, such as `no worker
// serves the queue "night"`.
func StrandedReason(s *store.Stranded) string {
	switch s.Reason {
	case store.StrandedWorkspace:
		return fmt.Sprintf("no worker of the queue %q has the workspace %q", s.Queue, s.Workspace)
	case store.StrandedStepTypes:
		return fmt.Sprintf("no worker that serves the queue %q has the step types %s", s.Queue, strings.Join(s.Missing, ", "))
	}
	return fmt.Sprintf("no worker serves the queue %q", s.Queue)
}

// sentence returns the text with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if text = strings.ToUpper(text[:1]) + text[1:]; strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// limits returns a cause for each limit that is full.
func limits(c *store.Circumstances) []Cause {
	var list []Cause
	for _, l := range c.Limits {
		if l.Running < l.Limit {
			continue
		}
		what := fmt.Sprintf("The limit of %q", l.Scope)
		if l.Scope == "" {
			what = "The limit of all executions"
		}
		list = append(list, Cause{
			Kind: Limit, Text: fmt.Sprintf("%s is full: %d of %d are running.", what, l.Running, l.Limit),
			Scope: l.Scope, Limit: l.Limit, Running: l.Running, Job: l.Job, Execution: l.Holder,
			Do: "Wait until one of them ends, cancel one, or raise the limit.", Call: "Limits.Set",
		})
	}
	return list
}

func behind(c *store.Circumstances) Cause {
	n := fmt.Sprintf("%d executions come", c.Ahead)
	switch {
	case c.Ahead == 1:
		n = "1 execution comes"
	case c.Ahead >= store.DefaultCountLimit:
		n = fmt.Sprintf("%d or more executions come", c.Ahead)
	}
	return Cause{
		Kind: QueueBehind, Text: fmt.Sprintf("In the queue %q, %s before it.", c.Execution.Queue, n), Since: c.Execution.DueAt,
		Do: "Wait, or start more workers for the queue, or give them more slots.",
	}
}
