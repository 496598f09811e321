package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A shelf is a lister whose directories have one file; the directory /gone is not there.
type shelf struct{}

func (shelf) Check(t courier.Directory) error {
	if !strings.HasPrefix(t.Path, "/") {
		return errors.New("path: it does not begin with a slash")
	}
	return nil
}

func (shelf) Least() time.Duration { return time.Second }

func (shelf) List(_ context.Context, _ *courier.Context, t courier.Directory) (courier.Listing, error) {
	if t.Path == "/gone" {
		return courier.Listing{}, errors.New("no such directory: " + canary)
	}
	return courier.Listing{Files: []courier.ListedFile{{Name: canary + ".csv", Path: t.Path + "/" + canary + ".csv", Size: 1234}}}, nil
}

var (
	listers     = map[string]courier.Lister{"shelf": shelf{}}
	subscribers = map[string]func(context.Context, notify.Notification) error{
		"tell": func(context.Context, notify.Notification) error { return nil },
		"fail": func(_ context.Context, n notify.Notification) error {
			return courier.Permanent(errors.New("the receiver answered 410: " + canary))
		},
	}
)

// schedule sets a schedule.
func (w *world) schedule(s schedule.Schedule) {
	w.Helper()
	if _, err := w.engine.Schedules().Set(w.Context(), s, courier.By{Actor: "admin"}); err != nil {
		w.Fatal(err)
	}
}

// done follows the redirect of an action, and returns the page with the result.
func (a answer) done(outcome string) answer {
	a.world.Helper()
	to := a.Header().Get("Location")
	if a.Code != http.StatusSeeOther || !strings.Contains(to, "done=") {
		a.world.Fatalf("%s: %d to %q: %s", a.at, a.Code, to, a.text())
	}
	page := a.world.follow(a, to)
	if got := page.tree.one(a.world.T, ".notice[role=status]"); !strings.Contains(got.text(), outcome) {
		a.world.Errorf("%s: the notice is %q, without %q", a.at, got.text(), outcome)
	}
	return page
}

// text is what a page says.
func (a answer) text() string {
	if a.tree == nil {
		return a.Body.String()
	}
	return a.tree.text()
}

// follow gets the page to which a reference on another one leads.
func (w *world) follow(a answer, to string) answer {
	w.Helper()
	_, path, _ := strings.Cut(a.at, " ")
	base, err := url.Parse(path)
	if err == nil {
		base, err = base.Parse(to)
	}
	if err != nil {
		w.Fatal(err)
	}
	page := w.send(httptest.NewRequest("GET", base.String(), nil))
	if page.Code != http.StatusOK {
		w.Fatalf("%s: %d %s", page.at, page.Code, page.text())
	}
	return page
}

// journal returns the outcomes of a kind of thing, the newest first, as "verb outcome by".
func (w *world) journal(kind string) (list []string) {
	w.Helper()
	entries, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: kind})
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Verb+" "+e.Outcome+" by "+e.By)
	}
	return list
}

// fields returns what the form of a page would send, of the form with a button.
func (a answer) fields(verb string) map[string]string {
	a.world.Helper()
	for _, form := range a.tree.all("form") {
		if len(form.all("button[value="+verb+"]")) == 0 {
			continue
		}
		sent := map[string]string{"do": verb}
		for _, n := range form.all("input") {
			_, checked := n.attrs["checked"]
			if n.attrs["type"] != "checkbox" || checked {
				sent[n.attrs["name"]] = n.attrs["value"]
			}
		}
		for _, n := range form.all("textarea") {
			sent[n.attrs["name"]] = strings.TrimPrefix(n.inner(), "\n")
		}
		for _, n := range form.all("select") {
			sent[n.attrs["name"]] = ""
			for _, o := range n.all("option[selected]") {
				sent[n.attrs["name"]] = o.attrs["value"]
			}
		}
		return sent
	}
	a.world.Fatalf("%s: no form has the button %s", a.at, verb)
	return nil
}

