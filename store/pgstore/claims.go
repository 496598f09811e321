package pgstore

import (
	"slices"
	"sync"
	"time"
)

// claims is what the store remembers from one claim to the next. Nothing
// depends on it but speed.
type claims struct {
	mu      sync.Mutex
	limited bool // the last claim met a limit

	// While dead rows can't be removed, since somebody holds a snapshot that is
	// older, a claim that begins at the start of the queue walks over all that was
	// ever claimed. Then most claims begin behind the last claimed row.
	took  time.Duration    // about what a claim takes
	of    string           // what this holds for: the rest of the request
	what  string           // see hash
	last  map[string]place // the last claimed row of each queue
	slow  int              // sweeps in a row that took long
	sweep time.Time        // when the next claim begins at the start

	// What runs need not be looked at before a lease can have expired. A look walks
	// over all that ever ran, too: once that is slow, most looks begin with the first
	// that ran when all was looked at.
	look  time.Time
	floor string    // where a look begins
	whole time.Time // when one has to begin at the start
	busy  bool      // the last claim got all it could take
	ran   bool      // the last claim looked at what runs
	mark  uint64    // of the bell, before the last claim
}

// A place is where a claim begins in a queue.
type place struct {
	urgency int32 // minus the priority
	due, id string
}

// first is before all that is in a queue.
var first = place{-1 << 31, "-infinity", nobody}

func (k *claims) init() { k.last = make(map[string]place) }

// hash stands for the queues and step types of the last claim: whoever has the
// same hash could claim the same, but for what stands in other workspaces.
func (k *claims) hash() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.what
}

// A few sweeps this slow are followed by claims that begin behind the last
// claimed row, for so many times what it took, but no longer than a while.
const (
	slowSweep     = 6 * time.Millisecond // and a bit for each row that it claims
	slowSweeps    = 3                    // in a row
	sweepEvery    = 20
	maxSweepEvery = 15 * time.Second
)

// What governs looks at what runs. What was enqueued long before all that ran at
// the last whole look, claimed since, and lost by its worker, waits for the next.
const (
	maxLookEvery  = 5 * time.Second
	slowLook      = 250 * time.Millisecond
	maxWholeEvery = time.Minute
)

// maxLook is the longest time between two looks at what runs: somebody else may
// have been given a lease that is shorter.
const maxLook = 250 * time.Millisecond

// lookLater is when a claim that found something has the next one look at what
// runs: not while the first steps are being started.
const lookLater = 5 * time.Millisecond

// learn remembers what a claim found.
func (k *claims) learn(c *claim, begun time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	took := time.Since(begun)
	k.took += (took - k.took) / 4
	k.limited, k.busy, k.ran, k.mark = c.limited, len(c.rows) >= c.Max, c.running, c.mark
	if len(c.rows) > 0 && begun.Add(c.Lease).Before(k.look) {
		k.look = begun.Add(c.Lease)
	}
	if c.Only != nil {
		return
	}
	if k.of != c.of {
		k.of, k.what, k.slow, k.sweep, k.whole = c.of, c.what, 0, time.Time{}, time.Time{}
		clear(k.last)
	}
	if c.running {
		// A look walks over the dead entries of all that ever ran, as long as they
		// can't be removed: then it comes less often.
		wait := min(max(maxLook, sweepEvery*took), maxLookEvery)
		if c.ends > 0 {
			wait = min(c.ends, wait)
		}
		k.look = begun.Add(wait)
		if c.floor == nobody && took > slowLook && c.least != "" {
			k.floor, k.whole = c.least, begun.Add(min(sweepEvery*took, maxWholeEvery))
		}
		if lost := slices.ContainsFunc(c.rows, func(r claimedRow) bool { return r.reclaim }); lost {
			k.look = begun // there may be more
		}
	}
	for i := range c.rows {
		r := &c.rows[i]
		k.floor = min(k.floor, r.id)
		p := place{r.urgency, r.due.UTC().Format(time.RFC3339Nano), r.id}
		if old, ok := k.last[r.queue]; !r.reclaim && (!ok || !c.ahead || old.urgency < p.urgency || old.urgency == p.urgency && old.due < p.due) {
			k.last[r.queue] = p
		}
	}
	if !c.ahead {
		k.sweep = time.Time{}
		if took <= slowSweep+time.Duration(len(c.rows))*slowSweep/100 {
			k.slow = 0
		} else if k.slow++; k.slow >= slowSweeps {
			k.sweep = time.Now().Add(min(sweepEvery*took, maxSweepEvery))
		}
	}
}

// duration is about what a claim takes.
func (k *claims) duration() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.took, 500*time.Microsecond)
}

// expect takes note that leases end no sooner than after d.
func (k *claims) expect(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := time.Now().Add(d); at.Before(k.look) {
		k.look = at
	}
}

// next returns how long it is until there may be more for a claim, 0 if that is
// not known.
func (k *claims) next(c *claim) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	var next time.Duration
	sooner := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	sooner(c.next)
	sooner(c.ends)
	if len(c.rows) > 0 {
		sooner(c.Lease)
	}
	if !c.running {
		sooner(max(time.Microsecond, time.Until(k.look))) // a limit stood in the way
	}
	if c.ahead {
		sooner(max(time.Microsecond, time.Until(k.sweep)))
	}
	return next
}
