package dashboard_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// The first page says what needs somebody, with the buttons for it; if nothing does, it says
// so, and what comes next.
func TestAttention(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.get("").has("Nothing needs your attention.").has("There are no failed executions.").has("No schedule has a next tick.")
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "nightly", Job: "report", Cron: "0 0 3 * * ?"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.get("").has("The next tick: nightly , 2000-01-01 03:00:00 UTC")
		for i := range 3 {
			x := w.ended("other", "ann", map[string]any{"fail": canary})
			if time.Sleep(time.Second); i > 0 {
				continue
			}
			one := w.get("").has(`1 execution failed at step 0 "work" (test.work).`).has("resume it: completed steps are not run again. Or cancel it.").has("Resume… Cancel…")
			if a := one.tree.all(".button")[0]; a.text() != "Show it" || a.attrs["href"] != "./executions/"+string(x.ID) {
				t.Errorf("%s leads to %s", a.text(), a.attrs["href"])
			}
		}
		page := w.get("").has("failed").has(canary).has("3 executions failed at step 0 \"work\" (test.work).")
		if n := len(page.tree.all("li[data-failed]")); n != 1 {
			t.Errorf("%d entries", n)
		}
		var show, resume string
		for _, a := range page.tree.all(".button") {
			switch a.text() {
			case "Show them":
				show = a.attrs["href"]
			case "Resume all…":
				resume = a.attrs["href"]
			}
		}
		if n := len(w.get(strings.TrimPrefix(show, "./")).tree.all("tr[data-row]")); n != 3 {
			t.Errorf("the list of them has %d", n)
		}
		bulk := w.get(strings.TrimPrefix(resume, "./")).has("Resume 3 executions").has("Completed steps are not run again.").lacks("Type 3")
		if nav := bulk.tree.one(t, "nav[aria-label=Pages]").one(t, "a[aria-current=page]").text(); nav != "Executions" {
			t.Errorf("the page of a bulk belongs to %q", nav)
		}
		keys := make(map[string]string)
		for _, a := range bulk.tree.one(t, "nav[aria-label=Pages]").all("a[data-key]") {
			if other := keys[a.attrs["data-key"]]; other != "" {
				t.Errorf("%s and %s have the same key", other, a.text())
			}
			keys[a.attrs["data-key"]] = a.text()
		}
		if len(keys) < 10 {
			t.Errorf("only %d pages have keys", len(keys))
		}
		w.user = "watcher"
		seen := w.get("").lacks(canary)
		if strings.Contains(seen.tree.text(), "Resume all") {
			t.Error("a viewer has buttons")
		}
		w.user = "nobody"
		w.get("").has("Nothing needs your attention.").lacks("nightly")
	})
}

// What people have put away is folded, with who has done it, and needs nobody.
func TestPutAwayIsFolded(t *testing.T) {
	virtual(t, options(), func(w *world) {
		by := courier.By{Actor: "ann"}
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "nightly", Job: "report", Cron: "0 0 3 * * ?"}, by); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Schedules().Disable(w.Context(), "nightly", by); err != nil {
			t.Fatal(err)
		}
		held, err := w.engine.Enqueue(w.Context(), "other", &courier.EnqueueOptions{Hold: true, By: by})
		if err != nil {
			t.Fatal(err)
		}
		page := w.get("").has("Nothing needs your attention.").has("Held, paused or disabled: 2")
		fold := page.tree.one(t, "main").one(t, "details")
		if fold.attrs["open"] != "" || !strings.Contains(fold.text(), `The schedule "nightly" is disabled.`) || !strings.Contains(fold.text(), "by ann") {
			t.Errorf("the fold has %s", fold.text())
		}
		var hrefs []string
		for _, a := range fold.all(".button") {
			hrefs = append(hrefs, a.attrs["href"])
		}
		if !slices.Equal(hrefs, []string{"./schedules/nightly", "./executions/" + string(held.ID)}) {
			t.Errorf("the fold leads to %q", hrefs)
		}
	})
}

// Failures that a younger execution has mended are folded, and can be given up at once.
func TestSuperseded(t *testing.T) {
	virtual(t, nil, func(w *world) {
		var flaky atomic.Bool
		flaky.Store(true)
		w.fail = func() bool { return flaky.Load() }
		first := w.ended("flaky", "ann", nil)
		time.Sleep(time.Second)
		flaky.Store(false)
		w.ended("flaky", "ann", nil)
		page := w.get("").has("a later one with the same parameters")
		form := page.tree.one(t, "form")
		fields := map[string]string{}
		for _, in := range form.all("input") {
			fields[in.attrs["name"]] = in.attrs["value"]
		}
		preview := w.post("bulk", fields)
		if preview.Code != http.StatusOK {
			t.Fatalf("%d %s", preview.Code, preview.Body)
		}
		preview.has("Cancel 1 execution").has("They end for good")
		if page := w.confirm(preview).has("bulk cancel 1 execution").has("reason: the disk is larger now . cancelled"); !strings.Contains(page.at, "executions/"+string(first.ID)) {
			t.Errorf("what became of one execution is at %s", page.at)
		}
		if x, err := w.engine.Executions().Get(w.Context(), first.ID); err != nil || x.State != courier.Cancelled {
			t.Errorf("it is %s (%v)", x.State, err)
		}
	})
}

