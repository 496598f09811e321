package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// defined defines a job as somebody, and returns its version.
func (w *world) defined(job courier.Job, by string) int {
	w.Helper()
	d, err := w.engine.Jobs().Define(w.Context(), job, &courier.DefineOptions{By: courier.By{Actor: by}})
	if err != nil {
		w.Fatal(err)
	}
	return d.Job.Version
}

// The differences of two versions are those of steps by their ids.
func TestJobDiff(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := nested()
		w.defined(job, "ann")
		w.get("jobs/nested/diff").has("There is nothing to compare.")
		job.Limit = 5
		inner := job.Steps[2]
		job.Steps = append([]courier.StepSpec{{ID: "new", Type: "test.work"}}, job.Steps...)
		job.Steps[3] = courier.StepSpec{Type: "test.work"}
		job.Steps = append(job.Steps, inner)
		job.Steps[len(job.Steps)-1].Config = map[string]any{"text": "other"}
		job.Steps[6] = courier.StepSpec{ID: "other", Type: "test.work"}
		w.defined(job, "ben")
		page := w.get("jobs/nested/diff")
		page.has("From version 1 to version 2.").has("limit 2 5").has("config/text").has(`"context:loop.current_item"`)
		for class, want := range map[string]string{"added": `added step 0 "new" (test.work)`, "removed": `removed step 5 "rest" (test.work)`, "moved": `moved step 8 "inner" (test.work) was step 2`} {
			found := false
			for _, li := range page.tree.all("li[class=" + class + "]") {
				found = found || strings.HasPrefix(li.text(), want)
			}
			if !found {
				t.Errorf("no %s is %q: %s", class, want, page.tree.text())
			}
		}
		w.get("jobs/nested/diff?from=2&to=1").has("From version 2 to version 1.")
		w.get("jobs/nested/diff?from=2&to=2").has("There is no difference between version 2 and version 2.")
		w.fails("jobs/nested/diff?from=7", http.StatusNotFound)
		w.fails("jobs/nested/diff?from=x", http.StatusBadRequest)
		w.user = "ann"
		w.fails("jobs/nested/diff", http.StatusNotFound)
	})
}

// edit returns the fields of the form as the page of a job has them.
func (w *world) edit(name string) (fields map[string]string) {
	w.Helper()
	return w.editAt("jobs/" + name + "/edit")
}

// editAt returns the fields of the form of a page on which a definition is edited.
func (w *world) editAt(path string) (fields map[string]string) {
	w.Helper()
	page := w.get(path)
	return map[string]string{"text": strings.TrimPrefix(page.tree.one(w, "#text").raw(), "\n"), "base": page.tree.one(w, "input[name=base]").attrs["value"], "key": page.tree.one(w, "input[name=key]").attrs["value"]}
}

// raw is the text of the node as it is.
func (n *node) raw() string {
	text := ""
	n.each(func(k *node) { text += k.words })
	return text
}

// with returns the fields with another value.
func with(fields map[string]string, pairs ...string) map[string]string {
	all := make(map[string]string)
	for name, value := range fields {
		all[name] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

// A queue that no worker serves is doubtful in a check, in a dry run, and on the page that
// the visitor sees after saving.
func TestJobEditQueue(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defined(nested(), "ann")
		fields := w.edit("nested")
		synctest.Wait() // the worker has claimed
		fields["text"] = strings.Replace(fields["text"], `"queue": "night"`, `"queue": "defualt"`, 1)
		const doubt = `no worker serves the queue "defualt"; did you mean "default"?`
		w.post("jobs/nested/edit", with(fields, "do", "check")).has(doubt).has("A dry run also checks connections and secrets.")
		w.post("jobs/nested/edit", with(fields, "do", "dry-run")).has(doubt)
		saved := w.post("jobs/nested/edit", with(fields, "do", "define"))
		at, found := strings.CutPrefix(saved.Header().Get("Location"), "../../")
		if !found {
			t.Fatalf("saving: %d %s", saved.Code, saved.Body)
		}
		w.get(at).has("Version 2, saved").has(doubt).lacks("As in version")
		again := w.edit("nested")
		w.post("jobs/nested/edit", with(again, "do", "define", "text", strings.Replace(again["text"], `"limit": 2`, `"limit": 9`, 1))).done("It was saved, with warnings:").has("As in version 2: ").has(doubt)
		if page := w.get("jobs/nested"); strings.Contains(page.Body.String(), "no worker serves") {
			t.Error("the page is not that after saving, and has the warning")
		}
	})
}

