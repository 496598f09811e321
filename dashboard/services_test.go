package dashboard_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

// inbox defines jobs that take files and events: one that viewers of report do not see.
func (w *world) inbox() {
	w.Helper()
	for _, name := range []string{"inbox", "hidden inbox"} {
		job := jobs()[1]
		job.Name, job.Params = name, map[string]any{"files": nil, "monitor": nil, "event": nil, "seconds": 0, "fail": "", "text": ""}
		w.define(job)
	}
}

func (w *world) monitor(m monitor.Monitor) {
	w.Helper()
	m.Lister = "shelf"
	if _, err := w.engine.Monitors().Set(w.Context(), m, courier.By{Actor: "admin"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) subscribe(s notify.Subscription) {
	w.Helper()
	if _, err := w.engine.Subscriptions().Set(w.Context(), s, courier.By{Actor: "admin"}); err != nil {
		w.Fatal(err)
	}
}

// A monitor shows its health and the files that it has seen, and is switched.
func TestMonitors(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("monitors").has("There are no monitors that you may see.").has("New monitor")
		w.inbox()
		w.monitor(monitor.Monitor{Name: "incoming", Path: "/in", Job: "inbox", Patterns: []string{"*.csv"}, Description: "of the partner"})
		w.monitor(monitor.Monitor{Name: "broken", Path: "/gone", Job: "inbox", Every: time.Second, MaxFailures: 3})
		time.Sleep(5 * time.Minute)
		rows := w.get("monitors").tree.all("tr[data-row]")
		if len(rows) != 2 {
			t.Fatalf("%d rows", len(rows))
		}
		for i, want := range [][]string{{"error", "broken", "shelf /gone", "no such directory"}, {"active", "incoming", "of the partner", "job inbox"}} {
			for _, text := range want {
				if !strings.Contains(rows[i].text(), text) {
					t.Errorf("row %d is %q, without %q", i, rows[i].text(), text)
				}
			}
		}
		page := w.get("monitors/incoming").has("1 file that matches, 0 of them not ready").has(canary + ".csv").has("triggered").has("1.2 kB").has("completed what it started")
		w.post("monitors/incoming", page.fields("pause")).done("pause").has("It is paused")
		refused := w.post("monitors/incoming", page.with("do", "acknowledge", "key", "1"))
		if refused.Code != http.StatusSeeOther { // in another state it changes nothing
			t.Errorf("%d %s", refused.Code, refused.text())
		}
		refused = w.post("monitors/broken", page.with("do", "enable", "key", "2"))
		if refused.Code != http.StatusConflict {
			t.Errorf("%d", refused.Code)
		}
		refused.has("Its state does not permit this").has("acknowledge that, then it polls again")
		page = w.get("monitors/broken").has("It has stopped:").has("no such directory").has("It has not seen a file yet.")
		w.post("monitors/broken", page.fields("acknowledge")).done("acknowledge")
		w.post("monitors/incoming", w.get("monitors/incoming").fields("enable")).done("enable")

		sent := w.get("monitors/incoming?tab=edit").fields("set")
		sent["f.patterns"], sent["f.events"] = "*.csv\r\n*.txt\r\n", "created\r\nmodifed"
		bad := w.post("monitors/incoming?tab=edit", sent)
		if text := bad.tree.one(t, "#wrong-events").text(); bad.Code != http.StatusUnprocessableEntity || !strings.Contains(text, `"modified"`) {
			t.Errorf("%d %q", bad.Code, text)
		}
		if text := strings.Fields(bad.tree.one(t, "#f-patterns").text()); !slices.Equal(text, []string{"*.csv", "*.txt"}) {
			t.Errorf("the patterns are %q", text)
		}
		sent = bad.fields("set")
		sent["f.events"], sent["f.batch"] = "created", "on"
		w.post("monitors/incoming?tab=edit", sent).done("done").has("once for all files that are ready").has("*.txt")
		if form := w.get("monitors/incoming?tab=edit").fields("set"); form["f.batch"] != "on" {
			t.Errorf("the form has %q", form)
		}
	})
}

