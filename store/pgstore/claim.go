package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// maxRounds is how often a claim under limits repeats its statement for the
// executions that the statement could not decide on. The next claim takes the rest.
const maxRounds = 5

// Claim leases executions to a worker, in one of three ways:
//
//   - claim/queued_fast, while no limit is in force and something is probably queued;
//   - claim/queued_without_limits, which also takes over lost executions, looks at what is
//     due later, and registers the worker;
//   - claim/queued_with_limits, while a limit is in force: the same in a transaction that
//     takes a lock first, in one round trip.
//
// The first two lease nothing queued if a limit may be in force, and say so.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Claims{}, err
	}
	result := store.Claims{Mark: s.notifier.Queues.Mark(), Watched: s.notifier.Watched(r.Lease)}
	if r.Max <= 0 {
		return result, nil
	}
	c := s.newClaim(&r, result.Mark)
	started := time.Now()
	s.claims.mu.Lock()
	limited := s.claims.limited
	c.freed = s.claims.freed
	s.claims.mu.Unlock()
	var err error
	if !limited {
		err = repeat(ctx, func() error { return s.claimUnlimited(ctx, c) })
		if err == nil && !c.scansRunning && len(c.rows) < r.Max && !c.limited {
			// The queues are empty, so the next execution may come from a lease that ends.
			// If this claim finds executions, the next one scans the leases.
			if c.next = lookLater; len(c.rows) == 0 {
				c.scansRunning = true
				err = repeat(ctx, func() error { return s.claimUnlimited(ctx, c) })
			}
		}
	}
	limited = limited || c.limited
	c.scansRunning = c.scansRunning || c.limited && c.notified // only the wake-up kept it from scanning
	for n := 0; err == nil && limited && len(c.rows) < r.Max && n < maxRounds; n++ {
		err = repeat(ctx, func() error { return s.claimLimited(ctx, c) })
		limited = c.more
	}
	if err != nil {
		return store.Claims{}, failed("claim", err)
	}
	if s.claims.record(c, started) {
		s.wg.Go(func() { s.probe(c) })
	}
	if len(c.rows) < r.Max {
		result.Next = s.claims.next(c)
	}
	if c.blocked && s.claims.freedSince(c) {
		result.Next = time.Microsecond // nobody was woken, since it was not known that the claim is blocked
	}
	if c.Only == nil {
		s.notifier.Claimed(c.queues, len(c.rows) < c.Max)
		if c.blocked && len(c.rows) < r.Max && s.notifier.AnnounceBlocked() && (result.Next == 0 || result.Next > pgnotify.BlockedRetry) {
			result.Next = pgnotify.BlockedRetry
		}
	}
	if c.waiting && s.releaseWaiting(ctx) && len(c.rows) < r.Max {
		result.Next = time.Microsecond
	}
	if result.List, err = s.claimed(ctx, c); err != nil {
		return store.Claims{}, err
	}
	result.Subscribed, result.Unclaimed = s.subscribed.Load(), s.registry.left.Load()
	return result, nil
}

// A claim is a ClaimRequest that is being carried out. newClaim chooses how it begins from the
// results of earlier claims. Without these choices a claim is also correct, but slower:
//
//   - claim/queued_fast instead of the general statement, after a notification or if the last
//     claim got all it could take: 17 % of 64 executions of 10 steps at once, 11 % of 100 of one
//     step. The general statement also looks at leases and at what is due later.
//   - Limits in a statement and a lock of their own: promise P5 needs the lock, which lets one
//     claim at a time through.
//   - Begin behind the last claimed row while claims are slow (6 ms more than a round trip,
//     three times in a row), with the probe beside it: after ten minutes of an open transaction
//     2.5 s for a claim become 6 ms. The probe takes a twentieth of the time, and up to a fifth
//     where a lease would be taken over late. There is none for a server that is far away.
//     Claims also begin there once their walks over dead entries take a tenth of the time: with
//     250,000 such entries in a table of 5,000,000 executions, 3.8 ms become 1.2.
//   - A commit that is not waited for, unless a step starts: one of the waits for the disk of an
//     execution that a resume or a retry starts. If the server loses the claim, it loses the
//     lease too; a lost start would let a step be executed twice as the same attempt.
//   - A wait of up to 5 ms for more slots: half of the claims.
//
// The first claim of an execution that has waited for nothing but its turn starts its first step:
// one write of three less for one step, of twelve for ten.
type claim struct {
	*store.ClaimRequest
	scope     string // the workspace, the queues and the step types
	scopeHash string // of the queues and the step types
	mark      uint64 // of the wake-ups, before the claim
	freed     int    // claimState.freed before the claim
	token     string
	queues    []string

	notified     bool // a wake-up came since the last claim, so queued executions matter most
	scansRunning bool // it looks for leases that have ended, which walks over all running executions
	scanned      bool // it has done so: an execution that it leases itself may have a short lease
	register     bool // it registers the worker, and checks whether executions are left
	keepsEvents  bool // somebody has subscribed to events, as far as is known

	// While claims are slow because of an old snapshot, they begin ahead; see claimState.
	skipsClaimed bool
	from         []place  // where the claim begins in each queue
	suspects     []string // the running executions that are checked; nil: all

	findings
}

