package browser

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// firsts returns the first address of each page.
func (s *site) firsts() (list []address) {
	seen := make(map[string]bool)
	for _, a := range s.addresses {
		if !seen[a.page] {
			seen[a.page] = true
			list = append(list, a)
		}
	}
	return list
}

// TestPages looks at all pages of a full world and of an empty one.
func TestPages(t *testing.T) {
	b := chromium.Start(t)
	full := open(t, demo.Options{Small: true})
	t.Run("documented", func(t *testing.T) { full.testDocumented(t) })
	t.Run("size", func(t *testing.T) { full.testSize(t) })
	t.Run("mounts", func(t *testing.T) { full.testMounts(t, b) })
	t.Run("looks", func(t *testing.T) { full.testLooks(t, b) })
	t.Run("paint", func(t *testing.T) { full.testPaint(t, b) })
	t.Run("empty", func(t *testing.T) { open(t, demo.Options{Empty: true}).testLooks(t, b) })
}

// Each page that is documented can be reached by links, and each that can be reached is
// documented.
func (s *site) testDocumented(t *testing.T) {
	pages := documented(t)
	for _, a := range s.firsts() {
		if !slices.Contains(pages, a.page) {
			t.Errorf("docs/dashboard.md does not have the page %q", a.page)
		}
	}
	for _, page := range pages {
		if !slices.ContainsFunc(s.addresses, func(a address) bool { return a.page == page }) {
			t.Errorf("no link leads to the page %q", page)
		}
	}
}

// maxPage is how many bytes any page may have, compressed.
const maxPage = 40 << 10

