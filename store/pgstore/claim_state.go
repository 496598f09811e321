package pgstore

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// claims is what the store remembers from one claim to the next. Nothing
// depends on it but speed.
type claimState struct {
	mu      sync.Mutex
	limited bool // the last claim met a limit

	// While dead rows can't be removed, since somebody holds a snapshot that is
	// older, a claim that begins at the start of the queue walks over all that was
	// ever claimed, and a look at what runs over all that ever ran. Then claims begin
	// behind the last claimed row, looks with the first lease that has ended, and a
	// probe beside them finds what they pass over; see [Store.probe].
	took  time.Duration    // about what a claim takes
	of    string           // what this holds for: the rest of the request
	what  string           // see hash
	last  map[string]place // the last claimed row of each queue
	quick time.Duration    // what a claim may take beside the round trip, and a bit for each row
	trip  time.Duration    // about what a round trip takes; 0: not known
	slow  int              // claims in a row that began at the start, had something to do and took longer
	probe *claim           // for which a probe is under way; nil: claims begin at the start
	back  map[string]place // of what it has found, the first row of each queue
	floor string           // where looks begin
	used  time.Time        // the last claim

	look time.Time // until when no lease can have ended
	busy bool      // the last claim got all it could take
	ran  bool      // the last claim looked at what runs
	mark uint64    // of the bell, before the last claim
}

// A place is where a claim begins in a queue.
type place struct {
	urgency int32 // minus the priority
	due, id string
}

// first is before all that is in a queue.
var first = place{-1 << 31, "-infinity", nobody}

// dueFormat is that of [place.due].
const dueFormat = "2006-01-02T15:04:05.000000Z"

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.urgency, q.urgency), strings.Compare(p.due, q.due), strings.Compare(p.id, q.id))
}

func (k *claimState) init() {
	k.quick = quickClaim
	k.last, k.back = make(map[string]place), make(map[string]place)
}

// hash stands for the queues and step types of the last claim: whoever has the
// same hash could claim the same, but for what stands in other workspaces.
func (k *claimState) hash() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.what
}

// So many claims in a row that began at the start and took longer are followed by
// claims that begin behind the last claimed row, and so is one that took very much
// longer. Of those that found nothing, and that nothing had called, only the latter
// count.
const (
	quickClaim = 6 * time.Millisecond
	slowClaims = 3
	verySlow   = 50 // times
)

// maxLook is the longest time between two looks at what runs: somebody else may
// have been given a lease that is shorter.
const maxLook = 250 * time.Millisecond

// lookLater is when a claim that found something has the next one look at what
// runs: not while the first steps are being started.
const lookLater = 5 * time.Millisecond

// learn remembers what a claim found. It reports whether a probe has to begin.
func (k *claimState) record(c *claim, started time.Time) (probe bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	called := c.mark != k.mark
	k.took += (time.Since(started) - k.took) / 4
	k.limited, k.busy, k.ran, k.mark = c.limited, len(c.rows) >= c.Max, c.running, c.mark
	if len(c.rows) > 0 && started.Add(c.Lease).Before(k.look) {
		k.look = started.Add(c.Lease)
	}
	if c.Only != nil {
		return false
	}
	if k.of != c.of {
		k.of, k.what, k.slow, k.probe = c.of, c.what, 0, nil
		clear(k.last)
		clear(k.back)
	}
	k.used = started
	if c.running {
		wait := maxLook
		if c.ends > 0 {
			wait = min(c.ends, wait)
		}
		k.look = started.Add(wait)
		if lost := slices.ContainsFunc(c.rows, func(r claimedRow) bool { return r.reclaim }); lost {
			k.look = started // there may be more
		}
	}
	k.claimed(c)
	if c.limited {
		k.slow, k.probe = 0, nil // those begin at the start
		return false
	}
	if c.ahead || k.probe != nil {
		return false
	}
	if k.slow = k.slower(c, called); k.slow < slowClaims {
		return false
	}
	k.slow, k.probe, k.floor = 0, c, afterAll
	return true
}

// slower returns how many claims in a row have taken longer than they may, after
// one that began at the start.
func (k *claimState) slower(c *claim, called bool) int {
	k.trip = min(k.trip, c.took)
	quick := k.quick + time.Duration(len(c.rows))*k.quick/100
	if c.took-k.trip <= quick {
		return 0
	}
	idle, very := len(c.rows) == 0 && !called, c.took-k.trip > verySlow*quick
	switch {
	case idle && !very:
		return k.slow // nothing waits for the looks of who is idle
	case very && !idle:
		return slowClaims // what it took would be waited for again
	}
	return k.slow + 1
}

// claimed remembers the last row of each queue.
func (k *claimState) claimed(c *claim) {
	if !c.ahead {
		for i := range c.rows {
			delete(k.last, c.rows[i].queue)
		}
	}
	for i := range c.rows {
		if r := &c.rows[i]; !r.reclaim {
			p := place{r.urgency, r.due.UTC().Format(dueFormat), r.id}
			if old, ok := k.last[r.queue]; !ok || old.compare(p) < 0 {
				k.last[r.queue] = p
			}
		}
	}
}

// start is where a claim begins in a queue.
func (k *claimState) start(queue string, ahead bool) place {
	last, ok := k.last[queue]
	if !ahead || !ok {
		return first
	}
	if found, ok := k.back[queue]; ok {
		delete(k.back, queue)
		last = found
		k.last[queue] = found
	}
	return last
}

// duration is about what a claim takes.
func (k *claimState) duration() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.took, 500*time.Microsecond)
}

// expect takes note that leases end no sooner than after d.
func (k *claimState) expect(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := time.Now().Add(d); at.Before(k.look) {
		k.look = at
	}
}

// next returns how long it is until there may be more for a claim, 0 if that is
// not known.
func (k *claimState) next(c *claim) time.Duration {
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
	return next
}