// A job is edited as text: checked, tried and saved as a new version.
func TestJobEdit(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defined(nested(), "ann")
		fields := w.edit("nested")
		if fields["base"] != "1" || strings.Contains(fields["text"], "version") {
			t.Errorf("the form has base %q and the text %s", fields["base"], fields["text"])
		}
		text := strings.Replace(fields["text"], `"limit": 2`, `"limit": 9`, 1)
		checked := w.post("jobs/nested/edit", with(fields, "do", "check", "text", strings.ReplaceAll(text, "\n", "\r\n")))
		checked.has("The check found no problems.").has("What saving would change").has("limit 2 9")
		if got := strings.TrimPrefix(checked.tree.one(t, "#text").raw(), "\n"); got != text {
			t.Errorf("the text has become %s", got)
		}
		dry := w.post("jobs/nested/edit", with(fields, "do", "dry-run", "text", text))
		dry.has("The dry run found").has(`step 2 "inner" (test.work)`).has("not checked")
		if job, _ := w.engine.Jobs().Get(w.Context(), "nested", 0); job.Version != 1 {
			t.Errorf("a check has made version %d", job.Version)
		}
		actions, err := w.engine.Journal(w.Context(), store.ActionFilter{})
		if err != nil || len(actions) != 0 {
			t.Errorf("looking has made %d entries: %v", len(actions), err)
		}
		saved := w.post("jobs/nested/edit", with(fields, "do", "define", "text", text, "reason", "more at once"))
		to := saved.Header().Get("Location")
		if saved.Code != http.StatusSeeOther || !strings.HasPrefix(to, "../../jobs/nested?done=") {
			t.Fatalf("saving: %d to %q", saved.Code, to)
		}
		w.get("jobs/nested" + to[len("../../jobs/nested"):]).has("define").has("more at once").has("Version 2, saved").has("by admin").has("9 executions at once")
		list, _ := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "job"})
		if len(list) != 2 || list[0].Verb != "define" || list[0].Job != "nested" || string(list[0].Was) != "1" || list[0].Outcome != "done" || list[1].Outcome != "asked" {
			t.Errorf("the journal has %+v", list)
		}
		again := w.edit("nested")
		if same := w.post("jobs/nested/edit", with(again, "do", "define")); same.Code != http.StatusSeeOther {
			t.Errorf("saving the same: %d", same.Code)
		} else {
			w.get("jobs/nested" + same.Header().Get("Location")[len("../../jobs/nested"):]).has("unchanged").has("Version 2, saved")
		}
		w.get("jobs/nested/edit?version=1").has("Edit nested")
	})
}

// What is wrong with a text stands beside its line, and what was typed stays.
func TestJobEditProblems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defined(nested(), "ann")
		fields := w.edit("nested")
		for _, c := range []struct{ text, want, mark string }{
			{strings.Replace(fields["text"], "test.work", "test.wrok", 1), `did you mean "test.work"`, `"test.wrok"`},
			{strings.Replace(fields["text"], `"limit": 2`, `"limit": "two"`, 1), "limit: must be", `"two"`},
			{strings.Replace(fields["text"], `"limit": 2`, `"limit" 2`, 1), "not JSON", "2,"},
			{strings.Replace(fields["text"], `"name": "nested"`, `"name": "other"`, 1), "it must be the name in the path, or be left out", `"other"`},
			{strings.Replace(fields["text"], `"flow.end"`, `"flow.else"`, 1), "flow.end", ""},
			{"", "not JSON", ""}, {"[]", "must be an object", ""}, {"null", "must be an object", ""}, {strings.Repeat("[", 200) + strings.Repeat("]", 200), "more than 100 levels of nested lists", ""},
		} {
			for _, do := range []string{"check", "define", "dry-run"} {
				page := w.post("jobs/nested/edit", with(fields, "do", do, "text", c.text, "reason", "because"))
				if page.Code == http.StatusSeeOther {
					t.Errorf("%s of %q was done", do, c.text)
					continue
				}
				if page.has(c.want); strings.TrimPrefix(page.tree.one(t, "#text").raw(), "\n") != c.text || page.tree.one(t, "#reason").attrs["value"] != "because" {
					t.Errorf("%s: what was typed has become %q", do, page.tree.one(t, "#text").raw())
				}
				if c.mark != "" && !strings.HasPrefix(page.tree.all("mark")[0].text(), c.mark) {
					t.Errorf("%s: the place is %q, and not %q", do, page.tree.all("mark")[0].text(), c.mark)
				}
				if strings.Contains(c.want, "JSON") && page.tree.one(t, "#text").attrs["aria-invalid"] != "true" {
					t.Errorf("%s: the field is not marked", do)
				}
			}
		}
		page := w.post("jobs/nested/edit", with(fields, "do", "define", "text", strings.Replace(fields["text"], `"test.work"`, `"test.wrok"`, 1)))
		if page.Code != http.StatusUnprocessableEntity || strings.Count(page.tree.text(), "did you mean") != 1 {
			t.Errorf("%d: the problem is told %d times", page.Code, strings.Count(page.tree.text(), "did you mean"))
		}
		if w.post("jobs/nested/edit", with(fields, "do", "define", "base", "x")).Code != http.StatusBadRequest {
			t.Error("a base that is no number is taken")
		}
		w.post("jobs/nested/edit", with(fields, "do", "check", "text", strings.Replace(fields["text"], `"name": "nested",`, "", 1))).has("The check found no problems.")
	})
}

