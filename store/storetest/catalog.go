package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var catalogCases = []testCase{
	{"versions_count_from_1", func(k *kit) {
		for i := 1; i <= 3; i++ {
			body := json.RawMessage(fmt.Sprintf(`{"i": %d}`, i))
			d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Version: 77, Body: body, By: "ann"})
			k.ok(err)
			if d.Version != i || d.By != "ann" || d.SavedAt.IsZero() || string(d.Body) != string(body) {
				k.Errorf("saved %s as %s", body, text(d))
			}
		}
	}},
	{"equal_body_saves_nothing", func(k *kit) {
		first, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`{}`), By: "ann"})
		k.ok(err)
		k.pass(k.unit)
		again, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`{}`), By: "bob"})
		k.ok(err)
		k.same("the same body", again, first)
		_, err = k.Load(k.ctx(), store.Job, "x", 2)
		k.is("version 2", err, courier.ErrNotFound)
	}},
	{"body_of_an_older_version_is_new", func(k *kit) {
		for i, body := range []string{`"a"`, `"b"`, `"a"`} {
			d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body)})
			k.ok(err)
			k.same("version", d.Version, i+1)
		}
	}},
	{"base_is_compared", func(k *kit) {
		save := func(body string, base int) (store.Definition, error) {
			return k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body), Base: &base})
		}
		_, err := save(`"a"`, 1)
		k.is("base 1 of nothing", err, courier.ErrConflict)
		_, err = k.Load(k.ctx(), store.Job, "x", 0)
		k.is("after a conflict", err, courier.ErrNotFound)
		for i, body := range []string{`"a"`, `"b"`, `"a"`} {
			d, err := save(body, i)
			k.ok(err)
			if d.Version != i+1 || d.Base != nil || d.KeepNewer {
				k.Errorf("base %d made %s", i, text(d))
			}
		}
		for _, base := range []int{0, 2, 4} {
			_, err := save(`"c"`, base)
			k.is(fmt.Sprintf("base %d of 3", base), err, courier.ErrConflict)
		}
		d, err := save(`"a"`, 2) // the answer to the third was lost
		k.ok(err)
		k.same("version of an equal body", d.Version, 3)
		d, err = k.Load(k.ctx(), store.Job, "x", 0)
		k.ok(err)
		k.same("latest", d.Version, 3)
	}},
	{"base_lets_one_of_many_save", func(k *kit) {
		const n = 10
		saved := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, saved[i] = k.Save(k.ctx(), store.Definition{Kind: store.Chain, Name: "x", Body: json.RawMessage(fmt.Sprint(i)), Base: new(int)})
			})
		}
		wg.Wait()
		won := 0
		for i, err := range saved {
			if err == nil {
				won++
			} else {
				k.is(fmt.Sprint("save ", i), err, courier.ErrConflict)
			}
		}
		k.same("saves that were the first", won, 1)
	}},
	{"conflict_keeps_dependencies", func(k *kit) {
		k.saveAll(store.Job, "a", `{}`)
		k.saveAll(store.Job, "b", `{}`)
		_, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "b", Body: json.RawMessage(`{"depends_on":["a"]}`), Base: new(int)})
		k.is("base 0 of 1", err, courier.ErrConflict)
		_, err = k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "a", Body: json.RawMessage(`{"depends_on":["b"]}`)})
		k.ok(err) // b depends on nothing
	}},
	{"newer_version_is_kept", func(k *kit) {
		save := func(body string) store.Definition {
			d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body), By: body, KeepNewer: true})
			k.ok(err)
			return d
		}
		for i, body := range []string{`"a"`, `"b"`} {
			k.same("version of "+body, save(body).Version, i+1)
		}
		k.pass(k.unit)
		latest, err := k.Load(k.ctx(), store.Job, "x", 0)
		k.ok(err)
		for range 2 { // two binaries that start in turn
			k.same("the older one's", save(`"a"`), latest)
			k.same("the newer one's", save(`"b"`), latest)
		}
		k.same("another's version", save(`"c"`).Version, 3)
		d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`"a"`), KeepNewer: true, Base: new(int)})
		k.ok(err)
		k.same("the older one's, with a base", d.Version, 3)
	}},
	{"body_kept_byte_by_byte", func(k *kit) {
		const body = "{ \"b\":1.0,\t\"a\": 9007199254740993, \"a\": \"\\u00e9é\", \"z\": 1e400 }"
		for range 2 { // the second time, it is equal
			d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(body)})
			k.ok(err)
			k.same("version", d.Version, 1)
		}
		d, err := k.Load(k.ctx(), store.Job, "x", 1)
		k.ok(err)
		k.same("body", string(d.Body), body)
	}},
	{"save_at_once", func(k *kit) {
		const n = 20
		versions := make([]int, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				d, err := k.Save(k.ctx(), store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(fmt.Sprint(i))})
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
		k.saveAll(store.Job, "x", `1`, `2`)
		d, err := k.Load(k.ctx(), store.Job, "x", 0)
		k.ok(err)
		k.same("latest", string(d.Body), `2`)
	}},
	{"load_version", func(k *kit) {
		k.saveAll(store.Job, "x", `1`, `2`)
		d, err := k.Load(k.ctx(), store.Job, "x", 1)
		k.ok(err)
		k.same("version 1", string(d.Body), `1`)
		k.same("its number", d.Version, 1)
	}},
	{"load_missing", func(k *kit) {
		k.saveAll(store.Job, "x", `1`)
		for _, q := range []struct {
			kind    store.Kind
			name    string
			version int
		}{{store.Job, "y", 0}, {store.Job, "x", 2}, {store.Job, "x", -1}, {store.Chain, "x", 0}, {store.Job, "", 0}, {store.Job, "X", 1}} {
			_, err := k.Load(k.ctx(), q.kind, q.name, q.version)
			k.is(fmt.Sprint(q), err, courier.ErrNotFound)
		}
	}},
	{"kinds_are_apart", func(k *kit) {
		k.saveAll(store.Job, "x", `1`, `2`)
		k.saveAll(store.Chain, "x", `"chain"`)
		d, err := k.Load(k.ctx(), store.Chain, "x", 0)
		k.ok(err)
		k.same("the chain", string(d.Body), `"chain"`)
		list, err := k.List(k.ctx(), store.DefinitionFilter{Kind: store.Chain, Limit: 10})
		k.ok(err)
		k.same("chains", len(list), 1)
	}},
	{"list_latest_by_name", func(k *kit) {
		for _, name := range []string{"b", "é", "a", "B", "a b", "a-b", "ab"} {
			k.saveAll(store.Job, name, `1`, `2`)
		}
		list, err := k.List(k.ctx(), store.DefinitionFilter{Kind: store.Job})
		k.ok(err)
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
			k.same("version of "+d.Name, d.Version, 2)
		}
		k.same("names in byte order", names, []string{"B", "a", "a b", "a-b", "ab", "b", "é"})
	}},
	{"list_pages", func(k *kit) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			k.saveAll(store.Job, name, `1`)
		}
		var pages [][]string
		after := ""
		for range 4 {
			list, err := k.List(k.ctx(), store.DefinitionFilter{Kind: store.Job, After: after, Limit: 2})
			k.ok(err)
			var names []string
			for _, d := range list {
				names, after = append(names, d.Name), d.Name
			}
			pages = append(pages, names)
		}
		k.same("pages", pages, [][]string{{"a", "b"}, {"c", "d"}, {"e"}, nil})
	}},
	{"settings", func(k *kit) {
		got, err := k.Settings(k.ctx(), store.SettingFilter{})
		k.ok(err)
		k.same("settings at first", len(got), 0)
		k.ok(k.Set(k.ctx(), "a", "1"))
		k.ok(k.Set(k.ctx(), "b", "x"))
		k.ok(k.Set(k.ctx(), "a", "2"))
		k.ok(k.Set(k.ctx(), "b", ""))
		k.ok(k.Set(k.ctx(), "never", ""))
		got, err = k.Settings(k.ctx(), store.SettingFilter{})
		k.ok(err)
		k.same("settings", got, []store.Setting{{Name: "a", Value: "2"}})
	}},
	{"settings_by_name_in_pages", func(k *kit) {
		for _, name := range []string{"b", "é", "a.y", "a", "B", "a.x", "a_"} {
			k.ok(k.Set(k.ctx(), name, "1"))
		}
		list := func(f store.SettingFilter) (names []string) {
			got, err := k.Settings(k.ctx(), f)
			k.ok(err)
			for _, s := range got {
				names = append(names, s.Name)
			}
			return names
		}
		k.same("all", list(store.SettingFilter{}), []string{"B", "a", "a.x", "a.y", "a_", "b", "é"})
		k.same("first page", list(store.SettingFilter{Limit: 3}), []string{"B", "a", "a.x"})
		k.same("second page", list(store.SettingFilter{After: "a.x", Limit: 3}), []string{"a.y", "a_", "b"})
		k.same("last page", list(store.SettingFilter{After: "b", Limit: 3}), []string{"é"})
		k.same("after the last", list(store.SettingFilter{After: "é"}), []string(nil))
		k.same("with a prefix", list(store.SettingFilter{Prefix: "a."}), []string{"a.x", "a.y"})
		k.same("with a prefix, after a name", list(store.SettingFilter{Prefix: "a", After: "a.x", Limit: 2}), []string{"a.y", "a_"})
		k.same("a prefix has no wildcards", list(store.SettingFilter{Prefix: "a_"}), []string{"a_"})
		k.same("with another prefix", list(store.SettingFilter{Prefix: "c"}), []string(nil))
	}},
	{"set_refuses_a_bad_limit", func(k *kit) {
		k.limit("", "7")
		for _, scope := range []string{"", "job:x", "key:y"} {
			for _, value := range []string{"many", "-1", "1.5", "99999999999"} {
				k.is(scope+" "+value, k.Set(k.ctx(), store.LimitSetting(scope), value), courier.ErrInvalid)
			}
		}
		got, err := k.Settings(k.ctx(), store.SettingFilter{})
		k.ok(err)
		k.same("settings", got, []store.Setting{{Name: store.LimitSetting(""), Value: "7"}})
	}},
	{"ended_context_does_nothing", func(k *kit) {
		h := k.start()
		id := h.id()
		ctx, cancel := context.WithCancel(k.ctx())
		cancel()
		n := k.new()
		k.unchanged("a call whose context has ended", id, func() {
			if _, err := k.Save(ctx, store.Definition{Kind: store.Job, Name: "x", Body: json.RawMessage(`1`)}); err == nil {
				k.Error("Save: no error")
			}
			if err := k.Set(ctx, "a", "1"); err == nil {
				k.Error("Set: no error")
			}
			if _, err := k.Enqueue(ctx, []store.NewExecution{n}); err == nil {
				k.Error("Enqueue: no error")
			}
			if _, err := k.Claim(ctx, k.request(1)); err == nil {
				k.Error("Claim: no error")
			}
			if _, err := k.Renew(ctx, store.RenewRequest{Leases: []store.Lease{{Execution: id, Token: h.Token}}, For: 2 * long}); err == nil {
				k.Error("Renew: no error")
			}
			if err := k.Await(ctx, []string{courier.DefaultQueue}, 0); err == nil {
				k.Error("Await: no error")
			}
			if err := k.Apply(ctx, h.begin(0)); err == nil {
				k.Error("Apply: no error")
			}
			if _, err := k.Request(ctx, store.Request{Execution: id, Kind: courier.RequestPause}); err == nil {
				k.Error("Ask: no error")
			}
		})
		_, err := k.Load(k.ctx(), store.Job, "x", 0)
		k.is("what was to be saved", err, courier.ErrNotFound)
		_, err = k.Execution(k.ctx(), n.ID)
		k.is("what was to be created", err, courier.ErrNotFound)
	}},
}

// saveAll saves versions of a definition.
func (k *kit) saveAll(kind store.Kind, name string, bodies ...string) {
	k.Helper()
	for _, body := range bodies {
		_, err := k.Save(k.ctx(), store.Definition{Kind: kind, Name: name, Body: json.RawMessage(body)})
		k.ok(err)
	}
}
