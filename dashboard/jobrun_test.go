package dashboard_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// typed is a job with parameters of all types.
func typed() courier.Job {
	p := func(kind string, more ...any) map[string]any {
		m := map[string]any{"type": kind}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	return courier.Job{
		Name: "typed",
		Params: map[string]any{
			"text": p("text", "default", "hello", "doc", "A greeting."), "short": p("text", "max_length", 3), "need": p("integer", "required", true, "min", 1, "max", 9),
			"ratio": p("number", "default", 0.5), "flag": p("boolean", "default", true), "day": p("date"), "at": p("instant"), "list": p("list", "default", []any{1, 2}), "object": p("object"),
			"file": p("file"), "mode": p("text", "enum", []any{"full", "short"}, "default", "full"), "size": p("integer", "enum", []any{1, 5}), "key": p("text", "secret", true, "default", "partner-key"),
			"any": nil, "words": "some", "number": 3,
		},
		Steps: []courier.StepSpec{{ID: "work", Type: "test.work", Config: map[string]any{"text": "context:params.text"}}},
	}
}

// started returns the parameters of the execution that a form has led to.
func (a answer) started() (x courier.Execution, params map[string]any) {
	a.world.Helper()
	to := a.Header().Get("Location")
	_, id, _ := strings.Cut(to, "executions/")
	id, _, _ = strings.Cut(id, "?")
	if a.Code != http.StatusSeeOther || id == "" {
		a.world.Fatalf("%s: %d to %q: %s", a.at, a.Code, to, a.Body)
	}
	x, err := a.engine.Executions().Get(a.Context(), courier.ExecutionID(id))
	if err != nil {
		a.world.Fatal(err)
	}
	raw, err := json.Marshal(x.Params)
	if err == nil {
		err = json.Unmarshal(raw, &params)
	}
	if err != nil {
		a.world.Fatal(err)
	}
	return x, params
}

// The form has a field for each parameter, of its type, with its default.
func TestJobRunForm(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(typed())
		page := w.get("jobs/typed/run").lacks(canary)
		for name, want := range map[string]struct{ tag, kind, value string }{
			"text": {"input", "text", "hello"}, "short": {"input", "text", ""}, "need": {"input", "text", ""}, "ratio": {"input", "text", "0.5"}, "flag": {"select", "", "true"},
			"day": {"input", "date", ""}, "at": {"input", "text", ""}, "list": {"textarea", "", "[1,2]"}, "object": {"textarea", "", ""}, "file": {"input", "text", ""},
			"mode": {"select", "", "full"}, "size": {"select", "", ""}, "key": {"input", "password", ""}, "any": {"input", "text", ""}, "words": {"input", "text", "some"}, "number": {"input", "text", "3"},
		} {
			f := page.tree.one(t, "[name=param."+name+"]")
			value := f.attrs["value"]
			switch f.tag {
			case "textarea":
				value = f.text()
			case "select":
				value = f.one(t, "option[selected]").attrs["value"]
			}
			if f.tag != want.tag || f.attrs["type"] != want.kind || value != want.value {
				t.Errorf("%s is <%s type=%q> with %q", name, f.tag, f.attrs["type"], value)
			}
			if _, required := f.attrs["required"]; required != (name == "need") {
				t.Errorf("%s is required: %v", name, required)
			}
		}
		page.has("A greeting.").has("A whole number; at least 1; at most 9.").has("The name of a secret").lacks(`value="partner-key"`)
		w.get("jobs/report/run").has("Any value in JSON; text in double quotes. The default is 0.")
		free := typed()
		free.Name, free.Params = "free", nil
		free.Steps[0].Config = nil
		w.define(free)
		w.get("jobs/free/run").has("any are accepted: a JSON object")
		w.fails("jobs/report/run?version=7", http.StatusNotFound)
	})
}

