package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
)

// An id is shown with all of it as its title, and found by its beginning: the only one is opened,
// of several the search is a list. Nobody finds what it may not see.
func TestShortIDs(t *testing.T) {
	virtual(t, nil, func(w *world) {
		if _, err := w.engine.Chains().Define(w.Context(), chain.Chain{Name: "both", Members: []chain.Member{{Job: "report"}, {Job: "other"}}}, nil); err != nil {
			t.Fatal(err)
		}
		anns, others := w.ended("report", "ann", nil), w.ended("report", "ben", nil)
		time.Sleep(time.Hour)
		last := w.ended("other", "ann", nil)
		time.Sleep(time.Hour)
		run, err := w.engine.Chains().Start(w.Context(), "both", &chain.StartOptions{By: courier.By{Actor: "ann"}, Labels: map[string]string{"by": "ann"}, Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		code := w.get("executions").tree.all("code")[0]
		if code.attrs["class"] != "id short" || code.attrs["title"] != string(last.ID) || code.text() != string(last.ID) {
			t.Errorf("the newest is shown as %q, %v", code.text(), code.attrs)
		}
		opens := func(user, at, want string) {
			t.Helper()
			w.user = user
			a := w.send(get(at))
			if is := a.Header().Get("Location"); a.Code != http.StatusSeeOther || is != want {
				t.Errorf("%s as %s: %d to %q, and not %q", at, user, a.Code, is, want)
			}
		}
		for _, n := range []int{8, 13, 18, 35, 36} {
			opens("admin", "search?q="+string(last.ID[:n]), "./executions/"+string(last.ID))
			opens("admin", "search?q="+string(run.ID[:n]), "./chain-executions/"+string(run.ID))
		}
		opens("admin", "executions?where="+string(last.ID[:13]), "./search?q="+string(last.ID[:13]))
		opens("ann", "search?q="+string(anns.ID[:8]), "./executions/"+string(anns.ID)) // that of ben is none of hers
		w.user = "admin"
		two := w.get("search?q=" + string(anns.ID[:8]))
		if rows := two.tree.all("tr[data-row]"); len(rows) != 2 || !strings.Contains(rows[0].text(), string(others.ID)) {
			t.Errorf("two executions of a moment: %s", two.tree.one(t, "main").text())
		}
		w.user = "ben"
		w.get("search?q=" + string(run.ID[:8])).has("Nothing was found.")
		w.get("search?q=" + string(last.ID[:8])).has("Nothing was found.")
	})
}