// Who saves over what somebody else has saved meanwhile is told who, when and what.
func TestJobEditConflict(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := nested()
		w.defined(job, "ann")
		fields := w.edit("nested")
		job.Queue = "day"
		w.defined(job, "ben")
		mine := with(fields, "do", "define", "text", strings.Replace(fields["text"], `"limit": 2`, `"limit": 3`, 1))
		page := w.post("jobs/nested/edit", mine)
		if page.Code != http.StatusConflict {
			t.Fatalf("%d", page.Code)
		}
		page.has("Version 2 was saved in the meantime by ben").has("What changed in the meantime").has(`queue "night" "day"`)
		if !strings.Contains(page.tree.one(t, "#text").raw(), `"limit": 3`) || page.tree.one(t, "input[name=base]").attrs["value"] != "1" {
			t.Error("what was typed, or its base, is lost")
		}
		if again := w.post("jobs/nested/edit", with(mine, "key", "other")); again.Code != http.StatusConflict {
			t.Errorf("the same again: %d", again.Code)
		}
		w.post("jobs/nested/edit", with(mine, "do", "check")).has("Version 2 was saved in the meantime").has("What saving would change").has(`queue "day" "night"`)
		over := page.tree.one(t, "input[name=over]").attrs["value"]
		if done := w.post("jobs/nested/edit", with(mine, "key", "third", "over", over)); done.Code != http.StatusSeeOther {
			t.Errorf("replacing it: %d %s", done.Code, done.Body)
		}
		if now, _ := w.engine.Jobs().Get(w.Context(), "nested", 0); now.Version != 3 || now.Limit != 3 || now.Queue != "night" {
			t.Errorf("%+v", now)
		}
	})
}

// A new job is written as text, and its name comes from the address.
func TestJobNew(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("new/job").has("Name of the job")
		r := w.form("x", nil)
		r.Method, r.URL.Path, r.URL.RawQuery, r.RequestURI = "GET", "/courier/new/job", "name=a%2Fb+%3F", "/courier/new/job?name=a%2Fb+%3F"
		if a := w.send(r); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "../jobs/a%2Fb%20%3F/edit" {
			t.Errorf("%d %q", a.Code, a.Header().Get("Location"))
		}
		fields := w.edit("a%2Fb%20%3F")
		if fields["base"] != "0" || strings.Contains(fields["text"], `"name"`) {
			t.Errorf("%v", fields)
		}
		made := w.post("jobs/a%2Fb%20%3F/edit", with(fields, "do", "define"))
		if made.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", made.Code, made.tree.text())
		}
		job, err := w.engine.Jobs().Get(w.Context(), "a/b ?", 0)
		if err != nil || job.Version != 1 || !strings.HasPrefix(job.Steps[0].Type, "test.") {
			t.Errorf("%+v %v", job, err)
		}
		// Somebody else has made one of the name meanwhile.
		other := nested()
		other.Name = "same"
		fields = w.edit("same")
		w.defined(other, "ben")
		page := w.post("jobs/same/edit", with(fields, "do", "define"))
		if page.Code != http.StatusConflict {
			t.Errorf("%d", page.Code)
		}
		page.has("Version 1 was saved in the meantime by ben").has("based on no version")
	})
}

