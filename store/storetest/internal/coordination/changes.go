package coordination

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// waiterChangeCases are about changes of executions on which others depend.
var waiterChangeCases = []testCase{
	{"change_of_one_that_waits", func(k *kit) {
		up := k.Add(k.of("up", ""))[0].ID
		id := k.Add(k.of("down", "up"))[0].ID
		k.Ask(id, courier.RequestPause)
		c := k.Change(id)
		c.Version = &store.PinnedVersion{Version: 1, StepTypes: []string{"c"}}
		k.Changed(id, c)
		k.waits(id, "up queued")
		k.claimedNot(id)
		k.ends(up, courier.Completed)
		k.waits(id)
		k.Claimed("released", k.ClaimRequest(1), id)
	}},
	{"change_lets_those_through_that_wait", func(k *kit) {
		up := k.Add(k.of("up", ""))[0].ID
		id := k.Add(k.of("down", "up"))[0].ID
		k.ends(up, courier.Failed)
		k.waits(id, "up failed")
		c := k.Change(up)
		c.Skipped, c.Move = storekit.Skipped(0), &store.Move{Position: courier.Position{Step: 1}}
		k.Changed(up, c)
		k.waits(id, "up queued")
		k.ends(up, courier.Completed)
		k.waits(id)
	}},
}

// chainChangeCases are about resumes with a change of members of a chain.
var chainChangeCases = []testCase{
	{"a_change_opens_it_again", func(k *kit) {
		id := k.chainOf("a b<a c<b")
		k.end(id, "a", courier.Failed)
		k.chainIs(id, "failed: a=failed b=skipped c=skipped")
		a := k.member(id, "a").ID
		c := k.Change(a)
		c.Seq--
		k.Unchanged("a change for another state", a, func() { k.Is("error", k.TryChange(a, c), courier.ErrConflict) })
		k.chainIs(id, "failed: a=failed b=skipped c=skipped")
		c = k.Change(a)
		c.Skipped, c.Move = storekit.Skipped(0), &store.Move{Position: courier.Position{Step: 1}}
		k.Changed(a, c)
		k.chainIs(id, "running: a=queued b=pending c=pending")
		k.end(id, "a", courier.Completed)
		k.chainIs(id, "running: a=completed b=queued c=pending")
	}},
	{"list_of_reruns", func(k *kit) {
		n := k.newChain("a")
		k.startChain(n)
		var want []courier.ChainExecutionID
		for range 2 {
			again := k.newChain("a")
			again.RerunOf = n.ID
			k.startChain(again)
			want = append([]courier.ChainExecutionID{again.ID}, want...)
		}
		k.chainOf("a")
		list, err := k.chains().ChainExecutions(k.Ctx(), chain.Filter{RerunOf: n.ID})
		k.OK(err)
		var got []courier.ChainExecutionID
		for _, c := range list {
			k.Same("rerun of", c.RerunOf, n.ID)
			got = append(got, c.ID)
		}
		k.Same("reruns", got, want)
	}},
}

// changeEventCases are about the events of a resume with a change.
var changeEventCases = []testCase{
	// A step that a change skips leads to an event before that of the resume; both name the new
	// version.
	{"a_skip_by_a_change_is_an_event", func(k *kit) {
		k.SaveAll(store.Job, "job", `"one"`, `"two"`)
		k.subscribe("all", everyEvent...)
		n := k.New()
		n.Version = 1
		h := k.Hold(k.Add(n)[0].ID, long)
		h.Must(h.To(courier.Failed))
		k.taken(nil)
		c := k.Change(h.ID())
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: []string{"a"}}
		c.Skipped, c.Note = storekit.Skipped(3), "version 2"
		c.Skipped.ID, c.Skipped.Iteration, c.Skipped.Error, c.Skipped.Bytes = "get", []int{1}, "not needed", 5
		x := k.Changed(h.ID(), c)
		var want []notify.Notification
		list := k.AuditOf(h.ID())
		for i := len(list) - 2; i < len(list); i++ {
			if n, ok := notify.OfEntry(&x, &list[i], false); ok {
				n.Subscription = "all"
				want = append(want, n)
			}
		}
		got := notifications(k.taken(nil))
		k.Same("notifications", got, want)
		k.Same("types", []courier.EventType{got[0].Type, got[1].Type}, []courier.EventType{courier.EventStepSkipped, courier.EventJobResumed})
	}},
}
