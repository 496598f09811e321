package browser

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// many is how many there are of what nobody reads to its end.
const many = 10_000

// TestLarge looks at pages of ten thousand executions, items, members of a chain and entries
// of the journal: their size, and the time until the first text is there and on the server.
func TestLarge(t *testing.T) {
	b := chromium.Start(t)
	w, err := demo.Open(t.Context(), t.TempDir(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := &site{World: w}
	pages := s.enlarge(t)
	p := b.Page(t)
	base := s.mounts(t)[1].base
	t.Run("graft", func(t *testing.T) { testGraft(t, p, base+"executions/"+string(w.By["loops"])) })
	for _, at := range pages {
		t.Run(at, func(t *testing.T) {
			a := address{at: at}
			if n := s.size(t, a); n > maxPage {
				t.Errorf("%d bytes compressed, %d at most", n, maxPage)
			} else {
				t.Logf("%d bytes compressed", n)
			}
			served := time.Hour
			for range 5 {
				began := time.Now()
				s.Pages.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/"+at, nil))
				served = min(served, time.Since(began))
			}
			paint := fastestPaint(p, base+at)
			t.Logf("first paint after %v, %v on the server", paint, served)
			if paint > atMost(maxPaint) {
				t.Errorf("first paint after %v, %v at most", paint, atMost(maxPaint))
			}
			if strings.HasPrefix(at, "chain") && served > atMost(maxServed) {
				t.Errorf("the server takes %v, %v at most", served, atMost(maxServed))
			}
			for _, d := range []chromium.Device{{}, {Width: 360, Height: 740, Mobile: true}} {
				p.Emulate(d)
				var list []string
				if p.Eval(wider, &list); len(list) > 0 {
					t.Errorf("%d px: %s", d.Width, list)
				}
			}
			p.Emulate(chromium.Device{})
			quiet(t, p, at)
		})
	}
}

// maxServed is how long the server may take for a page of a chain.
const maxServed = 50 * time.Millisecond

// enlarge adds what the world has not: a loop of which all items have failed, a chain of many
// members and an execution of it, and entries of the journal. It returns the addresses.
func (s *site) enlarge(t *testing.T) []string {
	ctx, by := t.Context(), courier.By{Actor: "import", Reason: "many"}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	items := make([]any, many)
	for i := range items {
		items[i] = i
	}
	failed, err := s.Engine.Enqueue(ctx, "reconcile", &courier.EnqueueOptions{Params: map[string]any{"items": items, "bad": nil}, By: by})
	must(err)
	wide := chain.Chain{Name: "wide", Members: make([]chain.Member, many)}
	for i := range wide.Members {
		wide.Members[i] = chain.Member{Name: fmt.Sprintf("m%d", i), Job: "statements"}
		if i > 0 {
			wide.Members[i].DependsOn = []chain.Dependency{{Member: fmt.Sprintf("m%d", i/2)}}
		}
	}
	for range 2 {
		_, err = s.Engine.Chains().Define(ctx, wide, &courier.DefineOptions{By: by})
		must(err)
		wide.Description = "Its members wait for each other."
	}
	run, err := s.Engine.Chains().Start(ctx, "wide", &chain.StartOptions{By: by})
	must(err)
	for i := range many {
		must(s.Engine.Limits().Set(ctx, fmt.Sprintf("key:k%d", i), 1+i%7, by))
	}
	x, err := s.Engine.Executions().WaitFor(ctx, failed.ID, func(x *courier.Execution) bool { return x.State.Ended() })
	must(err)
	if x.FailedItems != many {
		t.Fatalf("%d items have failed: %v", x.FailedItems, x.Failure)
	}
	one := "executions/" + string(failed.ID)
	return []string{
		"executions", "executions?where=state%3Aqueued+queue%3Anight", one, one + "?tab=attempts&state=failed", one + "?tab=values", one + "/resume",
		"executions/" + string(s.By["large"]) + "?tab=attempts", "chains", "chains/wide", "chains/wide?from=5000", "chain-executions", "chain-executions/" + string(run.ID),
		"journal", "journal?kind=limit", "limits", "",
	}
}
