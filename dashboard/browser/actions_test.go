package browser

import (
	"cmp"
	"fmt"
	"html"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// A deed is an action that a form of a page offers, with the addresses that offer it.
type deed struct {
	page, do string
	at       []string // none for the page that is shown
}

func (d *deed) String() string { return d.do + " at " + d.page }

// last are the actions after which others can no longer be done, the last of them at the end.
var last = []string{"resume with changes", "rerun", "resume", "retry", "pause", "disable", "enable", "cancel", "bulk", "remove"}

var (
	buttons = regexp.MustCompile(`<button[^>]* name="do" value="([^"]*)"`)
	hidden  = regexp.MustCompile(`<input type="hidden" name="do" value="([^"]*)"`)
)

// deeds returns the actions of all pages, in an order in which they can be done.
func (s *site) deeds() (list []*deed) {
	for _, a := range s.addresses {
		w := httptest.NewRecorder()
		s.Pages.ServeHTTP(w, httptest.NewRequest("GET", "/"+a.at, nil))
		seen := make(map[string]bool)
		for _, m := range slices.Concat(buttons.FindAllStringSubmatch(w.Body.String(), -1), hidden.FindAllStringSubmatch(w.Body.String(), -1)) {
			do := html.UnescapeString(m[1])
			if seen[do] {
				continue
			}
			seen[do] = true
			i := slices.IndexFunc(list, func(d *deed) bool { return d.page == a.page && d.do == do })
			if i < 0 {
				i, list = len(list), append(list, &deed{page: a.page, do: do})
			}
			list[i].at = append(list[i].at, a.at)
		}
	}
	slices.SortStableFunc(list, func(a, b *deed) int { return cmp.Compare(slices.Index(last, a.do), slices.Index(last, b.do)) })
	return list
}

// fields are what people write into the fields of a page before they send its form. %d is a
// number that no other form has. A space selects a box.
var fields = map[string]map[string]string{
	"new/job":              {"name": "made-%d"},
	"new/calendar":         {"f.name": "made-%d"},
	"new/expectation":      {"f.name": "made-%d", "f.from.monitor": "invoices", "f.pattern": "inv-*.xml"},
	"expectations/{name}":  {"reason": "closed"},
	"new/schedule":         {"f.name": "made-%d", "f.job": "nested", "f.cron": "0 0 3 * * ?"},
	"new/monitor":          {"f.name": "made-%d", "f.job": "nested", "f.lister": "sftp", "f.connection_id": "acme-sftp", "f.path": "/out/invoices"},
	"new/subscription":     {"f.name": "made-%d", "f.events": "JobFailed", "f.webhook.url": "https://1.1.1.1/", "f.webhook.secrets": "secret:hook"},
	"notifications/{name}": {"event": " "},
	"limits":               {"scope": "key:made-%d", "running": "3"},
}

// TestActions does everything that the pages offer: with the keyboard alone, with the mouse
// alone, and with the mouse alone where scripts are off.
func TestActions(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	var mu sync.Mutex
	did := make(map[string][]string) // by way
	t.Run("ways", func(t *testing.T) {
		for way, h := range map[string]*hand{"keyboard": {keys: true}, "mouse": {}, "mouse without scripts": {bare: true}} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				s := open(t, demo.Options{Small: true})
				h.T, h.site, h.p, h.base = t, s, b.Page(t), s.mounts(t)[1].base
				h.p.Emulate(chromium.Device{NoScript: h.bare})
				list := h.all()
				quiet(t, h.p, way, "beforeunload", "/jobs/invoices/remove") // which schedules and monitors use
				mu.Lock()
				defer mu.Unlock()
				did[way] = list
			})
		}
	})
	want := did["keyboard"]
	if len(want) < 41 {
		t.Errorf("the pages offer %d actions: %v", len(want), want)
	}
	for way, list := range did {
		if !slices.Equal(list, want) {
			t.Errorf("%s does\n%v\nand the keyboard\n%v", way, list, want)
		}
	}
	t.Logf("%d actions", len(want))
}

