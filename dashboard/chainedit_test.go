package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// typedChain is a chain with the parameters of the job typed.
func typedChain() chain.Chain {
	return chain.Chain{Name: "chained", Params: typed().Params, Members: []chain.Member{{Name: "one", Job: "typed"}}}
}

// begun returns the execution of a chain that a form has led to.
func (a answer) begun() chain.Execution {
	a.world.Helper()
	to := a.Header().Get("Location")
	_, id, _ := strings.Cut(to, "chain-executions/")
	id, _, _ = strings.Cut(id, "?")
	if a.Code != http.StatusSeeOther || id == "" {
		a.world.Fatalf("%s: %d to %q: %s", a.at, a.Code, to, a.Body)
	}
	return a.chain(courier.ChainExecutionID(id))
}

// The form of a chain has the fields of a job's, each of its type, and what was typed becomes the
// parameters.
func TestChainRun(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(typed())
		w.defineChain(typedChain())
		job, page := w.get("jobs/typed/run"), w.get("chains/chained/run").has("Run chained").has("Back to the chain")
		if a, b := job.tree.all("fieldset")[0].text(), page.tree.all("fieldset")[0].text(); a != b {
			t.Errorf("the fields are\n%s\nand those of the job\n%s", b, a)
		}
		for _, f := range job.tree.all("fieldset")[0].all("input") {
			if g := page.tree.one(t, "[name="+f.attrs["name"]+"]"); g.attrs["type"] != f.attrs["type"] || g.attrs["value"] != f.attrs["value"] {
				t.Errorf("%s is %v, and %v for the job", f.attrs["name"], g.attrs, f.attrs)
			}
		}
		for _, name := range []string{"priority", "delay"} { // a chain has none
			if len(page.tree.all("[name="+name+"]")) != 0 {
				t.Errorf("the form has %s", name)
			}
		}
		form := map[string]string{
			"do": "start", "key": "one", "param.need": "7", "param.flag": "false", "param.list": "[3]", "param.mode": "short", "param.any": "true", "labels": "partner=acme", "reason": "asked for",
		}
		x := w.post("chains/chained/run", form).begun()
		for _, part := range []string{`"need":7`, `"flag":false`, `"list":[3]`, `"mode":"short"`, `"any":true`} {
			if got := strings.ReplaceAll(string(x.Params), " ", ""); !strings.Contains(got, part) {
				t.Errorf("the parameters are %s, without %s", got, part)
			}
		}
		if x.By != "admin" || len(x.Labels) != 2 || x.Labels["partner"] != "acme" || x.Labels["by"] != "admin" {
			t.Errorf("%+v", x)
		}
		if again := w.post("chains/chained/run", form).begun(); again.ID != x.ID {
			t.Errorf("a second click has started %s beside %s", again.ID, x.ID)
		}
		list, _ := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "chain"})
		if len(list) != 2 || list[0].Verb != "start" || list[0].Name != "chained" || list[0].Job != "" || list[0].Reason != "asked for" || list[0].Outcome != "done" || list[1].Outcome != "asked" {
			t.Errorf("the journal has %+v", list)
		}
		if held := w.post("chains/chained/run", with(form, "hold", "on")).begun(); held.State != chain.Pending {
			t.Errorf("it is %s", held.State)
		}

		second := typedChain()
		second.Description = "Again"
		w.defineChain(second)
		w.get("chains/chained/run?version=1").has("This starts version 1.")
		if old := w.post("chains/chained/run?version=1", with(form, "key", "two")).begun(); old.Version != 1 {
			t.Errorf("version %d was started", old.Version)
		}
		w.fails("chains/chained/run?version=9", http.StatusNotFound)
		w.fails("chains/chaind/run", http.StatusNotFound).has("chained")
	})
}

