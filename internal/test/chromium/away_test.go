package chromium

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// restless serves /wait, a page that does nothing, and /again, which loads itself again as
// often as its query says, a few milliseconds after it has begun to load.
func restless(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>t</title><h1>%s</h1>`, r.URL.Path)
		var left int
		if _, err := fmt.Sscanf(r.URL.RawQuery, "%d", &left); err == nil && left > 0 {
			fmt.Fprintf(w, `<script>setTimeout(() => location.replace("/again?%d"), %d)</script>`, left-1, left%4*7)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestGoingAway looks at pages that are replaced meanwhile: each look tells of the document that
// follows.
func TestGoingAway(t *testing.T) {
	b := Start(t)
	base := restless(t)
	for name, leave := range map[string]string{
		"reload":  `sessionStorage.n = 1, location.reload()`,
		"link":    `location.href = "/next"`,
		"history": `history.back()`,
		"form":    `document.body.append(document.createElement("form")), document.forms[0].method = "post", document.forms[0].action = "/next", document.forms[0].submit()`,
		"site":    `location.href = location.href.replace("127.0.0.1", "localhost").replace("/wait", "/next")`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.Page(t)
			p.Open(base + "/back")
			p.Open(base + "/wait")
			p.Eval("void setTimeout(() => { "+leave+" }, 200)", nil)
			var at, title string
			p.Eval(`location.pathname == "/wait" && !sessionStorage.n ? new Promise(() => {}) : document.readyState + " " + location.pathname`, &at)
			p.Eval("document.title", &title)
			want := map[string]string{"reload": "complete /wait", "history": "complete /back"}[name]
			if want == "" {
				want = "complete /next"
			}
			if at != want || title != "t" {
				t.Errorf("the page is at %q, %q, not at %q", at, title, want)
			}
		})
	}
	for name, look := range map[string]func(p *Page){
		"eval":      func(p *Page) { var s string; p.Eval("document.querySelector('h1').textContent", &s) },
		"text":      func(p *Page) { p.Text() },
		"tree":      func(p *Page) { p.AX() },
		"contrast":  func(p *Page) { p.Contrast() },
		"resources": func(p *Page) { p.Resources() },
		"paint":     func(p *Page) { p.FirstPaint() },
		"wait":      func(p *Page) { p.WaitFor("document.title == 't'", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.Page(t)
			p.Open(base + "/wait")
			p.Eval(`void setTimeout(() => location.replace("/again?60"))`, nil)
			looks := 0
			for ends := time.Now().Add(Timeout); time.Now().Before(ends); looks++ {
				look(p)
				var left string
				if p.Eval("location.search", &left); left == "?0" {
					t.Logf("%d looks", looks)
					return
				}
			}
			t.Error("the page does not come to rest")
		})
	}
}

// TestActionsOnce shows that an action is not repeated in the document that follows.
func TestActionsOnce(t *testing.T) {
	b := Start(t)
	p := b.Page(t)
	p.Open(restless(t) + "/wait")
	got := failure(p, func() {
		p.Eval(`localStorage.n = 1 + +(localStorage.n ?? 0), setTimeout(() => location.href = "/next", 100), new Promise(() => {})`, nil)
	})
	if !strings.Contains(got, "Inspected target navigated or closed") {
		t.Errorf("an action that has no answer fails with %q", got)
	}
	var n string
	if p.Eval("localStorage.n", &n); n != "1" {
		t.Errorf("the action was done %s times", n)
	}
}