// What was typed becomes the parameters, each of its type.
func TestJobRunStart(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(typed())
		x, got := w.post("jobs/typed/run", map[string]string{
			"do": "start", "key": "one", "param.text": "", "param.need": " 7 ", "param.ratio": "1.25", "param.flag": "false", "param.day": "2026-11-20", "param.at": "2026-11-20T08:00:00Z",
			"param.list": "[\r\n  3\r\n]", "param.object": `{"a": "b"}`, "param.file": "/in/a.csv", "param.mode": "short", "param.size": "5", "param.any": "true", "param.words": "[1]", "param.number": `"x"`,
			"priority": "-5", "delay": "1h 30m", "labels": "partner=acme\r\n\r\nkey = a=b", "reason": "asked for",
		}).started()
		want := map[string]any{
			"text": "", "need": 7.0, "ratio": 1.25, "flag": false, "day": "2026-11-20", "at": "2026-11-20T08:00:00Z", "list": []any{3.0}, "object": map[string]any{"a": "b"},
			"mode": "short", "size": 5.0, "any": true, "words": "[1]", "number": "x", "key": "partner-key", "short": nil,
		}
		for name, v := range want {
			a, _ := json.Marshal(got[name])
			if b, _ := json.Marshal(v); string(a) != string(b) {
				t.Errorf("%s is %s, and not %s", name, a, b)
			}
		}
		if file, _ := got["file"].(map[string]any); file["path"] != "/in/a.csv" {
			t.Errorf("the file is %v", got["file"])
		}
		if x.Priority != -5 || x.DueAt.Sub(x.CreatedAt).Minutes() != 90 || x.By != "admin" || len(x.Labels) != 3 || x.Labels["partner"] != "acme" || x.Labels["key"] != "a=b" || x.Labels["by"] != "admin" {
			t.Errorf("%+v", x)
		}
		list, _ := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "job"})
		if len(list) != 2 || list[0].Verb != "start" || list[0].Job != "typed" || list[0].Reason != "asked for" || list[0].Outcome != "done" {
			t.Errorf("the journal has %+v", list)
		}
		held, _ := w.post("jobs/typed/run", map[string]string{"do": "start", "param.need": "1", "hold": "on"}).started()
		if held.State != courier.Created {
			t.Errorf("it is %s", held.State)
		}

		// A second click is the same execution, and a changed form another one.
		form := map[string]string{"do": "start", "key": "two", "param.need": "1"}
		a, _ := w.post("jobs/typed/run", form).started()
		b, _ := w.post("jobs/typed/run", form).started()
		c, _ := w.post("jobs/typed/run", with(form, "param.need", "2")).started()
		if a.ID != b.ID || a.ID == c.ID {
			t.Errorf("%s, %s and %s", a.ID, b.ID, c.ID)
		}
		w.defined(nested(), "ann")
		job := nested()
		job.Params["day"] = nil
		w.defined(job, "ann")
		w.get("jobs/nested/run?version=1").has("This starts version 1.")
		if old, _ := w.post("jobs/nested/run?version=1", map[string]string{"do": "start", "param.day": "2026-11-20"}).started(); old.Version != 1 {
			t.Errorf("version %d was started", old.Version)
		}
	})
}

// What is wrong stands at its field, all at once, and what was typed stays, except secrets.
func TestJobRunProblems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(typed())
		form := map[string]string{
			"param.text": "\u202eevil", "param.short": "long", "param.need": "ten", "param.flag": "perhaps", "param.day": "2026-02-30", "param.at": "noon", "param.list": "[1", "param.object": "[]", "param.file": "relative",
			"param.size": "4", "param.key": canary, "param.number": "[1", "priority": "99999", "delay": "soon", "labels": "nothing", "reason": "because",
		}
		page := w.post("jobs/typed/run", with(form, "do", "start"))
		if page.Code != http.StatusUnprocessableEntity {
			t.Fatalf("%d", page.Code)
		}
		page.lacks(canary).has("Each stands at its place below.")
		for name, value := range form {
			if name == "reason" {
				continue
			}
			f := page.tree.one(t, "[name="+name+"]")
			got := f.attrs["value"]
			if f.tag == "textarea" {
				got = strings.TrimPrefix(f.raw(), "\n")
			} else if f.tag == "select" {
				got = f.one(t, "option[selected]").attrs["value"]
			}
			if name == "param.key" {
				value = ""
			}
			if got != value {
				t.Errorf("%s has become %q", name, got)
			}
			if wrong := f.attrs["aria-invalid"] == "true"; wrong == (name == "param.text" || name == "param.key") {
				t.Errorf("%s is marked: %v; %s", name, wrong, f.up.text())
			} else if wrong && len(f.up.one(t, ".wrong").text()) < 5 {
				t.Errorf("%s says %q", name, f.up.text())
			}
		}
		if w.post("jobs/typed/run", map[string]string{"do": "start"}).has("Is required, and was not given").Code != http.StatusUnprocessableEntity {
			t.Error("a parameter that is required may be left out")
		}
		free := typed()
		free.Name, free.Params, free.Steps[0].Config = "free", nil, nil
		w.define(free)
		for _, text := range []string{"[]", "{", "1"} {
			page := w.post("jobs/free/run", map[string]string{"do": "start", "params": text}).has("It must be a JSON object")
			if page.tree.one(t, "#params").text() != text {
				t.Errorf("%q is lost", text)
			}
		}
		if _, got := w.post("jobs/free/run", map[string]string{"do": "start", "params": `{"a": 1}`}).started(); got["a"] != 1.0 {
			t.Errorf("%v", got)
		}
		w.post("jobs/report/run", map[string]string{"do": "start", "labels": "by=me"}).has("The service itself sets the label by")
		if list, _ := w.engine.Executions().List(w.Context(), store.Filter{Job: "typed"}); len(list) != 0 {
			t.Errorf("%d were started", len(list))
		}
	})
}

