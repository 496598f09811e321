package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/failures"
	"github.com/courierhq/courier/internal/test/chromium"
)

// A keyboard is a browser that takes keys and nothing else, and tells what software for the
// blind would say. It answers requests of HTTP, so that a person works with it by a shell.
type keyboard struct {
	mu    sync.Mutex // one request at a time
	p     *chromium.Page
	world *failures.World
	first string        // the address of the first page
	dir   string        // for pictures
	ended chan struct{} // closed when somebody quits
	said  string        // the last page and messages that were told of
}

// A fault is what makes a call of the browser fail, told to who has asked for it.
type fault string

// A forgiving test goes on where a call of the browser would have failed it: the call panics
// with a fault.
type forgiving struct{ testing.TB }

func (forgiving) Fatalf(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

// newKeyboard opens the first page of a world.
func newKeyboard(t *testing.T, w *failures.World, base string) *keyboard {
	k := &keyboard{p: chromium.Start(t).Page(forgiving{t}), world: w, first: base, dir: t.TempDir(), ended: make(chan struct{})}
	k.p.Open(base)
	return k
}

// commands are what a person can do. Each gets the words after its name.
func (k *keyboard) commands() map[string]func(words string) (string, error) {
	return map[string]func(string) (string, error){
		"press": k.press, "type": k.typed, "read": k.read, "value": k.value, "complaints": k.complaints,
		"where": func(string) (string, error) { k.said = ""; return k.focus(), nil },
		"call":  func(who string) (string, error) { return k.world.Call(who) },
		"start": func(string) (string, error) { k.p.Open(k.first); k.said = ""; return k.focus(), nil },
		"quit":  func(string) (string, error) { close(k.ended); return "The browser and its world end.", nil },
	}
}

// ServeHTTP carries out the command that the path names. The picture of "look" is a PNG file,
// all other answers are text.
func (k *keyboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			http.Error(w, string(f), http.StatusBadRequest)
		default:
			panic(f)
		}
	}()
	words, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := strings.Trim(r.URL.Path, "/")
	if name == "look" {
		file := filepath.Join(k.dir, "look.png")
		k.p.Screenshot(file, nil)
		http.ServeFile(w, r, file)
		return
	}
	do, ok := k.commands()[name]
	if !ok {
		http.Error(w, fmt.Sprintf("no command %q; there are press, type, where, read, value, look, complaints, call, start and quit", name), http.StatusNotFound)
		return
	}
	text, err := do(string(words))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, strings.TrimRight(text, "\n"))
}

// browsing are keys that the window of a browser takes, which the headless one lacks.
var browsing = map[string]string{"Alt+ArrowLeft": "history.back()", "Alt+ArrowRight": "history.forward()", "F5": "location.reload()"}

// press presses keys, one after the other, and tells where that has led.
func (k *keyboard) press(words string) (string, error) {
	for _, key := range strings.Fields(words) {
		if js, ok := browsing[key]; ok {
			k.p.Eval("void setTimeout(() => "+js+")", nil)
		} else {
			k.p.Press(key)
		}
		k.settle(key)
	}
	return k.focus(), nil
}

// typed writes a text into what has the focus. A line end is the key Enter.
func (k *keyboard) typed(text string) (string, error) {
	k.p.Type(text)
	k.settle("text")
	return k.focus(), nil
}

// settle waits until a document that a key has led to is there.
func (k *keyboard) settle(key string) {
	begins := time.Now().Add(150 * time.Millisecond) // a document is asked for within that time
	if strings.HasSuffix(key, "Tab") {
		begins = time.Now().Add(20 * time.Millisecond)
	}
	for ends := time.Now().Add(time.Minute); time.Now().Before(ends); time.Sleep(10 * time.Millisecond) {
		if k.loaded() && time.Now().After(begins) {
			return
		}
	}
	panic(fault("the page that follows is not there after a minute"))
}

// loaded reports whether no document is on its way.
func (k *keyboard) loaded() bool {
	for _, r := range k.p.Resources() {
		if r.Type == "Document" && !r.Done && r.Failed == "" {
			return false
		}
	}
	return true
}

