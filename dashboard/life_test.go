package dashboard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// The first page begins with the figures of the day, what goes on and who works, for those who may
// see all jobs.
func TestLife(t *testing.T) {
	virtual(t, nil, func(w *world) {
		time.Sleep(time.Second) // the worker has claimed
		w.get("").has("The figures appear after the next count").has("0 running").has("64 slots, since 2000-01-01 00:00:00 UTC")
		time.Sleep(7*24*time.Hour + 3*time.Hour)
		for i := range 7 {
			name := fmt.Sprintf("tick-%d", i)
			if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: name, Job: "report", Cron: fmt.Sprintf("0 %d 5 * * ?", 50-i)}, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		w.ended("report", "ann", nil)
		w.ended("report", "ann", map[string]any{"fail": "no"})
		w.enqueue("other", "ann", map[string]any{"seconds": 7200})
		time.Sleep(2 * time.Minute)
		page := w.get("").has("1 running, 0 queued")
		life := page.tree.one(t, "#life")
		figures := life.one(t, ".life").all("li")
		if len(figures) != 10 || figures[8].text() != "Peak running 1 last Saturday: 0" || figures[0].text() != "Completed 1 last Saturday: 0" || figures[1].text() != "Failed 1 last Saturday: 0" {
			t.Errorf("%d figures: %s", len(figures), life.one(t, ".life").text())
		}
		if n := len(life.all(".spark")); n != 10 {
			t.Errorf("%d drawings", n)
		}
		if rows := life.one(t, "tbody").all("tr"); len(rows) != 24 || !strings.HasPrefix(rows[0].text(), "2000-01-08 03:00:00 UTC 1 1 0") {
			t.Errorf("%d rows: %s", len(rows), rows[0].text())
		}
		if ticks := life.one(t, "ol").all("li"); len(ticks) != 5 || !strings.HasPrefix(ticks[0].text(), "schedule tick-6 fires 2000-01-08 05:44:00 UTC") || ticks[0].one(t, "a").attrs["href"] != "./schedules/tick-6" {
			t.Errorf("%d ticks: %s", len(ticks), life.one(t, "ol").text())
		}
		for user, sees := range map[string]bool{"watcher": true, "operator": true, "vera": false, "ann": false, "nobody": false} {
			w.user = user
			if got := len(w.get("").tree.all("#life")) == 1; got != sees {
				t.Errorf("%s sees the figures: %t", user, got)
			}
		}
	})
}

// The windows of expectations that open or fall due next stand between the ticks, in the order of their
// times, with what happens then in words.
func TestNextWindows(t *testing.T) {
	virtual(t, nil, func(w *world) {
		time.Sleep(3 * time.Hour)
		w.inbox()
		w.monitor(monitor.Monitor{Name: "in", Path: "/in", Job: "inbox"})
		for name, window := range map[string]expectation.Window{"payroll": {From: "04:30", Until: "07:00"}, "rates": {From: "06:00", Until: "08:00"}, "open": {From: "02:00", Until: "05:00"}} {
			_, err := w.engine.Expectations().Set(w.Context(), expectation.Expectation{Name: name, From: expectation.From{Monitor: "in"}, Pattern: name + "*.csv", Window: window, DueSoon: "20m"}, courier.By{})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "daily", Job: "report", Cron: "0 0 5 * * ?"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		next := func() (list []string) {
			for _, li := range w.get("").tree.one(t, "#life").one(t, "ol").all("li") {
				list = append(list, li.text())
			}
			return list
		}
		if got, want := next(), []string{
			"expectation payroll opens 2000-01-01 04:30:00 UTC", "schedule daily fires 2000-01-01 05:00:00 UTC", "expectation rates opens 2000-01-01 06:00:00 UTC", "expectation open opens 2000-01-02 02:00:00 UTC",
		}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Hour + 45*time.Minute)
		if got, want := next(), []string{
			"schedule daily fires 2000-01-01 05:00:00 UTC", "expectation open is due 2000-01-01 05:00:00 UTC", "expectation rates opens 2000-01-01 06:00:00 UTC",
			"expectation open opens 2000-01-02 02:00:00 UTC", "expectation payroll opens 2000-01-02 04:30:00 UTC",
		}; !slices.Equal(got, want) {
			t.Errorf("later: %q", got)
		}
		if href := w.get("").tree.one(t, "#life").one(t, "ol").all("a")[1].attrs["href"]; href != "./expectations/open" {
			t.Errorf("a window leads to %s", href)
		}
	})
}

// A store without the roles has the page without them.
func TestLifeOfABareStore(t *testing.T) {
	virtualOn(t, struct{ store.Store }{memstore.New()}, nil, func(w *world) {
		if _, err := w.engine.Executions().Figures(t.Context(), 1); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "store.Figures") {
			t.Errorf("figures: %v", err)
		}
		w.get("").has("Nothing needs your attention.").lacks("Workers none")
	})
}

// The page of a job draws its last runs.
func TestRuns(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("jobs/report").lacks("Last ")
		for i := range 33 {
			params := map[string]any{"seconds": i}
			if i%10 == 5 {
				params["fail"] = canary
			}
			w.ended("report", "ann", params)
		}
		page := w.get("jobs/report").has("Last 30 runs").has("Of 27 that completed, half took no longer than 18.0 s (the median), and 95 of 100 no longer than 31.0 s").lacks(canary)
		bars := page.tree.one(t, ".bars")
		links := bars.all("a")
		if len(links) != 30 || len(bars.all(".bad")) != 3 || len(bars.all(".good")) != 27 || !strings.HasPrefix(links[0].attrs["href"], "../executions/") {
			t.Errorf("%d links, %s", len(links), bars.text())
		}
		if title := links[29].one(t, "title").text(); !strings.HasPrefix(title, "completed: 32.0 s, 2000-01-01 ") {
			t.Errorf("the newest one is %s", title)
		}
	})
}