// What is wrong with the parameters of a chain stands at their fields, all at once, and what was
// typed stays.
func TestChainRunProblems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(typed())
		w.defineChain(typedChain())
		form := map[string]string{"param.short": "long", "param.need": "ten", "param.day": "2026-02-30", "param.list": "[1", "param.key": canary, "labels": "nothing", "reason": "because"}
		page := w.post("chains/chained/run", with(form, "do", "start"))
		if page.Code != http.StatusUnprocessableEntity {
			t.Fatalf("%d", page.Code)
		}
		page.lacks(canary).has("Each stands at its place below.")
		for _, name := range []string{"param.short", "param.need", "param.day", "param.list", "labels"} {
			f := page.tree.one(t, "[name="+name+"]")
			if f.attrs["aria-invalid"] != "true" || len(f.up.one(t, ".wrong").text()) < 5 || f.attrs["value"]+strings.TrimPrefix(f.raw(), "\n") != form[name] {
				t.Errorf("%s says %q", name, f.up.text())
			}
		}
		if page.tree.one(t, "#reason").attrs["value"] != "because" {
			t.Error("the reason is lost")
		}
		free := typedChain()
		free.Name, free.Params, free.Members[0].Job = "free", nil, "report"
		w.defineChain(free)
		w.get("chains/free/run").has("any are accepted: a JSON object")
		w.post("chains/free/run", map[string]string{"do": "start", "params": "[]"}).has("It must be a JSON object")
		if x := w.post("chains/free/run", map[string]string{"do": "start", "params": `{"text": "a"}`}).begun(); !strings.Contains(string(x.Params), `"text"`) {
			t.Errorf("%s", x.Params)
		}
		if list, _ := w.engine.Chains().Executions(w.Context(), chain.Filter{Chain: "chained"}); len(list) != 0 {
			t.Errorf("%d were started", len(list))
		}
	})
}

// A dry run of a chain reports on the steps of all members, and starts nothing.
func TestChainRunDry(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		page := w.post("chains/daily/run", map[string]string{"do": "dry-run", "param.fail": "x"}).has("The dry run found").has("started nothing")
		for _, member := range []string{"fetch", "check", "mend", "tidy"} {
			page.has(member + `: step 0 "work" (test.work)`)
		}
		if page.tree.one(t, "[name=param.fail]").attrs["value"] != "x" {
			t.Error("what was typed is lost")
		}
		w.define(typed())
		w.defineChain(chain.Chain{Name: "passing", Params: map[string]any{"n": nil}, Members: []chain.Member{{Name: "one", Job: "typed", Params: map[string]any{"need": "context:params.n"}}}})
		bad := w.post("chains/passing/run", map[string]string{"do": "dry-run", "param.n": "ten"}).has("The dry run found problems.")
		if list := bad.tree.all(".bad")[0].all("li"); len(list) != 1 || !strings.HasPrefix(list[0].text(), "one: params.need: ") {
			t.Errorf("the problem of the member is missing: %s", bad.tree.text())
		}
		w.post("chains/daily/run", map[string]string{"do": "dry-run", "param.seconds": "[1"}).has("It is not JSON")
		if list, _ := w.engine.Journal(w.Context(), store.ActionFilter{}); len(list) != 0 {
			t.Errorf("a dry run has made %d entries", len(list))
		}
		if list, _ := w.engine.Chains().Executions(w.Context(), chain.Filter{}); len(list) != 0 {
			t.Errorf("%d were started", len(list))
		}
	})
}

