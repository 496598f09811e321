package pgstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// claimState is the state that the store keeps from one claim to the next. Only speed depends on
// it.
//
// While some session holds an old snapshot, dead index entries can't be removed: a claim from the
// start of a queue walks over all executions that were claimed since, and a scan of the running
// executions over all that ran since. When claims become slow, they begin behind the last claimed
// row instead, and look only at the running executions whose leases a probe has found to have
// ended. They do so too while the server is free to remove dead entries but has not yet done so,
// once the walks take a part of the time that counts: a table of millions of executions is vacuumed
// rarely. A probe beside the claims finds what they pass over; see [Store.probe]. It keeps the
// executions that ran at its last look, and walks only over those that were claimed since; see
// [running].
type claimState struct {
	mu      sync.Mutex
	limited bool // the last claim was under a limit
	blocked bool // a limit seems to have kept executions from it
	freed   int  // how often an execution has ended here and may have freed a slot

	took      time.Duration    // the approximate time of a claim
	scope     string           // of the claims that the following fields are about
	scopeHash string           // see hash
	last      map[string]place // the last claimed row of each queue
	quick     time.Duration    // how long a claim may take besides the round trip, and 1 % more for each row
	trip      time.Duration    // the approximate time of a round trip; 0: unknown
	slow      int              // successive claims from the start that took longer, without idle ones
	walk, gap time.Duration    // approximate times of the walk of a claim from the start, and between two claims
	probe     *claim           // the claim that the running probe is for; nil: claims begin at the start
	back      map[string]place // the first row of each queue that the probe has found

	queuesWalked time.Time     // when a probe has last walked through the queues
	queuesTook   time.Duration // how long that took, as the server says

	suspects []string  // the running executions that claims check meanwhile; never nil then
	known    running   // the running executions that the probe has found
	used     time.Time // the last claim

	nextScan time.Time // no lease can end earlier
	busy     bool      // the last claim got as many executions as it asked for
	scanned  bool      // the last claim scanned the running executions
	mark     uint64    // of the wake-ups, before the last claim
}

// A running says where all running executions are found. The zero value means a walk over all of
// them. Claims write the time at which they were made. So the walk begins after the claims that
// were made before, and takes no time for the executions that ran since an old snapshot.
type running struct {
	since  time.Time     // executions that were claimed before it are in ids
	ids    []string      // some of which may no longer run
	walked time.Time     // when all were last walked over
	took   time.Duration // how long that took
}

// params returns its parameters in statements.
func (r running) params() (ids []string, since string) {
	if r.since.IsZero() {
		return []string{}, first.due
	}
	return r.ids, r.since.UTC().Format(dueFormat)
}

// A probe walks over all running executions for a fortieth of the time, and at least once in 20
// leases, because a claim may be committed long after it was made, or made by a clock that is late.
// While more than maxKnown are running, each probe does so.
const (
	wholeEvery  = 40 // the time between two walks in durations of one
	wholeLeases = 20 // at most
	maxKnown    = 10_000
)

// A place is where a claim begins in a queue.
type place struct {
	urgency int32 // minus the priority
	due, id string
}

// first is before all executions of a queue.
var first = place{-1 << 31, "-infinity", bind.NilUUID}

// dueFormat is the format of [place.due].
const dueFormat = "2006-01-02T15:04:05.000000Z"

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.urgency, q.urgency), strings.Compare(p.due, q.due), strings.Compare(p.id, q.id))
}

func (k *claimState) init() {
	k.quick = quickClaim
	k.last, k.back = make(map[string]place), make(map[string]place)
}

// hash returns a hash of the queues and step types of the last claim. Stores with the
// same hash can claim the same executions, except for those with a workspace.
func (k *claimState) hash() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.scopeHash
}

// After slowClaims successive claims from the start that took longer than quickClaim,
// or one that took verySlow times as long, claims begin behind the last claimed row.
// Claims that found nothing and followed no wake-up count only if they were very slow.
const (
	quickClaim = 6 * time.Millisecond
	slowClaims = 3
	verySlow   = 50 // times
)

// Claims also begin behind the last claimed row once their walks take one part in
// walkShare of the time, on the average of about walkClaims claims.
const (
	walkShare  = 10
	walkClaims = 16
	maxGap     = time.Second
)

// maxLook is the longest time between two scans of the running executions: another
// store may have given a shorter lease.
const maxLook = 250 * time.Millisecond

// lookLater is the time from a claim that found something to the next scan of the
// running executions: the first steps start meanwhile.
const lookLater = 5 * time.Millisecond

