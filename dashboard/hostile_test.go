package dashboard_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
)

var update = flag.Bool("update", false, "write the trees of pages in testdata/hostile anew")

// What partners and authors of jobs write where they can: markup, a quotation mark, words that
// are written from right to left with a figure, what turns text around, and an emoji; where any
// text is possible, also control characters and 8 KiB without a space.
const evilName = `</td><script>alert(1)</script>"'&{{.}} שלום 12` + "\u202e 🚚"

var evilText = evilName + "\x1b[31m" + strings.Repeat("unbroken", 1024)

// TestHostileNames compares the pages of a world in which all names and texts are hostile with
// those that were looked at. What has changed on purpose is written by -update.
func TestHostileNames(t *testing.T) {
	opt := &dashboard.Options{Access: policy(), Connections: func(context.Context) ([]dashboard.Connection, error) {
		return []dashboard.Connection{{ID: evilName, Type: "test", Address: evilName, Owner: evilName, Note: evilText}}, nil
	}}
	virtual(t, opt, func(w *world) {
		pages := w.evil()
		if err := w.store.CountHours(w.Context(), 0); err != nil { // whenever its engine does so
			t.Fatal(err)
		}
		for name, at := range pages {
			main := w.get(at).tree.one(t, "main")
			for _, tag := range []string{"script", "img", "title"} {
				for _, n := range main.all(tag) {
					if n.up.tag != "g" && n.up.tag != "svg" && n.up.tag != "a" {
						t.Errorf("%s: a name has become <%s> in <%s>", name, tag, n.up.tag)
					}
				}
			}
			compare(t, filepath.Join("testdata", "hostile", name+".txt"), main.outline(""))
		}
	})
}

// compare reports an error unless a file has a text, or writes it with -update.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		lines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(got, "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Fatalf("%s: line %d is\n%s\nand not\n%s\nlook at the page, and run the test with -update if it is as it must be", file, i+1, line, lines[min(i, len(lines)-1)])
			}
		}
		t.Fatalf("%s: the page has %d lines, the file more", file, strings.Count(got, "\n"))
	}
}