// findings are the results of the statements of a claim.
type findings struct {
	rows       []claimedRow
	limited    bool          // a limit is in force
	more       bool          // another claim would find more
	subscribed bool          // somebody has subscribed to events, and nothing was claimed because no events are kept
	left       bool          // executions are due that the claim did not take
	waiting    bool          // executions wait for other jobs
	blocked    bool          // a limit seems to keep executions from being claimed
	took       time.Duration // the time of the longest statement
	walked     time.Duration // the part of it that was the walk over rows claimed before, as far as it was measured
	next       time.Duration // until the next execution is due; 0: not known
	ends       time.Duration // until the next lease ends; 0: not known
}

// A claimedRow is a row that was claimed.
type claimedRow struct {
	row
	reclaim, first bool
	leaseFirst     int64
	elapsed        int64 // microseconds of the timeout
	urgency        int32
}

func (s *Store) newClaim(r *store.ClaimRequest, mark uint64) *claim {
	c := &claim{ClaimRequest: r, mark: mark, token: randomUUID()}
	for _, q := range r.Queues {
		if !slices.Contains(c.queues, q) {
			c.queues = append(c.queues, q)
		}
	}
	can := fmt.Sprintf("%q %q", c.queues, r.StepTypes)
	c.scope, c.scopeHash = r.Workspace+" "+can, fmt.Sprintf("%x", sha256.Sum256([]byte(can)))[:16]
	c.register = r.Only == nil && s.registry.due(r.Worker)
	k := &s.claims
	k.mu.Lock()
	defer k.mu.Unlock()
	known := r.Only == nil && k.scope == c.scope
	recent := time.Now().Before(k.nextScan)
	c.notified = known && !k.limited && mark != k.mark && (k.scanned || recent)
	c.scansRunning = !c.notified && !(known && k.busy && recent)
	c.skipsClaimed = known && !k.limited && k.probe != nil
	if c.skipsClaimed {
		c.suspects = k.suspects
	}
	for _, q := range c.queues {
		c.from = append(c.from, k.start(q, c.skipsClaimed))
	}
	return c
}

func randomUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// starts returns the places at which the claim begins, as parameters.
func (c *claim) starts() (urgency []int32, due, id []string) {
	urgency, due, id = make([]int32, len(c.from)), make([]string, len(c.from)), make([]string, len(c.from))
	for i, p := range c.from {
		urgency[i], due[i], id[i] = p.urgency, p.due, p.id
	}
	return urgency, due, id
}

// queuedArgs returns the parameters of sql/claim/queued_fast.sql.
func (c *claim) queuedArgs() []any {
	urgency, due, id := c.starts()
	return []any{c.Worker, c.Workspace, textsOf(c.StepTypes), int64(c.Max), micros(c.Lease), c.token, c.queues, urgency, due, id}
}

// args returns the parameters of sql/claim/queued_with_limits.sql, and of the statement without
// limits.
func (c *claim) args() []any {
	urgency, due, id := c.starts()
	only := make([]string, len(c.Only))
	for i, x := range c.Only {
		only[i] = bind.ID(string(x))
	}
	return []any{
		c.Worker, c.Workspace, textsOf(c.StepTypes), c.queues, int64(c.Max - len(c.rows)), micros(c.Lease), c.token, c.Only != nil, only,
		c.scansRunning && !c.scanned, urgency, due, id, c.suspects, c.register,
		int32(c.Slots), c.Version, moment(c.StartedAt),
	}
}

// read reads the result of a statement of a claim.
func (c *claim) read(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	var list []claimedRow
	var r claimedRow
	var limited, more, waiting, held bool
	var next, ends, walked int64
	var last *string // in the row without an id: not null if somebody has subscribed
	fields := append(r.fields(), &r.reclaim, &r.leaseFirst, &r.first, &r.elapsed, &r.urgency, &limited, &more, &next, &ends, &waiting, &held, &walked, &last)
	_, err = pgx.ForEachRow(rows, fields, func() error {
		if r.id != "" {
			list = append(list, r)
			c.walked = max(c.walked, time.Duration(walked)*time.Microsecond)
			r.limitKeys = nil
			return nil
		}
		c.limited, c.more, c.left, c.blocked, c.subscribed, c.waiting = limited, more, r.reclaim, held, last != nil, c.waiting || waiting
		c.next = time.Duration(next) * time.Microsecond
		if more && len(c.rows)+len(list) > 0 {
			c.next = time.Microsecond
		}
		if c.scansRunning && !c.scanned {
			c.ends = time.Duration(ends) * time.Microsecond
		}
		return nil
	})
	if err == nil {
		c.rows, c.scanned = append(c.rows, list...), c.scanned || c.scansRunning
	}
	return err
}

