package dashboard_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store/memstore"
)

// The page of limits has who holds them, why queues stand still, and the workers.
func TestLimits(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("limits").has("global 5, the default 0 free").has("Nothing is queued.")
		limits := w.engine.Limits()
		for scope, n := range map[string]int{"job:report": 2, "key:acme": 1, "key:user:*": 3, "job:hidden": 7} {
			if err := limits.Set(w.Context(), scope, n, courier.By{Actor: "admin"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			w.enqueue("report", "ann", map[string]any{"seconds": 9000})
		}
		for range 2 {
			if _, err := w.engine.Enqueue(w.Context(), "other", &courier.EnqueueOptions{Params: map[string]any{"seconds": 9000}, LimitKeys: []string{"acme", "user:1"}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		page := w.get("limits")
		for _, text := range []string{
			"global 5, the default 3 free", "job:hidden 7 0 free", "job:report 2 2 full report since", "key:acme 1 1 full other since", "key:user:* 3 1 free other since",
			"default 2 report 2000-01-01 00:00:00 UTC", "The limit of \"job:report\" is full: 2 of 2 are running.", "active", "types test.file, test.flaky, test.list, test.work",
		} {
			page.has(text)
		}
		page.tree.one(t, "#load")
		if err := limits.Set(w.Context(), "job:hidden", 6, courier.By{Actor: "admin"}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			w.enqueue("hidden", "ann", map[string]any{"seconds": 9000})
		}
		if err := limits.Set(w.Context(), "global", 20, courier.By{Actor: "admin"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var more []string
		for _, a := range w.get("limits").has("job:hidden 6 5 free").tree.all("a") {
			if a.text() == "and 2 more" {
				more = append(more, a.attrs["href"])
			}
		}
		if want := "./executions?where=state%3Arunning+job%3Ahidden"; !slices.Contains(more, want) {
			t.Errorf("links to the other holders: %q", more)
		}

		form := w.get("limits?scope=job%3Areport").fields("set")
		if form["scope"] != "job:report" || form["running"] != "2" {
			t.Errorf("the form has %q", form)
		}
		form["running"] = "many"
		bad := w.post("limits?scope=job%3Areport", form)
		if bad.Code != http.StatusBadRequest || bad.tree.one(t, "#running").attrs["value"] != "many" {
			t.Errorf("%d", bad.Code)
		}
		if text := bad.tree.one(t, "#running-wrong").text(); !strings.Contains(text, `"many" is not a number of executions`) {
			t.Errorf("the problem is %q", text)
		}
		form = bad.fields("set")
		form["running"], form["scope"] = "4", "jobs:report"
		bad = w.post("limits", form)
		if text := bad.tree.one(t, "#scope-wrong").text(); bad.Code != http.StatusBadRequest || !strings.Contains(text, "job:") {
			t.Errorf("%d %q", bad.Code, text)
		}
		form = bad.fields("set")
		form["scope"], form["reason"] = "job:report", "the partner is slow"
		w.post("limits", form).done("set job:report").has("the partner is slow").has("job:report 4")
		w.post("limits?remove=job%3Areport", w.get("limits?remove=job%3Areport").fields("remove")).done("job:report").lacks("job:report</bdi></th>")
		if a := w.post("limits", map[string]string{"do": "remove", "scope": "job:none"}); a.Code != http.StatusNotFound {
			t.Errorf("%d", a.Code)
		}
		if list := w.journal("limit"); !slices.Contains(list, "remove asked by admin") {
			t.Errorf("the journal has %q", list)
		}
	})
}

// Visitors see the limits of their jobs, and only admins change them.
func TestLimitRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		for _, scope := range []string{"job:report", "job:hidden", "key:" + canary} {
			if err := w.engine.Limits().Set(w.Context(), scope, 1, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := w.engine.Enqueue(w.Context(), "report", &courier.EnqueueOptions{Params: map[string]any{"seconds": 9000}, LimitKeys: []string{canary}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for user, rows := range map[string]int{"nobody": 0, "ann": 0, "vera": 1, "otto": 1, "watcher": 3, "editor": 3, "admin": 4} {
			w.user = user
			page := w.get("limits")
			n := 0
			if tables := page.tree.all("table"); len(tables) > 0 {
				n = len(tables[0].all("tr[data-row]"))
			}
			if n != rows {
				t.Errorf("%s sees %d limits: %s", user, n, page.text())
			}
			if user == "admin" {
				page.has(canary)
				continue
			}
			if page.lacks(canary); len(page.tree.all("form[method=post]")) > 0 {
				t.Errorf("%s has a form", user)
			}
			if rows < 3 && strings.Contains(page.text(), "Workers") && len(page.tree.all("h2")) > 1 {
				t.Errorf("%s sees workers", user)
			}
			for _, verb := range []string{"set", "remove"} {
				if a := w.post("limits", map[string]string{"do": verb, "scope": "job:report", "running": "9"}); a.Code != http.StatusForbidden {
					t.Errorf("%s may %s: %d", user, verb, a.Code)
				}
			}
		}
	})
}

// Ten thousand limits are pages, and keys can be anything.
func TestLimitPages(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for _, evil := range hostile {
		if err := w.engine.Limits().Set(t.Context(), "key:"+jobName(evil), 1, courier.By{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range raced.Or(1000, 10_000) {
		if err := w.engine.Limits().Set(t.Context(), fmt.Sprintf("key:~%05d", i), 1, courier.By{}); err != nil {
			t.Fatal(err)
		}
	}
	page := w.get("limits")
	if n := len(page.tree.all("tr[data-row]")); n != 51 { // and that for all
		t.Errorf("%d rows", n)
	}
	second := w.follow(page, page.tree.one(t, "a[rel=next]").attrs["href"])
	if n := len(second.tree.all("tr[data-row]")); n != 50 {
		t.Errorf("%d rows on the second page", n)
	}
	page.lacks("\u202e").lacks("<img")
	for _, row := range page.tree.all("tr[data-row]")[:20] {
		if a := row.all("a"); len(a) == 2 {
			w.follow(page, a[1].attrs["href"]).tree.one(t, "button[value=remove]")
		}
	}
}
