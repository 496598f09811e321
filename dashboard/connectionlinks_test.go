package dashboard_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/monitor"
)

// Names of connections lead to them, from what has failed, files and monitors too; for who may not
// see connections they are names.
func TestConnectionLinks(t *testing.T) {
	virtual(t, &dashboard.Options{Access: policy(), Connections: connections("down", "acme")}, func(w *world) {
		w.inbox()
		w.transfer("broken", "down")
		failed, files := w.ended("broken", "ann", nil), w.fileJob("files", map[string]any{"path": "/out/a.csv"})
		w.monitor(monitor.Monitor{Name: "incoming", Connection: "down", Path: "/in", Job: "inbox"})
		links := map[string]string{
			"executions/" + string(failed.ID): "down", "executions/" + string(failed.ID) + "?tab=attempts": "down", "executions/" + string(files.ID) + "?tab=files": "acme",
			"search?q=a.csv": "acme", "monitors": "down", "monitors/incoming": "down",
		}
		named := func(a answer, name string) (hrefs []string) {
			for _, l := range a.tree.one(t, "main").all("a") {
				if l.text() == name {
					hrefs = append(hrefs, l.attrs["href"])
				}
			}
			return hrefs
		}
		for at, name := range links {
			hrefs := named(w.get(at), name)
			if len(hrefs) == 0 {
				t.Errorf("%s: no link to %s", at, name)
				continue
			}
			page := w.get(strings.TrimLeft(hrefs[0], "./"))
			if main := page.tree.one(t, "main").text(); !strings.Contains(main, name+".example:22") {
				t.Errorf("%s: %s leads to %s", at, hrefs[0], main)
			}
		}
		people["partial"] = map[string]access.Role{"broken": access.Viewer}
		defer delete(people, "partial")
		w.user = "partial"
		if a := w.get("executions/" + string(failed.ID)).has("Connection: down"); len(named(a, "down")) > 0 {
			t.Error("who may not see connections has a link to one")
		}
	})
}

// A client is told the reason of a failure in words, with the engine's own as the title.
func TestReasonInWords(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(courier.Job{Name: "report", Params: map[string]any{"items": []any{1, 2}}, Steps: []courier.StepSpec{
			{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items", "on_item_failure": "continue"}}, {ID: "work", Type: "test.work", Config: map[string]any{"fail": "broken"}}, {Type: "flow.end"},
		}})
		x := w.ended("report", "ann", nil)
		w.user = "ann"
		at := "executions/" + string(x.ID)
		w.get("executions").has("some items failed")
		for _, n := range w.get(at).has("Reason some items failed").tree.all("span") {
			if n.text() == "some items failed" && n.attrs["title"] != "items_failed" {
				t.Errorf("the title is %q", n.attrs["title"])
			}
		}
		w.user = "admin"
		w.get(at + "?tab=audit").has("some items failed")
	})
}