// focus tells the page, if it is another one, what the page announces, and what has the focus.
func (k *keyboard) focus() string {
	var title, at string
	k.p.Eval("document.title", &title)
	k.p.Eval("location.pathname + location.search", &at)
	tree := k.p.AX()
	page := fmt.Sprintf("page: %s (%s)\n", title, at)
	for i, n := range tree {
		if words := wordsOf(tree, i); words != "" && (n.Role == "alert" || n.Role == "status") {
			page += fmt.Sprintf("%s: %s\n", n.Role, words)
		}
	}
	focus := "focus: none, the page is at its beginning"
	for i, n := range tree {
		if n.Focused {
			focus = "focus: " + clipped(strings.TrimSpace(strings.TrimSuffix(n.String(), " focused"))) + around(tree, i)
		}
	}
	var line string
	k.p.Eval(`(e => e?.tagName == "TEXTAREA" ? (n => "line " + (n + 1) + ": " + e.value.split("\n")[n])(e.value.slice(0, e.selectionStart).split("\n").length - 1) : "")(document.activeElement)`, &line)
	if line != "" {
		focus += "\n" + line
	}
	if page == k.said {
		return focus
	}
	k.said = page
	return page + focus
}

// wordsOf returns the text below a node.
func wordsOf(tree []chromium.Node, at int) string {
	var list []string
	for _, n := range tree[at+1:] {
		if n.Depth <= tree[at].Depth {
			break
		}
		if n.Role == "StaticText" {
			list = append(list, strings.TrimSpace(n.Name))
		}
	}
	return strings.Join(list, " ")
}

// around names what is around a node: landmarks, groups, tables and rows.
func around(tree []chromium.Node, at int) (text string) {
	depth := tree[at].Depth
	for i := at - 1; i >= 0 && depth > 0; i-- {
		n := tree[i]
		if n.Depth >= depth {
			continue
		}
		depth = n.Depth
		if slices.Contains([]string{"navigation", "main", "banner", "region", "form", "group", "table", "row", "search", "DisclosureTriangle", "Details"}, n.Role) {
			text += ", in " + clipped(strings.TrimSpace(n.String()))
		}
	}
	return text
}

func clipped(s string) string {
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "..."
	}
	return s
}

// spoken are the roles whose text is read as one, if nothing in it can be used.
var spoken = []string{"paragraph", "listitem", "term", "definition", "cell", "columnheader", "rowheader", "caption", "strong", "time", "code", "status", "alert", "LabelText", "Legend"}

// read returns the main part of the page as software for the blind reads it, or all of it.
func (k *keyboard) read(words string) (string, error) {
	tree := k.p.AX()
	first, depth := 0, -1
	if i := slices.IndexFunc(tree, func(n chromium.Node) bool { return n.Role == "main" }); i >= 0 && words != "all" {
		first, depth = i, tree[i].Depth
	}
	var b strings.Builder
	for i := first; i < len(tree) && (i == first || tree[i].Depth > depth); i++ {
		n, below := tree[i], 0 // how many nodes are below
		for i+below+1 < len(tree) && tree[i+below+1].Depth > n.Depth {
			below++
		}
		switch {
		case slices.Contains(named, n.Role) && n.Role != "navigation" && n.Role != "region" && n.Role != "table":
			i += below // its name has all of that
		case slices.Contains(spoken, n.Role) && !slices.ContainsFunc(tree[i+1:i+1+below], func(n chromium.Node) bool { return slices.Contains(presented, n.Role) }) && wordsOf(tree, i) != "":
			n.Role, n.Name = n.Role+": "+wordsOf(tree, i), ""
			i += below
		case n.Role == "StaticText":
			n.Role, n.Name = strings.TrimSpace(n.Name), ""
		}
		n.Depth -= max(depth, 0)
		if strings.TrimSpace(n.Role) != "" && n.Role != "ListMarker" {
			b.WriteString(n.String() + "\n")
		}
	}
	return b.String(), nil
}

// value returns all lines of the field that has the focus.
func (k *keyboard) value(string) (string, error) {
	var text string
	k.p.Eval("String(document.activeElement?.value ?? '')", &text)
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&b, "%3d %s\n", i+1, line)
	}
	return b.String(), nil
}

// complaints returns what colleagues say, and whether each has what he wants; of one of them,
// if its number is given.
func (k *keyboard) complaints(words string) (string, error) {
	only, err := strconv.Atoi(strings.TrimSpace(words))
	if words != "" && (err != nil || only < 1 || only > len(k.world.List)) {
		return "", fmt.Errorf("there are complaints 1 to %d, and none %q", len(k.world.List), words)
	}
	var b strings.Builder
	for i, f := range k.world.List {
		if words != "" && i+1 != only {
			continue
		}
		state := "open"
		if ok, _ := f.Repaired(context.Background()); ok {
			state = "repaired"
		}
		fmt.Fprintf(&b, "%d (%s): %s\n", i+1, state, f.Complaint)
	}
	return b.String(), nil
}

// world opens a world in which things are wrong, and returns it with the address of its pages.
func world(t *testing.T) (*failures.World, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "repairs") // steps that hang may still hold files in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w, err := failures.Open(t.Context(), dir, failures.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, listen(t, w.Pages) + "/"
}