// Notifications that failed are shown with what the receiver answered, and delivered again.
func TestNotifications(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("notifications").has("There are no subscriptions that you may see.").has("New subscription")
		w.inbox()
		w.subscribe(notify.Subscription{Name: "alarm", Kind: notify.KindFunc, Func: "fail", Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"report"}})
		w.subscribe(notify.Subscription{Name: "start", Kind: notify.KindJob, Job: &notify.JobTarget{Name: "inbox"}, Jobs: []string{"other"}, Events: []courier.EventType{courier.EventJobFailed}, Disabled: true})
		for range 3 {
			w.ended("report", "ann", map[string]any{"fail": "no"})
		}
		time.Sleep(time.Minute)
		page := w.get("notifications").has("the receiver answered 410")
		rows := page.tree.all("tr[data-row]")
		if len(rows) != 5 || !strings.Contains(rows[0].text(), "enabled alarm job failed report func fail 0 3") || !strings.Contains(rows[1].text(), "disabled start job failed other job inbox 0 0 since 2000-01-01 00:00:00 UTC") {
			t.Errorf("%d rows: %s", len(rows), page.text())
		}
		page = w.get("notifications/alarm").has("the receiver answered 410")
		boxes := page.tree.all("input[type=checkbox]")
		if len(boxes) != 3 {
			t.Fatalf("%d boxes", len(boxes))
		}
		none := w.post("notifications/alarm", page.with("do", "replay"))
		if none.Code != http.StatusBadRequest {
			t.Errorf("%d", none.Code)
		}
		none.has("0 are selected")
		w.post("notifications/alarm", page.with("do", "replay", "event", boxes[1].attrs["value"], "key", "1")).done("replay")
		w.post("notifications/alarm", page.with("do", "replay-all", "key", "2")).done("replayed alarm")
		time.Sleep(time.Minute)
		w.get("notifications/alarm?state=failed").has("the receiver answered 410")
		w.get("notifications/alarm?state=pending").has("Nothing is waiting, and nothing has failed.")
		w.fails("notifications/alarm?state=x", http.StatusBadRequest)

		w.post("notifications/start", w.get("notifications/start").fields("enable")).done("set start").has("enabled")
		w.post("notifications/start", w.get("notifications/start").fields("disable")).done("set start").has("New events are not kept for it.")
		sent := w.get("new/subscription").fields("set")
		sent["f.name"], sent["f.webhook.url"], sent["f.webhook.headers"] = "hook", "ftp://example.com", `{"A": 1}`
		bad := w.post("new/subscription", sent)
		if bad.Code != http.StatusUnprocessableEntity || len(bad.tree.all(".wrong")) == 0 {
			t.Errorf("%d %s", bad.Code, bad.text())
		}
		sent["f.kind"], sent["f.webhook.url"], sent["f.webhook.headers"], sent["f.func"], sent["key"] = "func", "", "", "tell", "3"
		page = w.post("new/subscription", sent).done("set").has("func tell")
		if strings.Contains(page.text(), "doubtful") {
			t.Error("there are warnings about a function that is there")
		}
		odd := w.get("notifications/hook?tab=edit").fields("set")
		odd["f.func"] = "tlel"
		warned := w.post("notifications/hook?tab=edit", odd)
		warned.done("It was saved, with warnings:").has(`did you mean "tell"`)
		w.user = "operator" // what was left is for who has sent the form
		if text := w.follow(warned, warned.Header().Get("Location")).text(); strings.Contains(text, "doubtful") {
			t.Error("another visitor is told")
		}
		w.user = "admin"
		w.post("notifications/hook?tab=remove", w.get("notifications/hook?tab=remove").with("do", "remove", "confirm", "hook")).done("remove").lacks("hook</bdi></a>")
	})
}