// A dry run reports on the steps, and starts nothing.
func TestJobRunDry(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(nested())
		page := w.post("jobs/nested/run", map[string]string{"do": "dry-run", "param.mode": "short"})
		if page.Code != http.StatusOK {
			t.Fatalf("%d %s", page.Code, page.tree.text())
		}
		page.has("The dry run found").has(`step 5 "rest" (test.work)`).has("started nothing")
		if page.tree.one(t, "[name=param.mode]").one(t, "option[selected]").attrs["value"] != "short" {
			t.Error("what was chosen is lost")
		}
		w.post("jobs/nested/run", map[string]string{"do": "dry-run", "param.day": "never"}).has("Must be a date")
		if list, _ := w.engine.Journal(w.Context(), store.ActionFilter{}); len(list) != 0 {
			t.Errorf("a dry run has made %d entries", len(list))
		}
		if list, _ := w.engine.Executions().List(w.Context(), store.Filter{}); len(list) != 0 {
			t.Errorf("%d were started", len(list))
		}
	})
}

// A client may start its jobs, and sees neither their defaults nor anything else of them.
func TestJobRunRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		job := jobs()[0]
		job.Params["text"] = canary
		w.define(job)
		for user, want := range map[string]struct{ see, start, dry int }{
			"nobody": {404, 404, 404}, "ann": {200, 303, 403}, "vera": {403, 403, 403}, "stan": {200, 303, 403}, "otto": {200, 303, 403}, "editor": {200, 303, 403}, "admin": {200, 303, 200}, "stranger": {401, 401, 401},
		} {
			w.user = user
			page := w.send(get("jobs/report/run"))
			if page.Code != want.see {
				t.Errorf("%s: %d and not %d", user, page.Code, want.see)
			}
			if user == "ann" {
				page.lacks(canary).lacks("Back to the job").lacks("Dry run")
			}
			if a := w.post("jobs/report/run", map[string]string{"do": "start", "key": user}); a.Code != want.start {
				t.Errorf("%s starts: %d and not %d", user, a.Code, want.start)
			} else if a.Code == 303 {
				if x, got := a.started(); x.Labels["by"] != user || user == "ann" && got["text"] != canary {
					t.Errorf("%s has started %v %v", user, x.Labels, got)
				}
			}
			if a := w.post("jobs/report/run", map[string]string{"do": "dry-run"}); a.Code != want.dry {
				t.Errorf("%s tries: %d and not %d", user, a.Code, want.dry)
			}
		}
		w.user = "ann"
		w.fails("jobs/nothing/run", http.StatusNotFound).lacks("report")
		w.fails("jobs/report/run?version=9", http.StatusNotFound)
	})
}

// Names and values that nobody expects are values.
func TestJobRunHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := courier.Job{Name: "evil", Params: map[string]any{}, Steps: []courier.StepSpec{{Type: "test.work"}}}
		for _, evil := range append([]string{"two lines\n\u202eevil\u200b"}, hostile...) {
			def := strings.ReplaceAll(evil, "\x1b", "") // a field may have it, but the parser of these tests reads XML
			job.Params["p"+jobName(evil)] = map[string]any{"type": "text", "default": def, "doc": evil}
		}
		if _, err := w.engine.Jobs().Define(w.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		w.get("jobs/evil").lacks("<img").lacks("\u202e")
		page := w.get("jobs/evil/run").lacks("<img").lacks("<script>")
		form := map[string]string{"do": "start"}
		page.tree.each(func(n *node) {
			if strings.HasPrefix(n.attrs["name"], "param.") {
				form[n.attrs["name"]] = n.attrs["value"]
				if n.tag == "textarea" {
					form[n.attrs["name"]] = strings.TrimPrefix(n.raw(), "\n")
				}
			}
		})
		x, err := w.engine.Enqueue(w.Context(), "evil", &courier.EnqueueOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := w.post("jobs/evil/run", form).started()
		a, _ := json.Marshal(x.Params)
		if b, _ := json.Marshal(got.Params); string(a) != string(b) {
			t.Errorf("the defaults have become\n%s, and not\n%s", b, a)
		}
	})
}
