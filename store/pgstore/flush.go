package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// flushWithin is how long Close waits until all is told.
const flushWithin = time.Second

// flush tells what there is to tell, also of transactions that have committed and
// were not asked for yet. What is not told by then is found by polling.
func (n *news) flush() {
	ctx, cancel := context.WithTimeout(n.s.ctx, flushWithin)
	defer cancel()
	if xids := n.watchedXids(); len(xids) > 0 {
		err := n.anyhow(ctx, func(db querier) error { _, err := n.over(ctx, db, xids); return err })
		if err != nil && n.s.ctx.Err() == nil {
			n.s.log.Warn("ask which transactions have committed, before closing; what they enqueued is found by polling", "error", err)
		}
	}
	for {
		n.mu.Lock()
		telling, told := n.telling, n.told
		n.mu.Unlock()
		if !telling {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
	}
}

// watchedXids returns the transactions that are not known to be over.
func (n *news) watchedXids() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	xids := make([]string, 0, len(n.pending))
	for x := range n.pending {
		xids = append(xids, x)
	}
	return xids
}

// notify sends payloads.
func (n *news) notify(payloads []string) error {
	ctx, cancel := context.WithTimeout(n.s.ctx, echoWithin)
	defer cancel()
	return n.anyhow(ctx, func(db querier) error {
		_, err := query(ctx, db, func(pgx.Rows) (none struct{}, err error) { return none, nil }, n.s.q.notify, n.channel, payloads)
		return err
	})
}

// anyhow calls f with the pool, and once more with a connection of its own where the
// pool gives none: it may have been closed before the store.
func (n *news) anyhow(ctx context.Context, f func(db querier) error) error {
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
