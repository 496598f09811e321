package browser

import (
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// TestWalk finds a failure, its item and what can be done about it with keys alone, and shows
// that no key does anything while somebody writes, or has switched keys off.
func TestWalk(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	p := b.Page(t)
	base := s.mounts(t)[1].base
	at := func(keys, js string) {
		t.Helper()
		t.Logf("%s, until %s", keys, js)
		p.WaitFor(js, 3*time.Second)
	}
	p.Open(base)
	p.Press("g")
	p.Navigate(func() { p.Press("e") })
	at("g e", `document.body.dataset.page == "executions"`)
	p.Press("/")
	at("/", `document.activeElement.id == "where"`)
	p.Type("job:invoices gen?xjkn./") // letters that are keys elsewhere
	at("text", `document.activeElement.value == "job:invoices gen?xjkn./"`)
	p.Press("Control+a")
	p.Type("job:invoices")
	p.Navigate(func() { p.Press("Enter") })
	at("Enter", `document.querySelector("#where").value == "job:invoices" && document.querySelectorAll("tr[data-row]").length > 3`)

	const row = `[...document.querySelectorAll("tr[data-row]")].findIndex(r => r.contains(document.activeElement))`
	p.Press("j")
	at("j", row+" == 0")
	p.Press("j")
	at("j", row+" == 1")
	p.Press("k")
	at("k", row+" == 0")
	p.Press("x")
	at("x", `document.querySelector("tr[data-row] input[type=checkbox]").checked`)
	p.Press("n")
	at("n", `document.activeElement.closest("tr").hasAttribute("data-failed")`)

	p.Open(base + "executions/" + string(s.By["items"]))
	p.Press(".")
	at(".", `document.activeElement.closest("[data-actions]")`)
	p.Press("Escape") // it is a field, which takes letters
	p.Navigate(func() { p.Press("[") })
	at("[", `document.querySelector("#s-2 .items").textContent.includes("index 1")`)
	p.Navigate(func() { p.Press("]") })
	at("]", `document.querySelector("#s-2 .items").textContent.includes("index 2")`)
	p.Navigate(func() { p.Press("?") })
	at("?", `document.body.dataset.page == "help"`)

	p.Eval(`localStorage.setItem("courier-keys", "off")`, nil)
	p.Press("g")
	p.Press("e")
	time.Sleep(300 * time.Millisecond)
	at("keys that are off", `document.body.dataset.page == "help"`)
	quiet(t, p, "keys")
}