// size returns how many bytes a page has, compressed.
func (s *site) size(t *testing.T, a address) int {
	w := httptest.NewRecorder()
	s.Pages.ServeHTTP(w, httptest.NewRequest("GET", "/"+a.at, nil))
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d: %.200s", a, w.Code, text(w.Body.String()))
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(w.Body.Bytes())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func (s *site) testSize(t *testing.T) {
	largest, at := 0, address{}
	for _, a := range s.addresses {
		n := s.size(t, a)
		if n > largest {
			largest, at = n, a
		}
		if n > maxPage {
			t.Errorf("%s: %d bytes compressed, %d at most", a, n, maxPage)
		}
	}
	t.Logf("%d addresses; the largest is %s with %d bytes compressed", len(s.addresses), at, largest)
}

// Each page is whole in each mount: all that it refers to is there, and the browser does not
// complain.
func (s *site) testMounts(t *testing.T, b *chromium.Browser) {
	for _, m := range s.mounts(t) {
		p := b.Page(t)
		for _, a := range s.firsts() {
			p.Open(m.base + a.at)
			var is string
			if p.Eval("document.body.dataset.page ?? 'none'", &is); is != a.page {
				t.Errorf("%s: %s shows the page %q", m.name, a, is)
			}
			for _, r := range p.Resources() {
				if r.Type == "EventSource" || strings.HasSuffix(r.URL, "/favicon.ico") {
					continue
				}
				if r.Status != 200 && r.Status != 303 {
					t.Errorf("%s: %s: %s answers %d %s", m.name, a, r.URL, r.Status, r.Failed)
				}
			}
		}
		quiet(t, p, m.name)
	}
}

// What no page may look like, on any screen.
const (
	// wider returns the elements that make the page wider than its window.
	wider = `(() => {
		const page = document.scrollingElement, width = page.clientWidth; // innerWidth grows with the page on a telephone
		if (page.scrollWidth <= width) return [];
		const clipped = e => { for (let up = e.parentElement; up && up != document.body; up = up.parentElement) if (getComputedStyle(up).overflowX != "visible") return true; return false };
		return [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > width + 1 && !clipped(e))
			.slice(0, 4).map(e => e.tagName + "." + e.className + " to " + Math.round(e.getBoundingClientRect().right) + ": " + e.textContent.trim().slice(0, 60)).concat("the page is " + page.scrollWidth + " wide in " + width);
	})()`
	// broken returns what the browser has made of markup that it had to mend, and texts that
	// nobody should see.
	broken = `[...document.querySelectorAll("main p:empty:not([role]), main li:empty, main form form")].map(e => "an empty or misplaced " + e.tagName + " in " + e.parentElement.className)
		.concat([...document.querySelectorAll("pre:is([aria-label], [aria-labelledby]):not([role]), [wrap]:not([wrap=hard], [wrap=soft])")].map(e => "what HTML has not: " + e.cloneNode(false).outerHTML))
		.concat([...document.body.innerText.matchAll(/.{0,20}(ZgotmplZ|<no value>|%!|<nil>|0001-01-01|\[object Object\]).{0,20}/g)].map(m => "the text " + m[0]))`
	// cut returns the parts that have to be scrolled sideways to be read.
	cut = `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
		.map(e => e.getAttribute("aria-label") + " is cut off, " + e.scrollWidth + " wide in " + e.clientWidth)`
	// split returns the names of a length as people give them that are broken in a word, and the
	// failures whose column has no room for words.
	split = `[...document.querySelectorAll(".list .origin bdi")].filter(e => /^\S{1,24}$/.test(e.textContent) && e.getClientRects().length > 1).map(e => e.textContent + " is broken")
		.concat([...document.querySelectorAll("body[data-page=executions] .list td.failure")].filter(e => e.checkVisibility() && e.offsetWidth < 288).slice(0, 1).map(e => "failures have " + e.offsetWidth + " pixels"))`
	// sideways returns what a telephone has to scroll sideways, besides drawings and tables whose
	// cells belong to several rows.
	sideways = `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1 && !e.querySelector(".dag, .week, .files"))
		.map(e => e.getAttribute("aria-label") + " is " + e.scrollWidth + " wide in " + e.clientWidth)`
	// nameless returns the cells that a telephone shows without the names of their columns; states
	// and boxes need none.
	nameless = `[...document.querySelectorAll("table:not(.outline, .week, .files) tbody td")].filter(e => e.checkVisibility())
		.map(e => [e.dataset.label ?? "", e.closest("table").tHead.rows[0].cells[e.cellIndex].textContent.trim()])
		.filter(([is, column]) => !["", "Status", "State", "Outcome", "Result", "Select"].includes(column) && (is == "" || !column.toLowerCase().includes(is.toLowerCase())))
		.map(([is, column]) => "a cell below " + column + " has the name " + is).slice(0, 3)`
	// reasons returns why something failed or does not go on, where that is not to be seen at once.
	reasons = `[...document.querySelectorAll("td.failure, .outline .words, .state .words, .because")]
		.filter(e => e.textContent.trim() != "" && (!e.checkVisibility() || e.getBoundingClientRect().right > document.documentElement.clientWidth))
		.map(e => "not to be seen: " + e.textContent.trim().slice(0, 60)).slice(0, 3)`
	// unseen returns, of what a telephone has to show at once, that which lies outside.
	unseen = `[...document.querySelectorAll(".outline .badge, body[data-page=executions] .list :is(.badge, th, time)")]
		.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth).slice(0, 4).map(e => e.textContent.trim() + " lies outside")`
	// needed returns what needs somebody, and what can be done about it, that a telephone does not
	// show at once.
	needed = `[...document.querySelectorAll(".entry-card > *, .entry-card .actions > *, main .state, main .notice, main .badge.bad, main tr[data-failed] th, main [data-actions] :is(button, a, summary)")]
		.filter(e => e.textContent.trim() != "" && !e.closest("details:not([open]) > :not(summary), .week, .files") && (!e.checkVisibility() || e.offsetWidth == 0 || e.getBoundingClientRect().left < 0 || e.getBoundingClientRect().right > document.documentElement.clientWidth + 1))
		.map(e => "not to be seen: " + e.tagName + " " + e.textContent.trim().slice(0, 60)).slice(0, 3)`
	// overlapped returns the heading if a button lies on it.
	overlapped = `(() => {
		const text = document.createRange(), button = document.querySelector("button.live")?.getBoundingClientRect();
		text.selectNodeContents(document.querySelector("h1"));
		return [...text.getClientRects()].filter(r => button && r.right > button.left && r.bottom > button.top && r.top < button.bottom).map(() => "a button lies on the heading");
	})()`
	// squeezed returns the drawings whose names can't be read.
	squeezed = `[...document.querySelectorAll(".dagbox svg.dag")].filter(e => e.clientWidth < e.viewBox.baseVal.width * .59).map(e => "a drawing is " + e.clientWidth + " wide")`
	// tall returns the links to pages if they take more than two lines at 1000 pixels.
	tall = `[document.querySelector(".top")].filter(e => e.offsetHeight > 90).map(e => "the head is " + e.offsetHeight + " high")`
	// tiny returns the controls that a finger can't hit, or that lie on each other.
	tiny = `[...document.querySelectorAll("main button, main a.button, main summary.button, main select, main input:not([type=hidden], [type=checkbox], [type=radio])")].filter(e => e.offsetParent && (e.offsetHeight < 24 || e.offsetWidth < 24))
		.map(e => e.tagName + " " + e.name + " of " + e.offsetWidth + " by " + e.offsetHeight)`
)

// Each page can be read in both themes, at 200 % zoom, and on a telephone.
func (s *site) testLooks(t *testing.T, b *chromium.Browser) {
	p := b.Page(t)
	base := s.mounts(t)[1].base
	wrong := make([]address, 0, len(mistaken))
	for at, status := range mistaken {
		w := httptest.NewRecorder()
		if s.Pages.ServeHTTP(w, httptest.NewRequest("GET", "/"+at, nil)); w.Code != status {
			t.Errorf("%s: %d, and not %d", at, w.Code, status)
		}
		wrong = append(wrong, address{at: at})
	}
	check := func(a address, device, js string) {
		var list []string
		if p.Eval(js, &list); len(list) > 0 {
			t.Errorf("%s, %s: %s", a, device, strings.Join(list, "; "))
		}
	}
	for _, a := range slices.Concat(wrong, s.addresses) {
		p.Emulate(chromium.Device{})
		p.Open(base + a.at)
		if list := faults(p.AX()); len(list) > 0 {
			t.Errorf("%s: %s", a, strings.Join(list, "; "))
		}
		check(a, "desktop", broken)
		check(a, "desktop", tiny)
		check(a, "desktop", wider)
		check(a, "desktop", cut)
		if a.page == "executions" {
			check(a, "desktop", split)
			p.Emulate(chromium.Device{Width: 1000, Height: 800})
			check(a, "1000 pixels", split)
		}
		for _, dark := range []bool{false, true} {
			p.Emulate(chromium.Device{Dark: dark})
			for _, c := range p.Contrast() {
				if c.Ratio < max(c.Needed, 4.5) {
					t.Errorf("%s, dark %v: %s", a, dark, c)
				}
			}
		}
		if a.at == "" {
			p.Emulate(chromium.Device{Width: 1000, Height: 800})
			check(a, "1000 pixels", tall)
		}
		p.Emulate(chromium.Device{Width: 640, Height: 400, Scale: 2})
		check(a, "200 % zoom", wider)
		for _, width := range []int{390, 320} {
			p.Emulate(chromium.Device{Width: width, Height: 740, Mobile: true})
			for _, js := range []string{wider, sideways, nameless, reasons, unseen, needed, squeezed, overlapped} {
				check(a, fmt.Sprintf("telephone of %d", width), js)
			}
		}
	}
	quiet(t, p, "looks", "Failed to load resource") // of the mistaken ones
}

// maxPaint is how long the first text may take. The fastest of several counts.
const maxPaint = 300 * time.Millisecond

func (s *site) testPaint(t *testing.T, b *chromium.Browser) {
	p := b.Page(t)
	base := s.mounts(t)[1].base
	for _, a := range s.firsts() {
		fastest := fastestPaint(p, base+a.at)
		t.Logf("%s: first paint after %v", a, fastest)
		if fastest > atMost(maxPaint) {
			t.Errorf("%s: first paint after %v, %v at most", a, fastest, atMost(maxPaint))
		}
	}
}

// fastestPaint returns how long the first text of a page takes, at the best of five times; it
// stops at the first that is good enough.
func fastestPaint(p *chromium.Page, url string) time.Duration {
	fastest := time.Hour
	for range 5 {
		p.Open(url)
		if fastest = min(fastest, p.FirstPaint()); fastest <= maxPaint {
			break
		}
	}
	return fastest
}
