package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
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

// maxRounds is how often a claim under limits looks again at what it has put
// off, before it leaves that to the next claim.
const maxRounds = 5

// Claim leases executions to a worker. Where no limit is in force it is one
// statement; otherwise a transaction, in one round trip, that takes a lock
// first.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if err := s.begun(ctx); err != nil {
		return store.Claims{}, err
	}
	result := store.Claims{Mark: s.bell.mark(), Watched: s.news.watched(r.Lease)}
	if r.Max <= 0 {
		return result, nil
	}
	c := s.newClaim(&r, result.Mark)
	begun := time.Now()
	s.claims.mu.Lock()
	limited := s.claims.limited
	s.claims.mu.Unlock()
	var err error
	if !limited {
		err = repeat(ctx, func() error { return s.claimFree(ctx, c) })
		if err == nil && !c.running && len(c.rows) < r.Max && !c.limited {
			// Nothing more is waiting: what comes next depends on what runs. What there
			// is need not wait for that.
			if c.next = lookLater; len(c.rows) == 0 {
				c.running = true
				err = repeat(ctx, func() error { return s.claimFree(ctx, c) })
			}
		}
	}
	limited = limited || c.limited
	c.running = c.running || c.limited && c.news // it was not to look only because of the news
	for n := 0; err == nil && limited && len(c.rows) < r.Max && n < maxRounds; n++ {
		err = repeat(ctx, func() error { return s.claimLimited(ctx, c) })
		limited = c.more
	}
	if err != nil {
		return store.Claims{}, failed("claim", err)
	}
	s.claims.learn(c, begun)
	if len(c.rows) < r.Max {
		result.Next = s.claims.next(c)
	}
	if c.Only == nil {
		s.news.claimed(c)
	}
	if c.waiting && s.letThrough(ctx) && len(c.rows) < r.Max {
		result.Next = time.Microsecond
	}
	if result.List, err = s.claimed(ctx, c); err != nil {
		return store.Claims{}, err
	}
	result.Subscribed = s.told.Load()
	return result, nil
}

// A claim is a ClaimRequest that is being answered.
type claim struct {
	*store.ClaimRequest
	of, what string // see claims
	mark     uint64
	token    string
	ahead    bool // begins behind the last claimed row
	news     bool // has heard of something since the last claim
	running  bool // looks at what runs, once: what it claims itself may have a short lease
	looked   bool
	queues   []string
	from     []place
	floor    string // where the look begins
	least    string // the first id of what runs; "" if nothing does
	rows     []claimedRow
	limited  bool
	more     bool
	told     bool          // somebody has subscribed to events
	waiting  bool          // something waits for other jobs
	next     time.Duration // 0: not known
	ends     time.Duration // the next lease; 0: not known
}

// A claimedRow is a row that was claimed.
type claimedRow struct {
	row
	reclaim, first bool
	leaseFirst     int64
	elapsed        int64 // of the timeout, in microseconds
	urgency        int32
}

func (s *Store) newClaim(r *store.ClaimRequest, mark uint64) *claim {
	c := &claim{ClaimRequest: r, mark: mark, token: randomUUID(), floor: nobody}
	for _, q := range r.Queues {
		if !slices.Contains(c.queues, q) {
			c.queues = append(c.queues, q)
		}
	}
	can := fmt.Sprintf("%q %q", c.queues, r.StepTypes)
	c.of, c.what = r.Workspace+" "+can, fmt.Sprintf("%x", sha256.Sum256([]byte(can)))[:16]
	k := &s.claims
	k.mu.Lock()
	defer k.mu.Unlock()
	known := r.Only == nil && k.of == c.of
	recent := time.Now().Before(k.look)
	c.news = known && !k.limited && mark != k.mark && (k.ran || recent)
	c.running = !c.news && !(known && k.busy && recent)
	c.ahead = known && !k.limited && time.Now().Before(k.sweep)
	if known && time.Now().Before(k.whole) {
		c.floor = k.floor
	}
	for _, q := range c.queues {
		from := first
		if p, ok := k.last[q]; ok && c.ahead {
			from = p
		}
		c.from = append(c.from, from)
	}
	return c
}

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

func randomUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// starts returns the parameters that tell where to begin in each queue.
func (c *claim) starts() (urgency []int32, due, id []string) {
	urgency, due, id = make([]int32, len(c.from)), make([]string, len(c.from)), make([]string, len(c.from))
	for i, p := range c.from {
		urgency[i], due[i], id[i] = p.urgency, p.due, p.id
	}
	return urgency, due, id
}

// types are the registered step types; SQL tells none from no array.
func (c *claim) types() []string {
	if c.StepTypes == nil {
		return []string{}
	}
	return c.StepTypes
}

// busyArgs are the parameters of sql/claim_busy.sql.
func (c *claim) busyArgs() []any {
	urgency, due, id := c.starts()
	return []any{c.Worker, c.Workspace, c.types(), int64(c.Max), micros(c.Lease), c.token, c.queues, urgency, due, id}
}

// args are the parameters of sql/claim.sql.
func (c *claim) args() []any {
	urgency, due, id := c.starts()
	only := make([]string, len(c.Only))
	for i, x := range c.Only {
		only[i] = uuid(string(x))
	}
	return []any{
		c.Worker, c.Workspace, c.types(), c.queues, int64(c.Max - len(c.rows)), micros(c.Lease), c.token, c.Only != nil, only,
		c.running && !c.looked, urgency, due, id, c.floor,
	}
}

