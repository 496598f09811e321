package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// flushWithin is how long Close waits until all notifications are sent.
const flushWithin = time.Second

// flush sends all notifications, also those of transactions that have committed and
// were not looked at yet. Polling finds what it can't send in time.
func (n *notifier) flush() {
	ctx, cancel := context.WithTimeout(n.s.ctx, flushWithin)
	defer cancel()
	if xids := n.pendingTransactions(); len(xids) > 0 {
		err := n.withConnection(ctx, func(db querier) error { _, err := n.endTransactions(ctx, db, xids); return err })
		if err != nil && n.s.ctx.Err() == nil {
			n.s.log.Warn("ask which transactions have committed, before closing; what they enqueued is found by polling", "error", err)
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

// pendingTransactions returns the transactions that are not known to have ended.
func (n *notifier) pendingTransactions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	xids := make([]string, 0, len(n.pending))
	for x := range n.pending {
		xids = append(xids, x)
	}
	return xids
}

// notify sends payloads.
func (n *notifier) notify(payloads []string) error {
	ctx, cancel := context.WithTimeout(n.s.ctx, echoWithin)
	defer cancel()
	return n.withConnection(ctx, func(db querier) error {
		_, err := query(ctx, db, func(pgx.Rows) (none struct{}, err error) { return none, nil }, n.s.sql("notify/send"), n.channel, payloads)
		return err
	})
}

// withConnection calls f with the pool. If the pool has no connection, because the
// caller has closed it before the store, it calls f again with a new connection.
func (n *notifier) withConnection(ctx context.Context, f func(db querier) error) error {
	err := f(n.s.pool)
	if err == nil || ctx.Err() != nil || code(err) != "" {
		return err
	}
	conn, dialed := connect(ctx, n.s.pool)
	if dialed != nil {
		return err
	}
	defer closeSoon(conn)
	return f(conn)
}