// Only editors of the job change it, and who may not see values can't try it.
func TestJobEditRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		fields := w.edit("report")
		for user, status := range map[string]int{"nobody": 404, "ann": 403, "vera": 403, "otto": 403, "watcher": 403, "operator": 403, "editor": 200, "admin": 200, "stranger": 401} {
			w.user = user
			if a := w.send(get("jobs/report/edit")); a.Code != status {
				t.Errorf("%s: %d and not %d", user, a.Code, status)
			}
			for _, do := range []string{"check", "dry-run", "define"} {
				want := status
				if do == "define" && status == 200 {
					want = 303
				}
				if do == "dry-run" && user == "editor" {
					want = 403 // values are for admins in this world
				}
				if a := w.post("jobs/report/edit", with(fields, "do", do, "key", user+do)); a.Code != want {
					t.Errorf("%s, %s: %d and not %d", user, do, a.Code, want)
				}
			}
		}
		w.user = "editor"
		if page := w.get("jobs/report/edit"); len(page.tree.all("button[value=dry-run]")) != 0 {
			t.Error("an editor who may not see values is offered a dry run")
		}
		w.get("jobs/report").lacks("Only editors")
		w.user = "otto"
		w.get("jobs/report").has("Only editors can change this job.")
	})
}

// An editor of one job learns no names of others from what is wrong with a text.
func TestJobEditHidden(t *testing.T) {
	virtual(t, nil, func(w *world) {
		fields := w.edit("report")
		w.user = "eddy"
		for _, text := range []string{
			strings.Replace(fields["text"], `"steps"`, `"depends_on": ["hiddn", "hidde", "hidden"], "steps"`, 1),
			strings.Replace(fields["text"], `"steps"`, `"depends_on": ["hidde"], "limt": 3, "steps"`, 1),
		} {
			for _, do := range []string{"check", "define", "dry-run"} {
				page := w.post("jobs/report/edit", with(fields, "do", do, "text", text)).has("the job does not exist here, or you may not see it")
				if strings.Contains(strings.ReplaceAll(page.tree.one(t, "main").text(), text, ""), `mean "hidden"`) {
					t.Errorf("%s says %s", do, page.tree.text())
				}
			}
		}
		w.fails("jobs/hiddn", http.StatusNotFound).lacks("hidden")
		w.get("jobs/hiddn/edit").has("There is no job of this name yet.").lacks("did you mean")
		w.fails("jobs/report?version=9", http.StatusNotFound)
	})
}

// A text with characters that can't be seen comes back as the same definition.
func TestJobEditHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i, evil := range hostile {
			job := courier.Job{Name: fmt.Sprint("evil-", i), Steps: []courier.StepSpec{{ID: "a", Type: "test.work", Name: jobName(evil), Config: map[string]any{"text": "$${" + evil}}}}
			if _, err := w.engine.Jobs().Define(w.Context(), job, nil); errors.Is(err, courier.ErrInvalid) {
				job.Steps[0].Config["text"] = evil
				w.define(job)
			}
			fields := w.edit(job.Name)
			page := w.post("jobs/"+job.Name+"/edit", with(fields, "do", "check"))
			page.has("There is no difference between version 1 and your text.").lacks("\u202e").lacks("<img")
			w.post("jobs/"+job.Name+"/edit", with(fields, "do", "define", "text", evil)).lacks("<img").lacks("<script>").lacks("\u202e")
		}
	})
}

// A job is removed by a form that asks for its name. Its versions can still be read, and it is in
// no list.
func TestRemoveDefinition(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := nested()
		job.Name = "old"
		w.defined(job, "ann")
		x := w.enqueue("old", "ann", map[string]any{"day": "2026-11-29"})
		if !strings.Contains(w.get("jobs/old").Body.String(), "jobs/old/remove") {
			t.Error("the page does not lead to the removal")
		}
		sent := w.get("jobs/old/remove").fields("remove")
		sent["confirm"] = "odl"
		if wrong := w.post("jobs/old/remove", sent); wrong.Code != http.StatusUnprocessableEntity || wrong.tree.one(t, "#confirm").attrs["aria-invalid"] != "true" {
			t.Errorf("%d %s", wrong.Code, wrong.text())
		}
		sent["confirm"] = "old"
		w.post("jobs/old/remove", sent).has("It is in use.").has("execution " + string(x.ID) + " is queued").lacks("Somebody else")
		if _, err := w.engine.Cancel(w.Context(), x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		sent["key"] = "another"
		w.post("jobs/old/remove", sent).done("remove").lacks("jobs/old\"")
		w.fails("jobs/old", http.StatusNotFound)
		w.get("jobs/old?version=1").has("The job was removed.").lacks("jobs/old/run")
		w.get("executions/" + string(x.ID)).has("old")
		if list := w.journal("job"); !slices.Contains(list, "remove asked by admin") || !slices.Contains(list, "removed done by admin") {
			t.Errorf("the journal has %q", list)
		}
		w.user = "vicky"
		w.fails("jobs/report/remove", http.StatusForbidden)
	})
}
