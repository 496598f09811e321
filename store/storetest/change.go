package storetest

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// changeCases are about resumes that change an execution.
var changeCases = []testCase{
	{"change_needs_the_last_audit_entry", func(k *kit) {
		id := k.left(courier.Failed)
		c := k.change(id)
		c.Move = &store.Move{Position: courier.Position{Step: 2}}
		for _, d := range []int64{-1, 1} {
			other := *c
			other.Seq += d
			k.unchanged("a change for another state", id, func() { k.is("error", k.tryChange(id, &other), courier.ErrConflict) })
		}
		k.ok(k.tryChange(id, c))
		k.unchanged("the same change again", id, func() { k.is("error", k.tryChange(id, c), courier.ErrConflict) })
		k.ask(id, courier.RequestPause)
		k.unchanged("the same change in the same state", id, func() { k.is("error", k.tryChange(id, c), courier.ErrConflict) })
	}},
	{"change_takes_effect_once", func(k *kit) {
		id := k.left(courier.Paused)
		c := k.change(id)
		c.Skipped = skipped(0)
		var done atomic.Int32
		k.at(8, func(int) {
			_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "ann", Change: c})
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, courier.ErrConflict) {
				k.Errorf("error %v", err)
			}
		})
		k.same("done", done.Load(), int32(1))
		k.same("audit", moves(k.audit(id)), ">queued queued>running running>paused 0:pending>skipped paused>queued")
	}},
	{"change_of_paused_and_failed_ones_only", func(k *kit) {
		k.limit("", "0")
		for row, begin := range tables {
			id := begin(k)
			c := k.change(id)
			c.Move = &store.Move{Position: courier.Position{Step: 3}}
			if row == "paused" || row == "failed" {
				x := k.changed(id, c)
				k.same(row, []any{x.State, x.Position.Step, x.Resumed}, []any{courier.Queued, 3, true})
				continue
			}
			k.unchanged("a change of a "+row+" one", id, func() {
				var refused *courier.TransitionError
				if err := k.tryChange(id, c); !errors.As(err, &refused) || refused.From != k.get(id).State || refused.To != courier.Queued {
					k.Errorf("%s: error %v", row, err)
				}
			})
		}
	}},
	{"change_by_a_resume_only", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel, courier.RequestRelease, courier.RequestRestart} {
			id := k.leaveIn("here", courier.Paused, "").id()
			k.unchanged("a change by a "+string(kind), id, func() {
				_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: kind, By: "bob", Change: k.change(id)})
				k.is("error", err, courier.ErrInvalid)
			})
		}
	}},
	{"change_that_is_invalid", func(k *kit) {
		id := k.left(courier.Paused)
		for _, invalid := range []func(c *store.Change){
			func(c *store.Change) { c.Skipped = skipped(0); c.Skipped.State = courier.StepCompleted },
			func(c *store.Change) { c.Items = &store.ItemCount{Failed: -1} },
		} {
			c := k.change(id)
			invalid(c)
			k.unchanged("an invalid change", id, func() { k.is("error", k.tryChange(id, c), courier.ErrInvalid) })
		}
	}},
	{"change_of_nothing_is_a_resume", func(k *kit) {
		a, b := k.leave(courier.Failed), k.leave(courier.Failed)
		x, y := k.ask(a.id(), courier.RequestResume), k.changed(b.id(), k.change(b.id()))
		x.ID, x.CreatedAt, x.StartedAt, x.DueAt = y.ID, y.CreatedAt, y.StartedAt, y.DueAt
		k.same("execution", y, x)
		k.same("audit", moves(k.audit(b.id())), moves(k.audit(a.id())))
		k.same("counters", k.again(b.id()).Counters, k.again(a.id()).Counters)
	}},
	{"change_of_the_version", func(k *kit) {
		k.saveAll(store.Job, "job", `"one"`, `"two"`)
		n := k.new() // saves a third
		n.Version, n.JobLimit = 1, 9
		h := k.hold(k.add(n)[0].ID, long)
		h.must(h.to(courier.Failed))
		c := k.change(h.id())
		c.Items = &store.ItemCount{Failed: 3}
		c.Version = &store.PinnedVersion{Version: 4, StepTypes: []string{"a"}}
		k.unchanged("a version that is not there", h.id(), func() { k.is("error", k.tryChange(h.id(), c), courier.ErrNotFound) })
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: []string{"c", "d"}, JobLimit: 1}
		k.same("version", k.changed(h.id(), c).Version, 2)
		k.claimed("a worker with the former step types", k.request(1))
		running := k.new()
		k.hold(k.add(running)[0].ID, long)
		r := k.request(1)
		r.StepTypes = []string{"a", "b", "c", "d"}
		k.claimed("within the limit of the job", r)
		k.ask(running.ID, courier.RequestCancel)
		k.limit("job:job", "0")
		got := k.claimed("with all step types", r, h.id())[0]
		k.same("definition", string(got.Definition.Body), `"two"`)
		k.same("execution", []any{got.Execution.Version, got.First, got.Execution.FailedItems}, []any{2, false, 3})
	}},
	{"change_of_the_position", func(k *kit) {
		pos := courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 1, Index: 2, Failed: 3, ItemFailed: true}, {Step: 2, Index: 0}}}
		for _, from := range []courier.State{courier.Paused, courier.Failed} {
			h := k.start()
			t := h.to(from)
			t.Position = courier.Position{Step: 1, Loops: []courier.LoopPosition{{Step: 0, Index: 7}}}
			t.Counters = store.Counters{Attempts: 2, Interrupted: true, Base: 6, Failures: 3, JobFailures: 4, Reclaims: 5, AcceptedItems: 1, Target: 2}
			h.must(t)
			c := k.change(h.id())
			c.Move = &store.Move{Position: pos, Attempts: 1, Base: 9}
			x := k.changed(h.id(), c)
			k.same("position", x.Position, pos)
			k.same("attempts", []int{x.StepAttempts, x.EarlierStarts}, []int{1, 9})
			again := k.again(h.id())
			k.same("counters", again.Counters, store.Counters{Attempts: 1, Base: 9, Resumed: from, AcceptedItems: 1, Target: 2})
			k.same("claimed at", again.Execution.Position, pos)
			again.must(again.to(courier.Paused))
			c = k.change(h.id())
			c.Move = &store.Move{}
			x = k.changed(h.id(), c)
			k.same("the beginning", []any{x.Position, x.StepAttempts}, []any{courier.Position{}, 0})
		}
	}},
	{"change_of_failed_items", func(k *kit) {
		h := k.failedItems(5)
		c := k.change(h.id())
		c.Items = &store.ItemCount{Failed: 2, Accepted: 1, Target: 1}
		k.same("failed items", k.changed(h.id(), c).FailedItems, 2)
		again := k.again(h.id())
		k.same("counters", again.Counters, store.Counters{Attempts: 3, Resumed: courier.Failed, AcceptedItems: 1, Target: 1})
		k.same("position", again.Execution.Position.Step, 4)
		again.must(again.to(courier.Paused))
		k.same("a change of something else", k.changed(h.id(), k.change(h.id())).FailedItems, 2)
		k.ask(h.id(), courier.RequestPause)
		c = k.change(h.id())
		c.Items = new(store.ItemCount)
		k.same("none", k.changed(h.id(), c).FailedItems, 0)
		k.listed("with failed items", store.Filter{FailedItems: true})
	}},
	{"change_of_repairs", func(k *kit) {
		id := k.left(courier.Failed)
		c := k.change(id)
		c.Repairs = repairs()
		k.same("set", k.changed(id, c).Repairs, c.Repairs)
		h := k.again(id)
		k.same("claimed", h.Execution.Repairs, c.Repairs)
		h.must(h.to(courier.Paused))
		k.same("left", k.changed(id, k.change(id)).Repairs, c.Repairs)
		k.ask(id, courier.RequestPause)
		c = k.change(id)
		c.Repairs = new(courier.Repairs)
		k.same("removed", k.changed(id, c).Repairs, (*courier.Repairs)(nil))
	}},
	{"change_elsewhere_is_the_same_attempt", func(k *kit) {
		h := k.leave(courier.Failed)
		c := k.change(h.id())
		c.Elsewhere, c.Move = true, &store.Move{Position: courier.Position{Step: 1}, Base: 7}
		before := k.latest(h.id())
		x := k.changed(h.id(), c)
		k.same("workspace", []any{x.Workspace, x.DiskBytes}, []any{"", int64(0)})
		k.same("attempt", x.Attempt, 1)
		k.same("latest", k.latest(h.id()), before)
		list := k.audit(h.id())
		k.same("why", list[len(list)-1].Reason, courier.ReasonElsewhere)
		r := k.request(1)
		r.Workspace = "elsewhere"
		k.claimed("by any worker", r, h.id())
	}},
	{"change_skips_a_step", func(k *kit) {
		h := k.failedItems(2)
		k.pass(k.unit)
		before, x := k.audit(h.id()), k.get(h.id())
		c := k.change(h.id())
		c.Skipped = &courier.StepExecution{
			Step: 4, ID: "get", Type: "a", Iteration: []int{1, 0}, Total: []int{2, 3}, Attempt: 4, State: courier.StepSkipped, Worker: "nobody", Version: 3,
			Outputs: json.RawMessage(`{ "n": 1.0, "t": "<\u00e9\\>" }`), Files: []courier.File{{Path: "a b/é", Size: 3}}, Bytes: 7,
			Reason: courier.ReasonError, Error: "it's \"odd\": \\ ü\n",
		}
		c.Move = &store.Move{Position: courier.Position{Step: 5}}
		r := store.Request{Execution: h.id(), Kind: courier.RequestResume, By: "bob", Reason: "no such file", Change: c}
		got, err := k.Request(k.ctx(), r)
		k.ok(err)
		list := k.audit(h.id())
		k.sameEntries("audit", list, append(before, store.RequestEntries(&x, courier.Queued, r)...))
		skip, resume := list[len(list)-2], list[len(list)-1]
		k.same("the entry of the step", []any{skip.At, skip.Elapsed, skip.Worker, skip.By}, []any{got.DueAt, 0, "", ""})
		k.same("the resume", moves([]courier.AuditEntry{resume}), "failed>queued")
		want := *c.Skipped
		want.Execution, want.ExecutionAttempt, want.Seq, want.StartedAt, want.EndedAt = h.id(), 1, skip.Seq, skip.At, skip.At
		want.Worker, want.Version = "", 0
		records, latest := k.records(h.id()), k.latest(h.id())
		k.same("record", records[len(records)-1], want)
		k.same("outputs", string(records[len(records)-1].Outputs), string(want.Outputs))
		k.same("latest", latest[len(latest)-1], want)
		again := k.again(h.id())
		k.same("claimed", again.Latest[len(again.Latest)-1], want)
		again.must(again.begin(5))
	}},
	{"change_has_a_note_in_the_audit", func(k *kit) {
		for _, c := range [][3]string{{"", "", ""}, {"why", "", "why"}, {"", "version 2", "version 2"}, {"why", "version 2", "why (version 2)"}} {
			id := k.left(courier.Paused)
			change := k.change(id)
			change.Note = c[1]
			_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob", Reason: c[0], Change: change})
			k.ok(err)
			list := k.audit(id)
			k.same("text", list[len(list)-1].Error, c[2])
		}
	}},
	{"change_of_one_that_waits", func(k *kit) {
		up := k.add(k.of("up", ""))[0].ID
		id := k.add(k.of("down", "up"))[0].ID
		k.ask(id, courier.RequestPause)
		c := k.change(id)
		c.Version = &store.PinnedVersion{Version: 1, StepTypes: []string{"c"}}
		k.changed(id, c)
		k.waits(id, "up queued")
		k.claimedNot(id)
		k.ends(up, courier.Completed)
		k.waits(id)
		k.claimed("released", k.request(1), id)
	}},
	{"change_lets_those_through_that_wait", func(k *kit) {
		up := k.add(k.of("up", ""))[0].ID
		id := k.add(k.of("down", "up"))[0].ID
		k.ends(up, courier.Failed)
		k.waits(id, "up failed")
		c := k.change(up)
		c.Skipped, c.Move = skipped(0), &store.Move{Position: courier.Position{Step: 1}}
		k.changed(up, c)
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
		c := k.change(a)
		c.Seq--
		k.unchanged("a change for another state", a, func() { k.is("error", k.tryChange(a, c), courier.ErrConflict) })
		k.chainIs(id, "failed: a=failed b=skipped c=skipped")
		c = k.change(a)
		c.Skipped, c.Move = skipped(0), &store.Move{Position: courier.Position{Step: 1}}
		k.changed(a, c)
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
		list, err := k.chains().ChainExecutions(k.ctx(), store.ChainFilter{RerunOf: n.ID})
		k.ok(err)
		var got []courier.ChainExecutionID
		for _, c := range list {
			k.same("rerun of", c.RerunOf, n.ID)
			got = append(got, c.ID)
		}
		k.same("reruns", got, want)
	}},
}

