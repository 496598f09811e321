package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/memstore"
)

// The list shows executions, the newest first, with what became of them.
func TestExecutions(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("executions").has("Nothing has run yet.")
		w.ended("report", "ann", nil)
		w.ended("other", "vera", map[string]any{"fail": "the directory /in is not writable"})
		running := w.enqueue("report", "otto", map[string]any{"seconds": 90})
		time.Sleep(5 * time.Second)

		page := w.get("executions")
		rows := page.tree.all("tr[data-row]")
		if len(rows) != 3 {
			t.Fatalf("%d rows", len(rows))
		}
		for i, want := range [][]string{
			{"running", "report", "@1", "otto", "running"},
			{"failed", "other", "vera", `step 0 "work" (test.work): the directory /in is not writable`},
			{"completed", "report", "ann", "< 1 ms"},
		} {
			for _, text := range want {
				if !strings.Contains(rows[i].text(), text) {
					t.Errorf("row %d is %q, without %q", i, rows[i].text(), text)
				}
			}
		}
		if href := rows[0].one(t, "a").attrs["href"]; href != "./executions/"+string(running.ID) {
			t.Errorf("the first row leads to %q", href)
		}
		if len(page.tree.all("tr[data-failed]")) != 1 {
			t.Error("the failed row is not marked")
		}
		for _, nav := range page.tree.all("nav[aria-label=Pages]") {
			if nav.one(t, "a[aria-current=page]").text() != "Executions" {
				t.Errorf("the navigation is %q", nav.text())
			}
		}
	})
}

// The text box takes the grammar of filters, and the address has the filter.
func TestExecutionsFilter(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.ended("report", "ann", nil)
		x := w.ended("other", "vera", map[string]any{"fail": "no"})
		filter := func(text string) answer { return w.get("executions?where=" + url.QueryEscape(text)) }
		for text, rows := range map[string]int{"state:failed": 1, "state:completed job:rep*": 1, "report": 1, "": 2, "by:nobody": 0} {
			page := filter(text)
			if n := len(page.tree.all("tr[data-row]")); n != rows {
				t.Errorf("%q: %d rows, not %d", text, n, rows)
			}
			if v := page.tree.one(t, "#where").attrs["value"]; v != text {
				t.Errorf("%q: the text box has %q", text, v)
			}
		}
		filter("by:nobody").has("No execution matches.").has("Show all executions")
		if page := filter("state:failed"); page.tree.one(t, ".views").one(t, "a[aria-current=page]").text() != "Failed" {
			t.Error("the filter in use is not marked")
		}
		bad := w.fails("executions?where="+url.QueryEscape("stat:failed job:a*b"), http.StatusBadRequest)
		bad.has("there is no such condition; did you mean \"state\"?").has("an asterisk can stand at the end only")
		if bad.tree.one(t, "#where").attrs["aria-invalid"] != "true" {
			t.Error("the text box is not marked")
		}
		w.fails("executions?where=job:rport", http.StatusBadRequest).has("report")
		w.fails("executions?cursor=nonsense", http.StatusBadRequest).has("start from the first page")

		r := w.send(httptest.NewRequest("GET", "/courier/executions?where="+string(x.ID), nil))
		if to := r.Header().Get("Location"); r.Code != http.StatusSeeOther || to != "./executions/"+string(x.ID) {
			t.Errorf("a lone id: %d to %q", r.Code, to)
		}
	})
}