// record remembers what a claim found. It reports whether a probe has to begin.
func (k *claimState) record(c *claim, started time.Time) (probe bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	called := c.mark != k.mark
	k.took += (time.Since(started) - k.took) / 4
	k.limited, k.busy, k.scanned, k.mark = c.limited, len(c.rows) >= c.Max, c.scansRunning, c.mark
	k.blocked = c.blocked
	if len(c.rows) > 0 && started.Add(c.Lease).Before(k.nextScan) {
		k.nextScan = started.Add(c.Lease)
	}
	if c.Only != nil {
		return false
	}
	if k.scope != c.scope {
		k.scope, k.scopeHash, k.slow, k.probe = c.scope, c.scopeHash, 0, nil
		clear(k.last)
		clear(k.back)
	}
	if gap := min(started.Sub(k.used), maxGap); k.gap == 0 {
		k.gap = gap // the largest value, before the second claim
	} else {
		k.gap += (gap - k.gap) / walkClaims
	}
	k.used = started
	if c.scansRunning {
		wait := maxLook
		if c.ends > 0 {
			wait = min(c.ends, wait)
		}
		k.nextScan = started.Add(wait)
		if lost := slices.ContainsFunc(c.rows, func(r claimedRow) bool { return r.reclaim }); lost {
			k.nextScan = started // there may be more
		}
	}
	k.claimed(c)
	if c.limited {
		k.slow, k.probe = 0, nil // claims under limits begin at the start
		return false
	}
	if c.skipsClaimed || k.probe != nil {
		return false
	}
	k.walk += (c.walked - k.walk) / walkClaims
	if k.slow = k.slower(c, called); k.slow < slowClaims && !k.walksLong(k.walk) {
		return false
	}
	k.slow, k.walk, k.probe, k.suspects, k.known = 0, 0, c, []string{}, running{}
	k.queuesWalked, k.queuesTook = time.Time{}, 0
	return true
}

// freedSince reports whether an execution has ended here since a claim began.
func (k *claimState) freedSince(c *claim) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.freed != c.freed
}

// slower returns the number of successive slow claims after one that began at the
// start.
func (k *claimState) slower(c *claim, called bool) int {
	k.trip = min(k.trip, c.took)
	quick := k.quick + time.Duration(len(c.rows))*k.quick/100
	if c.took-k.trip <= quick {
		return 0
	}
	idle, very := len(c.rows) == 0 && !called, c.took-k.trip > verySlow*quick
	switch {
	case idle && !very:
		return k.slow // no execution waits for an idle claim
	case very && !idle:
		return slowClaims // the next claims would take as long
	}
	return k.slow + 1
}

// walksLong reports whether walks of the given duration in each claim would take too much of the
// time.
func (k *claimState) walksLong(walk time.Duration) bool { return walk*walkShare > k.gap }

// claimed remembers the last row of each queue.
func (k *claimState) claimed(c *claim) {
	if !c.skipsClaimed {
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

// duration returns the approximate time of a claim.
func (k *claimState) duration() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.took, 500*time.Microsecond)
}

// expect records that a lease may end after d.
func (k *claimState) expect(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := time.Now().Add(d); at.Before(k.nextScan) {
		k.nextScan = at
	}
}

// next returns the time until there may be more to claim. It is 0 if that is unknown.
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
	if !c.scansRunning {
		sooner(max(time.Microsecond, time.Until(k.nextScan))) // a limit stood in the way
	}
	return next
}

// A probe runs for a twentieth of the time, or for up to a fifth if a lease would otherwise be
// taken over late. It also runs whenever a lease ends, but not sooner than a fourth of its duration
// after the last one. So a takeover is late by about the duration of a probe. The walk through the
// queues, half of the probe, takes a twentieth of the time, but is made at least once in two
// leases. Executions that are more urgent than the place where claims begin are found without it.
const (
	probeEvery   = 20 // the time between two probes, in durations of one; at most two thirds of a lease
	probeAtLeast = 4  // the least time, likewise
	minProbe     = 5 * time.Millisecond
	probeTimeout = 2 * time.Minute
	probeErrors  = 3 // successive errors after which claims begin at the start again
)

// probe searches, again and again, for executions that claims like c pass over because
// they begin behind the last claimed row. It ends when a search is quick again.
func (s *Store) probe(c *claim) {
	for failures := 0; ; {
		ctx, cancel := context.WithTimeout(s.ctx, probeTimeout)
		found, err := s.probeOnce(ctx, c)
		cancel()
		if err == nil {
			failures = 0
		} else if failures++; s.ctx.Err() == nil {
			s.log.Warn("search for work that claims pass over; will retry", "error", err)
		}
		wait, more := s.claims.probed(c, found, failures)
		if found.any() || !more {
			s.notifier.Queues.WakeAll()
		}
		if !more || wakeup.Sleep(s.ctx, wait) != nil {
			return
		}
	}
}