// A chain is edited as text: checked, tried and saved as a new version, which is compared with
// the one before.
func TestChainEdit(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		w.get("chains/daily/diff").has("There is nothing to compare.").has("The chain")
		fields := w.editAt("chains/daily/edit")
		if fields["base"] != "1" || strings.Contains(fields["text"], "version") {
			t.Errorf("the form has base %q and the text %s", fields["base"], fields["text"])
		}
		w.get("chains/daily/edit").has("Back to the chain").has("Jobs that can be members").has("Takes fail, seconds, text.")
		text := strings.Replace(strings.Replace(fields["text"], "Every night", "Each night", 1), `"name": "mend",`, `"name": "repair",`, 1)
		checked := w.post("chains/daily/edit", with(fields, "do", "check", "text", strings.ReplaceAll(text, "\n", "\r\n")))
		checked.has("The check found no problems.").has("What saving would change").has(`description "Every night" "Each night"`)
		if got := strings.TrimPrefix(checked.tree.one(t, "#text").raw(), "\n"); got != text {
			t.Errorf("the text has become %s", got)
		}
		w.post("chains/daily/edit", with(fields, "do", "dry-run", "text", text)).has("The dry run found").has(`repair: step 0 "work" (test.work)`)
		if now, _ := w.engine.Chains().Get(w.Context(), "daily", 0); now.Version != 1 {
			t.Errorf("a check has made version %d", now.Version)
		}
		if actions, err := w.engine.Journal(w.Context(), store.ActionFilter{}); err != nil || len(actions) != 0 {
			t.Errorf("looking has made %d entries: %v", len(actions), err)
		}
		saved := w.post("chains/daily/edit", with(fields, "do", "define", "text", text, "reason", "a better name"))
		to := saved.Header().Get("Location")
		if saved.Code != http.StatusSeeOther || !strings.HasPrefix(to, "../../chains/daily?done=") {
			t.Fatalf("saving: %d to %q: %s", saved.Code, to, saved.Body)
		}
		w.get("chains/daily" + to[len("../../chains/daily"):]).has("define").has("a better name").has("Version 2, saved").has("by admin").has("Each night").has("repair")
		list, _ := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "chain"})
		if len(list) != 2 || list[0].Verb != "define" || list[0].Name != "daily" || string(list[0].Was) != "1" || list[0].Outcome != "done" || list[1].Outcome != "asked" {
			t.Errorf("the journal has %+v", list)
		}
		same := w.post("chains/daily/edit", with(w.editAt("chains/daily/edit"), "do", "define"))
		if same.Code != http.StatusSeeOther {
			t.Fatalf("saving the same: %d", same.Code)
		}
		w.get("chains/daily" + same.Header().Get("Location")[len("../../chains/daily"):]).has("unchanged").has("Version 2, saved")

		diff := w.get("chains/daily/diff").has("From version 1 to version 2.").has(`description "Every night" "Each night"`).has("All versions")
		if added := strings.Join(strings.Fields(diff.tree.one(t, "li[class=added]").text()), " "); !strings.Contains(added, `{ "name": "repair", "job": "report", "params"`) {
			t.Errorf("the fields are in another order: %s", added)
		}
		if added, removed := diff.tree.one(t, "li[class=added]").text(), diff.tree.one(t, "li[class=removed]").text(); !strings.Contains(added, `"repair"`) || !strings.Contains(removed, `"mend"`) {
			t.Errorf("%q and %q", added, removed)
		}
		w.get("chains/daily/diff?from=2&to=1").has("From version 2 to version 1.")
		w.fails("chains/daily/diff?from=7", http.StatusNotFound)
		w.get("chains/daily/edit?version=1").has("Edit daily")
		if old := w.editAt("chains/daily/edit?version=1"); old["base"] != "2" || !strings.Contains(old["text"], `"mend"`) {
			t.Errorf("%v", old)
		}
		versions := w.get("chains/daily?tab=versions").has("Choose two and compare them.").has("Members")
		if rows := versions.tree.all("tr[data-row]"); len(rows) != 2 || !strings.HasSuffix(rows[0].text(), "4 what changed") {
			t.Errorf("%d versions: %s", len(rows), versions.tree.text())
		}
		if got := strings.TrimSpace(w.get("chains/daily?tab=text").tree.one(t, "pre").raw()); got != strings.TrimSpace(w.editAt("chains/daily/edit")["text"]) {
			t.Errorf("the text is %s", got)
		}
		w.get("chains/daily?tab=schedules").has("No schedule starts this chain.")
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "nightly", Chain: "daily", Cron: "0 0 3 * * ?"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.get("chains/daily?tab=schedules").has("The schedules that start this chain").has("nightly")
		w.get("jobs/report?tab=schedules").has("The schedules that start this job").has("nightly by the chain daily enabled 2000-01-01 03:00:00 UTC")
		w.get("jobs/hidden?tab=schedules").has("No schedule starts this job.")
	})
}

