package chromium

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A recorder keeps the failure that ends a goroutine.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns what f lets the test of a page fail with, or "".
func failure(p *Page, f func()) string {
	t, r := p.t, &recorder{TB: p.t}
	p.t = r
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	p.t = t
	return r.failure
}

func TestFailures(t *testing.T) {
	b := Start(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><link rel="icon" href="data:,"><style>.cover { position: fixed; inset: 0 }</style><button>One</button><i>a</i><i>b</i><u></u>
<a href="http://192.0.2.1/">Away</a><p id="cover"></p>`)
	}))
	defer s.Close()
	p := b.Page(t)
	p.Open(s.URL)
	cover := func() {
		p.Eval("document.querySelector('#cover').className = 'cover', console.error('covered'), 0", nil)
	}
	for _, c := range []struct {
		do   func()
		want []string
	}{
		{func() { p.Open("http://www.example.com/") }, []string{"open http://www.example.com/: ", "ERR_NAME_NOT_RESOLVED"}},
		{func() { p.Open("http://192.0.2.1/") }, []string{"ERR_NAME_NOT_RESOLVED"}},
		{func() { p.Open(s.URL); p.Navigate(func() { p.Click("a") }) }, []string{"http://192.0.2.1/ can't be reached"}},
		{func() { p.Open(s.URL); p.Click("i") }, []string{"click i: ", "2 elements match, not one"}},
		{func() { p.Click("b") }, []string{"0 elements match"}},
		{func() { p.Click("u") }, []string{"the element is not shown"}},
		{func() { p.Click("button", "Hyper") }, []string{`no modifier "Hyper"`}},
		{func() { cover(); p.Click("button") }, []string{`the element is covered by <p id="cover" class="cover">`, "console: error: covered"}},
		{func() { p.Press("Rteurn") }, []string{`no key "Rteurn"`, "Escape", "Shift"}},
		{func() { p.Press("Control+Enter+x") }, []string{`no key "Enter+x"`}},
		{func() { p.Eval("missing.name", nil) }, []string{"evaluate missing.name: ReferenceError: missing is not defined"}},
		{func() { p.Eval("throw 5", nil) }, []string{"evaluate throw 5: 5"}},
		{func() { p.Eval("undefined", new(int)) }, []string{"the value is undefined"}},
		{func() { p.Eval("0/0", new(int)) }, []string{"the value is number NaN"}},
		{func() { p.Eval("'x'", new(int)) }, []string{"cannot unmarshal string"}},
		{func() { p.WaitFor("missing", 50*time.Millisecond) }, []string{"wait for missing: not so within 50ms; ReferenceError"}},
		{func() { p.WaitFor("new Promise(() => {})", 50*time.Millisecond) }, []string{"wait for new Promise(() => {}): not so within 50ms"}},
		{func() {
			p.WaitFor("Promise.resolve(1)", 0)
			p.WaitFor("Promise.resolve(0)", 50*time.Millisecond)
		}, []string{"wait for Promise.resolve(0): not so"}},
		{func() { p.Screenshot(filepath.Join(t.TempDir(), "a.png"), &ScreenshotOptions{Selector: "s"}) }, []string{"no element matches"}},
		{func() { p.WaitFor("(() => { for (;;); })()", 50*time.Millisecond) }, []string{"not so within 50ms"}}, // the page hangs from here
	} {
		got := failure(p, c.do)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("the test fails with %q, which lacks %q", got, want)
			}
		}
	}

	crashed := b.Page(t)
	if got := failure(crashed, func() { crashed.Navigate(func() { crashed.b.pipe.send(crashed.session, "Page.crash", nil) }) }); !strings.Contains(got, "has crashed") {
		t.Errorf("after a crash of the page the test fails with %q", got)
	}
	ended := b.Page(t)
	end(b.cmd)
	begun := time.Now()
	if got := failure(ended, func() { ended.Eval("1", nil) }); !strings.Contains(got, "the browser has ended") || time.Since(begun) > Timeout/2 {
		t.Errorf("without a browser the test fails with %q after %v", got, time.Since(begun))
	}
}

func TestMissing(t *testing.T) {
	_, err := find([]string{"no-such-chromium", "/no/such/chromium"})
	if err == nil || !strings.Contains(err.Error(), "no-such-chromium is not installed; on Debian: apt-get install chromium-headless-shell") {
		t.Errorf("without Chromium: %v", err)
	}
}

// TestNothingIsLeft also ends while a page does not answer.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var b *Browser
	t.Run("test", func(t *testing.T) {
		b = Start(t)
		p := b.Page(t)
		p.Eval("setTimeout(() => { for (;;); }), 0", nil)
	})
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("files are left: %v, %v", list, err)
	}
	for range 250 { // the machine takes note of their end a little later
		if !alive(b.cmd) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("processes are left")
}