// A week has a column for each day; what fires often is one mark.
func TestScheduleWeek(t *testing.T) {
	virtual(t, nil, func(w *world) { // it is 2000-01-01, a Saturday
		w.get("schedules").has("There are no schedules that you may see.").has("New schedule")
		w.schedule(schedule.Schedule{Name: "nightly", Job: "report", Cron: "0 30 2 ? * *", Zone: "Europe/Berlin"})
		w.schedule(schedule.Schedule{Name: "ping", Job: "other", Every: 5 * time.Minute})
		w.schedule(schedule.Schedule{Name: "each second", Job: "other", Cron: "* * * ? * *"})
		w.schedule(schedule.Schedule{Name: "off", Job: "other", Every: time.Hour, Disabled: true})

		page := w.get("schedules")
		table := page.tree.one(t, "table")
		if n := len(table.one(t, "thead").all("th")); n != 8 {
			t.Errorf("%d columns", n)
		}
		page.has("What fires from Saturday, 1 January 2000 on, in the time zone UTC").has("Sat 1 Jan today Sun 2 Jan").lacks(">off<")
		page.has("01:30 nightly 02:30 Europe/Berlin").has("ping every 5 min, 288").has("each second every 1 s, 1,440 or more")
		if n := len(table.one(t, "tbody").all("tr")); n != 2 {
			t.Errorf("%d rows: %s", n, table.text())
		}
		w.get("schedules?zone=Europe/Berlin").has("in the time zone Europe/Berlin").has("02:30 nightly").lacks("02:30 Europe/Berlin")
		w.get("schedules?from=2000-03-24").has("The clocks change.").has("2000-03-26: 02:30 doesn't exist in Europe/Berlin")
		w.get("schedules?from=2000-02-01&days=1").has("What fires on Tuesday, 1 February 2000").has("every 5 min, 288")
		for _, bad := range []string{"zone=Mars", "zone=Local", "from=soon", "from=9999-01-01", "days=8", "days=x"} {
			w.fails("schedules?"+bad, http.StatusBadRequest)
		}
		w.fails("schedules?tab=none", http.StatusNotFound)
	})
}

// The list has the next ticks, the last outcome, and what is wrong.
func TestScheduleList(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.schedule(schedule.Schedule{Name: "bad", Job: "report", Every: time.Minute, Params: map[string]any{"fail": "no such partner"}, PauseAfter: 2})
		w.schedule(schedule.Schedule{Name: "off", Job: "other", Every: time.Minute, Disabled: true})
		w.schedule(schedule.Schedule{Name: "good", Job: "other", Cron: "0 0 3 ? * *", Zone: "Europe/Berlin"})
		time.Sleep(4 * time.Minute)
		rows := w.get("schedules?tab=list").tree.all("tr[data-row]")
		if len(rows) != 3 {
			t.Fatalf("%d rows", len(rows))
		}
		for i, want := range [][]string{{"paused", "bad", "job report", "Every 1 min", "failed what it started"}, {"active", "good", "At 03:00:00", "Europe/Berlin", "Sat 2000-01-01 03:00:00 CET", "2000-01-01 02:00:00 UTC"}, {"disabled", "off", "it was disabled by admin"}} {
			for _, text := range want {
				if !strings.Contains(rows[i].text(), text) {
					t.Errorf("row %d is %q, without %q", i, rows[i].text(), text)
				}
			}
		}
		page := w.get("schedules/bad").has("It is paused").has("Failures in a row")
		page.has("no such partner") // the parameters
		if n := len(page.tree.one(t, "table").one(t, "tbody").all("tr")); n != 10 {
			t.Errorf("%d next ticks", n)
		}
		w.post("schedules/bad", page.fields("enable")).done("done").has("active")
		w.get("schedules/good").has("In Europe/Berlin").has("Sat 2000-01-01 03:00:00 CET")
	})
}

