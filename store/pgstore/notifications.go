package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// newNotifier returns the notifier of the store.
func (s *Store) newNotifier() *pgnotify.Notifier {
	return pgnotify.New(pgnotify.Options{
		Pool:     s.pool,
		Schema:   s.opt.Schema,
		ID:       randomUUID(),
		PollOnly: s.opt.PollOnly,
		Log:      s.log,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			c, err := connect(ctx, s.pool.unchecked)
			if err != nil {
				return nil, err
			}
			return c.Conn, nil
		},
		Query: func(ctx context.Context, db pgnotify.Querier, row func(pgx.Rows) error, sql string, args ...any) error {
			_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) { return none, row(rows) }, sql, args...)
			return err
		},
		SendSQL:              s.sql("notify/send"),
		TransactionStatesSQL: s.sql("notify/transaction_states"),
		ReleaseWaiting:       func(ctx context.Context) { s.releaseWaiting(ctx) },
		ClaimScope:           s.claims.hash,
		ClaimTime:            s.claims.duration,
	})
}

// slotFreed wakes the workers that a limit keeps from claiming, here and in other stores, because
// an execution has ended.
func (s *Store) slotFreed() {
	s.claims.mu.Lock()
	s.claims.freed++
	limited := s.claims.limited || s.claims.blocked
	s.claims.mu.Unlock()
	if limited {
		s.notifier.Queues.WakeAll()
	}
	if limited || s.notifier.OthersBlocked() {
		s.notifier.AnyQueueChanged()
	}
}

// notifyRequeued wakes the workers for an execution that went back to its queue.
func (s *Store) notifyRequeued(t *store.Transition) {
	// The transition does not name the queue. An unnecessary claim does no harm.
	s.notifier.Queues.WakeAll()
	if t.Delay == 0 {
		s.notifier.AnyQueueChanged()
	}
}
