package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/failures"
	"github.com/courierhq/courier/internal/test/chromium"
)

// A walk is one from a complaint to its repair, by keys alone.
type walk struct {
	*testing.T
	*keyboard
	keys, letters int // how many were pressed, besides letters of texts
	pages         []string
}

// A standingAt is what has the focus.
type standingAt struct{ Role, Name, In, Page string }

// focused describes what has the focus: as what and by which name software for the blind knows
// it, and the text of the row, entry, group or form that it is in.
const focused = `(() => {
	const e = document.activeElement, page = document.querySelector("h1")?.innerText ?? "";
	if (!e || e == document.body) return {Role: "", Name: "", In: "", Page: page};
	const roles = {A: "link", BUTTON: "button", SUMMARY: "disclosure", TEXTAREA: "field", SELECT: "choice", INPUT: {checkbox: "box", radio: "box"}[e.type] ?? "field"};
	const name = e.ariaLabel ?? e.labels?.[0]?.innerText ?? e.innerText ?? "";
	const text = e.closest("li.entry-card, tr, fieldset, .state")?.innerText ?? "";
	return {Role: roles[e.tagName] ?? e.role ?? e.tagName, Name: name.replace(/\s+/g, " ").trim(), In: text.replace(/\s+/g, " "), Page: page};
})()`

// at returns what has the focus.
func (w *walk) at() (s standingAt) {
	w.Helper()
	w.p.Eval(focused, &s)
	return s
}

// to presses a key until something of a role has the focus whose name begins so, in a row, entry,
// group or form that has all words.
func (w *walk) to(key, role, name string, words ...string) {
	w.Helper()
	w.until(key, func(s standingAt) bool { return s.Role == role && strings.HasPrefix(s.Name, name) && s.has(words) }, role, name, words)
}

// entry goes to the entry of the first page that has all words.
func (w *walk) entry(words ...string) {
	w.Helper()
	w.until("j", func(s standingAt) bool { return s.has(words) }, "entry", words)
}

// until presses a key until something has the focus; wanted says what.
func (w *walk) until(key string, is func(standingAt) bool, wanted ...any) {
	w.Helper()
	var passed []string
	for range 150 {
		w.p.Press(key)
		w.keys++
		s := w.at()
		if is(s) {
			return
		}
		passed = append(passed, fmt.Sprintf("%s %q", s.Role, s.Name))
	}
	text, _ := w.read("")
	w.Fatalf("%s does not lead to %q, but to %s\n%s", key, wanted, strings.Join(slices.Compact(passed), ", "), text)
}

// has reports whether the text of the row, entry, group or form has all words.
func (s standingAt) has(words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(s.In, word) })
}

// enter presses Enter, and reports a page that follows with another heading.
func (w *walk) enter(page string) {
	w.Helper()
	w.press("Enter")
	w.is(page)
}

// press presses keys, the last of which may lead to another page.
func (w *walk) press(keys ...string) {
	w.Helper()
	for _, key := range keys {
		w.p.Press(key)
		w.keys++
	}
	w.settle(keys[len(keys)-1])
}

// is reports a page with another heading, and notes the way.
func (w *walk) is(page string) {
	w.Helper()
	s := w.at()
	if !strings.HasPrefix(s.Page, page) {
		text, _ := w.read("")
		w.Fatalf("the page is %q, and not %q\n%s", s.Page, page, text)
	}
	if n := len(w.pages); n == 0 || w.pages[n-1] != s.Page {
		w.pages = append(w.pages, s.Page)
	}
}

// write replaces what the field has that has the focus.
func (w *walk) write(text string) {
	w.Helper()
	w.p.Press("Control+a")
	w.p.Type(text)
	w.keys++
	w.letters += len([]rune(text))
}

// content goes past the header, as the first Tab stop of each page does.
func (w *walk) content() {
	w.Helper()
	w.p.Press("Tab")
	if s := w.at(); s.Name != "Skip to the content" {
		w.Fatalf("the first stop of the page %q is the %s %q", s.Page, s.Role, s.Name)
	}
	w.p.Press("Enter")
	w.keys += 2
}

