package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
)

// policies lists the policies in the order in which messages name them.
var policies = []courier.Policy{courier.Stop, courier.RetryStep, courier.RetryJob, courier.SkipAndContinue}

// checkJobPolicy checks the failure policy of the job.
func (c *checker) checkJobPolicy() {
	p := c.job.FailurePolicy
	if p.Type == "" {
		p.Type = courier.Stop
	}
	checkPolicy(p, policies, c.jobProblem)
}

// checkStepPolicy checks the failure policy that an entry has of its own.
func (c *checker) checkStepPolicy(i int, s *courier.StepSpec) {
	p := s.FailurePolicy
	if p.IsZero() {
		return
	}
	problem := func(field, format string, args ...any) { c.stepProblem(i, field, format, args...) }
	allowed := []courier.Policy{courier.Stop, courier.RetryStep, courier.SkipAndContinue}
	switch {
	case p.Type == "":
		problem("failure_policy.type", "is required, since the figures of a step's policy do not join those of the job's; give %q, %q or %q", allowed[0], allowed[1], allowed[2])
	case p.Type == courier.RetryJob:
		problem("failure_policy.type", "%q is for the job; a step can have %q, %q or %q", p.Type, allowed[0], allowed[1], allowed[2])
		allowed = policies
	case p.Type == courier.RetryStep && c.tree.entries[i].kind != work && c.tree.entries[i].kind != toFinally:
		problem("failure_policy.type", "%q is for steps: what a marker can't evaluate, it can't evaluate the next time either; give %q or %q", p.Type, courier.Stop, courier.SkipAndContinue)
	}
	checkPolicy(p, allowed, problem)
}

// checkItemPolicy checks that a step in a loop with on_item_failure: continue does not
// start the whole job again when it fails.
func (c *checker) checkItemPolicy(i int, s *courier.StepSpec) {
	if c.broken || c.tree.entries[i].kind != work || !s.FailurePolicy.IsZero() || c.job.FailurePolicy.Type != courier.RetryJob || c.tree.InFinally(i) {
		return
	}
	if marker, ok := c.tree.CountingLoop(i); ok {
		c.stepProblem(i, "failure_policy", "is %q, that of the job, but the step lies in the loop of %s, where a failure is that of the item (on_item_failure: %q); give the step a policy of its own, such as %q",
			courier.RetryJob, c.label(marker), "continue", courier.RetryStep)
	} else if b := c.tree.rescueAround(i); b != nil {
		c.stepProblem(i, "failure_policy", "is %q, that of the job, but the step lies in the block of %s, which has a rescue for its failure; give the step a policy of its own, such as %q",
			courier.RetryJob, c.label(b.open), courier.RetryStep)
	}
}

// checkPolicy checks a failure policy whose type is one of those that are allowed.
func checkPolicy(p courier.FailurePolicy, allowed []courier.Policy, problem func(field, format string, args ...any)) {
	const field = "failure_policy"
	if p.Type != "" && !slices.Contains(allowed, p.Type) {
		problem(field+".type", "unknown policy %q; %s", shorten(string(p.Type)), nearest.DidYouMean(string(p.Type), allowed))
	}
	if p.MaxRetries != nil && *p.MaxRetries < 0 {
		problem(field+".max_retries", "%d is negative; 0 means no retries", *p.MaxRetries)
	}
	negative := func(name string, d *time.Duration) {
		if d != nil && *d < 0 {
			problem(field+"."+name, "%v is negative", d.Seconds())
		}
	}
	negative("backoff_base_seconds", p.BackoffBase)
	negative("backoff_max_seconds", p.BackoffMax)
	checkClasses(field+".retry_on", p.RetryOn, problem)
	checkClasses(field+".no_retry_on", p.NoRetryOn, problem)
	retries := p.Type == courier.RetryStep || p.Type == courier.RetryJob
	if len(p.RetryOn)+len(p.NoRetryOn) > 0 && !retries && slices.Contains(allowed, p.Type) {
		problem(field, "retry_on and no_retry_on are for %q and %q; %q repeats nothing", courier.RetryStep, courier.RetryJob, p.Type)
	}
	for _, class := range p.RetryOn {
		if slices.Contains(p.NoRetryOn, class) {
			problem(field+".no_retry_on", "%q is in retry_on too; leave one of them out", shorten(string(class)))
		}
	}
}

// checkClasses checks a list of error classes.
func checkClasses(field string, list []courier.Reason, problem func(field, format string, args ...any)) {
	known := courier.ErrorClasses()
	for i, class := range list {
		if !slices.Contains(known, class) {
			problem(fmt.Sprintf("%s[%d]", field, i), "unknown error class %q; %s", shorten(string(class)), nearest.DidYouMean(string(class), known))
		}
	}
}
