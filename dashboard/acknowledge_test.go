package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// trouble returns the reference of the page that acknowledges the only entry of the first page.
func (w *world) trouble() string {
	w.Helper()
	for _, a := range w.get("").tree.all("a") {
		if a.text() == "Acknowledge…" || a.text() == "Withdraw…" {
			return strings.TrimPrefix(a.attrs["href"], "./")
		}
	}
	return ""
}

// What somebody has acknowledged is folded for all, until its time has passed or something is
// added, and says so when it is back. The journal has one row for the act.
func TestAcknowledge(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.ended("report", "ann", map[string]any{"fail": canary})
		w.user = "otto"
		at := w.trouble()
		w.get(at).has("1 execution failed").has("For at most")
		if a := w.post(at, map[string]string{"do": "acknowledge", "key": "1", "for": "24h"}); a.Code != http.StatusBadRequest {
			t.Errorf("without a reason: %d", a.Code)
		}
		if a := w.post(at, map[string]string{"do": "snooze", "key": "2", "for": "2000h", "reason": "x"}); a.Code != http.StatusBadRequest {
			t.Errorf("for long: %d", a.Code)
		}
		folded := func(is bool) {
			t.Helper()
			page := w.get("")
			cards := page.tree.all("li[data-row]")
			inFold := false
			for _, fold := range page.tree.one(t, "main").all("details") {
				inFold = inFold || len(fold.all("li[data-row]")) == 1
			}
			if len(cards) != 1 || inFold != is {
				t.Errorf("folded is not %t: %s", is, page.tree.one(t, "main").text())
			}
		}
		w.act(at, map[string]string{"do": "acknowledge", "key": "3", "for": "24h", "reason": "the bank has been told"}).has("acknowledged Job \"report\"").has("Nothing needs your attention.").lacks("No failed execution")
		folded(true)
		w.user = "admin"
		w.get("").has("Acknowledged by otto at").has("reason: the bank has been told").has("Withdraw…")
		w.user = "watcher"
		w.get("").has("Acknowledged by otto").lacks("the bank").lacks("Withdraw…")
		w.fails(at, http.StatusForbidden)
		w.user = "admin"
		time.Sleep(time.Second)
		w.ended("report", "ann", map[string]any{"fail": "no"})
		folded(false)
		w.get("").has("It is back because something new was added. Acknowledged by otto")
		w.act(at, map[string]string{"do": "snooze", "key": "4", "for": "4h", "reason": "tomorrow"}).has("Snoozed by admin")
		w.ended("report", "ann", map[string]any{"fail": "no"})
		folded(true)
		time.Sleep(4 * time.Hour)
		folded(false)
		w.get("").has("It is back because its time is up. Snoozed by admin")
		w.act(at, map[string]string{"do": "snooze", "key": "5", "for": "1h", "reason": "later"})
		folded(true)
		w.act(at, map[string]string{"do": "withdraw", "key": "6"}).lacks("It is back")
		folded(false)
		rows := w.get("journal?kind=attention").tree.all("tr[data-row]")
		if len(rows) != 7 || !strings.Contains(rows[0].text(), "withdrawn") || !strings.Contains(rows[6].text(), "failed") {
			t.Errorf("%d rows: %s; %s", len(rows), rows[0].text(), rows[len(rows)-1].text())
		}
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "attention"}); err != nil || len(list) != 13 {
			t.Errorf("the journal has %d entries, %v", len(list), err)
		}
		for user, may := range map[string]bool{"otto": true, "operator": true, "vera": false} {
			w.user = user
			if got := w.trouble() != ""; got != may {
				t.Errorf("%s may acknowledge: %t", user, got)
			}
		}
		w.user = "nobody"
		w.fails(at, http.StatusNotFound)
	})
}

// A store that keeps none has the page without the buttons.
func TestAcknowledgeOnABareStore(t *testing.T) {
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Method == "Acknowledgements" {
			return errors.ErrUnsupported
		}
		return do(ctx)
	})
	virtualOn(t, s, nil, func(w *world) {
		w.ended("other", "ann", map[string]any{"fail": "no"})
		if at := w.get("").has("1 execution failed"); w.trouble() != "" {
			t.Errorf("%s", at.text())
		}
	})
}