// again loads the first page.
func (w *walk) again() {
	w.p.Open(w.first)
	w.is("Attention")
}

// repairs are the walks by the names of the failures. Each begins on the first page. They say
// by its name what has the focus, so that they hold wherever it stands, as long as keys lead to
// it.
var repairs = map[string]func(w *walk){
	"host-key": func(w *walk) {
		w.call("acme")
		w.open("orders-acme")
		w.follow("orders-acme", "orders-acme")
		w.editJob(`"acme"`, `"acme-2026"`)
		w.resumeNewer("orders-acme")
	},
	"full-limit": func(w *walk) {
		w.open("key:warehouse")
		w.follow("Show stocktaking", "stocktaking")
		w.cancel()
	},
	"queue": func(w *walk) {
		w.open(`Did you mean "night"?`)
		w.follow("labels", "labels")
		w.editJob("nihgt", "night")
		w.to("Tab", "link", "The execution")
		w.enter("labels")
		w.cancel()
		w.startAgain("labels")
	},
	"lost-worker": func(w *walk) {
		w.entry("worker-2", "Elsewhere")
		w.to("Tab", "link", "Resume elsewhere…", "worker-2")
		w.enter("Resume delivery-notes with changes")
		w.resumeLikeThis("delivery-notes")
	},
	"poison-file": func(w *walk) {
		w.call("hooli")
		w.open("prices-hooli")
		w.press(".")
		w.to("Tab", "link", "Resume with changes…")
		w.enter("Resume prices-hooli with changes")
		w.press("/")
		w.to("Tab", "box", "Skip step 3")
		w.p.Press("Space")
		w.keys++
		w.to("Tab", "field", "Reason")
		w.write("Hooli sends it by mail")
		w.enter("Resume prices-hooli with changes")
		w.resumeLikeThis("prices-hooli")
	},
	"stuck-step": func(w *walk) {
		w.open("weighing", "has reported no progress since")
		w.cancel()
		w.startAgain("weighing")
	},
	"missing-secret": func(w *walk) {
		w.call("initech")
		w.open("statement-initech")
		w.follow("statement-initech", "statement-initech")
		w.editJob("initech/tokn", "initech/token")
		w.resumeNewer("statement-initech")
	},
	"partner-down": func(w *walk) {
		w.call("globex")
		w.open("orders-globex")
		w.press(".")
		w.to("Tab", "button", "Resume")
		w.enter("orders-globex")
	},
	"dead-webhook": func(w *walk) {
		said := w.call("accounting")
		_, address, _ := strings.Cut(said, "messages at ")
		address, _, _ = strings.Cut(address, ",")
		w.entry(`subscription "accounting" was disabled`)
		w.to("Tab", "link", "Edit…", `subscription "accounting" was disabled`)
		w.enter("Subscription accounting")
		w.to("Tab", "field", "Webhook: address")
		w.write(address)
		w.to("Tab", "button", "Save and enable")
		w.enter("Subscription accounting")
		w.to("Tab", "button", "Deliver all undelivered again")
		w.enter("Subscription accounting")
	},
	"schedule-gap": func(w *walk) {
		w.press("g", "s")
		w.is("Schedules")
		w.to("j", "link", "closing")
		w.enter("Schedule closing")
		w.follow("Edit", "Schedule closing")
		w.press("/")
		w.to("Tab", "field", "Cron")
		w.write("0 30 1 * * ?")
		w.enter("Schedule closing")
	},
}

// call telephones somebody outside, and returns what they say.
func (w *walk) call(who string) string {
	w.Helper()
	said, err := w.world.Call(who)
	if err != nil {
		w.Fatal(err)
	}
	return said
}

// open goes from the first page to the execution of the entry that has all words.
func (w *walk) open(words ...string) {
	w.Helper()
	w.entry(words...)
	if s := w.at(); s.Role != "link" { // a long reason is folded before it
		w.to("Tab", "link", "Show it", words...)
	}
	w.enter("")
}

