package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// changesMember reports whether a transition changes the state of the member, if its execution is a
// member of a chain.
func changesMember(t *store.Transition) bool {
	return t.To != courier.Running && t.To != courier.Queued
}

// applyMember writes a transition that ends or pauses a member, and advances its
// chain execution in the same transaction. It takes a connection and two round trips:
// the first locks the chain execution and writes the transition, the second advances
// the chain execution.
func (s *Store) applyMember(ctx context.Context, t *store.Transition, chain courier.ChainExecutionID) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin(transitionBytes(t)))
	defer cancel()
	a := &applyCall{t: t}
	for range maxAgain {
		var written bool
		var queues []string
		err := repeat(ctx, func() error {
			return s.pool.with(ctx, func(conn *session) (err error) {
				if written, queues, err = s.applyLocked(ctx, conn, t, chain); err != nil || !written {
					if !conn.IsClosed() {
						_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback")
					}
				}
				return err
			})
		})
		if err != nil {
			return a.failed(s, err)
		}
		if written {
			s.transitionWritten(t)
			s.notifyQueues(ctx, queues)
			return nil
		}
		standings, err := s.leaseStates(ctx, s.pool, []string{bind.ID(string(t.Execution))})
		if err != nil {
			return failed(fmt.Sprintf("read how %s stands", t.Execution), err)
		}
		st, ok := standings[t.Execution]
		if !ok {
			return unknown(t.Execution)
		}
		if write, err := admit(t, st); err != nil || !write {
			return err
		}
		chain = st.chain // the caller may have been wrong
	}
	return a.failed(s, errors.New("the execution kept being changed"))
}

// applyLocked writes a transition under the lock of a chain execution, and
// reports whether it was written and in which queues members were released.
func (s *Store) applyLocked(ctx context.Context, conn *session, t *store.Transition, chain courier.ChainExecutionID) (written bool, queues []string, err error) {
	plan := s.plans.kept(chain)
	var b pgx.Batch
	b.Queue("begin isolation level read committed")
	b.Queue(lockTimeout)
	b.Queue(s.sql("chain/lock"), bind.ID(string(chain)), plan == nil, bind.ID(string(t.Execution)))
	batch := []*applyCall{{t: t}}
	checkpoint := s.checkpoint("checkpoint/write", batch, applyArgs(batch, courier.ChainExecutionID(bind.ID(string(chain)))))
	b.Queue(checkpoint[0].sql, checkpoint[0].args...)
	var c *chainRow
	var awaited bool
	err = sent(conn.SendBatch(ctx, &b), func(r pgx.BatchResults) error {
		for range 2 {
			if _, err := r.Exec(); err != nil {
				return err
			}
		}
		var err error
		if c, err = s.scanChain(r.QueryRow()); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		rows, err := r.Query()
		if err != nil {
			return err
		}
		var ord int32
		_, err = pgx.ForEachRow(rows, []any{&ord, &awaited}, func() error {
			written = true
			return nil
		})
		return err
	})
	if err != nil || !written {
		return false, nil, err
	}
	var end pgx.Batch
	for _, q := range checkpoint[1:] {
		end.Queue(q.sql, q.args...)
	}
	if c != nil && c.member == "" {
		c = nil // it is not a member of that chain execution
	}
	if c != nil {
		if c.plan == nil {
			c.plan = plan
		}
		next, release := evaluateChain(c, t.To)
		end.Queue(s.sql("chain/advance"), chainWriteArgs(c.id, c.plan, next, release, "", t.Execution)...)
	}
	end.Queue("commit")
	err = sent(conn.SendBatch(ctx, &end), func(r pgx.BatchResults) error {
		for range checkpoint[1:] {
			if _, err := r.Exec(); err != nil {
				return err
			}
		}
		if c != nil {
			rows, err := r.Query()
			if err != nil {
				return err
			}
			if queues, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
				return err
			}
		}
		_, err := r.Exec()
		return err
	})
	if awaited {
		queues = append(queues, waitingQueue)
	}
	return err == nil, queues, err
}

// evaluateChain returns the next state of a chain execution and the members to release. It is
// called after the locked member's execution has entered a state.
func evaluateChain(c *chainRow, to courier.State) (next chain.Progress, release []int) {
	return c.plan.Evaluate(c.standing.Moved(c.plan.Index(c.member), to))
}

// memberMoved advances a chain execution that is locked after a request to the
// execution of a member. It returns the queues in which other members were released.
func (s *Store) memberMoved(ctx context.Context, tx pgx.Tx, c *chainRow, x *courier.Execution) ([]string, error) {
	next, release := evaluateChain(c, x.State)
	return s.writeChain(ctx, tx, c.id, c.plan, next, release, "", x.ID)
}

// RequestChain carries out a request to a chain execution in a short transaction: lock,
// decide, write.
func (s *Store) RequestChain(ctx context.Context, r chain.Request) (chain.Execution, []courier.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return chain.Execution{}, nil, err
	}
	var a chainAsk
	err := repeat(ctx, func() error {
		a = chainAsk{s: s, r: &r}
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error { return a.carryOut(ctx, tx) })
	})
	if e, ok := errors.AsType[contractError](err); ok {
		return chain.Execution{}, nil, e.error
	}
	if err != nil {
		return chain.Execution{}, nil, failed(fmt.Sprintf("%s chain execution %s", r.Kind, r.Chain), err)
	}
	s.notifyQueues(ctx, a.queues)
	if a.freed {
		s.slotFreed()
	}
	return a.view, a.asked, nil
}

