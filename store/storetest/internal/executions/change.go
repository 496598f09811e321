package executions

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// changeCases are about resumes that change an execution.
var changeCases = []testCase{
	// A change for another number than that of the last audit entry is ErrConflict, in any state,
	// and so is one that is repeated.
	{"change_needs_the_last_audit_entry", func(k *kit) {
		id := k.left(courier.Failed)
		c := k.Change(id)
		c.Move = &store.Move{Position: courier.Position{Step: 2}}
		for _, d := range []int64{-1, 1} {
			other := *c
			other.Seq += d
			k.Unchanged("a change for another state", id, func() { k.Is("error", k.TryChange(id, &other), courier.ErrConflict) })
		}
		k.OK(k.TryChange(id, c))
		k.Unchanged("the same change again", id, func() { k.Is("error", k.TryChange(id, c), courier.ErrConflict) })
		k.Ask(id, courier.RequestPause)
		k.Unchanged("the same change in the same state", id, func() { k.Is("error", k.TryChange(id, c), courier.ErrConflict) })
	}},
	{"change_takes_effect_once", func(k *kit) {
		id := k.left(courier.Paused)
		c := k.Change(id)
		c.Skipped = storekit.Skipped(0)
		var done atomic.Int32
		k.At(8, func(int) {
			_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "ann", Change: c})
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, courier.ErrConflict) {
				k.Errorf("error %v", err)
			}
		})
		k.Same("done", done.Load(), int32(1))
		k.Same("audit", storekit.Moves(k.AuditOf(id)), ">queued queued>running running>paused 0:pending>skipped paused>queued")
	}},
	{"change_of_paused_and_failed_ones_only", func(k *kit) {
		k.Limit("", "0")
		for row, begin := range tables {
			id := begin(k)
			c := k.Change(id)
			c.Move = &store.Move{Position: courier.Position{Step: 3}}
			if row == "paused" || row == "failed" {
				x := k.Changed(id, c)
				k.Same(row, []any{x.State, x.Position.Step, x.Resumed}, []any{courier.Queued, 3, true})
				continue
			}
			k.Unchanged("a change of a "+row+" one", id, func() {
				var refused *courier.TransitionError
				if err := k.TryChange(id, c); !errors.As(err, &refused) || refused.From != k.Get(id).State || refused.To != courier.Queued {
					k.Errorf("%s: error %v", row, err)
				}
			})
		}
	}},
	{"change_by_a_resume_only", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel, courier.RequestRelease, courier.RequestRestart} {
			id := k.leaveIn("here", courier.Paused, "").ID()
			k.Unchanged("a change by a "+string(kind), id, func() {
				_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind, By: "bob", Change: k.Change(id)})
				k.Is("error", err, courier.ErrInvalid)
			})
		}
	}},
	// So are a skipped step in another state, and a number of failed items below 0.
	{"change_that_is_invalid", func(k *kit) {
		id := k.left(courier.Paused)
		for _, invalid := range []func(c *store.Change){
			func(c *store.Change) { c.Skipped = storekit.Skipped(0); c.Skipped.State = courier.StepCompleted },
			func(c *store.Change) { c.Items = &store.ItemCount{Failed: -1} },
			func(c *store.Change) { c.Delay = -1 },
		} {
			c := k.Change(id)
			invalid(c)
			k.Unchanged("an invalid change", id, func() { k.Is("error", k.TryChange(id, c), courier.ErrInvalid) })
		}
	}},
	// A change without content is a plain resume.
	{"change_of_nothing_is_a_resume", func(k *kit) {
		a, b := k.leave(courier.Failed), k.leave(courier.Failed)
		x, y := k.Ask(a.ID(), courier.RequestResume), k.Changed(b.ID(), k.Change(b.ID()))
		x.ID, x.CreatedAt, x.StartedAt, x.DueAt, x.UpdatedAt = y.ID, y.CreatedAt, y.StartedAt, y.DueAt, y.UpdatedAt
		k.Same("execution", y, x)
		k.Same("audit", storekit.Moves(k.AuditOf(b.ID())), storekit.Moves(k.AuditOf(a.ID())))
		k.Same("counters", k.Again(b.ID()).Counters, k.Again(a.ID()).Counters)
	}},
	// A change with a delay makes the execution due after it.
	{"change_delays_the_resume", func(k *kit) {
		for _, from := range []courier.State{courier.Paused, courier.Failed} {
			id := k.left(from)
			c := k.Change(id)
			c.Delay = long
			x := k.Changed(id, c)
			k.Same("state", x.State, courier.Queued)
			k.Same("due after", x.DueAt.Sub(x.UpdatedAt), long)
			k.Claimed("before it is due", k.ClaimRequest(1))
			k.Ask(id, courier.RequestPause)
			k.Ask(id, courier.RequestResume)
			k.Claimed("after a resume without a delay", k.ClaimRequest(1), id)
		}
	}},
	// A change of the version takes effect for claims, with step types and limit; an unknown
	// version is ErrNotFound, and nothing is changed.
	{"change_of_the_version", func(k *kit) {
		k.SaveAll(store.Job, "job", `"one"`, `"two"`)
		n := k.New() // saves a third
		n.Version, n.JobLimit = 1, 9
		h := k.Hold(k.Add(n)[0].ID, long)
		h.Must(h.To(courier.Failed))
		c := k.Change(h.ID())
		c.Items = &store.ItemCount{Failed: 3}
		c.Version = &store.PinnedVersion{Version: 4, StepTypes: []string{"a"}}
		k.Unchanged("a version that is not there", h.ID(), func() { k.Is("error", k.TryChange(h.ID(), c), courier.ErrNotFound) })
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: []string{"c", "d"}, JobLimit: 1}
		k.Same("version", k.Changed(h.ID(), c).Version, 2)
		k.Claimed("a worker with the former step types", k.ClaimRequest(1))
		running := k.New()
		k.Hold(k.Add(running)[0].ID, long)
		r := k.ClaimRequest(1)
		r.StepTypes = []string{"a", "b", "c", "d"}
		k.Claimed("within the limit of the job", r)
		k.Ask(running.ID, courier.RequestCancel)
		k.Limit("job:job", "0")
		got := k.Claimed("with all step types", r, h.ID())[0]
		k.Same("definition", string(got.Definition.Body), `"two"`)
		k.Same("execution", []any{got.Execution.Version, got.First, got.Execution.FailedItems}, []any{2, false, 3})
	}},
	// A change of the position sets position and attempts; the other counters are those of a
	// resume.
	{"change_of_the_position", func(k *kit) {
		pos := courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 1, Index: 2, Failed: 3, ItemFailed: true}, {Step: 2, Index: 0}}}
		for _, from := range []courier.State{courier.Paused, courier.Failed} {
			h := k.Start()
			t := h.To(from)
			t.Position = courier.Position{Step: 1, Loops: []courier.LoopPosition{{Step: 0, Index: 7}}}
			t.Counters = store.Counters{Attempts: 2, Interrupted: true, Base: 6, Failures: 3, JobFailures: 4, Reclaims: 5, AcceptedItems: 1, Target: 2}
			h.Must(t)
			c := k.Change(h.ID())
			c.Move = &store.Move{Position: pos, Attempts: 1, Base: 9}
			x := k.Changed(h.ID(), c)
			k.Same("position", x.Position, pos)
			k.Same("attempts", []int{x.StepAttempts, x.EarlierStarts}, []int{1, 9})
			again := k.Again(h.ID())
			k.Same("counters", again.Counters, store.Counters{Attempts: 1, Base: 9, Resumed: from, AcceptedItems: 1, Target: 2})
			k.Same("claimed at", again.Execution.Position, pos)
			again.Must(again.To(courier.Paused))
			c = k.Change(h.ID())
			c.Move = &store.Move{}
			x = k.Changed(h.ID(), c)
			k.Same("the beginning", []any{x.Position, x.StepAttempts}, []any{courier.Position{}, 0})
		}
	}},
	// A change of failed items sets what is counted of them; otherwise it stays.
	{"change_of_failed_items", func(k *kit) {
		h := k.failedItems(5)
		c := k.Change(h.ID())
		c.Items = &store.ItemCount{Failed: 2, Accepted: 1, Target: 1}
		k.Same("failed items", k.Changed(h.ID(), c).FailedItems, 2)
		again := k.Again(h.ID())
		k.Same("counters", again.Counters, store.Counters{Attempts: 3, Resumed: courier.Failed, AcceptedItems: 1, Target: 1})
		k.Same("position", again.Execution.Position.Step, 4)
		again.Must(again.To(courier.Paused))
		k.Same("a change of something else", k.Changed(h.ID(), k.Change(h.ID())).FailedItems, 2)
		k.Ask(h.ID(), courier.RequestPause)
		c = k.Change(h.ID())
		c.Items = new(store.ItemCount)
		k.Same("none", k.Changed(h.ID(), c).FailedItems, 0)
		k.listed("with failed items", store.Filter{FailedItems: true})
	}},
	// A change of repairs replaces them; empty ones remove them.
	{"change_of_repairs", func(k *kit) {
		id := k.left(courier.Failed)
		c := k.Change(id)
		c.Repairs = repairs()
		k.Same("set", k.Changed(id, c).Repairs, c.Repairs)
		list, err := k.Executions(k.Ctx(), store.Filter{})
		k.OK(err)
		k.Same("in a list", list[0].Repairs, (*courier.Repairs)(nil))
		h := k.Again(id)
		k.Same("claimed", h.Execution.Repairs, c.Repairs)
		h.Must(h.To(courier.Paused))
		k.Same("left", k.Changed(id, k.Change(id)).Repairs, c.Repairs)
		k.Ask(id, courier.RequestPause)
		c = k.Change(id)
		c.Repairs = new(courier.Repairs)
		k.Same("removed", k.Changed(id, c).Repairs, (*courier.Repairs)(nil))
	}},
	// A change that gives the workspace up lets any worker claim, in the same attempt of the
	// execution.
	{"change_elsewhere_is_the_same_attempt", func(k *kit) {
		h := k.leave(courier.Failed)
		c := k.Change(h.ID())
		c.Elsewhere, c.Move = true, &store.Move{Position: courier.Position{Step: 1}, Base: 7}
		before := k.LatestOf(h.ID())
		x := k.Changed(h.ID(), c)
		k.Same("workspace", []any{x.Workspace, x.DiskBytes}, []any{"", int64(0)})
		k.Same("attempt", x.Attempt, 1)
		k.Same("latest", k.LatestOf(h.ID()), before)
		list := k.AuditOf(h.ID())
		k.Same("why", list[len(list)-1].Reason, courier.ReasonWithoutFiles)
		r := k.ClaimRequest(1)
		r.Workspace = "elsewhere"
		k.Claimed("by any worker", r, h.ID())
	}},
	// A skipped step has a record and an audit entry before that of the resume, at the same
	// instant and without a worker.
	{"change_skips_a_step", func(k *kit) {
		h := k.failedItems(2)
		k.Pass(k.Unit)
		before, x := k.AuditOf(h.ID()), k.Get(h.ID())
		c := k.Change(h.ID())
		c.Skipped = &courier.StepExecution{
			Step: 4, ID: "get", Type: "a", Iteration: []int{1, 0}, Total: []int{2, 3}, Attempt: 4, State: courier.StepSkipped, Worker: "nobody", Version: 3,
			Outputs: json.RawMessage(`{ "n": 1.0, "t": "<\u00e9\\>" }`), Files: []courier.File{{Path: "a b/é", Size: 3}}, Bytes: 7,
			Reason: courier.ReasonError, Error: "it's \"odd\": \\ ü\n",
		}
		c.Move = &store.Move{Position: courier.Position{Step: 5}}
		r := store.Request{Execution: h.ID(), Kind: courier.RequestResume, By: "bob", Reason: "no such file", Change: c}
		got, err := k.Request(k.Ctx(), r)
		k.OK(err)
		list := k.AuditOf(h.ID())
		k.sameEntries("audit", list, append(before, store.RequestEntries(&x, courier.Queued, r)...))
		skip, resume := list[len(list)-2], list[len(list)-1]
		k.Same("the entry of the step", []any{skip.At, skip.Elapsed, skip.Worker, skip.By}, []any{got.DueAt, 0, "", ""})
		k.Same("the resume", storekit.Moves([]courier.AuditEntry{resume}), "failed>queued")
		want := *c.Skipped
		want.Execution, want.ExecutionAttempt, want.Seq, want.StartedAt, want.EndedAt = h.ID(), 1, skip.Seq, skip.At, skip.At
		want.Worker, want.Version = "", 0
		records, latest := k.Records(h.ID()), k.LatestOf(h.ID())
		k.Same("record", records[len(records)-1], want)
		k.Same("outputs", string(records[len(records)-1].Outputs), string(want.Outputs))
		k.Same("latest", latest[len(latest)-1], want)
		again := k.Again(h.ID())
		k.Same("claimed", again.Latest[len(again.Latest)-1], want)
		again.Must(again.Begin(5))
	}},
	{"change_has_a_note_in_the_audit", func(k *kit) {
		for _, c := range [][3]string{{"", "", ""}, {"why", "", "why"}, {"", "version 2", "version 2"}, {"why", "version 2", "why (version 2)"}} {
			id := k.left(courier.Paused)
			change := k.Change(id)
			change.Note = c[1]
			_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob", Reason: c[0], Change: change})
			k.OK(err)
			list := k.AuditOf(id)
			k.Same("text", list[len(list)-1].Error, c[2])
		}
	}},
}

// repairs are some of every kind.
func repairs() *courier.Repairs {
	return &courier.Repairs{
		Versions: []courier.VersionChange{{Seq: 3, From: 1, To: 2, Steps: []int{0, -1, 1}}, {Seq: 9, From: 2, To: 3}},
		Values: []courier.ValueChange{
			{Seq: 9, Step: -1, Name: "day", Value: json.RawMessage(`9007199254740993`)},
			{Seq: 9, Step: 2, Iteration: []int{1, 0}, Name: "list", Value: json.RawMessage(`{"n":1.0,"none":null,"t":"\\ ü"}`)},
		},
		Passes: []courier.RepairPass{
			{Seq: 9, Items: []courier.ItemPath{{Loop: 1, Iteration: []int{2}}}, Then: courier.Position{Step: 7}},
			{Seq: 11, From: &courier.Position{Step: 1}, Then: courier.Position{Step: 1}},
		},
	}
}