// A hand does what a person does.
type hand struct {
	*testing.T
	*site
	p     *chromium.Page
	base  string
	keys  bool // with the keyboard alone, and otherwise with the mouse alone
	bare  bool // scripts are off
	forms int
}

// all does all actions, and returns them as they are called. What a page offers only after
// another action follows that one.
func (h *hand) all() (names []string) {
	h.Helper()
	list := h.deeds()
	known := make(map[string]bool)
	for _, d := range list {
		known[d.String()] = true
	}
	for i := 0; i < len(list); i++ {
		h.do(list[i])
		names = append(names, list[i].String())
		for _, d := range h.offered() {
			if !known[d.String()] {
				known[d.String()] = true
				list = slices.Insert(list, i+1, d)
			}
		}
	}
	slices.Sort(names)
	return names
}

// offered returns the actions of the page that is shown.
func (h *hand) offered() (list []*deed) {
	h.Helper()
	var found struct {
		Page  string
		Verbs []string
	}
	h.p.Eval(`({page: document.body.dataset.page ?? "", verbs: [...document.querySelectorAll("button")].filter(e => !e.disabled && e.form?.method == "post").map(e => e.name == "do" ? e.value : e.form.querySelector("input[type=hidden][name=do]")?.value ?? "")})`, &found)
	for _, verb := range found.Verbs {
		if verb != "" {
			list = append(list, &deed{page: found.Page, do: verb})
		}
	}
	return list
}

// target marks the button of an action, and says whether there is one that can be used. Marks
// outlast that the page is kept up to date, which takes attributes away that are not its own.
const target = `((verb) => {
	window.marks?.disconnect();
	document.querySelectorAll("[data-target]").forEach(e => e.removeAttribute("data-target"));
	window.marks = new MutationObserver(list => list.forEach(m => m.target.hasAttribute(m.attributeName) || m.target.setAttribute(m.attributeName, m.oldValue)));
	window.mark = (e, name, value) => {
		e.setAttribute(name, value);
		window.marks.observe(e, {attributeFilter: ["data-target", "data-field", "data-closed"], attributeOldValue: true});
	};
	const button = [...document.querySelectorAll("button")].find(e => !e.disabled && e.form?.method == "post" && (e.name == "do" ? e.value == verb : e.form.querySelector("input[type=hidden][name=do]")?.value == verb));
	if (!button) return false;
	mark(button, "data-target", "");
	return true;
})(%q)`

// do does an action at the first address that still offers it, or on the page that is shown.
func (h *hand) do(d *deed) {
	h.Helper()
	began := time.Now()
	for i := range max(1, len(d.at)) {
		at := "the page that is shown"
		if len(d.at) > 0 {
			at = d.at[i]
			h.p.Open(h.base + at)
		}
		var there bool
		if h.p.Eval(fmt.Sprintf(target, d.do), &there); !there {
			continue
		}
		h.forms++
		h.p.Navigate(func() {
			if h.keys {
				h.write(d, at)
			} else {
				h.click(d)
			}
		})
		answered(h.p)
		var outcome struct{ Page, Alert, Status string }
		h.p.Eval(`({page: document.body.dataset.page ?? "", alert: document.querySelector("main [role=alert]")?.innerText ?? "", status: [...document.querySelectorAll("main .notice[role=status]")].map(e => e.innerText).join(" ")})`, &outcome)
		inUse := d.do == "remove" && strings.Contains(outcome.Alert, " is used by ") // a removal that is refused, as it has to be
		if outcome.Page == "" || outcome.Alert != "" && !inUse {
			h.Errorf("%s at %s: the page %q says %q", d.do, at, outcome.Page, outcome.Alert)
		}
		h.Logf("%s at %s: %.80q (%v)", d.do, at, outcome.Status, time.Since(began).Round(time.Millisecond))
		return
	}
	h.Errorf("%s of the page %q: none of %d addresses offers it any more", d.do, d.page, len(d.at))
}