// Who sees and does what with schedules, monitors and subscriptions follows from their jobs.
func TestKeptRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.inbox()
		for suffix, job := range map[string]string{"": "report", " hidden": "hidden"} {
			w.schedule(schedule.Schedule{Name: "nightly" + suffix, Job: job, Cron: "0 30 2 ? * *", Params: map[string]any{"text": canary}})
			w.subscribe(notify.Subscription{Name: "alarm" + suffix, Kind: notify.KindFunc, Func: "fail", Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{job}})
		}
		for suffix, job := range map[string]string{"": "inbox", " hidden": "hidden inbox"} {
			w.monitor(monitor.Monitor{Name: "incoming" + suffix, Path: "/in", Job: job, Params: map[string]any{"text": canary}})
		}
		w.ended("report", "ben", map[string]any{"fail": canary})
		time.Sleep(time.Minute)
		for user, c := range map[string]struct {
			rows, tabs  int // of lists, and of the page of one
			turn, forms bool
		}{
			"nobody": {}, "ann": {}, "vicky": {1, 1, false, false}, "oscar": {1, 1, true, false}, "edith": {1, 4, true, true},
			"watcher": {2, 1, false, false}, "operator": {2, 1, true, false}, "editor": {2, 4, true, true}, "admin": {2, 4, true, true},
		} {
			w.user = user
			for list, name := range map[string]string{"schedules?tab=list": "nightly", "monitors": "incoming", "notifications": "alarm"} {
				page := w.get(list)
				if rows := page.tree.all("table"); c.rows > 0 && len(rows[0].all("tr[data-row]")) != c.rows || c.rows == 0 && len(rows) > 0 {
					t.Errorf("%s sees %s: %s", user, list, page.text())
				}
				path, _, _ := strings.Cut(list, "?")
				kind := map[string]string{"schedules": "schedule", "monitors": "monitor", "notifications": "subscription"}[path]
				if (len(page.tree.all("a[href=./new/"+kind+"]")) == 1) != c.forms {
					t.Errorf("%s: the link to a new %s", user, kind)
				}
				one := path + "/" + name
				if c.rows == 0 {
					w.fails(one, http.StatusNotFound).lacks("hidden")
					w.refuses(one, "disable")
					w.refuses("new/"+kind, "set")
					continue
				}
				if c.rows == 1 {
					w.fails(one+"%20hidden", http.StatusNotFound)
				}
				page = w.get(one)
				if n := len(page.tree.one(t, ".tabs").all("a")); n != c.tabs {
					t.Errorf("%s: %s has %d tabs", user, one, n)
				}
				if n := len(page.tree.all("button[value=disable]")); (n == 1) != c.turn {
					t.Errorf("%s: %s has %d switches", user, one, n)
				}
				if user != "admin" {
					page.lacks(canary)
				}
				if !c.turn {
					w.refuses(one, "disable")
				}
				if !c.forms {
					w.fails(one+"?tab=edit", http.StatusNotFound)
					w.refuses(one, "set")
					w.refuses(one, "remove")
					w.refuses("new/"+kind, "set")
				} else if user != "admin" && kind != "subscription" {
					w.get(one + "?tab=edit").has("has values that you may not see").lacks(canary)
					w.refuses(one, "set")
				}
			}
		}
		w.user = "edith" // may change report and inbox, and not see their values
		for job, status := range map[string]int{"hidden": http.StatusNotFound, "none": http.StatusNotFound, "report": http.StatusSeeOther} {
			sent := w.get("new/schedule").fields("set")
			sent["f.name"], sent["f.job"], sent["f.cron"] = "of "+job, job, "0 0 1 ? * *"
			if a := w.post("new/schedule", sent); a.Code != status {
				t.Errorf("a schedule of %s: %d", job, a.Code)
			}
		}
		sent := w.get("new/schedule").fields("set")
		sent["f.name"], sent["f.job"], sent["f.cron"] = "nightly hidden", "report", "0 0 1 ? * *"
		if a := w.post("new/schedule", sent); a.Code != http.StatusNotFound {
			t.Errorf("a name that is taken by one that can't be seen: %d", a.Code)
		}
		sent = w.get("schedules/of%20report?tab=edit").fields("set") // it has no values
		sent["f.job"] = "hidden"
		if a := w.post("schedules/of%20report?tab=edit", sent); a.Code != http.StatusNotFound {
			t.Errorf("moved to another job: %d", a.Code)
		}
	})
}

