package chromium_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/chromium"
)

const strict = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'"

// serve serves a small site: pages are HTML by path, beside a style sheet and a script.
func serve(t *testing.T, pages map[string]string) string {
	t.Helper()
	files := map[string]string{"/style.css": style, "/script.js": script}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", strict)
		text, ok := files[r.URL.Path]
		switch {
		case r.URL.Path == "/go":
			http.Redirect(w, r, "/done?"+r.FormValue("name"), http.StatusSeeOther)
			return
		case strings.HasSuffix(r.URL.Path, ".css"):
			w.Header().Set("Content-Type", "text/css")
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			text, ok = pages[r.URL.Path]
			text = `<!DOCTYPE html><html lang="en"><title>Test</title><link rel="stylesheet" href="/style.css"><body>` + text
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", fmt.Sprint(len(zipped(text))))
		w.Write(zipped(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

const style = `
:root { color-scheme: light dark; font: 16px sans-serif; }
.grey { color: #777; background: #fff; }
.large { color: #777; background: #fff; font-size: 24px; }
.half { opacity: 0.5; color: #000; background: #fff; }
.clear { color: rgb(0 0 0 / 50%); background: #fff; }
.picture { background-image: linear-gradient(#fff, #000); }
.inserted::before { content: "inserted"; color: #fff; background: #fff; }
.far { margin-top: 3000px; }
.only-software { position: absolute; width: 1px; height: 1px; overflow: hidden; }
input::placeholder { color: #ccc; }
input { background: #fff; color: #000; }
`

const script = `
document.addEventListener("keydown", e => document.querySelector("#keys").append([e.ctrlKey && "ctrl", e.shiftKey && "shift", e.key, e.code].filter(v => v).join(" ") + "\n"));
document.querySelector("#more")?.addEventListener("click", e => e.target.textContent = [e.isTrusted, e.shiftKey].join(" "));
`

const form = `<main><h1>Form</h1><form action="/go" method="post"><label>Name <input name="name" placeholder="yours"></label>
<label><input type="checkbox" name="box"> Box</label><button>Send</button></form>
<button id="more" type="button">More</button><a class="far" href="/done">Far</a><pre id="keys"></pre><script src="/script.js"></script></main>`

func TestPage(t *testing.T) {
	b := chromium.Start(t)
	url := serve(t, map[string]string{"/": form, "/done": "<h1>Done</h1>"})
	tests := map[string]func(*testing.T, *chromium.Page){
		"keyboard": func(t *testing.T, p *chromium.Page) {
			p.Press("Tab")
			p.Type("Ab 1?é😀")
			p.Press("Tab")
			p.Press("Space")
			p.Press("Shift+Tab")
			p.Press("Control+a")
			p.Type("x")
			var field string
			p.Eval("document.forms[0].elements.name.value + document.forms[0].elements.box.checked", &field)
			if field != "xtrue" {
				t.Errorf("the form has %q", field)
			}
			var keys string
			p.Eval("document.querySelector('#keys').textContent", &keys)
			want := "Tab Tab|shift A KeyA|b KeyB|  Space|1 Digit1|shift ? Slash|Tab Tab|  Space|shift Tab Tab|ctrl a KeyA|x KeyX|"
			if got := strings.ReplaceAll(keys, "\n", "|"); got != want {
				t.Errorf("keys are\n%s, not\n%s", got, want)
			}
			p.Navigate(func() { p.Press("Enter") })
			var at string
			p.Eval("location.pathname + location.search", &at)
			if at != "/done?x" || p.Text() != "Done" {
				t.Errorf("Enter leads to %s, %q", at, p.Text())
			}
			if r := p.Resources(); len(r) < 2 || r[0].Status != 303 || r[1].Status != 200 {
				t.Errorf("the form has loaded %+v", r)
			}
		},
		"mouse": func(t *testing.T, p *chromium.Page) {
			p.Click("#more", "Shift")
			p.WaitFor("document.querySelector('#more').textContent == 'true true'", time.Second)
			p.Navigate(func() { p.Click("a") }) // far below the window
			p.WaitFor("document.querySelector('h1').textContent == 'Done'", 0)
		},
		"clean": func(t *testing.T, p *chromium.Page) {
			if c, r := p.Console(), p.Reports(); len(c)+len(r) > 0 {
				t.Errorf("a good page has %v, %v", c, r)
			}
		},
		"emulate": func(t *testing.T, p *chromium.Page) {
			const state = `[innerWidth, innerHeight, devicePixelRatio, matchMedia("(prefers-color-scheme: dark)").matches,
				matchMedia("(prefers-reduced-motion: reduce)").matches, Intl.DateTimeFormat().resolvedOptions().timeZone].join(" ")`
			var before, after, again string
			p.Eval(state, &before)
			p.Emulate(chromium.Device{Width: 640, Height: 400, Scale: 2, Dark: true, ReducedMotion: true, Zone: "Europe/Berlin"})
			p.Eval(state, &after)
			p.Emulate(chromium.Device{})
			p.Eval(state, &again)
			if before != "1280 800 1 false false UTC" || after != "640 400 2 true true Europe/Berlin" || again != before {
				t.Errorf("devices: %s; %s; %s", before, after, again)
			}
		},
		"hide": func(t *testing.T, p *chromium.Page) {
			p.Eval("window.seen = '', document.addEventListener('visibilitychange', () => seen += document.visibilityState + ' '), 0", nil)
			p.Hide(true)
			p.Hide(false)
			p.Press("Tab") // it has the focus again
			var seen string
			p.Eval("seen + document.activeElement.name", &seen)
			if seen != "hidden visible name" {
				t.Errorf("the page has seen %q", seen)
			}
		},
		"no script": func(t *testing.T, p *chromium.Page) {
			p.Emulate(chromium.Device{NoScript: true})
			p.Open(url)
			p.Press("Tab")
			p.Type("y")
			if s := p.Text(); !strings.Contains(s, "Form") || strings.Contains(s, "KeyY") {
				t.Errorf("without JavaScript the page has %q", s)
			}
			if len(p.Contrast()) == 0 || len(p.AX()) == 0 || p.FirstPaint() <= 0 {
				t.Error("without JavaScript nothing can be seen")
			}
			p.Navigate(func() { p.Press("Enter") })
			if s := p.Text(); s != "Done" {
				t.Errorf("Enter leads to %q", s)
			}
		},
		"accessibility": func(t *testing.T, p *chromium.Page) {
			p.Press("Tab")
			var list []string
			for _, n := range p.AX() {
				if n.Role != "StaticText" {
					list = append(list, n.String())
				}
			}
			const want = `RootWebArea "Test"
  main
    heading "Form" level=1
    form
      LabelText
        textbox "Name" focused
      checkbox "Box" checked=false
      button "Send"
    button "More"
    link "Far"`
			if got := strings.Join(list, "\n"); got != want {
				t.Errorf("the tree is\n%s\nnot\n%s", got, want)
			}
		},
		"screenshot": func(t *testing.T, p *chromium.Page) {
			p.Emulate(chromium.Device{Width: 400, Height: 300, Scale: 2})
			for name, c := range map[string]struct {
				opt                       *chromium.ScreenshotOptions
				least, most, wide, widest int
			}{
				"window": {nil, 600, 600, 800, 800},
				"full":   {&chromium.ScreenshotOptions{Full: true}, 600, 7000, 800, 800},
				"part":   {&chromium.ScreenshotOptions{Selector: "#more"}, 20, 80, 40, 200},
			} {
				path := filepath.Join(t.TempDir(), name+".png")
				p.Screenshot(path, c.opt)
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				size, err := png.DecodeConfig(f)
				f.Close()
				if err != nil || size.Width < c.wide || size.Width > c.widest || size.Height < c.least || size.Height > c.most {
					t.Errorf("%s: %d by %d, %v", name, size.Width, size.Height, err)
				}
			}
		},
		"resources": func(t *testing.T, p *chromium.Page) {
			var paths []string
			for _, r := range p.Resources() {
				if r.Encoding == "gzip" {
					paths = append(paths, fmt.Sprintf("%s %s %d %d %v", r.Type, strings.TrimPrefix(r.URL, url), r.Status, r.Bytes, r.Done))
				}
			}
			want := []string{
				"Document / 200 " + fmt.Sprint(documentSize(form)) + " true",
				"Stylesheet /style.css 200 " + fmt.Sprint(len(zipped(style))) + " true",
				"Script /script.js 200 " + fmt.Sprint(len(zipped(script))) + " true",
			}
			if !slices.Equal(paths, want) {
				t.Errorf("resources are %q, not %q", paths, want)
			}
			if d := p.FirstPaint(); d <= 0 || d > chromium.Timeout {
				t.Errorf("first paint after %v", d)
			}
			p.Open(url + "/missing")
			if r := p.Resources(); len(r) == 0 || r[0].Status != 404 {
				t.Errorf("a page that is missing has %+v", r)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.Page(t)
			p.Open(url)
			test(t, p)
		})
	}
}

func documentSize(body string) int {
	return len(zipped(`<!DOCTYPE html><html lang="en"><title>Test</title><link rel="stylesheet" href="/style.css"><body>` + body))
}

func TestErrors(t *testing.T) {
	b := chromium.Start(t)
	url := serve(t, map[string]string{"/": `<p style="color: red">x</p><script>alert(1)</script><img src="http://192.0.2.1/x.png">`})
	p := b.Page(t)
	p.Open(url)
	p.Eval(`console.log("a", 1, {}), console.error("bad"), setTimeout(() => { throw new Error("lost") }), alert("hello"), 0`, nil)
	p.WaitFor("true", 0)
	console := fmt.Sprint(p.Console())
	for _, want := range []string{"log: a 1 Object", "error: bad", "exception: Error: lost", "dialog: alert: hello"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console lacks %q: %s", want, console)
		}
	}
	var reports []string
	for _, r := range p.Reports() {
		reports = append(reports, strings.TrimSpace(r.Directive+" "+r.Kind+" "+r.Blocked))
	}
	slices.Sort(reports)
	want := []string{"img-src kURLViolation http://192.0.2.1/x.png", "script-src-elem kInlineViolation", "style-src-attr kInlineViolation"}
	if !slices.Equal(reports, want) {
		t.Errorf("reports are %q, not %q", reports, want)
	}
}

func TestContrast(t *testing.T) {
	b := chromium.Start(t)
	url := serve(t, map[string]string{"/": `<p>plain</p><p class="grey">grey</p><p class="large">large</p><p class="half">half</p><p class="clear">clear</p>
<p class="picture">picture</p><p class="inserted"></p><p><input placeholder="placeholder"></p><button disabled>disabled</button>
<span class="only-software">unseen</span><details><summary>open</summary>closed</details>
<svg width="100" height="40"><rect width="100" height="40" fill="#000"/><text x="5" y="20" fill="#fff">drawn</text></svg>`})
	p := b.Page(t)
	p.Open(url)
	got := make(map[string]chromium.Contrast)
	for _, c := range p.Contrast() {
		got[c.Text] = c
	}
	for text, ratio := range map[string]float64{"plain": 21, "grey": 4.48, "large": 4.48, "half": 3.98, "clear": 3.98,
		"picture": 0, "inserted": 1, "placeholder": 1.61, "open": 21, "drawn": 21} {
		if c, ok := got[text]; !ok || math.Abs(c.Ratio-ratio) > 0.05 {
			t.Errorf("%s: %v, not %.2f", text, c, ratio)
		}
		delete(got, text)
	}
	if len(got) > 0 {
		t.Errorf("nobody sees %v", got)
	}
	p.Emulate(chromium.Device{Dark: true})
	for _, c := range p.Contrast() {
		if c.Text == "plain" && (c.Foreground != "#ffffff" || c.Background != "#121212" || c.Needed != 4.5) {
			t.Errorf("in the dark: %v", c)
		}
		if c.Text == "large" && c.Needed != 3 {
			t.Errorf("large text needs %v", c.Needed)
		}
	}
}
