package browser

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// TestLive looks at open pages while another engine executes.
func TestLive(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	base := s.mounts(t)[3].base // through the proxy, which must not hold streams back
	start := func(job string, params map[string]any) courier.Execution {
		x, err := s.Engine.Enqueue(t.Context(), job, &courier.EnqueueOptions{Params: params, By: courier.By{Actor: "ben"}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}

	t.Run("list", func(t *testing.T) {
		p := b.Page(t)
		p.Open(base + "executions?where=job%3Anested")
		p.WaitFor(`document.querySelector("button.live")`, 0)
		for range 3 { // each one while the page is open
			x := start("nested", nil)
			p.WaitFor(fmt.Sprintf(`document.getElementById("x-%s")?.querySelector(".badge.good")`, x.ID), 0)
		}
		quiet(t, p, "list")
	})

	t.Run("execution", func(t *testing.T) {
		x := start("invoices", map[string]any{"seconds": 1, "broken": "inv-0424.xml"})
		p := b.Page(t)
		p.Open(base + "executions/" + string(x.ID))
		p.WaitFor(`document.querySelector("#summary .badge.run")`, 0)
		p.Click("#reason")
		p.Type("written while it changes")
		p.Eval(`document.querySelector("details.confirm").open = true`, nil)
		for _, until := range []string{
			`/^[1-4] of 4/.test(document.querySelector("#s-2 .items")?.textContent)`, // a slow page may miss one of them
			`document.querySelector("#summary .badge.bad")`,                          // the form stays, and all above it is another
		} {
			p.WaitFor(until, 0)
			var kept struct {
				Focus, Written string
				Open           bool
			}
			p.Eval(`({focus: document.activeElement?.id, written: document.getElementById("reason")?.value, open: document.querySelector("details.confirm")?.open})`, &kept)
			if kept.Focus != "reason" || kept.Written != "written while it changes" || !kept.Open {
				t.Errorf("%s: of the focus, what was written and what was open this is left: %+v", until, kept)
			}
		}
		quiet(t, p, "execution")
	})

	t.Run("focus", func(t *testing.T) { // it is on a button that goes, and stays where the others are
		x := start("invoices", map[string]any{"seconds": 1})
		p := b.Page(t)
		p.Open(base + "executions/" + string(x.ID))
		p.WaitFor(`document.querySelector("#summary .badge.run")`, 0)
		p.Eval(`document.querySelector("#summary details.confirm summary").focus()`, nil)
		p.WaitFor(`document.querySelector("#summary .badge.good")`, 0)
		is(t, p, "document.activeElement.id", "summary")
		p.Press("Tab")
		is(t, p, "document.activeElement.closest('section')?.id", "summary")
		quiet(t, p, "focus")
	})

	t.Run("paused and hidden", func(t *testing.T) {
		x := start("invoices", map[string]any{"seconds": 600})
		p := b.Page(t)
		p.Open(base + "executions/" + string(x.ID))
		p.WaitFor(`document.querySelector("#summary .badge.run")`, 0)
		p.Press("p")
		p.WaitFor(`document.querySelector("button.live").textContent.startsWith("Paused")`, 0)
		if _, err := s.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ben", Reason: "to see it"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		var text string
		if p.Eval(`document.querySelector("#summary .badge").textContent`, &text); text != "running" {
			t.Errorf("a page that was paused has changed to %q", text)
		}
		p.Hide(true)
		p.Click("button.live")
		p.Hide(false)
		p.WaitFor(`document.querySelector("#summary .badge").textContent == "pausing"`, 0)
		quiet(t, p, "paused")
	})
}

// maxGraft is how long an update of a page may take in the browser: that of one picture on
// the screen. The fastest of several counts.
const maxGraft = 16 * time.Millisecond

var strict = flag.Bool("strict", false, "require the times that are promised, on a machine that has nothing else to do")

// atMost is how long something may take that is promised to take limit: without -strict
// four times as long, since the machine may have other work to do.
func atMost(limit time.Duration) time.Duration {
	if *strict {
		return limit
	}
	return 4 * limit
}

// TestTimes has instants of which the script says how far they are: days and hours below ten
// with the next unit.
func TestTimes(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Empty: true})
	p := b.Page(t)
	p.Open(s.mounts(t)[0].base)
	const minute, hour, day = 60, 3600, 24 * 3600
	for _, c := range []struct {
		in   int // seconds, and a half
		want string
	}{
		{0, "in 0 s"}, {59, "in 59 s"}, {minute + 54, "in 1 min"}, {hour, "in 1 h"}, {hour + 54*minute, "in 1 h 54 min"}, {9*hour + 59*minute, "in 9 h 59 min"},
		{11*hour + 59*minute, "in 11 h"}, {day + 23*hour, "in 1 d 23 h"}, {30*day + hour, "in 30 d"}, {-hour - 54*minute - 1, "1 h 54 min ago"}, {-8 * day, "7 d 23 h ago"},
	} {
		var got string
		p.Eval(fmt.Sprintf(`(() => {
			const t = document.body.appendChild(document.createElement("time"));
			t.setAttribute("datetime", new Date(Date.now() + %d * 1000 + 500).toISOString());
			document.dispatchEvent(new Event("courier:graft"));
			t.remove();
			return t.dataset.ago;
		})()`, c.in), &got)
		if got != c.want {
			t.Errorf("%d s from now is %q, want %q", c.in, got, c.want)
		}
	}
}

// grafted updates the page as when a step ends, which changes a few rows, and as when all rows
// change. It returns how long the fastest update of each kind took, in milliseconds.
const grafted = `(async () => {
	const { graft } = await import([...document.scripts].find(s => s.src.includes("/live.js")).src.replace("live.js", "graft.js"));
	const part = document.getElementById("part"), html = part.innerHTML, pieces = html.split("badge good");
	const few = pieces.slice(0, -3).join("badge good") + "badge run" + pieces.slice(-3).join("badge run"), all = pieces.join("badge run");
	const fastest = other => {
		let least = 1e9;
		for (let i = 0; i < 40; i++) {
			const began = performance.now();
			graft(part, i % 2 ? html : other);
			part.getBoundingClientRect();
			least = Math.min(least, performance.now() - began);
		}
		return least;
	};
	return { few: fastest(few), all: fastest(all), rows: part.querySelectorAll("tr").length, badges: pieces.length - 1 };
})()`

// testGraft measures an update of the page of an execution with a loop of ten thousand items.
func testGraft(t *testing.T, p *chromium.Page, url string) {
	p.Open(url)
	var r struct {
		Few, All     float64
		Rows, Badges int
	}
	p.Eval(grafted, &r)
	few, all := time.Duration(r.Few*float64(time.Millisecond)), time.Duration(r.All*float64(time.Millisecond))
	t.Logf("an update of three of %d rows took %v, one of all %v", r.Rows, few, all)
	if r.Rows < 50 || r.Badges < 50 || few > atMost(maxGraft) {
		t.Errorf("an update of three of %d rows with %d badges took %v, %v at most", r.Rows, r.Badges, few, atMost(maxGraft))
	}
}