// A schedule is checked before it is saved: what is wrong stands at its field, and otherwise the
// page says when it would fire, as the page of the schedule does then.
func TestScheduleCheck(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for _, fault := range []map[string]string{
			{"cron": "0 30 25 ? * *"}, {"job": "reprot"}, {"cron": ""}, {"time_zone": "Europe/Berlni"}, {"name": ""}, {"cron": "0 0 0 30 2 ?"},
		} {
			sent := w.get("new/schedule").with("f.name", "nightly", "f.job", "report", "f.cron", "0 30 2 ? * *")
			sent["do"] = "check"
			for name, value := range fault {
				sent["f."+name] = value
			}
			if a := w.post("new/schedule", sent); a.Code != http.StatusUnprocessableEntity || len(a.tree.all(".wrong"))+len(a.tree.all("li")) == 0 || a.tree.one(t, "#f-job").attrs["value"] != sent["f.job"] {
				t.Errorf("%v: %d %s", fault, a.Code, a.text())
			} else {
				a.lacks("When it would fire")
			}
		}
		sent := w.get("new/schedule").with("f.name", "nightly", "f.job", "report", "f.cron", "0 30 2 ? * *", "f.time_zone", "Europe/Berlin")
		sent["do"] = "check"
		tried := w.post("new/schedule", sent).has("The check found no problems").has("When it would fire").has("Sat 2000-01-01 02:30:00 CET")
		if _, err := w.engine.Schedules().Get(w.Context(), "nightly"); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("it was saved: %v", err)
		}
		saved := w.post("new/schedule", tried.fields("set")).done("done set nightly")
		if was, is := tried.tree.one(t, ".list").text(), saved.tree.one(t, ".list").text(); was != is || len(saved.tree.all(".note")) == 0 || saved.tree.all(".note")[0].text() != tried.tree.all(".note")[0].text() {
			t.Errorf("before it was saved %q, and then %q", was, is)
		}
		sent = w.get("schedules/nightly?tab=text").fields("check")
		sent["text"] = `{"job": "report", "cron": "0 30 6 ? * *"}`
		w.post("schedules/nightly?tab=text", sent).has("When it would fire").has("06:30:00")
		sent["text"] = "{\n \"job\": \"reprot\", \"cron\": \"0 30 6 ? * *\"}"
		w.post("schedules/nightly?tab=text", sent).has("line 2, column 9").has("reprot").lacks("When it would fire")
		w.user = "vera"
		if a := w.post("schedules/nightly?tab=edit", sent); a.Code != http.StatusForbidden {
			t.Errorf("a viewer: %d", a.Code)
		}
	})
}

// A schedule is made, edited by its fields and as a text, switched and removed. What is
// wrong stands at its field, and what was written stays.
func TestScheduleForms(t *testing.T) {
	virtual(t, nil, func(w *world) {
		fresh := w.get("new/schedule")
		if nav := fresh.tree.one(t, "nav[aria-label=Pages]").one(t, "a[aria-current=page]").text(); nav != "Schedules" {
			t.Errorf("the page of a new one belongs to %q", nav)
		}
		for _, kind := range []string{"schedule", "monitor", "subscription"} {
			nameless := w.post("new/"+kind, w.get("new/"+kind).fields("set"))
			if text := nameless.tree.one(t, "#wrong-name").text(); nameless.Code != http.StatusUnprocessableEntity || text != "It is missing: give the "+kind+" a name." {
				t.Errorf("%s without a name: %d %q", kind, nameless.Code, text)
			}
		}
		sent := fresh.fields("set")
		sent["f.name"], sent["f.job"], sent["f.cron"], sent["f.every_seconds"], sent["f.params"] = "nightly", "reprot", "0 30 25 ? * *", "x", "{no"
		bad := w.post("new/schedule", sent)
		if bad.Code != http.StatusUnprocessableEntity {
			t.Errorf("%d", bad.Code)
		}
		if f := bad.tree.one(t, "#f-every_seconds"); f.attrs["aria-invalid"] != "true" || f.attrs["value"] != "x" {
			t.Errorf("the field is %v", f.attrs)
		}
		if text := bad.tree.one(t, "#wrong-params").text(); !strings.Contains(text, "It is not JSON") {
			t.Errorf("the problem is %q", text)
		}
		sent = bad.fields("set")
		sent["f.every_seconds"], sent["f.params"] = "", `{"text": "é"}`
		bad = w.post("new/schedule", sent)
		if text := bad.tree.one(t, "#wrong-cron").text(); bad.Code != http.StatusUnprocessableEntity || !strings.Contains(text, "25") {
			t.Errorf("%d: the problem is %q", bad.Code, text)
		}
		if text := bad.tree.one(t, "#wrong-job").text(); !strings.Contains(text, `"report"`) {
			t.Errorf("the problem is %q", text)
		}
		sent = bad.fields("set")
		sent["f.cron"], sent["f.job"], sent["reason"] = "0 30 2 ? * *", "report", "asked by Ann"
		w.post("new/schedule", sent).done("done set nightly").has("At 02:30:00").has("asked by Ann")
		if again := w.post("new/schedule", w.get("new/schedule").with("f.name", "nightly", "f.job", "report", "f.cron", "0 30 2 ? * *")); again.Code != http.StatusUnprocessableEntity {
			t.Errorf("a second one: %d", again.Code)
		} else {
			again.has("there is a schedule of this name")
		}

		w.post("schedules/nightly", w.get("schedules/nightly").with("do", "disable", "key", "off")).done("disable").has("it was disabled by admin")
		w.post("schedules/nightly", w.get("schedules/nightly").with("do", "enable", "key", "on")).done("enable")
		sent = w.get("schedules/nightly?tab=edit").fields("set")
		sent["f.pause_after"] = "3"
		w.post("schedules/nightly?tab=edit", sent).done("done")
		s, err := w.engine.Schedules().Get(w.Context(), "nightly")
		if err != nil || s.PauseAfter != 3 || s.Params["text"] != "é" || s.Cron != "0 30 2 ? * *" {
			t.Errorf("%+v %v", s, err)
		}
		stale := w.post("schedules/nightly?tab=edit", map[string]string{"do": "set", "was": sent["was"], "f.job": "report", "f.cron": "0 0 1 ? * *"})
		if stale.Code != http.StatusConflict || stale.tree.one(t, "#f-cron").attrs["value"] != "0 0 1 ? * *" {
			t.Errorf("%d %s", stale.Code, stale.text())
		}
		w.post("schedules/nightly?tab=edit", w.get("schedules/nightly?tab=edit").fields("set")).done("unchanged")

		sent = w.get("schedules/nightly?tab=text").fields("set")
		sent["text"] = strings.Replace(sent["text"], `"job"`, `"jbo"`, 1)
		bad = w.post("schedules/nightly?tab=text", sent).has("line 3, column")
		if !strings.Contains(bad.tree.one(t, "#text").inner(), `"jbo"`) {
			t.Error("what was written is lost")
		}
		sent = bad.fields("set")
		sent["text"] = strings.Replace(strings.Replace(sent["text"], `"jbo"`, `"job"`, 1), `"report"`, `"other"`, 1)
		w.post("schedules/nightly?tab=text", sent).done("done").has("job other")

		page := w.get("schedules/nightly")
		w.post("schedules/nightly", page.with("do", "disable", "reason", "the partner moves")).done("disable").has("It is disabled and").has("the partner moves")
		w.post("schedules/nightly", w.get("schedules/nightly").fields("enable")).done("enable").has("active")
		sent = w.get("schedules/nightly?tab=remove").fields("remove")
		sent["confirm"] = "nightl"
		if wrong := w.post("schedules/nightly?tab=remove", sent); wrong.Code != http.StatusUnprocessableEntity || wrong.tree.one(t, "#confirm").attrs["aria-invalid"] != "true" {
			t.Errorf("%d %s", wrong.Code, wrong.text())
		}
		sent["confirm"], sent["key"] = "nightly", "another"
		w.post("schedules/nightly?tab=remove", sent).done("remove").has("There are no schedules that you may see.")
		w.fails("schedules/nightly", http.StatusNotFound)
		if list := w.journal("schedule"); !slices.Contains(list, "remove asked by admin") || !slices.Contains(list, "set asked by admin") {
			t.Errorf("the journal has %q", list)
		}
	})
}

