package executions

import (
	"cmp"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasOverview(s store.Store) bool {
	_, ok := s.(store.Overview)
	return ok
}

// transferCases are about the newest attempts of steps over several executions.
var transferCases = []testCase{
	// They are those of the steps that are asked for and of no other, in the attempt of the execution
	// that is asked for, the latest first.
	{"are_those_of_the_steps", func(k *kit) {
		a, b := k.history().ID(), k.history().ID()
		all := slices.Concat(k.Records(a), k.Records(b))
		ask := []store.TransferStep{{Execution: a, Attempt: 2, Step: 1}, {Execution: b, Attempt: 1, Step: 2}, {Execution: a, Attempt: 1, Step: 9}, {Execution: b, Attempt: 2, Step: 5}}
		var want []store.Transfer
		for _, r := range all {
			if slices.Contains(ask, store.TransferStep{Execution: r.Execution, Attempt: r.ExecutionAttempt, Step: r.Step}) {
				r.Outputs, r.Files = nil, nil
				want = append(want, store.Transfer{Attempt: r})
			}
		}
		slices.SortFunc(want, func(a, b store.Transfer) int {
			return cmp.Or(b.Attempt.EndedAt.Compare(a.Attempt.EndedAt), cmp.Compare(b.Attempt.Execution, a.Attempt.Execution), cmp.Compare(b.Attempt.Seq, a.Attempt.Seq))
		})
		k.Same("number", len(want), 9+3+1)
		k.Same("all", k.transfers(0, ask...), want)
		k.Same("the newest", k.transfers(2, ask...), want[:2])
		k.Same("none", k.transfers(0), nil)
		k.Same("of what is not there", k.transfers(0, store.TransferStep{Execution: "00000000-0000-7000-8000-000000000000", Attempt: 1}, store.TransferStep{Execution: a, Attempt: 3, Step: 1}, store.TransferStep{Execution: a, Step: 1}), nil)
		many := make([]store.TransferStep, store.MaxTransferSteps, store.MaxTransferSteps+1)
		for i := range many {
			many[i] = store.TransferStep{Execution: a, Attempt: 1, Step: 100 + i}
		}
		k.Same("behind the most", k.transfers(0, append(many, ask[0])...), nil)
		k.Same("the last of the most", k.transfers(0, append(many[1:], ask[2])...), k.transfers(0, ask[2]))
	}},
	// Without what may be large, with the number of files that came from connections or went there.
	{"count_files", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 1)
		t.Ended[0].Bytes = 9
		t.Ended[0].Files = []courier.File{
			{Path: "in/a", Size: 4, Connection: "acme", Received: true}, {Path: "out/b", Connection: "acme"}, {Path: "out/c", Connection: "other"},
			{Path: "in/a", Connection: "acme", Removed: true}, {Path: "a", Size: 4}, {Path: "b", Removed: true},
		}
		h.Must(t)
		t = h.Finish(1)
		t.Ended[0].State, t.Ended[0].Reason, t.Ended[0].Error, t.Ended[0].Log = courier.StepFailed, courier.ReasonLogin, "login refused", "what it says"
		h.Must(t)
		list := k.transfers(0, store.TransferStep{Execution: h.ID(), Attempt: 1, Step: 0}, store.TransferStep{Execution: h.ID(), Attempt: 1, Step: 1})
		k.Same("number", len(list), 2)
		slices.SortFunc(list, func(a, b store.Transfer) int { return cmp.Compare(a.Attempt.Step, b.Attempt.Step) })
		k.Same("one that has moved files", []any{list[0].Files, list[0].Attempt.Bytes, list[0].Attempt.Files}, []any{3, int64(9), []courier.File(nil)})
		k.Same("one that has failed", []any{list[1].Files, list[1].Attempt.Error, list[1].Attempt.Reason, list[1].Attempt.Log}, []any{0, "login refused", courier.ReasonLogin, ""})
	}},
	{"have_versions", func(k *kit) {
		k.SaveAll(store.Job, "job", `"one"`, `"two"`)
		n := k.New() // saves a third
		n.Version = 1
		h := k.Hold(k.Add(n)[0].ID, long)
		h.Must(h.Begin(0))
		h.Must(h.Finish(0))
		h.Must(h.To(courier.Paused))
		c := k.Change(n.ID)
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: n.StepTypes}
		c.Move = &store.Move{Position: courier.Position{Step: 0}}
		c.Repairs = &courier.Repairs{Versions: []courier.VersionChange{{Seq: c.Seq, From: 1, To: 2}}}
		k.Changed(n.ID, c)
		h = k.Hold(n.ID, long)
		h.Must(h.Begin(0))
		h.Must(h.Finish(0))
		list := k.transfers(0, store.TransferStep{Execution: n.ID, Attempt: 1})
		k.Same("number", len(list), 2)
		k.Same("versions", []int{list[0].Attempt.Version, list[1].Attempt.Version}, []int{2, 1})
	}},
}

// listCases are about lists of executions.
var listCases = []testCase{
	// The newest executions of several jobs, whatever else there is.
	{"newest_of_several_jobs", func(k *kit) {
		k.Job("other")
		k.Job("third")
		var ids []courier.ExecutionID
		for i := range 12 {
			n := k.New()
			n.Job = []string{"job", "other", "third"}[i%3]
			if k.Add(n); n.Job != "job" {
				ids = append(ids, n.ID)
			}
		}
		slices.Reverse(ids)
		jobs := []string{"other", "nobody", "third"}
		k.listed("all", store.Filter{Jobs: jobs}, ids...)
		k.listed("the first page", store.Filter{Jobs: jobs, Limit: 3}, ids[:3]...)
		k.listed("the second page", store.Filter{Jobs: jobs, Limit: 3, Before: ids[2]}, ids[3:6]...)
		k.listed("the last page", store.Filter{Jobs: jobs, Limit: 3, Before: ids[6]}, ids[7:]...)
		k.listed("queued ones", store.Filter{Jobs: jobs, Limit: 2, States: []courier.State{courier.Queued}}, ids[:2]...)
	}},
}

// transfers returns the newest attempts of steps.
func (k *kit) transfers(limit int, steps ...store.TransferStep) []store.Transfer {
	k.Helper()
	list, err := k.Store.(store.Overview).Transfers(k.Ctx(), store.TransferFilter{Steps: steps, Limit: limit})
	k.OK(err)
	return list
}
