// Package browser has the tests of what the scripts of the dashboard do in a real browser.
package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/chromium"
	"github.com/courierhq/courier/store/memstore"
)

// serve returns the address of the pages of an engine with five executions, of which the
// second and the fourth have failed.
func serve(t *testing.T) string {
	t.Helper()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.fail", func(_ context.Context, _ *courier.Context, cfg struct {
		Fail bool `json:"fail"`
	}) (struct{}, error) {
		if cfg.Fail {
			return struct{}{}, courier.Permanent(errors.New("it was told to fail"))
		}
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir()})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	job := courier.Job{Name: "report", Params: map[string]any{"fail": false}, Steps: []courier.StepSpec{{Type: "test.fail", Config: map[string]any{"fail": "context:params.fail"}}}}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		x, err := e.Enqueue(t.Context(), "report", &courier.EnqueueOptions{Params: map[string]any{"fail": i%2 == 1}})
		if err != nil {
			t.Fatal(err)
		}
		if x, err = e.Wait(t.Context(), x.ID); x.State != courier.Completed && x.State != courier.Failed {
			t.Fatal(x.State, err)
		}
	}
	pages := dashboard.New(e, forAnn)
	mux := http.NewServeMux()
	mux.Handle("/ops/", pages)
	mux.HandleFunc("/rows", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(rows())) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(pages.Close)
	return s.URL
}

// rows is a page with checkboxes, as a list of executions has them.
func rows() string {
	var b strings.Builder
	b.WriteString(`<!doctype html><title>rows</title><h1>Rows</h1><label><input type=checkbox data-all> all</label> <span data-selected></span><table>`)
	for i := range 6 {
		fmt.Fprintf(&b, `<tr data-row><td><input type=checkbox id=b%d aria-label=%d></td><th><a href="#to%d">row</a></th></tr>`, i, i, i)
	}
	return b.String() + `</table><script type=module src="/ops/assets/0/keys.js"></script><script type=module src="/ops/assets/0/select.js"></script>`
}

// is fails the test unless a JavaScript expression has a value.
func is(t *testing.T, p *chromium.Page, js, want string) {
	t.Helper()
	var got string
	if p.Eval("String("+js+")", &got); got != want {
		t.Errorf("%s is %q, and not %q", js, got, want)
	}
}

// Keys walk through rows, open pages, and are off while somebody writes and by the switch.
func TestKeys(t *testing.T) {
	url, p := serve(t), chromium.Start(t).Page(t)
	const row = "document.activeElement.closest('[data-row]')?.rowIndex"
	p.Open(url + "/ops/executions")
	for _, step := range []struct{ key, row string }{{"j", "1"}, {"j", "2"}, {"k", "1"}, {"n", "2"}, {"n", "4"}, {"n", "2"}, {"k", "1"}, {"k", "1"}} {
		p.Press(step.key)
		if is(t, p, row, step.row); t.Failed() {
			t.Fatalf("after %q", step.key)
		}
	}
	p.Press("/")
	is(t, p, "document.activeElement.id", "where")
	p.Type("j?")
	is(t, p, "document.activeElement.value", "j?")
	p.Press("Escape")
	is(t, p, "document.activeElement.tagName", "BODY")

	p.Press("g")
	p.Navigate(func() { p.Press("c") })
	is(t, p, "document.querySelector('h1').textContent", "Chains")
	p.Navigate(func() { p.Press("?") })
	is(t, p, "document.querySelector('h1').textContent", "Help")
	is(t, p, "document.querySelector('[data-keys-state]').textContent", "Keys are on in this browser.")
	p.Click("[data-keys-switch]")
	is(t, p, "document.querySelector('[data-keys-switch]').textContent", "Switch keys on")

	p.Open(url + "/ops/executions")
	p.Press("j")
	is(t, p, row, "undefined")
	p.Open(url + "/ops/help")
	p.Click("[data-keys-switch]")
	p.Open(url + "/ops/executions")
	p.Press("j")
	is(t, p, row, "1")
	for _, m := range p.Console() {
		t.Error(m)
	}
	for _, r := range p.Reports() {
		t.Error(r)
	}
}

// Rows are selected by keys, with Shift as a range, and all at once.
func TestSelect(t *testing.T) {
	url, p := serve(t), chromium.Start(t).Page(t)
	picked := func(want string) {
		t.Helper()
		is(t, p, "[...document.querySelectorAll('[data-row] input')].map((b) => +b.checked).join('')", want)
		n := strings.Count(want, "1")
		if said := fmt.Sprint(n, " selected"); n > 0 {
			is(t, p, "document.querySelector('[data-selected]').textContent", said)
		}
	}
	p.Open(url + "/rows")
	p.Click("#b1")
	p.Click("#b4", "Shift")
	picked("011110")
	is(t, p, "getSelection().toString()", "")
	is(t, p, "document.querySelector('[data-all]').indeterminate", "true")
	p.Click("#b2", "Shift")
	picked("010000")
	p.Click("[data-all]")
	picked("111111")
	p.Click("[data-all]")
	picked("000000")
	p.Press("j")
	p.Press("x")
	picked("100000")
	p.Press("j")
	p.Press("x")
	picked("110000")
	p.Eval("void document.querySelector('#b3').focus()", nil)
	p.Press("Enter")
	p.WaitFor("location.hash === '#to3'", time.Second)
}
