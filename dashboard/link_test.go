package dashboard_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// The links of notifications lead to the pages of executions and of executions of chains.
func TestLinksOfNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		w := newWorld(t, s, nil)
		w.defineChain(daily())
		links := make(chan string, 100)
		e := engine.New(s, w.engine.Registry(), &engine.Options{
			Workspace: t.TempDir(), Secrets: secrets, BaseURL: "https://ops.example.com/courier",
			Subscribers: map[string]func(context.Context, notify.Notification) error{"note": func(_ context.Context, n notify.Notification) error {
				links <- n.URL
				return nil
			}},
		})
		_, err := e.Subscriptions().Set(t.Context(), notify.Subscription{Name: "note", Kind: notify.KindFunc, Func: "note", Events: []courier.EventType{courier.EventJobCompleted, courier.EventChainStarted}}, courier.By{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, c := w.enqueue("report", "ann", nil), w.startChain("ann", nil)
		time.Sleep(time.Minute)
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(links)
		opened := ""
		for link := range links {
			u, err := url.Parse(link)
			if err != nil || u.Host != "ops.example.com" {
				t.Fatalf("%q, %v", link, err)
			}
			w.get(strings.TrimPrefix(u.Path, "/courier/"))
			opened += link + "\n"
		}
		for _, id := range []string{string(x.ID), string(c.ID)} {
			if !strings.Contains(opened, id) {
				t.Errorf("no link leads to %s:\n%s", id, opened)
			}
		}
	})
}

// A known visitor finds where to log out, and nobody else.
func TestLogout(t *testing.T) {
	for to, want := range map[string]int{"/logout": 1, "": 0, "javascript:alert(1)": 0} {
		w := newWorld(t, memstore.New(), &dashboard.Options{Access: policy(), LogoutURL: to})
		found := 0
		for _, a := range w.get("executions").tree.all("a") {
			if a.attrs["href"] == to {
				found++
			}
		}
		if found != want && to != "" {
			t.Errorf("%q: %d links", to, found)
		}
		w.user = "nobody-knows"
		r, err := http.NewRequest("GET", "/courier/executions", nil)
		if err != nil {
			t.Fatal(err)
		}
		if a := w.send(r); a.Code != http.StatusUnauthorized || strings.Contains(a.Body.String(), "Log out") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	}
}
