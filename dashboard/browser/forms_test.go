package browser

import (
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/chromium"
)

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
	}
	p.WaitFor("document.body.innerText.includes('Dry run of your text')", time.Second)
	p.Eval("void setTimeout(() => history.back())", nil)
	p.WaitFor("document.body.innerText.includes('The check has found no problem')", 5*time.Second)
	is(t, p, text, written)
	p.Navigate(func() { p.Eval("void setTimeout(() => location.reload())", nil) })
	is(t, p, text, written)
	p.WaitFor("document.body.innerText.includes('The check has found no problem')", time.Second)
	quiet(t, p, "back")
}
