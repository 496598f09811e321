package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A partner is a list step for connections: the one called down refuses the login, and slow
// does not answer.
type partner struct{}

type partnerConfig struct {
	ConnectionID string `json:"connection_id" courier:"required"`
	RemotePath   string `json:"remote_path" default:"."`
}

func (p partner) Execute(ctx context.Context, job *courier.Context, cfg partnerConfig) (struct{}, error) {
	return struct{}{}, p.Validate(ctx, job, cfg)
}

func (partner) Validate(ctx context.Context, job *courier.Context, cfg partnerConfig) error {
	job.Log().Info("the server is ExampleSSH 2.0")
	switch cfg.ConnectionID {
	case "down":
		return courier.WithClass(courier.Permanent(errors.New("login refused: "+canary)), courier.ReasonLogin)
	case "slow":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// connections are those of a host, with names that are none of the host's making.
func connections(ids ...string) func(context.Context) ([]dashboard.Connection, error) {
	return func(context.Context) (list []dashboard.Connection, err error) {
		for _, id := range ids {
			list = append(list, dashboard.Connection{ID: id, Type: "test", Address: id + ".example:22", Owner: "owner of " + id, Note: "call first"})
		}
		return append(list, dashboard.Connection{ID: "web", Type: "http"}), nil
	}
}

// transfer defines a job whose step lists a connection.
func (w *world) transfer(name, connection string) {
	w.Helper()
	w.define(courier.Job{Name: name, Steps: []courier.StepSpec{{ID: "list", Type: "test.list", Config: map[string]any{"connection_id": connection}}}})
}

// Connections have what uses them, what has failed at them, and a test.
func TestConnections(t *testing.T) {
	opt := &dashboard.Options{Access: policy(), Connections: connections("acme", "down", "slow")}
	virtual(t, opt, func(w *world) {
		w.inbox()
		w.transfer("fetch", "acme")
		w.transfer("send", "down")
		w.monitor(monitor.Monitor{Name: "incoming", Connection: "acme", Path: "/in", Job: "inbox"})
		failed := w.ended("send", "ann", nil)
		w.transfer("send", "acme") // the failure was at the connection of the version before
		page := w.get("connections")
		rows := page.tree.all("tr[data-row]")
		for i, want := range []string{
			"acme test acme.example:22 owner of acme call first job fetch list job send list monitor incoming none",
			"down test down.example:22 owner of down call first nothing send",
			"slow test slow.example:22 owner of slow call first nothing none",
			"web http nothing none This process has no step type http.list",
		} {
			if !strings.HasPrefix(rows[i].text(), want) {
				t.Errorf("row %d is %q, and not %q", i, rows[i].text(), want)
			}
		}
		if href := rows[1].all("a")[1].attrs["href"]; href != "./executions/"+string(failed.ID) {
			t.Errorf("the failure leads to %q", href)
		}
		test := func(id string) *node {
			form := page.with("do", "test", "connection", id, "key", "k"+id)
			a := w.post("connections", form)
			if a.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", id, a.Code, a.text())
			}
			return a.tree.one(t, "[role=status]")
		}
		if text := test("acme").text(); !strings.Contains(text, "ok It answers") || !strings.Contains(text, "ExampleSSH 2.0") {
			t.Errorf("acme: %q", text)
		}
		if text := test("down").text(); !strings.Contains(text, "failed") || !strings.Contains(text, "Login refused: "+canary) {
			t.Errorf("down: %q", text)
		}
		begun := time.Now()
		if text := test("slow").text(); !strings.HasPrefix(text, "failed") || time.Since(begun) > time.Minute {
			t.Errorf("slow: %q after %v", text, time.Since(begun))
		}
		for id, status := range map[string]int{"web": http.StatusBadRequest, "none": http.StatusNotFound} {
			if a := w.post("connections", page.with("do", "test", "connection", id)); a.Code != status {
				t.Errorf("%s: %d", id, a.Code)
			}
		}
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "connection"}); err != nil || len(list) > 0 {
			t.Errorf("the journal has %v %v", list, err)
		}
	})
}