// confirm sends the form of a preview with its number typed and some boxes ticked, and follows it.
func (w *world) confirm(preview answer, ticked ...string) answer {
	w.Helper()
	fields := map[string]string{"do": "bulk", "reason": "the disk is larger now"}
	for _, in := range preview.tree.all("input[type=hidden]") {
		fields[in.attrs["name"]] = in.attrs["value"]
	}
	fields["confirm"] = fields["count"]
	for _, box := range ticked {
		fields[box] = preview.tree.one(w, "#"+box).attrs["value"]
	}
	return w.act("bulk", fields)
}

// A bulk counts what matches, asks for the number, and says the result of each.
func TestBulk(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for range 12 {
			w.ended("other", "ann", map[string]any{"fail": "no room"})
		}
		ids := "bulk?action=rerun&where=x"
		for _, row := range w.get("executions").tree.all("tr[data-row]")[:3] {
			ids += "&id=" + strings.TrimPrefix(row.attrs["id"], "x-")
		}
		w.get(ids).has("Start again 3 executions").has("All of them")
		preview := w.get("bulk?action=resume&all=1&where=" + url.QueryEscape("state:failed job:other"))
		preview.has("Resume 12 executions").has("The newest of 12")
		wrong := w.post("bulk", map[string]string{"do": "bulk", "key": "k", "action": "resume", "where": "state:failed", "count": "12", "confirm": "11"})
		if wrong.Code != http.StatusBadRequest {
			t.Errorf("a wrong number: %d", wrong.Code)
		}
		wrong.has("other than 12")
		done := w.confirm(preview).has("12 done, 0 refused, 0 skipped.").has("bulk resume").has("reason: the disk is larger now")
		if n := len(done.tree.all("tr[data-row]")); n != 12 {
			t.Errorf("the outcome has %d executions", n)
		}
		time.Sleep(time.Minute)
		for bad, want := range map[string]string{
			"bulk?action=resume&where=": "needs a filter", "bulk?action=explode&where=state:failed": "Choose an action", "bulk": "Choose an action",
			"bulk?action=pause&where=state:failed": "not possible", "bulk?action=resume&where=stat:x": "no such condition",
		} {
			w.fails(bad, http.StatusBadRequest).has(want)
		}
		w.fails("bulk?of=gone", http.StatusNotFound).has("no longer available")
		w.user = "vera"
		w.get("bulk?action=resume&where=state:failed").has("No execution is selected.")
		if n := len(w.get("executions").tree.all("input[type=checkbox]")); n != 0 {
			t.Errorf("a viewer has %d boxes", n)
		}
	})
}

// Open pages of those who see everything cost the store the same, however many there are.
func TestAttentionShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		w := newWorld(t, storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if c.Method == "Incidents" {
				calls.Add(1)
			}
			return do(ctx)
		}), nil)
		if err := w.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := w.engine.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		live := w.get("").liveURL("")
		var streams []*streamed
		for _, user := range []string{"admin", "watcher", "operator", "editor"} {
			w.user = user
			for range 5 {
				s, stop := w.stream(live)
				defer stop()
				streams = append(streams, s)
			}
		}
		before := calls.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := calls.Load() - before; n < 3 || n > 6 {
			t.Errorf("20 pages have read the store %d times in a minute", n)
		}
		for range 2 {
			w.ended("other", "ann", map[string]any{"fail": "no"})
		}
		time.Sleep(35 * time.Second)
		synctest.Wait()
		for _, s := range streams {
			if _, patches := s.take(t); !strings.Contains(patches["entries"], "2 executions failed") {
				t.Errorf("a page has %q", patches["entries"])
			}
		}
	})
}

