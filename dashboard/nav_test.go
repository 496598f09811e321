package dashboard_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier/dashboard"
)

// The links at the top are groups, and the pages of the group that one is in; those of the others
// are there for keys. Who may see less has fewer groups.
func TestNav(t *testing.T) {
	opt := &dashboard.Options{Access: policy(), Connections: connections("acme")}
	virtual(t, opt, func(w *world) {
		x := w.ended("report", "ann", nil)
		shown := func(a answer) (group, page, pages string) {
			nav := a.tree.one(t, "nav[aria-label=Pages]")
			for _, ul := range nav.all("ul") {
				if ul.attrs["class"] == "in" {
					pages += ul.attrs["aria-label"] + ": " + ul.text()
				}
			}
			if list := nav.all("a[aria-current=true]"); len(list) > 0 {
				group = list[0].text()
			}
			if list := nav.all("a[aria-current=page]"); len(list) > 0 {
				page = list[0].text()
			}
			return group, page, pages
		}
		const work, rules = "Work: Attention Executions Today Search", "Rules: Jobs Schedules Notifications Chains"
		for at, want := range map[string][3]string{
			"": {"Work", "Attention", work}, "executions/" + string(x.ID): {"Work", "Executions", work}, "expectations": {"Work", "Today", work}, "kept-files": {"Work", "", work},
			"connections": {"Partners", "Connections", "Partners: Connections Monitors"}, "new/monitor": {"Partners", "Monitors", "Partners: Connections Monitors"},
			"jobs/report": {"Rules", "Jobs", rules}, "calendars": {"Rules", "", rules}, "new/calendar": {"Rules", "", rules}, "chain-executions": {"Work", "", work},
			"limits": {"Administration", "Limits", "Administration: Limits Journal Health Help"},
		} {
			if group, page, pages := shown(w.get(at)); [3]string{group, page, pages} != want {
				t.Errorf("%q: in %q is %q, among %q", at, group, page, pages)
			}
		}
		keys := make(map[string]bool)
		for _, a := range w.get("").tree.one(t, "nav[aria-label=Pages]").all("a") {
			if key := a.attrs["data-key"]; key == "" || keys[key] {
				t.Errorf("%s has the key %q", a.text(), key)
			} else {
				keys[key] = true
			}
		}
		w.user = "vera"
		if groups := w.get("").tree.one(t, ".groups").text(); groups != "Work Partners Rules Administration" {
			t.Errorf("of one job there are the groups %q", groups)
		}
		if help := w.get("help").tree.one(t, "nav[aria-label=Pages]").text(); strings.Contains(help, "Journal") || strings.Contains(help, "Connections") {
			t.Errorf("of one job there are the pages %q", help)
		}
	})
}