// follow goes to a link of the page, past its header, and to the page that it leads to.
func (w *walk) follow(link, page string) {
	w.Helper()
	w.content()
	w.to("Tab", "link", link)
	w.enter(page)
}

// editJob edits the text of the job whose page is open, and saves it.
func (w *walk) editJob(before, after string) {
	w.Helper()
	w.press(".")
	w.to("Tab", "link", "Edit")
	w.enter("Edit")
	w.press("/")
	if s := w.at(); !strings.HasPrefix(s.Name, "Definition in JSON") {
		w.Fatalf("the first field of the page %q is %q", s.Page, s.Name)
	}
	w.replace(before, after)
	w.to("Tab", "button", "Save")
	w.enter("")
}

// replace replaces a text in the field that has the focus: it goes there by arrows, marks it,
// and writes.
func (w *walk) replace(before, after string) {
	w.Helper()
	var text string
	w.p.Eval("document.activeElement.value", &text)
	ahead, _, ok := strings.Cut(text, before)
	if !ok {
		w.Fatalf("%q is not in %s", before, text)
	}
	line := ahead[strings.LastIndex(ahead, "\n")+1:]
	press := func(key string, times int) {
		for range times {
			w.p.Press(key)
			w.keys++
		}
	}
	press("Control+Home", 1)
	press("ArrowDown", strings.Count(ahead, "\n"))
	press("ArrowRight", len(line))
	press("Shift+ArrowRight", len(before))
	w.p.Type(after)
	w.letters += len(after)
	var now string
	if w.p.Eval("document.activeElement.value", &now); now != ahead+after+text[len(ahead)+len(before):] {
		w.Fatalf("what was written is\n%s", now)
	}
}

// resumeNewer goes from the page of a job that was saved to the resume of what has failed with
// the version before, and has it done.
func (w *walk) resumeNewer(job string) {
	w.Helper()
	w.to("Tab", "link", "Resume with version 2…")
	w.enter("Resume " + job + " with changes")
	w.resumeLikeThis(job)
}

// resumeLikeThis looks at what a resume would do, and has it done.
func (w *walk) resumeLikeThis(job string) {
	w.Helper()
	w.to("Tab", "button", "Resume like this")
	w.enter(job)
}

// cancel cancels the execution whose page is open.
func (w *walk) cancel() {
	w.Helper()
	w.press(".")
	w.to("Tab", "disclosure", "Cancel…")
	w.p.Press("Enter")
	w.keys++
	w.to("Tab", "button", "Cancel it for good")
	w.enter("")
}

// startAgain starts the execution whose page is open again, as soon as it can be.
func (w *walk) startAgain(job string) {
	w.Helper()
	w.p.WaitFor(`[...document.querySelectorAll("#summary a")].some(e => e.innerText == "Start again…")`, 10*time.Second)
	w.to("Tab", "link", "Start again…")
	w.enter("Start " + job + " again")
	w.press(".")
	if s := w.at(); s.Name != "Start it again" {
		w.Fatalf("the action of the page %q is %q", s.Page, s.Name)
	}
	w.enter(job)
}

// TestRepairs repairs each of the ten things that are wrong in a world with keys alone.
func TestRepairs(t *testing.T) {
	t.Parallel()
	world, base := world(t)
	b := chromium.Start(t)
	for _, f := range world.List {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			repair, ok := repairs[f.Name]
			if !ok {
				t.Fatal("nobody knows how to repair it")
			}
			w := &walk{T: t, keyboard: &keyboard{p: b.Page(t), world: world, first: base}}
			w.again()
			repair(w)
			w.repaired(f)
			t.Logf("%s: %d keys and %d letters", strings.Join(w.pages, ", "), w.keys, w.letters)
			quiet(t, w.p, f.Name)
		})
	}
}

// repaired reports a failure that is not repaired soon.
func (w *walk) repaired(f *failures.Failure) {
	w.Helper()
	text := ""
	for ends := time.Now().Add(20 * time.Second); time.Now().Before(ends); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if ok, text = f.Repaired(context.Background()); ok {
			return
		}
	}
	page, _ := w.read("")
	w.Errorf("it is not repaired: %s\n%s", text, page)
}
