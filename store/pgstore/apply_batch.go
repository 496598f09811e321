package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// writeBatch writes transitions of different executions, in the order of their ids, and returns the
// results to the callers. Most are written by the cheaper statement. Transitions that it does not
// write are sent with the others.
func (s *Store) writeBatch(ctx context.Context, db querier, batch []*applyCall) {
	var plain, others []*applyCall
	for _, a := range batch {
		if a.progresses() {
			plain = append(plain, a)
		} else {
			others = append(others, a)
		}
	}
	if len(plain) > 0 {
		if left := s.progress(ctx, db, plain); len(left) > 0 {
			others = append(others, left...)
			slices.SortFunc(others, func(a, b *applyCall) int { return cmp.Compare(a.t.Execution, b.t.Execution) })
		}
	}
	s.writeAll(ctx, db, others)
}

// progress writes transitions by sql/checkpoint/write_fast.sql. It returns those that
// the statement did not write.
func (s *Store) progress(ctx context.Context, db querier, batch []*applyCall) []*applyCall {
	left, err := s.send(ctx, db, batch, s.checkpoint("checkpoint/write_fast", batch, progressArgs(batch)))
	switch {
	case err == nil:
		return left
	case again(err) || refused(err):
		return batch
	}
	for _, a := range batch {
		a.done <- a.failed(s, err)
	}
	return nil
}

// writeAll writes transitions of any kind by sql/checkpoint/write.sql.
func (s *Store) writeAll(ctx context.Context, db querier, batch []*applyCall) {
	for n := 0; len(batch) > 0; n++ {
		others, err := s.writeOnce(ctx, db, batch)
		switch {
		case err == nil && n < maxAgain:
			batch = others
			continue
		case err == nil:
			err = errors.New("the execution kept being changed")
		case again(err) && n < maxAgain:
			continue
		case refused(err) && len(batch) > 1:
			// The server refuses one of them. The others are written one by one.
			for i := range batch {
				s.writeAll(ctx, db, batch[i:i+1])
			}
			return
		}
		for _, a := range batch {
			a.done <- a.failed(s, err)
		}
		return
	}
}

// failed is the error of a transition that could not be written. It names the role,
// since other roles may have the rights that this one lacks.
func (a *applyCall) failed(s *Store, err error) error {
	what := fmt.Sprintf("write transition %d of %s", a.t.Seq, a.t.Execution)
	if code(err) != "" {
		what += fmt.Sprintf(", connected as role %q", s.pool.unchecked.Config().ConnConfig.User)
	}
	return failed(what, err)
}

// checkpoint returns a statement that writes transitions, and the statements that must follow it.
// Args lacks the last parameter, which says whether events are kept.
func (s *Store) checkpoint(name string, batch []*applyCall, args []any) []statement {
	subscribed, trail := s.subscribed.Load(), leaveTrail(batch)
	list := []statement{{s.sql(name), append(args, subscribed)}}
	if !subscribed && !trail {
		return list
	}
	ids, numbers := make(bind.UUIDs, len(batch)), make([]int64, len(batch))
	for i, a := range batch {
		ids[i], numbers[i] = bind.UUIDOf(string(a.t.Execution)), a.t.Seq
	}
	if trail {
		list = append(list, statement{s.sql("trail/keep"), []any{ids, numbers}})
	}
	if subscribed {
		list = append(list, s.keepEvents(ids, numbers, false, true))
	}
	return list
}

// send writes transitions, and returns the results to the callers of the written ones. It returns
// the transitions that were not written.
func (s *Store) send(ctx context.Context, db querier, batch []*applyCall, list []statement) (left []*applyCall, err error) {
	written, awaited := make([]bool, len(batch)), make([]bool, len(batch))
	var ord int32
	var ended bool
	err = sendAll(ctx, db, list, []any{&ord, &ended}, func() error {
		written[ord-1], awaited[ord-1] = true, ended
		return nil
	})
	if err != nil {
		return nil, err
	}
	var opening []*applyCall
	for i, a := range batch {
		if !written[i] {
			left = append(left, a)
			continue
		}
		s.transitionWritten(a.t)
		if awaited[i] {
			opening = append(opening, a)
			continue
		}
		a.done <- nil
	}
	if len(opening) > 0 {
		s.wg.Go(func() { // the others need not wait for it
			s.releaseWaiting(s.ctx)
			for _, a := range opening {
				a.done <- nil
			}
		})
	}
	return left, nil
}

// writeOnce sends sql/checkpoint/write.sql and returns the result to the callers whose transitions
// are written or refused. It returns the others, which a concurrent change has prevented.
func (s *Store) writeOnce(ctx context.Context, db querier, batch []*applyCall) ([]*applyCall, error) {
	left, err := s.send(ctx, db, batch, s.checkpoint("checkpoint/write", batch, applyArgs(batch, "")))
	if err != nil || len(left) == 0 {
		return nil, err
	}
	ids := make([]string, len(left))
	for i, a := range left {
		ids[i] = bind.ID(string(a.t.Execution))
	}
	standings, err := s.leaseStates(ctx, db, ids)
	var others []*applyCall
	for _, a := range left {
		if err != nil {
			a.done <- failed(fmt.Sprintf("read how %s stands", a.t.Execution), err)
			continue
		}
		st, ok := standings[a.t.Execution]
		if !ok {
			a.done <- unknown(a.t.Execution)
			continue
		}
		switch write, err := admit(a.t, st); {
		case err != nil || !write:
			a.done <- err
		case st.chain != "" && changesMember(a.t):
			s.wg.Go(func() { a.done <- s.applyMember(s.ctx, a.t, st.chain) })
		default:
			others = append(others, a)
		}
	}
	return others, nil
}

// transitionWritten wakes the workers that may be able to claim after a transition.
func (s *Store) transitionWritten(t *store.Transition) {
	switch t.To {
	case courier.Running:
		return
	case courier.Queued:
		s.notifyRequeued(t)
	}
	s.slotFreed()
}

// A leaseState is the lease of an execution, and the chain execution to which it belongs.
type leaseState struct {
	store.LeaseState
	chain courier.ChainExecutionID
}

// admit is t.Admit for a lease in the form of the database.
func admit(t *store.Transition, st leaseState) (bool, error) {
	same := *t
	same.Lease = store.Token(bind.ID(string(t.Lease)))
	return same.Admit(st.LeaseState)
}

// leaseStates returns the leases of executions.
func (s *Store) leaseStates(ctx context.Context, db querier, ids []string) (map[courier.ExecutionID]leaseState, error) {
	m := make(map[courier.ExecutionID]leaseState, len(ids))
	var subscribed bool
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var id courier.ExecutionID
		var st leaseState
		err = rows.Scan(&id, &st.State, &st.Lease, &st.First, &st.Last, &st.Seq, &st.Request, &st.By, &st.chain, &subscribed)
		m[id] = st
		return none, err
	}, s.sql("lease/get_state"), ids)
	if subscribed {
		s.subscribed.Store(true)
	}
	return m, err
}
