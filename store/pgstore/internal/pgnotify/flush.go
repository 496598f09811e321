package pgnotify

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// flushWithin is how long Close waits until all notifications are sent.
const flushWithin = time.Second

// flush sends all notifications, including those of committed transactions that were not checked
// yet. Polling finds the changes whose notifications it can't send in time.
func (n *Notifier) flush() {
	ctx, cancel := context.WithTimeout(n.ctx, flushWithin)
	defer cancel()
	if xids := n.pendingTransactions(); len(xids) > 0 {
		err := n.withConnection(ctx, func(db Querier) error { _, err := n.endTransactions(ctx, db, xids); return err })
		if err != nil && n.ctx.Err() == nil {
			n.opt.Log.Warn("read the states of transactions before closing; workers find their executions by polling", "error", err)
		}
	}
	for {
		n.mu.Lock()
		sending, idle := n.sending, n.idle
		n.mu.Unlock()
		if !sending {
			return
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return
		}
	}
}

// pendingTransactions returns the transactions that may not have ended.
func (n *Notifier) pendingTransactions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	xids := make([]string, 0, len(n.pending))
	for x := range n.pending {
		xids = append(xids, x)
	}
	return xids
}

// notify sends payloads.
func (n *Notifier) notify(payloads []string) error {
	ctx, cancel := context.WithTimeout(n.ctx, echoWithin)
	defer cancel()
	return n.withConnection(ctx, func(db Querier) error {
		return n.opt.Query(ctx, db, func(pgx.Rows) error { return nil }, n.opt.SendSQL, n.channel, payloads)
	})
}

// withConnection calls f with the pool. If the pool has no connection, because the
// caller has closed it before the store, it calls f again with a new connection.
func (n *Notifier) withConnection(ctx context.Context, f func(db Querier) error) error {
	err := f(n.opt.Pool)
	if _, answered := errors.AsType[*pgconn.PgError](err); err == nil || ctx.Err() != nil || answered {
		return err
	}
	conn, dialed := n.opt.Connect(ctx)
	if dialed != nil {
		return err
	}
	defer closeSoon(conn)
	return f(conn)
}