// What is wrong with the text of a chain stands beside its line, and what was typed stays.
func TestChainEditProblems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		fields := w.editAt("chains/daily/edit")
		change := func(from, to string) string {
			if !strings.Contains(fields["text"], from) {
				t.Fatalf("the text does not have %s: %s", from, fields["text"])
			}
			return strings.Replace(fields["text"], from, to, 1)
		}
		for _, c := range []struct{ text, want, mark string }{
			{change(`"job": "report"`, `"job": "reprot"`), `did you mean "report"`, `"reprot"`},
			{change(`"description": "Every night"`, `"description": 3`), "description: must be", "3"},
			{change(`"members": [`, `"membrs": [`), "membrs", "["},
			{change(`"Every night",`, `"Every night"`), "not JSON", ""},
			{change(`"name": "daily"`, `"name": "other"`), "it must be the name in the path, or be left out", `"other"`},
			{change(`"fetch"`, `"check"`), `"check"`, ""},
			{"", "not JSON", ""}, {"[]", "must be an object", ""}, {"{}", "members", ""}, {strings.Repeat("[", 200) + strings.Repeat("]", 200), "more than 100 levels of nested lists", ""},
		} {
			for _, do := range []string{"check", "define", "dry-run"} {
				page := w.post("chains/daily/edit", with(fields, "do", do, "text", c.text, "reason", "because"))
				if page.Code == http.StatusSeeOther {
					t.Errorf("%s of %q was done", do, c.text)
					continue
				}
				if page.has(c.want); strings.TrimPrefix(page.tree.one(t, "#text").raw(), "\n") != c.text || page.tree.one(t, "#reason").attrs["value"] != "because" {
					t.Errorf("%s: what was typed has become %q", do, page.tree.one(t, "#text").raw())
				}
				if marks := page.tree.all("mark"); c.mark != "" && (len(marks) == 0 || !strings.HasPrefix(marks[0].text(), c.mark)) {
					t.Errorf("%s: %q has no place: %s", do, c.mark, page.tree.text())
				}
			}
		}
		two := strings.Replace(change(`"job": "report"`, `"job": "reprot"`), `"job": "other"`, `"job": "othr"`, 1)
		page := w.post("chains/daily/edit", with(fields, "do", "define", "text", two)).has(`did you mean "report"`).has(`did you mean "other"`)
		if n := len(page.tree.one(t, ".places").all("li")); page.Code != http.StatusUnprocessableEntity || n != 2 {
			t.Errorf("%d: %d problems", page.Code, n)
		}
		w.post("chains/daily/edit", with(fields, "do", "check", "text", change(`"name": "daily",`, ""))).has("The check found no problems.")
		doubtful := w.post("chains/daily/edit", with(fields, "do", "check", "text", change(`"context:params.fail"`, `"{{params.fail}}"`))).has("The check found no problems.").has("Warnings")
		if mark := doubtful.tree.one(t, "mark").text(); mark != `"{{params.fail}}",` {
			t.Errorf("the place of the warning is %q", mark)
		}
		if w.post("chains/daily/edit", with(fields, "do", "define", "base", "x")).Code != http.StatusBadRequest {
			t.Error("a base that is no number is taken")
		}
		if now, _ := w.engine.Chains().Get(w.Context(), "daily", 0); now.Version != 1 {
			t.Errorf("version %d was saved", now.Version)
		}
	})
}

// Who saves a chain over what somebody else has saved meanwhile is told who, when and what.
func TestChainEditConflict(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		fields := w.editAt("chains/daily/edit")
		other := daily()
		other.Members = other.Members[:3]
		w.defineChain(other)
		mine := with(fields, "do", "define", "text", strings.Replace(fields["text"], "Every night", "Each night", 1))
		page := w.post("chains/daily/edit", mine)
		if page.Code != http.StatusConflict {
			t.Fatalf("%d", page.Code)
		}
		page.has("Version 2 was saved in the meantime by editor").has("What changed in the meantime")
		if removed := page.tree.one(t, "li[class=removed]").text(); !strings.Contains(removed, `"tidy"`) {
			t.Errorf("%q", removed)
		}
		over := page.tree.one(t, "input[name=over]").attrs["value"]
		if done := w.post("chains/daily/edit", with(mine, "key", "second", "over", over)); done.Code != http.StatusSeeOther {
			t.Errorf("replacing it: %d %s", done.Code, done.Body)
		}
		if now, _ := w.engine.Chains().Get(w.Context(), "daily", 0); now.Version != 3 || now.Description != "Each night" || len(now.Members) != 4 {
			t.Errorf("%+v", now)
		}
	})
}

