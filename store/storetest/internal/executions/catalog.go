package executions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var catalogCases = []testCase{
	// Versions of a name count from 1, and keep who saved them and when.
	{"versions_count_from_1", func(k *kit) {
		for i := 1; i <= 3; i++ {
			body := json.RawMessage(fmt.Sprintf(`{"i": %d}`, i))
			d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Version: 77, Body: body, By: "ann"})
			k.OK(err)
			if d.Version != i || d.By != "ann" || d.SavedAt.IsZero() || string(d.Body) != string(body) {
				k.Errorf("saved %s as %s", body, storekit.Text(d))
			}
		}
	}},
	{"equal_body_saves_nothing", func(k *kit) {
		first, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`{}`), By: "ann"})
		k.OK(err)
		k.Pass(k.Unit)
		again, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`{}`), By: "bob"})
		k.OK(err)
		k.Same("the same body", again, first)
		_, err = k.Load(k.Ctx(), store.Job, "x", 2)
		k.Is("version 2", err, courier.ErrNotFound)
	}},
	{"body_of_an_older_version_is_new", func(k *kit) {
		for i, body := range []string{`"a"`, `"b"`, `"a"`} {
			d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body)})
			k.OK(err)
			k.Same("version", d.Version, i+1)
		}
	}},
	// With a Base that is not the latest version nothing is saved.
	{"base_is_compared", func(k *kit) {
		save := func(body string, base int) (store.Definition, error) {
			return k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body), Base: &base})
		}
		_, err := save(`"a"`, 1)
		k.Is("base 1 of nothing", err, courier.ErrConflict)
		_, err = k.Load(k.Ctx(), store.Job, "x", 0)
		k.Is("after a conflict", err, courier.ErrNotFound)
		for i, body := range []string{`"a"`, `"b"`, `"a"`} {
			d, err := save(body, i)
			k.OK(err)
			if d.Version != i+1 || d.Base != nil || d.KeepNewer {
				k.Errorf("base %d made %s", i, storekit.Text(d))
			}
		}
		for _, base := range []int{0, 2, 4} {
			_, err := save(`"c"`, base)
			k.Is(fmt.Sprintf("base %d of 3", base), err, courier.ErrConflict)
		}
		d, err := save(`"a"`, 2) // the answer to the third was lost
		k.OK(err)
		k.Same("version of an equal body", d.Version, 3)
		d, err = k.Load(k.Ctx(), store.Job, "x", 0)
		k.OK(err)
		k.Same("latest", d.Version, 3)
	}},
	{"base_lets_one_of_many_save", func(k *kit) {
		const n = 10
		saved := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, saved[i] = k.Save(k.Ctx(), store.Definition{Kind: store.Chain, Name: "x", Body: json.RawMessage(fmt.Sprint(i)), Base: new(int)})
			})
		}
		wg.Wait()
		won := 0
		for i, err := range saved {
			if err == nil {
				won++
			} else {
				k.Is(fmt.Sprint("save ", i), err, courier.ErrConflict)
			}
		}
		k.Same("saves that were the first", won, 1)
	}},
	// A save that is refused for its Base leaves the dependencies as they are.
	{"conflict_keeps_dependencies", func(k *kit) {
		k.SaveAll(store.Job, "a", `{}`)
		k.SaveAll(store.Job, "b", `{}`)
		_, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "b", Body: json.RawMessage(`{"depends_on":["a"]}`), Base: new(int)})
		k.Is("base 0 of 1", err, courier.ErrConflict)
		_, err = k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "a", Body: json.RawMessage(`{"depends_on":["b"]}`)})
		k.OK(err) // b depends on nothing
	}},
	// With KeepNewer it is not saved, and the latest is returned.
	{"newer_version_is_kept", func(k *kit) {
		save := func(body string) store.Definition {
			d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body), By: body, KeepNewer: true})
			k.OK(err)
			return d
		}
		for i, body := range []string{`"a"`, `"b"`} {
			k.Same("version of "+body, save(body).Version, i+1)
		}
		k.Pass(k.Unit)
		latest, err := k.Load(k.Ctx(), store.Job, "x", 0)
		k.OK(err)
		for range 2 { // two binaries that start in turn
			k.Same("the older one's", save(`"a"`), latest)
			k.Same("the newer one's", save(`"b"`), latest)
		}
		k.Same("another's version", save(`"c"`).Version, 3)
		d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`"a"`), KeepNewer: true, Base: new(int)})
		k.OK(err)
		k.Same("the older one's, with a base", d.Version, 3)
	}},
	{"body_kept_byte_by_byte", func(k *kit) {
		const body = "{ \"b\":1.0,\t\"a\": 9007199254740993, \"a\": \"\\u00e9é\", \"z\": 1e400 }"
		for range 2 { // the second time, it is equal
			d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body)})
			k.OK(err)
			k.Same("version", d.Version, 1)
		}
		d, err := k.Load(k.Ctx(), store.Job, "x", 1)
		k.OK(err)
		k.Same("body", string(d.Body), body)
	}},
	// Concurrent saves are all kept, each as a version of its own.
	{"save_at_once", func(k *kit) {
		const n = 20
		versions := make([]int, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				d, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(fmt.Sprint(i))})
				if err != nil {
					k.Error(err)
				}
				versions[i] = d.Version
			})
		}
		wg.Wait()
		slices.Sort(versions)
		for i, v := range versions {
			if v != i+1 {
				k.Fatalf("versions %v, want 1 to %d", versions, n)
			}
		}
	}},
	{"load_latest", func(k *kit) {
		k.SaveAll(store.Job, "x", `1`, `2`)
		d, err := k.Load(k.Ctx(), store.Job, "x", 0)
		k.OK(err)
		k.Same("latest", string(d.Body), `2`)
	}},
	{"load_version", func(k *kit) {
		k.SaveAll(store.Job, "x", `1`, `2`)
		d, err := k.Load(k.Ctx(), store.Job, "x", 1)
		k.OK(err)
		k.Same("version 1", string(d.Body), `1`)
		k.Same("its number", d.Version, 1)
	}},
	// An unknown kind, name or version is ErrNotFound.
	{"load_missing", func(k *kit) {
		k.SaveAll(store.Job, "x", `1`)
		for _, q := range []struct {
			kind    store.Kind
			name    string
			version int
		}{{store.Job, "y", 0}, {store.Job, "x", 2}, {store.Job, "x", -1}, {store.Chain, "x", 0}, {store.Job, "", 0}, {store.Job, "X", 1}} {
			_, err := k.Load(k.Ctx(), q.kind, q.name, q.version)
			k.Is(fmt.Sprint(q), err, courier.ErrNotFound)
		}
	}},
	// Definitions of different kinds may have the same name: job, chain, deployment, calendar.
	{"kinds_are_apart", func(k *kit) {
		k.SaveAll(store.Job, "x", `1`, `2`)
		for _, kind := range []store.Kind{store.Chain, store.Deployment, store.Calendar} {
			body := fmt.Sprintf("%q", kind)
			k.SaveAll(kind, "x", body)
			d, err := k.Load(k.Ctx(), kind, "x", 0)
			k.OK(err)
			k.Same("the "+string(kind), string(d.Body), body)
			list, err := k.List(k.Ctx(), store.DefinitionFilter{Kind: kind, Limit: 10})
			k.OK(err)
			k.Same(string(kind)+"s", len(list), 1)
		}
	}},
	// A list has the latest versions, in byte order of their names, and without their bodies if
	// the filter is Brief.
	{"list_latest_by_name", func(k *kit) {
		for _, name := range []string{"b", "é", "a", "B", "a b", "a-b", "ab"} {
			k.SaveAll(store.Job, name, `1`, `2`)
		}
		list, err := k.List(k.Ctx(), store.DefinitionFilter{Kind: store.Job})
		k.OK(err)
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
			k.Same("version of "+d.Name, d.Version, 2)
		}
		k.Same("names in byte order", names, []string{"B", "a", "a b", "a-b", "ab", "b", "é"})
		brief, err := k.List(k.Ctx(), store.DefinitionFilter{Kind: store.Job, Brief: true})
		k.OK(err)
		for i := range list {
			list[i].Body = nil
		}
		k.Same("brief", brief, list)
	}},
	{"list_pages", func(k *kit) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			k.SaveAll(store.Job, name, `1`)
		}
		var pages [][]string
		after := ""
		for range 4 {
			list, err := k.List(k.Ctx(), store.DefinitionFilter{Kind: store.Job, After: after, Limit: 2})
			k.OK(err)
			var names []string
			for _, d := range list {
				names, after = append(names, d.Name), d.Name
			}
			pages = append(pages, names)
		}
		k.Same("pages", pages, [][]string{{"a", "b"}, {"c", "d"}, {"e"}, nil})
	}},
	{"removed_is_neither_listed_nor_enqueued", func(k *kit) {
		n := k.New()
		other := k.With(func(n *store.NewExecution) { n.Job = "other" })
		k.Job("other")
		done := k.Hold(k.Add(n)[0].ID, long)
		done.Must(done.To(courier.Completed))
		d, err := k.remove("job")
		k.OK(err)
		if d.Version != 2 || !d.Removed() || d.By != "ann" {
			k.Errorf("the removal is %s", storekit.Text(d))
		}
		again, err := k.remove("job")
		k.OK(err)
		k.Same("removed again", again.Version, 2)
		latest, err := k.Load(k.Ctx(), store.Job, "job", 0)
		k.OK(err)
		k.Same("latest", latest, d)
		first, err := k.Load(k.Ctx(), store.Job, "job", 1)
		k.OK(err)
		k.Same("version 1", string(first.Body), `{"name": "job"}`)
		k.Same("an id that exists", k.Existing(n).ID, n.ID)
		n.ID = courier.ExecutionID(k.IDs.New())
		k.Refused("a new one", courier.ErrNotFound, n)
		k.Refused("one of a list", courier.ErrNotFound, other, n)
		n.Latest, n.Version = true, 2
		k.Refused("the latest", courier.ErrNotFound, n)
		n.Version = 1
		k.Refused("the one that was the latest", courier.ErrNotFound, n)
		for _, brief := range []bool{false, true} {
			list, err := k.List(k.Ctx(), store.DefinitionFilter{Kind: store.Job, Brief: brief})
			k.OK(err)
			k.Same("listed", len(list), 1)
		}
		kept, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "job", Body: first.Body, KeepNewer: true})
		k.OK(err)
		k.Same("KeepNewer leaves", kept.Version, 2)
		_, err = k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "job", Body: first.Body, Base: new(1)})
		k.Is("another base", err, courier.ErrConflict)
		made, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "job", Body: first.Body, Base: new(int)})
		k.OK(err)
		k.Same("made again as version", made.Version, 3)
		k.Refused("an outdated version", store.ErrOutdated, n)
		n.Version = 3
		k.Add(n)
	}},
	{"removal_of_nothing", func(k *kit) {
		_, err := k.remove("nothing")
		k.Is("a job that is not there", err, courier.ErrNotFound)
		k.SaveAll(store.Job, "job", `1`)
		_, err = k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(store.Removal), Base: new(7)})
		k.Is("another base", err, courier.ErrConflict)
	}},
	{"removal_waits_for_what_has_not_ended", func(k *kit) {
		k.Job("up")
		up, err := k.Enqueue(k.Ctx(), []store.NewExecution{k.With(func(n *store.NewExecution) { n.Job, n.Hold = "up", true })})
		k.OK(err)
		queued, held := k.Add(k.New())[0].ID, k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		waits := k.Add(k.With(func(n *store.NewExecution) { n.DependsOn = []courier.JobDependency{{Job: "up"}} }))[0].ID
		running, paused, failed := k.Start(), k.left(courier.Paused), k.left(courier.Failed)
		for _, id := range []courier.ExecutionID{held, waits, paused, running.ID(), queued} {
			_, err := k.remove("job")
			k.Is("removal while "+string(k.Get(id).State), err, courier.ErrConflict)
			if k.Ask(id, courier.RequestCancel); id == running.ID() {
				running.Must(running.To(courier.Cancelled))
			}
		}
		latest, err := k.Load(k.Ctx(), store.Job, "job", 0)
		k.OK(err)
		k.Same("version", latest.Version, 1)
		_, err = k.remove("job")
		k.OK(err)
		k.Ask(failed, courier.RequestResume)
		h := k.Hold(failed, long)
		h.Must(h.To(courier.Completed))
		k.State(up[0].Execution.ID, courier.Created)
	}},
	{"removal_waits_for_jobs_that_depend_on_it", func(k *kit) {
		k.Job("up")
		down := func() error {
			_, err := k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: "down", Body: json.RawMessage(`{"depends_on": [{"job": "up"}]}`)})
			return err
		}
		k.OK(down())
		_, err := k.remove("up")
		k.Is("while a job depends on it", err, courier.ErrConflict)
		for _, name := range []string{"down", "up"} {
			_, err := k.remove(name)
			k.OK(err)
		}
		k.Is("a job that depends on a removed one", down(), courier.ErrNotFound)
		k.SaveAll(store.Job, "up", `{"name": "up"}`)
		k.OK(down())
	}},
	{"removal_and_enqueue_at_once", func(k *kit) {
		for round := range 10 {
			name := fmt.Sprint("job-", round)
			k.Job(name)
			list := make([]store.NewExecution, 4)
			for i := range list {
				list[i] = k.With(func(n *store.NewExecution) { n.Job = name })
			}
			created, removed := make([]bool, len(list)), false
			k.At(len(list)+1, func(i int) {
				if i == len(list) {
					_, err := k.remove(name)
					if removed = err == nil; !removed {
						k.Is("removal", err, courier.ErrConflict)
					}
					return
				}
				_, err := k.Enqueue(k.Ctx(), list[i:i+1])
				if created[i] = err == nil; !created[i] {
					k.Is("Enqueue", err, courier.ErrNotFound)
				}
			})
			d, err := k.Load(k.Ctx(), store.Job, name, 0)
			k.OK(err)
			k.Same("removed", d.Removed(), removed)
			if any := slices.Contains(created, true); any == removed {
				k.Errorf("round %d: enqueued %v, removed %v", round, created, removed)
			}
			found, err := k.Executions(k.Ctx(), store.Filter{Job: name})
			k.OK(err)
			if (len(found) > 0) == removed {
				k.Errorf("round %d: %d executions, removed %v", round, len(found), removed)
			}
		}
	}},
	// Settings are set, replaced, and removed by an empty value.
	{"settings", func(k *kit) {
		got, err := k.Settings(k.Ctx(), store.SettingFilter{})
		k.OK(err)
		k.Same("settings at first", len(got), 0)
		k.OK(k.Set(k.Ctx(), "a", "1"))
		k.OK(k.Set(k.Ctx(), "b", "x"))
		k.OK(k.Set(k.Ctx(), "a", "2"))
		k.OK(k.Set(k.Ctx(), "b", ""))
		k.OK(k.Set(k.Ctx(), "never", ""))
		got, err = k.Settings(k.Ctx(), store.SettingFilter{})
		k.OK(err)
		k.Same("settings", got, []store.Setting{{Name: "a", Value: "2"}})
	}},
	// Settings come in byte order of their names, in pages, and can be selected by a prefix.
	{"settings_by_name_in_pages", func(k *kit) {
		for _, name := range []string{"b", "é", "a.y", "a", "B", "a.x", "a_"} {
			k.OK(k.Set(k.Ctx(), name, "1"))
		}
		list := func(f store.SettingFilter) (names []string) {
			got, err := k.Settings(k.Ctx(), f)
			k.OK(err)
			for _, s := range got {
				names = append(names, s.Name)
			}
			return names
		}
		k.Same("all", list(store.SettingFilter{}), []string{"B", "a", "a.x", "a.y", "a_", "b", "é"})
		k.Same("first page", list(store.SettingFilter{Limit: 3}), []string{"B", "a", "a.x"})
		k.Same("second page", list(store.SettingFilter{After: "a.x", Limit: 3}), []string{"a.y", "a_", "b"})
		k.Same("last page", list(store.SettingFilter{After: "b", Limit: 3}), []string{"é"})
		k.Same("after the last", list(store.SettingFilter{After: "é"}), []string(nil))
		k.Same("with a prefix", list(store.SettingFilter{Prefix: "a."}), []string{"a.x", "a.y"})
		k.Same("with a prefix, after a name", list(store.SettingFilter{Prefix: "a", After: "a.x", Limit: 2}), []string{"a.y", "a_"})
		k.Same("a prefix has no wildcards", list(store.SettingFilter{Prefix: "a_"}), []string{"a_"})
		k.Same("with another prefix", list(store.SettingFilter{Prefix: "c"}), []string(nil))
	}},
	{"set_refuses_a_bad_limit", func(k *kit) {
		k.Limit("", "7")
		for _, scope := range []string{"", "job:x", "key:y"} {
			for _, value := range []string{"many", "-1", "1.5", "99999999999"} {
				k.Is(scope+" "+value, k.Set(k.Ctx(), store.LimitSetting(scope), value), courier.ErrInvalid)
			}
		}
		got, err := k.Settings(k.Ctx(), store.SettingFilter{})
		k.OK(err)
		k.Same("settings", got, []store.Setting{{Name: store.LimitSetting(""), Value: "7"}})
	}},
	// A call whose context has ended does nothing and returns an error.
	{"ended_context_does_nothing", func(k *kit) {
		h := k.Start()
		id := h.ID()
		ctx, cancel := context.WithCancel(k.Ctx())
		cancel()
		n := k.New()
		k.Unchanged("a call whose context has ended", id, func() {
			if _, err := k.Save(ctx, store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`1`)}); err == nil {
				k.Error("Save: no error")
			}
			if err := k.Set(ctx, "a", "1"); err == nil {
				k.Error("Set: no error")
			}
			if _, err := k.Enqueue(ctx, []store.NewExecution{n}); err == nil {
				k.Error("Enqueue: no error")
			}
			if _, err := k.Claim(ctx, k.ClaimRequest(1)); err == nil {
				k.Error("Claim: no error")
			}
			if _, err := k.Renew(ctx, store.RenewRequest{Leases: []store.Lease{{Execution: id, Token: h.Token}}, For: 2 * long}); err == nil {
				k.Error("Renew: no error")
			}
			if err := k.Await(ctx, []string{courier.DefaultQueue}, 0); err == nil {
				k.Error("Await: no error")
			}
			if err := k.Apply(ctx, h.Begin(0)); err == nil {
				k.Error("Apply: no error")
			}
			if _, err := k.Request(ctx, store.Request{Execution: id, Kind: courier.RequestPause}); err == nil {
				k.Error("Ask: no error")
			}
		})
		_, err := k.Load(k.Ctx(), store.Job, "x", 0)
		k.Is("what was to be saved", err, courier.ErrNotFound)
		_, err = k.Execution(k.Ctx(), n.ID)
		k.Is("what was to be created", err, courier.ErrNotFound)
	}},
}

// remove removes a job.
func (k *kit) remove(name string) (store.Definition, error) {
	return k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: name, Body: json.RawMessage(store.Removal), By: "ann"})
}