// A chainAsk is a ChainRequest that is being carried out.
type chainAsk struct {
	s      *Store
	r      *chain.Request
	now    string
	rows   map[int]*row // of members' latest executions
	latest map[int]*courier.Execution
	lost   map[int]bool // whose lease has ended
	// unended refuses a chain execution that has failed or is being cancelled, too.
	unended bool

	view   chain.Execution
	asked  []courier.Execution
	queues []string
	freed  bool
}

func (a *chainAsk) carryOut(ctx context.Context, tx pgx.Tx) error {
	s, r := a.s, a.r
	c, err := a.lock(ctx, tx)
	if errors.Is(err, pgx.ErrNoRows) {
		return contractError{unknownChain(r.Chain)}
	}
	if err != nil {
		return err
	}
	if a.unended && (c.standing.State.Ended() || c.standing.Request == r.Kind) {
		return contractError{&chain.RequestError{Chain: c.id, State: c.standing.State, Kind: r.Kind}}
	}
	d, err := c.plan.Decide(c.id, c.standing, r.Kind, func(i int) (*courier.Execution, bool) { return a.latest[i], a.lost[i] })
	if err == nil && len(d.Restarted) > 0 && len(r.IDs) != len(c.standing.Members) {
		err = courier.Errorf(courier.ErrInvalid, "retry of chain execution %s: %d ids for %d members", c.id, len(r.IDs), len(c.standing.Members))
	}
	if err != nil {
		return contractError{err}
	}
	after, err := a.askMembers(ctx, tx, d.Requests)
	if err != nil {
		return err
	}
	if a.asked, err = s.withJobNames(ctx, tx, after); err != nil {
		return err
	}
	for i, ask := range d.Requests {
		if ask.Decision.To == courier.Queued || ask.Decision.Due(a.latest[ask.Member].State) {
			a.queues = append(a.queues, a.asked[i].Queue)
		}
		if after[i].mayRelease() {
			a.queues = append(a.queues, waitingQueue)
		}
		a.freed = a.freed || ask.Decision.To != "" && a.latest[ask.Member].State == courier.Running
	}
	if len(d.Restarted) > 0 {
		ords, ids := make([]int32, len(d.Restarted)), make([]string, len(d.Restarted))
		for k, i := range d.Restarted {
			ords[k], ids[k] = int32(i), string(r.IDs[i])
		}
		if _, err := tx.Exec(ctx, s.sql("chain/retry_members"), string(c.id), ords, ids); err != nil {
			return err
		}
	}
	next, release := c.plan.Evaluate(d.Next)
	queues, err := s.writeChain(ctx, tx, c.id, c.plan, next, append(release, d.Restarted...), a.now, "")
	if err != nil {
		return err
	}
	a.queues = append(a.queues, queues...)
	all, err := s.chainsByID(ctx, tx, []courier.ChainExecutionID{c.id})
	if err == nil {
		a.view = *all[c.id]
	}
	return err
}

// lock locks the chain execution and then the executions of its members. It reads
// them, and the time after that.
func (a *chainAsk) lock(ctx context.Context, tx pgx.Tx) (c *chainRow, err error) {
	id := bind.ID(string(a.r.Chain))
	var b pgx.Batch
	b.Queue(a.s.sql("chain/lock"), id, true, "")
	b.Queue(a.s.sql("chain/lock_members"), id)
	b.Queue(a.s.sql("chain/read_clock"))
	var rows []row
	var ords []int
	err = sent(tx.SendBatch(ctx, &b), func(results pgx.BatchResults) error {
		if c, err = a.s.scanChain(results.QueryRow()); err != nil {
			return err
		}
		found, err := results.Query()
		if err != nil {
			return err
		}
		a.lost = make(map[int]bool)
		var r row
		var lost bool
		var ord int
		_, err = pgx.ForEachRow(found, append(r.fields(), &lost, &ord), func() error {
			rows, ords = append(rows, r), append(ords, ord)
			a.lost[ord] = lost
			r = row{}
			return nil
		})
		if err != nil {
			return err
		}
		var now time.Time
		err = results.QueryRow().Scan(&now)
		a.now = now.UTC().Format(time.RFC3339Nano)
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := a.s.withJobNames(ctx, tx, rows)
	a.rows, a.latest = make(map[int]*row), make(map[int]*courier.Execution)
	for i := range list {
		a.rows[ords[i]], a.latest[ords[i]] = &rows[i], &list[i]
	}
	return c, err
}

// askMembers carries out requests to the executions of members, and returns
// their rows.
func (a *chainAsk) askMembers(ctx context.Context, tx pgx.Tx, asks []chain.MemberRequest) ([]row, error) {
	if len(asks) == 0 {
		return nil, nil
	}
	var b pgx.Batch
	ids, numbers := make(bind.UUIDs, len(asks)), make([]int64, len(asks))
	for i, ask := range asks {
		x := a.latest[ask.Member]
		ids[i], numbers[i] = bind.UUIDOf(string(x.ID)), a.rows[ask.Member].seq+1
		args, err := requestArgs(a.rows[ask.Member], x, ask.Decision, store.Request{Execution: x.ID, Kind: ask.Kind, By: a.r.By, Reason: a.r.Reason}, a.now)
		if err != nil {
			return nil, err
		}
		b.Queue(a.s.sql("request/carry_out"), args...)
	}
	keep := a.s.keepEvents(ids, numbers, false, false)
	b.Queue(keep.sql, keep.args...)
	after := make([]row, len(asks))
	err := sent(tx.SendBatch(ctx, &b), func(results pgx.BatchResults) error {
		for i := range after {
			if err := results.QueryRow().Scan(after[i].fields()...); err != nil {
				return err
			}
		}
		_, err := results.Exec()
		return err
	})
	return after, err
}