// A new chain is written as text, and its name comes from the address. What the text begins with
// can be saved.
func TestChainNew(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("chains").has("There are no chains yet.").has("New chain")
		w.get("new/chain").has("Name of the chain")
		r := get("new/chain?name=a%2Fb+%3F")
		if a := w.send(r); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "../chains/a%2Fb%20%3F/edit" {
			t.Errorf("%d %q", a.Code, a.Header().Get("Location"))
		}
		w.get("chains/a%2Fb%20%3F/edit").has("There is no chain of this name yet.").has("All chains")
		fields := w.editAt("chains/a%2Fb%20%3F/edit")
		if fields["base"] != "0" || strings.HasPrefix(fields["text"], "{\n  \"name\"") {
			t.Errorf("%v", fields)
		}
		if made := w.post("chains/a%2Fb%20%3F/edit", with(fields, "do", "define")); made.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", made.Code, made.tree.text())
		}
		if chain, err := w.engine.Chains().Get(w.Context(), "a/b ?", 0); err != nil || chain.Version != 1 || len(chain.Members) != 2 {
			t.Errorf("%+v %v", chain, err)
		}
		fields = w.editAt("chains/daily/edit")
		w.defineChain(daily())
		page := w.post("chains/daily/edit", with(fields, "do", "define"))
		if page.Code != http.StatusConflict {
			t.Errorf("%d", page.Code)
		}
		page.has("Version 1 was saved in the meantime by editor").has("based on no version")
	})
}

// Chains belong to no job: the role that counts is that for all jobs, as in the API.
func TestChainEditRoles(t *testing.T) {
	people["chainclient"] = map[string]access.Role{"": access.Client}
	t.Cleanup(func() { delete(people, "chainclient") })
	virtual(t, options(), func(w *world) {
		chain := daily()
		chain.Params["fail"] = map[string]any{"type": "text", "default": canary}
		w.defineChain(chain)
		fields := w.editAt("chains/daily/edit")
		for user, want := range map[string]struct{ see, edit, run, dry, try int }{
			"stranger": {401, 401, 401, 401, 401}, "nobody": {403, 403, 403, 403, 403}, "vera": {403, 403, 403, 403, 403}, "eddy": {403, 403, 403, 403, 403}, "chainclient": {403, 403, 200, 403, 403},
			"watcher": {200, 403, 403, 403, 403}, "operator": {200, 403, 200, 403, 403}, "editor": {200, 200, 200, 403, 403}, "admin": {200, 200, 200, 200, 200},
		} {
			w.user = user
			for at, status := range map[string]int{
				"chains/daily?tab=text": want.see, "chains/daily/diff": want.see, "chains/daily/edit": want.edit, "new/chain": want.edit, "chains/other/edit": want.edit, "chains/daily/run": want.run,
			} {
				if a := w.send(get(at)); a.Code != status {
					t.Errorf("%s gets %s: %d and not %d", user, at, a.Code, status)
				} else if user == "chainclient" {
					a.lacks(canary).lacks("Back to the chain").lacks("dry-run")
				}
			}
			if want.see == 200 {
				for _, at := range []string{"chains", "chains/daily"} {
					page := w.get(at)
					if offered := strings.Contains(page.Body.String(), "new/chain") || strings.Contains(page.Body.String(), "/edit"); offered != (want.edit == 200) {
						t.Errorf("%s is offered to edit at %s: %v", user, at, offered)
					}
				}
			}
			done := func(status int) int {
				if status == 200 {
					return 303
				}
				return status
			}
			for _, c := range []struct {
				at, do string
				status int
			}{
				{"edit", "check", want.edit}, {"edit", "define", done(want.edit)}, {"edit", "dry-run", want.try}, {"run", "start", done(want.run)}, {"run", "dry-run", want.dry},
			} {
				if a := w.post("chains/daily/"+c.at, with(fields, "do", c.do, "key", user+c.do)); a.Code != c.status {
					t.Errorf("%s, %s at %s: %d and not %d", user, c.do, c.at, a.Code, c.status)
				} else if c.do == "start" && a.Code == 303 {
					if x := a.begun(); x.By != user || x.Labels["by"] != user || strings.Contains(string(x.Params), canary) != (user == "chainclient") { // the others have emptied the field
						t.Errorf("%s has started %+v", user, x)
					}
				}
			}
		}
		w.user = "chainclient"
		w.fails("chains/dail/run", http.StatusNotFound).lacks("daily")
		time.Sleep(time.Minute)
	})
}

