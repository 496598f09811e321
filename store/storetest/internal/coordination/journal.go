package coordination

import (
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasJournal(s store.Store) bool {
	_, ok := s.(store.Journal)
	return ok
}

var journalCases = []testCase{
	// The journal keeps every field of an entry, and gives it a number and an instant.
	{"keeps_every_field", func(k *kit) {
		a := store.Action{
			By: "ann", Via: "api", Verb: "set", Kind: "limit", Name: "key:acme", Job: "job", Was: json.RawMessage(`{ "n": 1.0 }`), Now: json.RawMessage("2"),
			Execution: courier.ExecutionID(k.IDs.New()), Reason: "it's \"odd\" \\ %", Outcome: "done", Of: 1 << 40,
		}
		got := k.noted(a)
		a.ID, a.At = got.ID, got.At
		if got.ID <= 0 || got.At.IsZero() {
			k.Errorf("noted as %d at %v", got.ID, got.At)
		}
		k.Same("returned", got, a)
		k.Same("listed", k.actions(store.ActionFilter{}), []store.Action{a})
		least := k.noted(store.Action{Verb: "looked", Kind: "page"})
		k.Same("the least", k.actions(store.ActionFilter{Limit: 1}), []store.Action{least})
	}},
	// It lists entries newest first, in pages, by kind, name and actor.
	{"lists_the_newest_first_in_pages", func(k *kit) {
		for _, name := range []string{"a", "b", "a", "c", "a"} {
			by := "ann"
			if name == "c" {
				by = "bob"
			}
			k.noted(store.Action{Verb: "set", Kind: "schedule", Name: name, By: by})
		}
		k.noted(store.Action{Verb: "set", Kind: "monitor", Name: "a"})
		names := func(f store.ActionFilter) (names []string) {
			f.Limit = 2
			for page := k.actions(f); len(page) > 0; page = k.actions(f) {
				for _, a := range page {
					names = append(names, a.Kind+" "+a.Name)
				}
				f.Before = page[len(page)-1].ID
			}
			return names
		}
		k.Same("all", names(store.ActionFilter{}), []string{"monitor a", "schedule a", "schedule c", "schedule a", "schedule b", "schedule a"})
		k.Same("of a name", names(store.ActionFilter{Kind: "schedule", Name: "a"}), []string{"schedule a", "schedule a", "schedule a"})
		k.Same("of a kind", names(store.ActionFilter{Kind: "monitor"}), []string{"monitor a"})
		k.Same("by somebody", names(store.ActionFilter{By: "bob"}), []string{"schedule c"})
		k.Same("of nobody", names(store.ActionFilter{By: "eve"}), nil)
	}},
	// An act is one entry, also where the entries of others lie between its two, or a page ends.
	{"lists_an_act_once", func(k *kit) {
		asked := k.noted(store.Action{Verb: "set", Kind: "limit", Outcome: "asked"})
		left := k.noted(store.Action{Verb: "set", Kind: "limit", Outcome: "asked"}) // nobody knows what came of it
		for range 2 {
			k.noted(store.Action{Verb: "seen", Kind: "limit"})
		}
		done := k.noted(store.Action{Verb: "set", Kind: "limit", Outcome: "done", Of: asked.ID})
		k.Same("both", k.actions(store.ActionFilter{Limit: 1}), []store.Action{done})
		var ids []int64
		for f := (store.ActionFilter{Limit: 2, Acts: true}); ; {
			page := k.actions(f)
			for _, a := range page {
				ids = append(ids, a.ID)
			}
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].ID
		}
		k.Same("acts", ids, []int64{done.ID, done.ID - 1, done.ID - 2, left.ID})
	}},
}

func (k *kit) noted(a store.Action) store.Action {
	k.Helper()
	got, err := k.Store.(store.Journal).Note(k.Ctx(), a)
	k.OK(err)
	return got
}

func (k *kit) actions(f store.ActionFilter) []store.Action {
	k.Helper()
	list, err := k.Store.(store.Journal).Actions(k.Ctx(), f)
	k.OK(err)
	return list
}