// A found is the result of a probe.
type found struct {
	first   map[string]place // of the queues with an execution before the place where claims begin
	lost    []string         // the running executions whose lease has ended, up to 1000
	ends    time.Duration    // until the next lease ends; 0: not known
	running []string         // all running executions; nil if there are more than maxKnown
	now     time.Time        // by the server's clock, when the statement began
	whole   bool             // it has walked over all running executions
	started time.Time        // when the probe began
	trip    time.Duration    // what a round trip took before it
	queues  bool             // it has walked through the queues
	walked  time.Duration    // the duration of that walk, as the server says
}

func (f *found) any() bool { return len(f.first) > 0 || len(f.lost) > 0 }

// probeOnce searches once.
func (s *Store) probeOnce(ctx context.Context, c *claim) (f found, err error) {
	f.started, f.first = time.Now(), make(map[string]place)
	err = s.pool.with(ctx, func(conn *session) error {
		asked := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return err
		}
		f.started = time.Now()
		f.trip = f.started.Sub(asked)
		queues, urgencies, dues, ids := s.claims.places()
		f.queues = s.claims.walksQueues(c, f.started)
		known := s.claims.runningBefore(c, f.started)
		f.whole = known.since.IsZero()
		ran, since := known.params()
		rows, err := conn.Query(ctx, s.sql("claim/find_passed_over"), c.Workspace, textsOf(c.StepTypes), c.queues, queues, urgencies, dues, ids, f.queues,
			ran, since, int64(maxKnown))
		if err != nil {
			return err
		}
		return f.read(rows)
	})
	return f, err
}

// read reads the rows of sql/claim/find_passed_over.sql.
func (f *found) read(rows pgx.Rows) error {
	var queue string
	var list, running []string
	var p place
	var due time.Time
	var ends, walked int64
	_, err := pgx.ForEachRow(rows, []any{&queue, &p.urgency, &due, &list, &ends, &walked, &running}, func() error {
		if queue == "" {
			f.now, f.running = due, running
			f.lost, f.ends, f.walked = list, time.Duration(ends)*time.Microsecond, time.Duration(walked)*time.Microsecond
		} else {
			// A claim begins behind a place. With the lowest id, that includes the row.
			f.first[queue] = place{p.urgency, due.UTC().Format(dueFormat), bind.NilUUID}
		}
		return nil
	})
	return err
}

// walksQueues reports whether a probe must walk through the queues.
func (k *claimState) walksQueues(c *claim, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Sub(k.queuesWalked) >= min(probeEvery*k.queuesTook, 2*c.Lease)
}

// runningBefore returns the known running executions for a probe that begins now.
func (k *claimState) runningBefore(c *claim, now time.Time) running {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.probe != c || now.Sub(k.known.walked) >= min(wholeEvery*k.known.took, wholeLeases*c.Lease) {
		return running{}
	}
	return k.known
}

// runningNow returns the known running executions for other statements.
func (k *claimState) runningNow() running {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.probe == nil {
		return running{}
	}
	return k.known
}

// learn keeps the running executions that a probe has found.
func (r *running) learn(f *found, lease, took time.Duration) {
	if f.whole {
		r.walked, r.took = f.started, took
	}
	if r.ids = f.running; r.ids == nil {
		r.since = time.Time{}
	} else {
		r.since = f.now.Add(-lease) // a claim that was made before is committed, or its lease has ended
	}
}

// places returns the places where claims begin in each queue, as parameters.
func (k *claimState) places() (queue []string, urgency []int32, due, id []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for q, p := range k.last {
		queue, urgency, due, id = append(queue, q), append(urgency, p.urgency), append(due, p.due), append(id, p.id)
	}
	return queue, urgency, due, id
}

// probed records the result of a probe, or the number of successive probes that have failed. It
// returns the time until the next probe, and whether there is a next one.
func (k *claimState) probed(c *claim, f found, failures int) (wait time.Duration, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.probe != c {
		return 0, false
	}
	took := time.Since(f.started)
	k.trip = f.trip
	if f.queues {
		k.queuesWalked, k.queuesTook = f.started, f.walked
	}
	if failures == 0 {
		k.known.learn(&f, c.Lease, max(0, took-k.trip-f.walked))
	}
	quick := failures == 0 && max(0, took-k.trip) <= k.quick && k.known.took <= k.quick && k.queuesTook <= k.quick && !k.walksLong(k.queuesTook)
	if failures >= probeErrors || quick || time.Since(k.used) > c.Lease {
		k.probe = nil
		return 0, false
	}
	for q, p := range f.first {
		k.back[q] = p
	}
	if k.suspects = append([]string{}, f.lost...); len(f.lost) > 0 {
		k.nextScan = f.started
	}
	wait = max(min(probeEvery*took, c.Lease*2/3-took), probeAtLeast*took)
	if f.ends > 0 {
		wait = min(wait, max(f.ends-took, took/probeAtLeast)) // its worker may be lost
	}
	return max(wait, minProbe), true
}