// Texts, names and parameters that nobody expects are values.
func TestChainEditHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i, evil := range append([]string{"two lines\n\u202eevil\u200b"}, hostile...) {
			def := strings.ReplaceAll(evil, "\x1b", "") // a field may have it, but the parser of these tests reads XML
			job := jobs()[0]
			job.Name = fmt.Sprintf("%02d", i) + jobName(evil)
			w.define(job)
			evilChain := chain.Chain{Name: fmt.Sprint("evil-", i), Description: evil, Params: map[string]any{"p" + jobName(evil): map[string]any{"type": "text", "default": def, "doc": evil}}, Members: []chain.Member{{Name: "a", Job: job.Name}}}
			if _, err := w.engine.Chains().Define(w.Context(), evilChain, &courier.DefineOptions{By: courier.By{Actor: evil[:min(len(evil), 900)]}}); err != nil {
				t.Fatal(err)
			}
			at := "chains/" + evilChain.Name
			for _, tab := range []string{"", "?tab=text", "?tab=versions", "?tab=schedules", "/diff", "/edit", "/run"} {
				page := w.get(at + tab).lacks("<img").lacks("<script>")
				if tab != "/run" { // a field keeps what it would send
					page.lacks("\u202e")
				}
			}
			fields := w.editAt(at + "/edit")
			if strings.Contains(fields["text"], `\u003c`) {
				t.Errorf("nobody can read %s", fields["text"])
			}
			w.post(at+"/edit", with(fields, "do", "check")).has("There is no difference between version 1 and your text.").lacks("\u202e").lacks("<img")
			w.post(at+"/edit", with(fields, "do", "define", "text", evil)).lacks("<img").lacks("<script>").lacks("\u202e")
			form := map[string]string{"do": "start"}
			w.get(at + "/run").tree.each(func(n *node) {
				if strings.HasPrefix(n.attrs["name"], "param.") {
					form[n.attrs["name"]] = n.attrs["value"] + strings.TrimPrefix(n.raw(), "\n")
				}
			})
			plain, err := w.engine.Chains().Start(w.Context(), evilChain.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.post(at+"/run", form).begun(); string(got.Params) != string(plain.Params) {
				t.Errorf("the defaults have become\n%s, and not\n%s", got.Params, plain.Params)
			}
		}
	})
}

// A store without chains says so, and what was written stays.
func TestChainEditWithoutRole(t *testing.T) {
	virtualOn(t, struct{ store.Store }{memstore.New()}, nil, func(w *world) {
		w.get("chains").has("There are no chains yet.")
		fields := w.editAt("chains/daily/edit")
		w.post("chains/daily/edit", with(fields, "do", "check")).has("The check found no problems.")
		a := w.post("chains/daily/edit", with(fields, "do", "define"))
		if a.Code != http.StatusNotImplemented || strings.TrimPrefix(a.tree.one(t, "#text").raw(), "\n") != fields["text"] {
			t.Errorf("%d %s", a.Code, a.tree.text())
		}
		a.has("it must implement chain.Store")
		w.fails("chains/daily/run", http.StatusNotFound)
	})
}