// refuses fails the test unless a form is refused.
func (w *world) refuses(path, verb string) {
	w.Helper()
	a := w.post(path, map[string]string{"do": verb, "f.name": "x", "f.job": "report", "f.cron": "0 0 1 ? * *", "confirm": "nightly"})
	if a.Code != http.StatusForbidden && a.Code != http.StatusNotFound {
		w.Errorf("%s may %s: %d", w.user, a.at+" "+verb, a.Code)
	}
}

// Lists of ten thousand are pages.
func TestKeptPages(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for i := range 10_000 {
		w.schedule(schedule.Schedule{Name: fmt.Sprintf("s%05d", i), Job: "report", Cron: "0 30 2 ? * *"})
	}
	page := w.get("schedules?tab=list")
	if n := len(page.tree.all("tr[data-row]")); n != 50 {
		t.Errorf("%d rows", n)
	}
	page = w.follow(page, page.tree.one(t, "a[rel=next]").attrs["href"])
	if rows := page.tree.all("tr[data-row]"); len(rows) != 50 || !strings.Contains(rows[0].text(), "s00050") {
		t.Errorf("%d rows on the second page", len(rows))
	}
	week := w.get("schedules").has("and 995 more").has("There are more schedules: the calendar shows")
	if n := week.Body.Len(); n > 200<<10 {
		t.Errorf("the calendar has %d bytes", n)
	}
	day := w.follow(week, week.tree.one(t, "table").all("a")[0].attrs["href"])
	if n := len(day.tree.one(t, "tbody").all("li")); n != 101 {
		t.Errorf("a day has %d marks", n)
	}
}

// Hostile names of monitors, files and subscriptions are names, and forms send them back as
// they are.
func TestServicesHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.inbox()
		for _, evil := range hostile {
			name := jobName(evil)
			w.monitor(monitor.Monitor{Name: name, Path: "/" + evil, Job: "inbox", Description: evil, Params: map[string]any{"text": evil}})
			w.subscribe(notify.Subscription{Name: name, Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"report"}, Job: &notify.JobTarget{Name: "inbox", Params: map[string]any{"text": evil}}})
		}
		w.subscribe(notify.Subscription{Name: "alarm", Kind: notify.KindFunc, Func: "fail", Events: []courier.EventType{courier.EventJobFailed}})
		w.ended("report", "ann", map[string]any{"fail": "\u202e<script>alert(1)</script>"})
		time.Sleep(time.Minute)
		for _, list := range []string{"monitors", "notifications"} {
			page := w.get(list).lacks("<script>alert").lacks("<img")
			rows := page.tree.all("table")[0].all("tr[data-row]")
			if len(rows) < len(hostile) {
				t.Fatalf("%s has %d rows", list, len(rows))
			}
			for _, row := range rows[:len(hostile)] {
				one := w.follow(page, row.one(t, "th").all("a")[0].attrs["href"]).lacks("<script>alert")
				form := w.follow(one, "?tab=text")
				_, at, _ := strings.Cut(form.at, "/courier/")
				sent := form.fields("set")
				if saved := w.post(at, sent); saved.Code != http.StatusSeeOther {
					t.Errorf("%s: %d %s", form.at, saved.Code, saved.text())
				}
				if now := w.get(at).fields("set"); now["text"] != sent["text"] || now["was"] != sent["was"] {
					t.Errorf("%s: saved as %q, and not %q", form.at, now["text"], sent["text"])
				}
			}
		}
	})
}