// What was repaired by a page is not listed again by the stream of the first page, whoever else
// has read that page before; what was repaired elsewhere is listed for 15 seconds at most.
func TestAttentionAfterRepair(t *testing.T) {
	virtual(t, nil, func(w *world) {
		first := w.get("").liveURL("")
		others, stop := w.stream(first)
		defer stop()
		for _, repair := range []struct {
			where string
			open  bool // the page is opened again, and not only looked at again
			do    func(x courier.Execution)
		}{
			{"by a page", false, func(x courier.Execution) {
				w.act("executions/"+string(x.ID), map[string]string{"do": "cancel", "key": "k" + strings.ReplaceAll(string(x.ID), "-", "")})
			}},
			{"by the API", false, func(x courier.Execution) {
				r := w.form("api/v1/executions/"+string(x.ID)+"/cancel", nil)
				r.Header.Set("Content-Type", "application/json")
				if a := w.send(r); a.Code >= 300 {
					t.Fatalf("%d %s", a.Code, a.Body)
				}
			}},
			{"elsewhere", true, func(x courier.Execution) {
				if _, err := w.engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			x := w.ended("other", "ann", map[string]any{"fail": "no"})
			time.Sleep(attentionEvery)
			synctest.Wait()
			if _, patches := others.take(t); !strings.Contains(patches["entries"], "1 execution failed") {
				t.Fatalf("%s: a page that is open has %q", repair.where, patches["entries"])
			}
			repair.do(x)
			at := first
			if repair.open {
				at = w.get("").liveURL("")
			}
			s, stop := w.stream(at)
			time.Sleep(time.Second)
			synctest.Wait()
			if _, patches := s.take(t); strings.Contains(patches["entries"], "1 execution failed") {
				t.Errorf("%s: the page that is looked at afterwards lists it again", repair.where)
			}
			stop()
			time.Sleep(attentionEvery)
			synctest.Wait()
			if _, patches := others.take(t); strings.Contains(patches["entries"], "1 execution failed") || patches["entries"] == "" {
				t.Errorf("%s: after 15 seconds a page that is open has %q", repair.where, patches["entries"])
			}
		}
	})
}

// attentionEvery is how long what was repaired elsewhere is listed at most.
const attentionEvery = 15 * time.Second

// Failures at a partner are one entry, whichever jobs have met them, and its button is about them
// and no others. The number of many is not typed if none of them has done anything outside.
func TestGroupOfFailures(t *testing.T) {
	virtual(t, options(), func(w *world) {
		for _, job := range []string{"fetch", "send", "sort"} {
			w.transfer(job, "down")
			w.ended(job, "ann", nil)
		}
		other := w.ended("other", "ann", map[string]any{"fail": "no"})
		title := `3 jobs: login failed at "down", 3 executions failed.`
		w.get("").has("Connection down , jobs sort , send , fetch")
		buttons := func(title string) map[string]*node {
			for _, entry := range w.get("").has(title).tree.all("li[data-failed]") {
				if strings.Contains(entry.text(), title) {
					of := make(map[string]*node)
					for _, b := range append(entry.all("a"), entry.all("button")...) {
						of[b.text()] = b
					}
					return of
				}
			}
			return nil
		}
		of := buttons(title)
		if n := len(w.get(strings.TrimPrefix(of["Show them"].attrs["href"], "./")).tree.all("tr[data-row]")); n != 3 {
			t.Errorf("the list of them has %d", n)
		}
		preview := w.get(strings.TrimPrefix(of["Resume all…"].attrs["href"], "./")).has("Resume 3 executions").lacks("to confirm")
		if strings.Contains(preview.tree.text(), string(other.ID)) {
			t.Error("another failure is among them")
		}
		fields := map[string]string{"do": "bulk"}
		for _, in := range preview.tree.all("input[type=hidden]") {
			fields[in.attrs["name"]] = in.attrs["value"]
		}
		w.act("bulk", fields).has("3 done, 0 refused, 0 skipped.")
		time.Sleep(time.Minute)
		for range 10 {
			time.Sleep(time.Second)
			w.ended("send", "ann", nil)
		}
		for range 12 {
			w.ended("other", "ann", map[string]any{"fail": "no"})
		}
		title = `3 jobs: login failed at "down", 13 executions failed.`
		preview = w.get(strings.TrimPrefix(buttons(title)["Resume all…"].attrs["href"], "./")).has("Resume 13 executions").lacks("to confirm")
		for _, in := range preview.tree.all("input[type=hidden]") {
			fields[in.attrs["name"]] = in.attrs["value"]
		}
		of = buttons(`Job "other": 13 executions failed`)
		many := w.get(strings.TrimPrefix(of["Resume all…"].attrs["href"], "./")).has("Resume 13 executions").has("Type 13 to confirm")
		begun := maps.Clone(fields)
		for _, in := range many.tree.all("input[type=hidden]") {
			begun[in.attrs["name"]] = in.attrs["value"]
		}
		if a := w.post("bulk", begun); a.Code != http.StatusBadRequest {
			t.Errorf("many that have begun, without their number: %d", a.Code)
		}
		fields["count"] = "12"
		if a := w.post("bulk", fields); a.Code != http.StatusBadRequest || !strings.Contains(a.text(), "The selection has changed") {
			t.Errorf("of another number: %d %s", a.Code, a.text())
		}
		fields["count"] = "13"
		w.act("bulk", fields).has("13 done, 0 refused, 0 skipped.")
		time.Sleep(time.Minute)
		for range 10 {
			w.ended("send", "ann", nil)
		}
		title = `3 jobs: login failed at "down", 23 executions failed.`
		if b := buttons(title)["Resume all…"]; b.tag != "button" {
			t.Errorf("many are sent by %s", b.tag)
		}
		w.user = "oscar" // who may not see these jobs
		w.get("").lacks("login failed")
		w.user = "watcher"
		if len(buttons(title)) == 0 || buttons(title)["Resume all…"] != nil {
			t.Error("a viewer has other buttons")
		}
		w.get("").lacks(canary)
	})
}