// Connections belong to no job. Without them there is no page.
func TestConnectionRoles(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down")
	virtual(t, opt, func(w *world) {
		w.transfer("send", "down")
		w.ended("send", "ann", nil)
		for user, status := range map[string]int{"nobody": 403, "ann": 403, "otto": 403, "watcher": 200, "operator": 200, "editor": 200, "admin": 200} {
			w.user = user
			if status != 200 {
				w.fails("connections", status)
				if strings.Contains(w.get("executions").tree.one(t, "nav[aria-label=Pages]").text(), "Connections") {
					t.Errorf("%s has a link", user)
				}
			} else if page := w.get("connections"); (len(page.tree.all("button[value=test]")) > 0) != (user == "admin") {
				t.Errorf("%s: the test", user)
			} else if user != "admin" {
				page.lacks(canary)
			}
			if a := w.post("connections", map[string]string{"do": "test", "connection": "down"}); (a.Code == 200) != (user == "admin") || user != "admin" && strings.Contains(a.Body.String(), canary) {
				t.Errorf("%s tests: %d", user, a.Code)
			}
		}
	})
	w := newWorld(t, memstore.New(), nil)
	w.fails("connections", http.StatusNotFound)
	if strings.Contains(w.get("executions").tree.one(t, "nav[aria-label=Pages]").text(), "Connections") {
		t.Error("there is a link to a page that is not there")
	}
	w = newWorld(t, memstore.New(), &dashboard.Options{Access: policy(), Connections: func(context.Context) ([]dashboard.Connection, error) { return nil, nil }})
	w.get("connections").has("This service lists no connections.")
}

// Ten thousand connections are pages, and their names can be anything.
func TestConnectionPages(t *testing.T) {
	var ids []string
	for i := range 10_000 {
		ids = append(ids, fmt.Sprintf("~%05d", i))
	}
	for _, evil := range hostile {
		ids = append(ids, jobName(evil))
	}
	w := newWorld(t, memstore.New(), &dashboard.Options{Access: policy(), Connections: connections(ids...)})
	page := w.get("connections").lacks("\u202e ").lacks("<img")
	if n := len(page.tree.all("tr[data-row]")); n != 50 {
		t.Errorf("%d rows", n)
	}
	next := w.follow(page, page.tree.one(t, "a[rel=next]").attrs["href"])
	if n := len(next.tree.all("tr[data-row]")); n != 50 || strings.Contains(next.text(), page.tree.all("tr[data-row]")[49].text()) {
		t.Errorf("%d rows on the second page", n)
	}
}

// The page of a connection says how it stands, since when, and draws what has used it.
func TestConnection(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down", "../odd")
	virtual(t, opt, func(w *world) {
		w.get("connections").has("down")
		w.get("connections/down").has("unknown Nothing was transferred lately.").lacks("Last ")
		w.transfer("fetch", "acme")
		for range 3 {
			w.ended("fetch", "ann", nil)
			time.Sleep(time.Minute)
		}
		page := w.get("connections/acme").has("works Last success: 2000-01-01 00:02:00 UTC").has("Last 3 transfers").has("Of 3 that completed").has("job fetch list")
		if n := len(page.tree.one(t, ".bars").all(".good")); n != 3 {
			t.Errorf("%d bars", n)
		}
		w.transfer("fetch", "down") // the same job with another partner
		for range 2 {
			w.ended("fetch", "ann", nil)
			time.Sleep(time.Minute)
		}
		w.transfer("more", "down")
		page = w.get("connections/down").has("down since 2000-01-01 00:03:00 UTC None of the transfers below has succeeded.").has("Last 2 transfers").has("None of them has completed.").has("login refused: " + canary)
		if n := len(page.tree.one(t, ".bars").all(".bad")); n != 2 {
			t.Errorf("%d bars", n)
		}
		w.get("connections/..%2Fodd").has("unknown")
		w.fails("connections/none", http.StatusNotFound)
		a := w.post("connections/down", page.with("do", "test", "connection", "down", "key", "1"))
		if text := a.tree.one(t, "[role=status]").text(); a.Code != http.StatusOK || !strings.Contains(text, "Login refused") {
			t.Errorf("the test: %d %s", a.Code, text)
		}
		w.user = "watcher"
		if w.get("connections/down").lacks(canary); len(w.get("connections/down").tree.all("button[value=test]")) != 0 {
			t.Error("a viewer may test")
		}
		w.user = "otto"
		w.fails("connections/down", http.StatusForbidden)
	})
}

// An open page of connections shows what fails meanwhile.
func TestConnectionsAreLive(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down")
	virtual(t, opt, func(w *world) {
		w.transfer("send", "down")
		s, stop := w.stream(w.get("connections").liveURL("connections"))
		defer stop()
		one, stopOne := w.stream(w.get("connections/down").liveURL("connections/down"))
		defer stopOne()
		w.ended("send", "ann", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, patches := s.take(t); !strings.Contains(patches["list"], "executions/") {
			t.Errorf("the list has %q", patches["list"])
		}
		if _, patches := one.take(t); !strings.Contains(patches["connection"], "down") {
			t.Errorf("the page has %q", patches["connection"])
		}
	})
}