func (s *Store) claimUnlimited(ctx context.Context, c *claim) error {
	return s.retryIfSubscribed(c, func(c *claim) error {
		if !c.scansRunning && c.Only == nil {
			return s.sendClaim(ctx, c, "claim/queued_fast", c.queuedArgs())
		}
		return s.workerRegistered(c, s.sendClaim(ctx, c, "claim/queued_without_limits", c.args()))
	})
}

// lockTimeout sets how long a claim waits for other claims under limits.
const lockTimeout = "set local lock_timeout = '5s'"

func (s *Store) claimLimited(ctx context.Context, c *claim) error {
	c.skipsClaimed = false
	for i := range c.from {
		c.from[i] = first
	}
	return s.retryIfSubscribed(c, func(c *claim) error {
		lock := []statement{{lockTimeout, nil}, {s.sql("claim/lock_limits"), []any{s.lock}}}
		return s.workerRegistered(c, s.sendClaim(ctx, c, "claim/queued_with_limits", c.args(), lock...))
	})
}

// sendClaim sends a statement that claims, after others in the same transaction. Args lacks the
// last parameter, which says whether events are kept. With events it takes a second round trip,
// because the claimed executions are known only after the first.
func (s *Store) sendClaim(ctx context.Context, c *claim, name string, args []any, before ...statement) error {
	args = append(args, c.keepsEvents)
	if len(before) == 0 && !c.keepsEvents {
		return c.read(s.pool.Query(ctx, s.sql(name), args...))
	}
	return s.pool.with(ctx, func(conn *session) error {
		var b pgx.Batch
		b.Queue("begin isolation level read committed")
		for _, q := range before {
			b.Queue(q.sql, q.args...)
		}
		b.Queue(s.sql(name), args...)
		if !c.keepsEvents {
			b.Queue("commit")
		}
		claimed := *c
		err := sent(conn.SendBatch(ctx, &b), func(results pgx.BatchResults) error {
			for range 1 + len(before) {
				if _, err := results.Exec(); err != nil {
					return err
				}
			}
			return claimed.read(results.Query())
		})
		if err == nil && c.keepsEvents {
			err = s.keepClaimEvents(ctx, conn, claimed.rows[len(c.rows):])
		}
		if err != nil {
			if !conn.IsClosed() {
				_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback")
			}
			return err
		}
		*c = claimed
		return nil
	})
}

// keepClaimEvents keeps the events of a claim, and commits it.
func (s *Store) keepClaimEvents(ctx context.Context, conn *session, rows []claimedRow) error {
	var b pgx.Batch
	if len(rows) > 0 {
		ids, numbers := make(bind.UUIDs, len(rows)), make([]int64, len(rows))
		for i := range rows {
			ids[i], numbers[i] = bind.UUIDOf(rows[i].id), rows[i].leaseFirst-1
		}
		keep := s.keepEvents(ids, numbers, true, true)
		b.Queue(keep.sql, keep.args...)
	}
	b.Queue("commit")
	return conn.SendBatch(ctx, &b).Close()
}

// claimed returns the claimed executions, in order, with all data that a worker needs.
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
		records, err := query(ctx, s.pool, scanStep, s.sql("execution/list_latest_steps"), again, int64(math.MaxInt64))
		if err != nil {
			return nil, failed("read the latest steps of claimed executions", err)
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

// fill sets a claimed execution from its row, except for the latest step executions.
func (s *Store) fill(ctx context.Context, to *store.Claimed, c *claim, r *claimedRow) (err error) {
	if to.Definition, err = s.definition(ctx, r.definition, r.version); err != nil {
		return err
	}
	if to.Execution, err = r.execution(to.Definition.Name); err != nil {
		return err
	}
	if to.Progress, err = r.readProgress(); err != nil {
		return err
	}
	if to.Counters, err = r.readCounters(); err != nil {
		return err
	}
	to.Token, to.Seq, to.First, to.Reclaimed = store.Token(c.token), r.seq, r.first, r.reclaim
	if current := to.Execution.Current; current != nil {
		was := *current
		was.Progress = nil
		if to.First {
			to.Started = &was
		} else {
			to.Lost = &was
		}
	}
	if to.Finish, err = r.finish(); err != nil {
		return err
	}
	timeout := time.Duration(r.timeout)
	if to.Finish != nil {
		timeout = to.Finish.Timeout
	}
	if timeout > 0 {
		to.Remaining = timeout - time.Duration(r.elapsed)*time.Microsecond
	}
	return nil
}

// Await returns when an execution may have become claimable since the claim that
// returned the mark. It notices changes of other processes through LISTEN.
func (s *Store) Await(ctx context.Context, queues []string, since uint64) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.notifier.Listen()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()
	err := s.notifier.Queues.Wait(ctx, queues, since)
	if err != nil && errors.Is(context.Cause(ctx), errClosed) {
		return errClosed
	}
	return err
}
