package executions

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// onlyCopiesCases are about files that may exist nowhere else.
var onlyCopiesCases = []testCase{
	// Only copies are those of the transition by which the last worker has let the execution go,
	// and unknown while one has it; a cancel keeps them, or says that they are not known; lists
	// leave the names out.
	{"only_copies_are_those_of_the_last_worker", func(k *kit) {
		k.Limit("", "0")
		files := &courier.OnlyCopies{Files: []courier.File{{Path: "in/a \"ü\".csv", Size: 1 << 40}}, Count: 2, Bytes: 1<<40 + 1, Problem: "one is missing"}
		brief := &courier.OnlyCopies{Count: files.Count, Bytes: files.Bytes, Problem: files.Problem}
		none := new(courier.OnlyCopies)
		same := func(h *holder, what string, want, listed *courier.OnlyCopies, holds bool) {
			x := k.Get(h.ID())
			k.Same(what, x.OnlyCopies, want)
			k.Same(what+": it holds some", x.HoldsOnlyCopies(), holds)
			for _, x := range k.page(store.Filter{IDs: []courier.ExecutionID{h.ID()}}) {
				k.Same(what+": in lists", x.OnlyCopies, listed)
			}
		}
		for _, to := range []courier.State{courier.Queued, courier.Paused, courier.Failed, courier.Completed, courier.Cancelled} {
			for _, c := range []struct{ given, listed *courier.OnlyCopies }{{files, brief}, {none, none}, {nil, nil}} {
				h := k.Start()
				h.Must(h.Begin(0))
				t := h.Next(0, 1)
				t.Workspace, t.OnlyCopies = "here", files // not of one that goes on
				h.Must(t)
				same(h, "while it runs", nil, nil, true)
				t = h.To(to)
				t.Interrupt, t.OnlyCopies = true, c.given
				h.Must(t)
				holds := c.given == files || c.given == nil && to != courier.Completed
				same(h, "then "+string(to), c.given, c.listed, holds)
				if to.Final() {
					continue
				}
				if to == courier.Failed {
					k.Ask(h.ID(), courier.RequestResume)
					same(h, "resumed", c.given, c.listed, holds)
				}
				if to != courier.Paused {
					h = k.Again(h.ID())
					same(h, "claimed again", nil, nil, true)
					continue
				}
				k.Ask(h.ID(), courier.RequestCancel)
				if c.given == nil {
					unknown := &courier.OnlyCopies{Problem: "the worker was lost before it could list them"}
					same(h, "cancelled", unknown, unknown, true)
				} else {
					same(h, "cancelled", c.given, c.listed, holds)
				}
			}
		}
	}},
	// A restart and a resume with Elsewhere clear them.
	{"only_copies_go_with_the_workspace", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestRestart, courier.RequestResume} {
			h := k.Start()
			t := h.To(courier.Paused)
			t.Workspace, t.OnlyCopies = "here", &courier.OnlyCopies{Count: 1}
			h.Must(t)
			if kind == courier.RequestRestart {
				k.Ask(h.ID(), kind)
			} else {
				c := k.Change(h.ID())
				c.Elsewhere = true
				k.Changed(h.ID(), c)
			}
			x := k.Get(h.ID())
			k.Same(string(kind), []any{x.OnlyCopies, x.HoldsOnlyCopies()}, []any{(*courier.OnlyCopies)(nil), false})
		}
	}},
	// Kept files are discarded by the names that were shown, with actor and reason, once; what an
	// engine finds is written if no discard is pending and the execution holds none in another
	// workspace, and what it has discarded if one is; the state stays, and the audit says who.
	{"kept_files_are_discarded_by_name", func(k *kit) {
		files := courier.OnlyCopies{Files: []courier.File{{Path: "a.csv", Size: 1}, {Path: "b.csv", Size: 2}}, Count: 3, Bytes: 9}
		h := k.Start()
		id := h.ID()
		discard := store.Request{Execution: id, Kind: store.RequestDiscard, By: "ops", Reason: "old", Files: []string{"b.csv", "a.csv"}}
		found := store.Request{Execution: id, Kind: store.RequestFound, Found: &store.Found{Workspace: "here", OnlyCopies: files}}
		ask := func(what string, want error, r store.Request) courier.Execution {
			if want != nil {
				k.Unchanged(what, id, func() {
					_, err := k.Request(k.Ctx(), r)
					k.Is(what, err, want)
				})
				return courier.Execution{}
			}
			x, err := k.Request(k.Ctx(), r)
			k.OK(err)
			k.Same(what, x, k.Get(id))
			return x
		}
		ask("of one that runs", courier.ErrConflict, discard)
		ask("found in one that runs", courier.ErrConflict, found)
		h.Must(h.To(courier.Completed))
		ask("of none", courier.ErrConflict, discard)
		x := ask("found", nil, found)
		k.Same("what was found", []any{x.OnlyCopies, x.Workspace, x.Seq}, []any{&files, "here", int64(3)})
		elsewhere, done := found, found
		elsewhere.Found = &store.Found{Workspace: "there"}
		ask("found elsewhere", courier.ErrConflict, elsewhere)
		done.Found = &store.Found{Workspace: "here", OnlyCopies: courier.OnlyCopies{Count: 1, Bytes: 6}, Discarded: true, Note: "2 files were removed"}
		ask("discarded without a request", courier.ErrConflict, done)
		for what, names := range map[string][]string{"none": nil, "some": {"a.csv"}, "other": {"a.csv", "c.csv"}, "more": {"a.csv", "b.csv", "c.csv"}, "one twice": {"a.csv", "a.csv"}} {
			r := discard
			r.Files = names
			ask("names: "+what, courier.ErrConflict, r)
		}
		for _, by := range []courier.By{{Actor: "ops"}, {Reason: "old"}} {
			r := discard
			r.By, r.Reason = by.Actor, by.Reason
			ask("without actor or reason", courier.ErrInvalid, r)
		}
		x = ask("discard", nil, discard)
		k.Same("pending", []any{x.State, x.Request, x.RequestedBy, x.RequestReason, x.RequestedAt.IsZero(), x.OnlyCopies}, []any{courier.Completed, store.RequestDiscard, "ops", "old", false, &files})
		ask("twice", courier.ErrConflict, discard)
		ask("found meanwhile", courier.ErrConflict, found)
		x = ask("discarded", nil, done)
		k.Same("the rest", []any{x.State, x.Request, x.RequestedBy, x.OnlyCopies}, []any{courier.Completed, courier.RequestKind(""), "", &done.Found.OnlyCopies})
		ask("the rest has no names", courier.ErrConflict, discard)
		done.Found = &store.Found{Workspace: "here"}
		ask("the rest was removed by hand", nil, done)
		elsewhere.Found.OnlyCopies = files
		x = ask("found in an earlier workspace", nil, elsewhere)
		k.Same("of the earlier workspace", []any{x.OnlyCopies, x.Workspace}, []any{&files, "there"})
		audit := k.AuditOf(id)[3:]
		for i, want := range []courier.AuditEntry{{By: "ops", Error: "discard 2 kept files: old"}, {By: "ops", Error: "2 files were removed"}} {
			a := audit[i]
			k.Same("audit", []any{a.From, a.To, a.By, a.Error, a.Seq}, []any{"completed", "completed", want.By, want.Error, int64(4 + i)})
		}
	}},
	// Kept selects what has ended for good and holds only copies, with their names, and Workspace
	// what has files in one.
	{"list_of_kept_files", func(k *kit) {
		files := &courier.OnlyCopies{Files: []courier.File{{Path: "a.csv", Size: 1}}, Count: 1, Bytes: 1}
		end := func(to courier.State, workspace string, c *courier.OnlyCopies) courier.ExecutionID {
			h := k.Start()
			t := h.To(to)
			t.Workspace, t.OnlyCopies = workspace, c
			h.Must(t)
			return h.ID()
		}
		completed := end(courier.Completed, "here", files)
		end(courier.Completed, "here", nil)
		end(courier.Completed, "here", new(courier.OnlyCopies))
		end(courier.Failed, "here", files)
		problem := end(courier.Cancelled, "there", &courier.OnlyCopies{Problem: "so"})
		given := end(courier.Failed, "here", nil)
		k.Ask(given, courier.RequestCancel)
		ids := func(f store.Filter) (list []courier.ExecutionID) {
			f.Kept = true
			for _, x := range k.page(f) {
				list = append(list, x.ID)
			}
			return list
		}
		k.Same("all", ids(store.Filter{}), []courier.ExecutionID{given, problem, completed})
		k.Same("of a workspace", ids(store.Filter{Workspace: "here"}), []courier.ExecutionID{given, completed})
		k.Same("before", ids(store.Filter{Before: problem}), []courier.ExecutionID{completed})
		k.Same("with names", k.page(store.Filter{Kept: true, IDs: []courier.ExecutionID{completed}})[0].OnlyCopies, files)
	}},
}

// page returns a page of executions.
func (k *kit) page(f store.Filter) []courier.Execution {
	k.Helper()
	list, err := k.Executions(k.Ctx(), f)
	k.OK(err)
	return list
}