// wanted is what belongs into the field that has the focus, and is not there.
const wanted = `((known) => {
	const e = document.activeElement, form = document.querySelector("[data-target]").form;
	if (e?.form == form && e.type == "checkbox") return known[e.name] == " " && !e.checked ? " " : "";
	if (!e || e.form != form || !e.matches("input:not([type=checkbox], [type=radio]), textarea")) return "";
	if (e.name in known && e.value != known[e.name]) return known[e.name];
	if (e.value) return "";
	const typed = e.labels?.[0]?.innerText.match(/Type (.+) to confirm/);
	if (e.name == "confirm") return typed ? typed[1] : decodeURIComponent(location.pathname.replace(/[/]remove$/, "").split("/").filter(Boolean).slice(-1)[0]);
	return e.required ? "1" : "";
})(%s)`

// standing is where the focus is.
const standing = `(() => {
	const e = document.activeElement, target = document.querySelector("[data-target]");
	if (e == target) return "target";
	if (e.tagName == "SUMMARY" && e.parentElement.contains(target) && !e.parentElement.open) return "closed";
	const ring = getComputedStyle(e);
	return e == document.body ? "body" : ring.outlineStyle == "none" || parseFloat(ring.outlineWidth) < 1 ? "no ring on " + e.outerHTML.slice(0, 80) : "";
})()`

// write goes from the beginning of the page to the button with the key Tab, writes what the
// form needs on the way, and presses the button.
func (h *hand) write(d *deed, at string) {
	h.Helper()
	for tabs := range 600 {
		h.p.Press("Tab")
		var where, text string
		switch h.p.Eval(standing, &where); where {
		case "target":
			h.p.Press("Enter")
			return
		case "closed":
			h.p.Press("Enter")
		case "body":
			if tabs > 0 {
				h.Fatalf("%s at %s: the key Tab does not lead to the button", d.do, at)
			}
		case "":
			if h.p.Eval(fmt.Sprintf(wanted, h.known(d)), &text); text != "" {
				h.fill(text)
			}
		default:
			h.Errorf("%s at %s: %s", d.do, at, where)
		}
	}
	h.Fatalf("%s at %s: the button is more than 600 times Tab away", d.do, at)
}

// fill writes a text into the field that has the focus in place of what it has, or selects it.
func (h *hand) fill(text string) {
	h.Helper()
	if text == " " {
		h.p.Press("Space")
		return
	}
	h.p.Press("Control+a")
	h.p.Type(text)
}

// known returns the fields of a page as JSON.
func (h *hand) known(d *deed) string {
	var list []string
	for name, text := range fields[d.page] {
		if strings.Contains(text, "%d") {
			text = fmt.Sprintf(text, h.forms)
		}
		list = append(list, fmt.Sprintf("%q: %q", name, text))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// click clicks on the fields that the form needs, writes into them, and clicks on the button.
func (h *hand) click(d *deed) {
	h.Helper()
	var names []string
	h.p.Eval(`(known => [...document.querySelector("[data-target]").form.elements].filter(e => e.matches("input:not([type=hidden], [type=radio]), textarea") && (e.name in known && !e.checked || !e.value && (e.required || e.name == "confirm")) && !e.closest("details:not([open])")).map((e, i) => { mark(e, "data-field", i); return String(i) }))(`+h.known(d)+`)`, &names)
	for _, i := range names {
		h.p.Click(`[data-field="` + i + `"]`) // which selects a box, too
		var text string
		if h.p.Eval(fmt.Sprintf(wanted, h.known(d)), &text); text != "" {
			h.fill(text)
		}
	}
	var closed bool
	h.p.Eval(`(() => { const e = document.querySelector("[data-target]").closest("details:not([open])"); if (e) mark(e.querySelector("summary"), "data-closed", ""); return !!e })()`, &closed)
	if closed {
		h.p.Click("[data-closed]")
	}
	h.p.Click("[data-target]")
}