// The pages' own links select what they are about and nothing else, whatever is in its name.
func TestLinksQuoteNames(t *testing.T) {
	virtual(t, nil, func(w *world) {
		const job, queue = `a"b c:d,e*`, "night shift*"
		for _, name := range []string{job, `a"b c:d,elf`, "a"} {
			w.define(courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "test.work", Config: map[string]any{"fail": "no"}}}})
			w.ended(name, "ann", nil)
			w.ended(name, "ann", nil)
		}
		for _, name := range []string{queue, "night shifts"} {
			w.define(courier.Job{Name: "in " + name, Queue: name, Steps: []courier.StepSpec{{Type: "test.work"}}})
			w.enqueue("in "+name, "ann", nil)
		}
		if err := w.engine.Limits().Set(w.Context(), "job:"+job, 1, courier.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		followed := 0
		for _, at := range []string{"", "jobs", "jobs/" + url.PathEscape(job), "limits"} {
			for _, a := range w.get(at).tree.all("a") {
				to, err := url.Parse(a.attrs["href"])
				if err != nil || !strings.Contains(to.Query().Get("where"), "*") {
					continue
				}
				followed++
				rows := w.get(strings.TrimLeft(to.String(), "./")).tree.all("tr[data-row]")
				for _, row := range rows {
					if !strings.Contains(row.text(), job+" @") && !strings.Contains(row.text(), "in "+queue+" @") {
						t.Errorf("%q of the page %q leads to %q", a.text(), at, row.text())
					}
				}
				if running := strings.HasPrefix(to.Query().Get("where"), "state:running"); len(rows) == 0 && !running {
					t.Errorf("%q of the page %q leads to nothing", a.text(), at)
				}
			}
		}
		if followed < 5 { // those of failures name executions
			t.Errorf("%d links have such names", followed)
		}
	})
}

// Pages of the list lead to each other, and keep the filter.
func TestExecutionsPages(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for range 120 {
		w.enqueue("report", "ann", nil)
	}
	seen := map[string]bool{}
	at := "executions?where=job%3Areport"
	for n := range 3 {
		page := w.get(at)
		for _, row := range page.tree.all("tr[data-row]") {
			seen[row.attrs["id"]] = true
		}
		if first := page.tree.all("a"); n > 0 && !strings.Contains(fmt.Sprint(page.tree.one(t, ".pager").text()), "Newest") {
			t.Errorf("page %d of %d links has none to the first", n, len(first))
		}
		next := page.tree.all("a[rel=next]")
		if (len(next) == 1) != (n < 2) {
			t.Fatalf("page %d has %d next pages", n, len(next))
		}
		if n < 2 {
			at = "executions" + next[0].attrs["href"]
		}
	}
	if len(seen) != 120 {
		t.Errorf("the pages have %d executions", len(seen))
	}
}

// Visitors see what their roles permit, and no canary below the role for values.
func TestExecutionsRoles(t *testing.T) {
	opt := options()
	virtual(t, opt, func(w *world) {
		w.ended("report", "ann", map[string]any{"fail": canary, "text": canary})
		w.ended("report", "ben", nil)
		w.ended("hidden", "admin", map[string]any{"fail": canary})
		for user, rows := range map[string]int{"nobody": 0, "ann": 1, "ben": 1, "vera": 2, "otto": 2, "watcher": 3, "admin": 3} {
			w.user = user
			page := w.get("executions")
			if n := len(page.tree.all("tr[data-row]")); n != rows {
				t.Errorf("%s sees %d rows, and not %d", user, n, rows)
			}
			if user != "admin" {
				page.lacks(canary)
			}
		}
		w.user = "ann"
		w.get("executions").has("error").lacks("<bdi>ann").lacks("step 0")
		w.user = "stranger"
		w.fails("executions", http.StatusUnauthorized).has("You are not signed in").lacks("no such user")
	})
}

// A list of hostile names is a list: nothing in a name is markup, nor hidden, nor turns
// around what stands beside it.
func TestExecutionsHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		step := []courier.StepSpec{{Type: "test.work", Config: map[string]any{"fail": "context:params.fail"}}}
		for _, evil := range hostile {
			job := jobs()[0]
			job.Name, job.Steps, job.Result = jobName(evil), step, ""
			job.Params = map[string]any{"fail": ""}
			w.define(job)
			w.ended(job.Name, "x"+jobName(evil), map[string]any{"fail": evil})
		}
		page := w.get("executions")
		if n := len(page.tree.all("tr[data-row]")); n != len(hostile) {
			t.Errorf("%d rows", n)
		}
		for _, a := range page.tree.all("script") {
			if a.attrs["type"] != "module" {
				t.Error("a name has become a script")
			}
		}
		page.lacks("\u202e").lacks("\x1b").lacks("<img").has("[U+202E]")
		for _, a := range page.tree.one(t, "#rows").all("a") {
			if strings.Contains(a.attrs["href"], "<") || !strings.HasPrefix(a.attrs["href"], "./executions/") {
				t.Errorf("a link to %q", a.attrs["href"])
			}
		}
	})
}