// read reads what a statement of a claim returns.
func (c *claim) read(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	var list []claimedRow
	var r claimedRow
	var limited, more, waiting bool
	var next, ends int64
	var last *string // of a row it is there to be evaluated; of the rest, it tells of subscriptions
	fields := append(r.fields(), &r.reclaim, &r.leaseFirst, &r.first, &r.elapsed, &r.urgency, &limited, &more, &next, &ends, &waiting, &last)
	_, err = pgx.ForEachRow(rows, fields, func() error {
		if r.id != "" {
			list = append(list, r)
			r.limitKeys = nil
			return nil
		}
		c.limited, c.more, c.told, c.waiting = limited, more, last != nil, c.waiting || waiting
		c.next = time.Duration(next) * time.Microsecond
		if more && len(c.rows)+len(list) > 0 {
			c.next = time.Microsecond
		}
		if c.running && !c.looked {
			c.ends, c.least = time.Duration(ends)*time.Microsecond, r.by
		}
		return nil
	})
	if err == nil {
		c.rows, c.looked = append(c.rows, list...), c.looked || c.running
	}
	return err
}

func (s *Store) claimFree(ctx context.Context, c *claim) error {
	return s.toldOrNot(c, func(c *claim) error {
		if !c.running && c.Only == nil {
			return c.read(s.pool.Query(ctx, s.either(s.q.claimBusy, s.q.claimBusyTold), c.busyArgs()...))
		}
		return c.read(s.pool.Query(ctx, s.either(s.q.claimFree, s.q.claimFreeTold), c.args()...))
	})
}

// lockTimeout is how long a claim waits for other claims.
const lockTimeout = "set local lock_timeout = '5s'"

func (s *Store) claimLimited(ctx context.Context, c *claim) error {
	c.ahead = false
	for i := range c.from {
		c.from[i] = first
	}
	return s.toldOrNot(c, func(c *claim) error { return s.claimLocked(ctx, c) })
}

// claimLocked is claimLimited, once.
func (s *Store) claimLocked(ctx context.Context, c *claim) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var b pgx.Batch
		b.Queue("begin isolation level read committed")
		b.Queue(lockTimeout)
		b.Queue(s.q.lock, s.lock)
		b.Queue(s.either(s.q.claimLimited, s.q.claimLimitedTold), c.args()...)
		b.Queue("commit")
		claimed := *c
		results := conn.SendBatch(ctx, &b)
		err := func() error {
			for range 3 {
				if _, err := results.Exec(); err != nil {
					return err
				}
			}
			if err := claimed.read(results.Query()); err != nil {
				return err
			}
			_, err := results.Exec()
			return err
		}()
		if closed := results.Close(); err == nil {
			err = closed
		}
		if err != nil {
			if !conn.Conn().IsClosed() {
				_, _ = conn.Exec(ctx, "rollback")
			}
			return err
		}
		*c = claimed
		return nil
	})
}

// claimed returns what was claimed, in order, with all that a worker needs.
func (s *Store) claimed(ctx context.Context, c *claim) ([]store.Claimed, error) {
	if len(c.rows) == 0 {
		return nil, nil
	}
	slices.SortFunc(c.rows, func(a, b claimedRow) int {
		if a.reclaim != b.reclaim {
			if a.reclaim {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.urgency, b.urgency), a.due.Compare(b.due), strings.Compare(a.id, b.id))
	})
	var again []string
	for i := range c.rows {
		if !c.rows[i].first {
			again = append(again, c.rows[i].id)
		}
	}
	latest := make(map[courier.ExecutionID][]courier.StepExecution)
	if len(again) > 0 {
		records, err := query(ctx, s.pool, scanStep, s.q.latest, again)
		if err != nil {
			return nil, failed("read the latest steps of what was claimed", err)
		}
		for _, r := range records {
			latest[r.Execution] = append(latest[r.Execution], r)
		}
	}
	list := make([]store.Claimed, len(c.rows))
	for i := range c.rows {
		if err := s.fill(ctx, &list[i], c, &c.rows[i]); err != nil {
			return nil, fmt.Errorf("claim execution %s: %w", c.rows[i].id, err)
		}
		list[i].Latest = latest[list[i].Execution.ID]
	}
	return list, nil
}

// fill makes a claimed execution of a row, but for its latest records.
func (s *Store) fill(ctx context.Context, to *store.Claimed, c *claim, r *claimedRow) (err error) {
	if to.Definition, err = s.definition(ctx, r.definition, r.version); err != nil {
		return err
	}
	if to.Execution, err = r.execution(to.Definition.Name); err != nil {
		return err
	}
	to.Marks, err = r.readMarks()
	to.Token, to.Seq, to.First = store.Token(c.token), r.seq, r.first
	if current := to.Execution.Current; current != nil {
		was := *current
		if to.First {
			to.Started = &was
		} else {
			to.Lost = &was
		}
	}
	if r.timeout > 0 {
		to.Remaining = time.Duration(r.timeout) - time.Duration(r.elapsed)*time.Microsecond
	}
	return err
}

// Await returns when something may have become claimable since the claim that
// returned the mark. It hears of what other processes do through LISTEN.
func (s *Store) Await(ctx context.Context, queues []string, since uint64) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	s.news.listen()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()
	err := s.bell.wait(ctx, queues, since)
	if err != nil && errors.Is(context.Cause(ctx), errClosed) {
		return errClosed
	}
	return err
}
