package depottest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/courierhq/courier/depot"
)

func full(t *testing.T, c Case) {
	const most = 100_000
	tr := &trial{t, c, c.Limited(t, most)}
	tr.put(in("a"), noise("a", most/2))
	for range 3 { // nothing is left of what did not fit
		_, err := write(t.Context(), tr.d, in("b"), noise("b", most))
		if !errors.Is(err, depot.ErrFull) {
			t.Fatalf("write into a full depot: %v; want an error that matches depot.ErrFull", err)
		}
	}
	tr.lists("", in("a"))
	tr.put(in("b"), noise("b", most/4))
	if err := tr.d.Remove(t.Context(), in("a")); err != nil {
		t.Fatal(err)
	}
	tr.put(in("c"), noise("c", most/2))
	tr.has(in("b"), noise("b", most/4))
}

// fullOfPending checks that written data counts before it is committed, and no longer counts
// after it is discarded.
func fullOfPending(t *testing.T, c Case) {
	const most = 100_000
	tr := &trial{t, c, c.Limited(t, most)}
	p, err := tr.d.Create(t.Context(), in("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Write(noise("a", most*3/5)); err != nil {
		t.Fatal(err)
	}
	if _, err := write(t.Context(), tr.d, in("b"), noise("b", most*3/5)); !errors.Is(err, depot.ErrFull) {
		t.Errorf("write beside a pending file that leaves no room: %v; want an error that matches depot.ErrFull", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	tr.put(in("b"), noise("b", most*3/5))
}

func fullAtOnce(t *testing.T, c Case) {
	const most, size, writers = 1_000_000, 90_000, 30
	d := c.Limited(t, most)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			_, err := write(t.Context(), d, in(fmt.Sprint(w)), noise(fmt.Sprint(w), size))
			if err != nil && !errors.Is(err, depot.ErrFull) {
				t.Errorf("writer %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	all, err := d.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, info := range all {
		total += info.Size
	}
	if total > most {
		t.Errorf("the files have %d bytes, %d at most", total, most)
	}
	// Nothing is left of those that did not fit: alone, each does as long as there is room.
	for w := range most/size - len(all) - 1 {
		if _, err := write(t.Context(), d, out(fmt.Sprint(w)), noise("x", size)); err != nil {
			t.Errorf("after %d files of %d bytes, of at most %d: %v", len(all)+w, size, most, err)
		}
	}
}