// changeEventCases are about the events of a resume with a change.
var changeEventCases = []testCase{
	{"a_skip_by_a_change_is_an_event", func(k *kit) {
		k.saveAll(store.Job, "job", `"one"`, `"two"`)
		k.subscribe("all", everyEvent...)
		n := k.new()
		n.Version = 1
		h := k.hold(k.add(n)[0].ID, long)
		h.must(h.to(courier.Failed))
		k.taken(nil)
		c := k.change(h.id())
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: []string{"a"}}
		c.Skipped, c.Note = skipped(3), "version 2"
		c.Skipped.ID, c.Skipped.Iteration, c.Skipped.Error, c.Skipped.Bytes = "get", []int{1}, "not needed", 5
		x := k.changed(h.id(), c)
		var want []courier.Notification
		list := k.audit(h.id())
		for i := len(list) - 2; i < len(list); i++ {
			if n, ok := store.Notify(&x, &list[i], false); ok {
				n.Subscription = "all"
				want = append(want, n)
			}
		}
		got := notifications(k.taken(nil))
		k.same("notifications", got, want)
		k.same("types", []courier.EventType{got[0].Type, got[1].Type}, []courier.EventType{courier.EventStepSkipped, courier.EventJobResumed})
	}},
}

// change returns a change for an execution as it is.
func (k *kit) change(id courier.ExecutionID) *store.Change {
	k.Helper()
	return &store.Change{Seq: k.get(id).Seq}
}

// tryChange resumes an execution with a change.
func (k *kit) tryChange(id courier.ExecutionID, c *store.Change) error {
	_, err := k.Request(k.ctx(), store.Request{Execution: id, Kind: courier.RequestResume, By: "bob", Change: c})
	return err
}

// changed is tryChange for a change that must be possible.
func (k *kit) changed(id courier.ExecutionID, c *store.Change) courier.Execution {
	k.Helper()
	k.ok(k.tryChange(id, c))
	return k.get(id)
}

// skipped is the record of a step that is skipped.
func skipped(i int) *courier.StepExecution {
	return &courier.StepExecution{Step: i, Type: "a", Attempt: 1, State: courier.StepSkipped}
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
