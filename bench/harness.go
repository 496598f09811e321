package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A harness runs benches.
type harness struct {
	srv    *server
	quick  bool
	least  bool          // in tests: as little work as shows that a bench works
	out    io.Writer     // of progress
	turn   time.Duration // about how long a contestant is measured in one turn
	rounds int           // turns of each contestant
	// budget is how long a bench may be expected to take for there to be another
	// round.
	budget time.Duration
	rates  map[string]float64 // executions per second, as last seen
	notes  map[string]string  // by the full name of a figure
	past   *past              // nil before the first bench that needs it
	filled time.Duration      // what was spent on filling it
	files  *files             // likewise
	pgp    *pgpWork           // likewise
}

// newHarness returns a harness on a server, which the caller closes after it.
func newHarness(srv *server, quick bool, progress io.Writer) *harness {
	h := &harness{
		srv: srv, out: progress, turn: 4 * time.Second, rounds: 5, budget: time.Hour,
		rates: make(map[string]float64), notes: make(map[string]string),
	}
	if quick {
		h.quick, h.turn, h.rounds, h.budget = true, 1200*time.Millisecond, 3, 36*time.Second
	}
	return h
}

// scaled is how much of n is done: all, or a thousandth where as little as can be is
// done.
func (h *harness) scaled(n int) int {
	if h.least {
		return max(n/1000, 1)
	}
	return n
}

func (h *harness) close() error {
	var err error
	if h.files != nil {
		err = h.files.close()
	}
	if h.pgp != nil {
		err = errors.Join(err, h.pgp.close())
	}
	if h.past != nil {
		err = errors.Join(err, h.past.db.drop())
	}
	return err
}

// say reports progress.
func (h *harness) say(format string, args ...any) {
	fmt.Fprintf(h.out, format+"\n", args...)
}

// all runs the benches. What fails is reported at the end, with the results of
// the others.
func (h *harness) all(ctx context.Context, picks []pick) ([]result, error) {
	var results []result
	var failed error
	for i := range picks {
		p := &picks[i]
		start := time.Now()
		got, err := h.run(ctx, p)
		if err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
			h.say("%v", err)
			failed = errors.Join(failed, err)
		}
		results = append(results, got...)
		h.say("%s: took %.1f s", p.name, time.Since(start).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	return results, failed
}

// run gives all contestants their turns, one after the other, so that what
// else the machine does meets all alike, and compares the medians. A peer that
// fails is left out.
func (h *harness) run(ctx context.Context, p *pick) ([]result, error) {
	rounds := h.rounds
	if p.once {
		rounds = 1
	}
	start, filled := time.Now(), h.filled
	contestants := p.contestants()
	values := make(map[string][][]float64)
	failed := make(map[string]error)
	for round := range rounds {
		for _, who := range contestants {
			if failed[who] != nil {
				continue
			}
			v, err := p.turn(ctx, h, who)
			if err != nil {
				failed[who] = fmt.Errorf("%s: %w", who, err)
				if ctx.Err() != nil {
					return nil, failed[who]
				}
				continue
			}
			values[who] = append(values[who], v)
			h.say("%s: %d/%d %s: %s", p.name, round+1, rounds, who, h.describe(p, v))
		}
		spent := time.Since(start) - (h.filled - filled)
		if spent+spent/time.Duration(round+1) > h.budget {
			break
		}
	}
	var results []result
	for i, f := range p.figures {
		if failed[courierName] != nil {
			break
		}
		name := p.full(f)
		peers, ok := p.chosen[name]
		if !ok {
			continue
		}
		own := column(values[courierName], i)
		peers = slices.DeleteFunc(slices.Clone(peers), func(peer string) bool { return failed[peer] != nil })
		if len(peers) == 0 {
			results = append(results, result{Bench: name, Courier: own, Unit: f.unit, Note: h.notes[name]})
		}
		for _, peer := range peers {
			r := compare(name, f, peer, own, column(values[peer], i))
			r.Note = h.notes[name]
			results = append(results, r)
		}
	}
	var err error
	for _, who := range contestants {
		err = errors.Join(err, failed[who])
	}
	return results, err
}

// column returns the median of the i-th figure over the turns.
func column(turns [][]float64, i int) float64 {
	var v []float64
	for _, t := range turns {
		v = append(v, t[i])
	}
	return median(v)
}

func (h *harness) describe(p *pick, v []float64) string {
	var parts []string
	for i, f := range p.figures {
		parts = append(parts, strings.TrimSpace(f.name+" "+number(v[i])+" "+f.unit))
	}
	return strings.Join(parts, ", ")
}
