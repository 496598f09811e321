package executions

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// secretCases are about the secrets that an execution has used.
var secretCases = []testCase{
	// The secrets of the last transition are those of the execution, and stay in every retry,
	// resume, change, restart and takeover.
	{"secrets_are_kept_whatever_follows", func(k *kit) {
		uses := []courier.SecretUse{
			{Name: "acme/key", Version: 2, Step: 3, ID: "get", Type: "a", Param: "key"},
			{Name: "globex \"ü\"", Type: "b", Refused: true},
		}
		resume := func(h *holder) { k.Ask(h.ID(), courier.RequestResume) }
		for what, c := range map[string]struct {
			end  func(t *store.Transition)
			then func(h *holder)
		}{
			"retry of a step":    {func(t *store.Transition) { t.To, t.Counters.Failures = courier.Queued, 1 }, nil},
			"retry of the job":   {func(t *store.Transition) { t.To, t.RetryJob, t.Counters.JobFailures = courier.Queued, true, 1 }, nil},
			"pause and resume":   {func(t *store.Transition) { t.To = courier.Paused }, resume},
			"failure and resume": {func(t *store.Transition) { t.To = courier.Failed }, resume},
			"change": {func(t *store.Transition) { t.To = courier.Paused }, func(h *holder) {
				c := k.Change(h.ID())
				c.Move, c.Items = &store.Move{Attempts: 1}, &store.ItemCount{Failed: 1}
				k.Changed(h.ID(), c)
			}},
			"restart": {func(t *store.Transition) { t.To, t.Workspace = courier.Paused, "here" }, func(h *holder) {
				k.Ask(h.ID(), courier.RequestRestart)
			}},
			"takeover": {func(t *store.Transition) { t.To = courier.Running }, func(*holder) { k.Pass(2 * k.Unit) }},
		} {
			lease := long
			if what == "takeover" {
				lease = k.Unit
			}
			h := k.Hold(k.Add(k.New())[0].ID, lease)
			h.Must(h.Begin(0))
			t := h.Finish(0)
			t.Counters.Secrets = uses
			c.end(&t)
			h.Must(t)
			k.Same(what+": those of the execution", k.Get(h.ID()).Secrets, uses)
			if c.then != nil {
				c.then(h)
			}
			again := k.Again(h.ID())
			k.Same(what+": those of the claim", again.Counters.Secrets, uses)
			again.Must(again.To(courier.Completed))
			k.Same(what+": those of the last transition", len(k.Get(h.ID()).Secrets), 0)
		}
	}},
}
