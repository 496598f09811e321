package browser

import (
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// TestGroups opens groups of pages and pages of other groups by keys, and has the pages of one
// group alone to be seen.
func TestGroups(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	p := b.Page(t)
	p.Open(s.mounts(t)[1].base)
	const shown = `[...document.querySelectorAll("nav[aria-label=Pages] ul:not(.groups) a")].filter(a => a.checkVisibility()).map(a => a.textContent).join(" ")`
	for _, c := range []struct{ key, page, group, pages string }{
		{"3", "jobs", "Rules", "Jobs Schedules Notifications Chains"}, {"h", "health", "Administration", "Limits Journal Health Help"}, {"o", "connections", "Partners", "Connections Monitors"},
		{"1", ".", "Work", "Attention Executions Today Search"},
	} {
		p.Press("g")
		p.Navigate(func() { p.Press(c.key) })
		p.WaitFor(`document.body.dataset.page == "`+c.page+`" && document.querySelector(".groups [aria-current]").textContent == "`+c.group+`" && `+shown+` == "`+c.pages+`"`, 3*time.Second)
	}
	quiet(t, p, "groups")
}

// TestCopyID has a click on a short id select all of it, of which the page shows the first 13
// characters.
func TestCopyID(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	p := b.Page(t)
	id := string(s.By["items"])
	p.Open(s.mounts(t)[0].base + "executions/" + id)
	p.Click(".facts code.id")
	p.WaitFor(`getSelection().toString().trim() == "`+id+`" && document.querySelector(".facts code.id").title == "`+id+`"`, 3*time.Second)
	var seen float64 // characters
	p.Eval(`(() => {
		const code = document.querySelector(".facts code.id"), r = document.createRange(), right = code.getBoundingClientRect().right;
		const text = code.firstChild;
		let n = 0;
		for (; n < text.length; n++) {
			r.setStart(text, n);
			r.setEnd(text, n + 1);
			if (r.getBoundingClientRect().right > right) break;
		}
		return n;
	})()`, &seen)
	if seen != 14 { // the last place is that of the ellipsis
		t.Errorf("of the id %v places are to be seen", seen)
	}
	quiet(t, p, "id")
}