// evil makes the world, and returns the addresses of its pages.
func (w *world) evil() map[string]string {
	by := courier.By{Actor: evilName, Reason: evilText[:280]}
	work := func(fail string) courier.StepSpec {
		return courier.StepSpec{ID: "say", Name: evilName, Type: "test.work", Config: map[string]any{"text": evilName, "fail": fail}}
	}
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	run := func(job courier.Job, params map[string]any) string {
		w.Helper()
		w.define(job)
		x, err := w.engine.Enqueue(w.Context(), job.Name, &courier.EnqueueOptions{Params: params, By: by, Labels: map[string]string{"partner": evilName}})
		must(err)
		_, _ = w.engine.Wait(w.Context(), x.ID) // some fail
		return "executions/" + string(x.ID)
	}
	w.define(courier.Job{Name: "plain", Steps: []courier.StepSpec{{Type: "test.flaky"}}})
	loop := run(courier.Job{Name: evilName, Params: map[string]any{"items": []any{}, "files": nil}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Name: evilName, Config: map[string]any{"source": "context:params.items", "on_item_failure": "continue"}},
		work("context:loop.current_item"),
		{Type: "flow.end"},
		{Type: "flow.if", Config: map[string]any{"left": evilName, "operator": "equals", "right": "context:params.items"}},
		{ID: "never", Type: "test.work"},
		{Type: "flow.end"},
	}}, map[string]any{"items": []any{"", evilText, evilName}})
	files := run(courier.Job{Name: evilName + " files", Steps: []courier.StepSpec{
		{ID: "send", Name: evilName, Type: "test.file", Config: map[string]any{"path": "/out/" + evilName, "size": 7}},
		{ID: "long", Type: "test.file", Config: map[string]any{"path": "/out/" + evilText[:900], "size": 7}},
	}}, nil)
	run(courier.Job{Name: evilName + " lists", Steps: []courier.StepSpec{{ID: "list", Name: evilName, Type: "test.list", Config: map[string]any{"connection_id": evilName}}, work(evilText)}}, nil)
	_, err := w.engine.Calendars().Set(w.Context(), calendar.Calendar{
		Name: evilName, Description: evilName, Weekend: []string{"sunday"},
		Closed: []calendar.Closing{{Date: "2000-01-01", Title: evilName}, {Date: "2000-01-05", Title: evilName}}, OpenDays: []string{"2000-01-09"},
	}, by)
	must(err)
	_, err = w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: evilName, Job: evilName, Every: time.Hour, Calendar: evilName, OnClosed: schedule.ClosedNext}, by)
	must(err)
	_, err = w.engine.Monitors().Set(w.Context(), monitor.Monitor{Name: evilName, Description: evilName, Lister: "shelf", Connection: evilName, Path: "/" + evilName, Every: time.Second, MaxFailures: 1, Job: evilName}, by)
	must(err)
	_, err = w.engine.Expectations().Set(w.Context(), expectation.Expectation{
		Name: evilName, Description: evilName, From: expectation.From{Monitor: evilName}, Pattern: "*", Calendar: evilName, Label: map[string]string{"partner": evilText[:90]},
		Window: expectation.Window{From: "00:00", Until: "00:30"},
	}, by)
	must(err)
	evilChain := chain.Chain{Name: evilName, Description: evilName, Params: map[string]any{evilName: courier.Param{Type: "text", Doc: evilName, Default: evilName}}, Members: []chain.Member{
		{Name: "one", Job: evilName + " lists"}, {Name: "two", Job: evilName, DependsOn: []chain.Dependency{{Member: "one"}}},
	}}
	w.defineChain(evilChain)
	x, err := w.engine.Chains().Start(w.Context(), evilName, &chain.StartOptions{By: by, Labels: map[string]string{"partner": evilName}})
	must(err)
	time.Sleep(10 * time.Second)
	w.define(courier.Job{Name: "waits", Queue: evilName, LimitKeys: []string{evilName}, Steps: []courier.StepSpec{work("")}})
	w.enqueue("waits", evilName, nil)
	time.Sleep(10 * time.Minute)
	return map[string]string{
		"attention": "", "execution": loop, "attempts": loop + "?tab=attempts&state=failed", "values": loop + "?tab=values", "log": loop + "?tab=log", "audit": loop + "?tab=audit",
		"resume": loop + "/resume", "files": files + "?tab=files", "connections": "connections", "search": "search?q=" + url.QueryEscape(evilName), "found": "search?q=%2Ascript%2A",
		"chain": "chains/" + url.PathEscape(evilName), "chainrun": "chain-executions/" + string(x.ID), "journal": "journal", "executions": "executions",
		"calendars": "calendars", "calendar": "calendars/" + url.PathEscape(evilName), "schedule": "schedules/" + url.PathEscape(evilName), "week": "schedules",
		"expectations": "expectations?date=2000-01-02", "expectation": "expectations/" + url.PathEscape(evilName),
	}
}

var (
	engines = regexp.MustCompile(`[\w.-]+-\d+-[0-9a-f]{8}\b`)
	places  = regexp.MustCompile(`(/[\w.-]+)+/TestHostileNames\d+/001`)
	uuids   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	hashes  = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// outline returns the tree as text, one element or text a line, without what differs from run
// to run: ids, names of engines, directories, keys and hashes. Long texts are cut.
func (n *node) outline(indent string) string {
	show := func(s string) string {
		s = places.ReplaceAllString(engines.ReplaceAllString(uuids.ReplaceAllString(s, "ID"), "ENGINE"), "DIR")
		if utf8.RuneCountInString(s) > 200 {
			s = fmt.Sprintf("%s… %d in all", string([]rune(s)[:80]), utf8.RuneCountInString(s))
		}
		return strconv.Quote(s)
	}
	if n.tag == "" {
		if text := strings.Join(strings.Fields(n.words), " "); text != "" {
			return indent + show(text) + "\n"
		}
		return ""
	}
	if n.tag == "svg" && n.attrs["aria-hidden"] == "true" {
		return "" // an icon
	}
	line := indent + n.tag
	for _, name := range []string{"id", "href", "name", "value", "title", "aria-label", "role", "type"} {
		v, ok := n.attrs[name]
		switch {
		case !ok:
			continue
		case hashes.MatchString(v) || name == "value" && n.attrs["name"] == "key":
			v = "-"
		}
		line += " " + name + "=" + show(v)
	}
	line += "\n"
	for _, k := range n.kids {
		line += k.outline(indent + " ")
	}
	return line
}
