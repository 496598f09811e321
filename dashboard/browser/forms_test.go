package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// answered waits until the focus is on the result of a form, to which the browser scrolls then: a
// click must not come before.
func answered(p *chromium.Page) {
	p.WaitFor("!document.querySelector('[autofocus]') || document.activeElement.matches('[autofocus]')", 5*time.Second)
}

// Who goes back after a check and a dry run sees the check with what was written, and can load
// that page again.
func TestBackToCheck(t *testing.T) {
	t.Parallel()
	url, p := serve(t), chromium.Start(t).Page(t)
	const text = "document.querySelector('#text').value"
	p.Open(url + "/ops/jobs/report/edit")
	p.Click("#text")
	p.Press("Control+End")
	p.Type("  ")
	var written string
	p.Eval(text, &written)
	for _, verb := range []string{"check", "dry-run"} {
		p.Navigate(func() { p.Click("button[value=" + verb + "]") })
		answered(p)
	}
	p.WaitFor("document.body.innerText.includes('Dry run of your text')", time.Second)
	p.Eval("void setTimeout(() => history.back())", nil)
	p.WaitFor("document.body.innerText.includes('The check found no problems')", 5*time.Second)
	is(t, p, text, written)
	p.Navigate(func() { p.Eval("void setTimeout(() => location.reload())", nil) })
	is(t, p, text, written)
	p.WaitFor("document.body.innerText.includes('The check found no problems')", time.Second)
	quiet(t, p, "back", "beforeunload")
}

// The browser asks who leaves a form with something written in it, and nobody else.
func TestUnsaved(t *testing.T) {
	t.Parallel()
	url, p := serve(t), chromium.Start(t).Page(t)
	asked := 0
	leave := func(want bool, when string) {
		t.Helper()
		p.Open(url + "/ops/help")
		n := 0
		for _, m := range p.Console() {
			if m.Level == "dialog" && strings.HasPrefix(m.Text, "beforeunload") {
				n++
			}
		}
		if got := n - asked; got > 1 || got == 1 != want {
			t.Errorf("%s: %d questions", when, got)
		}
		asked = n
	}
	p.Open(url + "/ops/jobs/report/edit")
	p.Click("#text")
	leave(false, "nothing was written")
	p.Open(url + "/ops/jobs/report/edit")
	p.Click("#reason")
	p.Type("a")
	leave(true, "a reason was written")
	p.Open(url + "/ops/jobs/report/edit")
	p.Click("#reason")
	p.Type("a")
	p.Press("Backspace")
	leave(false, "it was removed again")
	p.Open(url + "/ops/jobs/report/edit")
	p.Click("#text")
	p.Press("Control+End")
	p.Type(" ")
	p.Navigate(func() { p.Click("button[value=check]") })
	p.Press("Tab")
	leave(true, "the text was checked, and not saved")
	p.Open(url + "/ops/new/schedule")
	p.Click("#f-misfire")
	p.Press("ArrowDown")
	p.Press("Enter")
	leave(true, "a choice was made")
	p.Open(url + "/ops/new/schedule")
	for field, text := range map[string]string{"name": "nightly", "job": "report", "cron": "0 0 3 ? * *"} {
		p.Click("#f-" + field)
		p.Type(text)
	}
	p.Navigate(func() { p.Click("button[value=set]") })
	is(t, p, "document.querySelector('h1').textContent", "Schedule nightly")
	p.Press("Tab")
	leave(false, "it was saved")
}

// After an action the focus is on the result, also without scripts, and the button that goes
// on is the next one.
func TestFocusAfterAction(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	base := s.mounts(t)[1].base
	for name, bare := range map[string]bool{"scripts": false, "no scripts": true} {
		t.Run(name, func(t *testing.T) {
			p := b.Page(t)
			p.Emulate(chromium.Device{NoScript: bare})
			for _, c := range []struct {
				at, do, says, next string
				tabs               int // at most, until next has the focus
			}{
				{"jobs/nested/edit", "check", "The check found no problems.", "define", 1},
				{"jobs/nested/run", "dry-run", "The dry run found no problems.", "start", 1},
				{"executions/" + string(s.By["items"]) + "/resume", "try", "What this would do", "resume with changes", 2},
				{"schedules/night", "disable", "disable", "enable", 6},
				{"schedules/night", "enable", "enable", "disable", 6},
				{"jobs/made-by-hand/edit", "define", "There are problems", "", 0},
			} {
				p.Open(base + c.at)
				p.Navigate(func() { p.Click("button[name=do][value='" + c.do + "']") })
				answered(p)
				is(t, p, "document.activeElement.matches('[role=status], [role=alert], section.notice')", "true")
				is(t, p, "document.activeElement.innerText.includes('"+c.says+"')", "true")
				for at := ""; c.tabs > 0 && at != c.next; c.tabs-- {
					p.Press("Tab")
					p.Eval("String(document.activeElement.value)", &at)
				}
				if c.next != "" {
					is(t, p, "document.activeElement.value", c.next)
				}
			}
			quiet(t, p, name, "beforeunload", "422 (Unprocessable Entity)")
		})
	}
}

// The keys for fields go to the first field: of the actions, or to the button of a form without
// them, and of a page without a filter. In the
// calendar "j" walks through what fires.
func TestKeysOfFields(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	base, p := s.mounts(t)[1].base, b.Page(t)
	for _, c := range []struct{ at, key, want string }{
		{"executions/" + string(s.By["items"]), ".", "reason"},
		{"jobs/nested/edit", ".", "reason"},
		{"jobs/nested/edit", "/", "text"},
		{"new/schedule", "/", "f-name"},
		{"executions", "/", "where"},
		{"executions", ".", "action"},
		{"schedules/night", ".", "reason"},
		{"schedules/night?tab=edit", ".", "Save"},
		{"executions/" + string(s.By["items"]) + "/resume", ".", "Preview"},
		{"executions/" + string(s.By["items"]) + "/rerun", ".", "Start it again"},
	} {
		p.Open(base + c.at)
		p.Press(c.key)
		if is(t, p, "document.activeElement.id || document.activeElement.innerText", c.want); t.Failed() {
			t.Fatalf("%s at %s", c.key, c.at)
		}
	}
	p.Open(base + "schedules")
	const at = "[...document.querySelectorAll('.week li')].indexOf(document.activeElement.closest('li'))"
	for _, step := range []struct{ key, at string }{{"j", "0"}, {"j", "1"}, {"k", "0"}} {
		p.Press(step.key)
		is(t, p, at, step.at)
	}
	p.Navigate(func() { p.Press("Enter") })
	is(t, p, "document.body.dataset.page", "schedules/{name}")
	p.Navigate(func() { p.Click("footer a") })
	is(t, p, "document.body.dataset.page", "help")
	quiet(t, p, "keys of fields")
}