// with returns the fields of a page's form with some of them set.
func (a answer) with(pairs ...string) map[string]string {
	sent := map[string]string{"key": a.tree.all("input[name=key]")[0].attrs["value"], "do": "set"}
	for i := 0; i+1 < len(pairs); i += 2 {
		sent[pairs[i]] = pairs[i+1]
	}
	return sent
}

// Hostile names are names.
func TestScheduleHostile(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for _, evil := range hostile {
		w.schedule(schedule.Schedule{Name: jobName(evil), Job: "report", Every: time.Hour, Params: map[string]any{"text": evil}})
	}
	week := w.get("schedules").lacks("\u202e").lacks("<img")
	if n := len(week.tree.all("table")); n != 1 {
		t.Fatalf("%d tables", n)
	}
	list := w.get("schedules?tab=list").lacks("\u202e").lacks("<img")
	rows := list.tree.all("tr[data-row]")
	if len(rows) != len(hostile) {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		href := row.all("a")[0].attrs["href"]
		page := w.follow(list, href).lacks("\u202e\u202e")
		for _, tab := range []string{"?tab=edit", "?tab=text"} {
			form := w.follow(page, tab)
			if saved := w.post(strings.TrimPrefix(strings.TrimPrefix(form.at, "GET /courier/"), ""), form.fields("set")); saved.Code != http.StatusSeeOther {
				t.Errorf("%s: %d %s", form.at, saved.Code, saved.text())
			} else {
				saved.done("unchanged")
			}
		}
		w.follow(page, "?tab=remove")
	}
}

// inner is the text of a node as it is.
func (n *node) inner() string {
	var b strings.Builder
	n.each(func(k *node) { b.WriteString(k.words) })
	return b.String()
}
