package pgstore

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store"
)

// notifier sends NOTIFY to the other stores on the schema when an execution may have
// become claimable, and receives theirs through LISTEN. Notifications only shorten
// the wait: polling finds what they miss.
//
// A notification names a queue. It is sent in a statement of its own after the
// commit, because a transaction with a NOTIFY takes a lock that all commits with one
// wait for; see notifier_inline.go for the exception. While one statement is under
// way, and for [notifyEvery] after it, payloads are collected for the next.
type notifier struct {
	s       *Store
	channel string
	self    string // begins every payload that this store sends

	mu       sync.Mutex
	payloads map[string]bool // to be sent
	sending  bool
	idle     chan struct{} // closed when no payload is left to send
	inline   inlineState
	pending  map[string]pending // open transactions that have enqueued, by transaction id
	polling  bool               // pollTransactions runs

	announced       time.Time // when this store last sent blocked
	othersBlockedAt time.Time // when another store last did

	listening bool
	echoedAt  time.Time     // when the last echo that came back was sent
	echoed    chan struct{} // an echo came back

	// When many stores receive the same notification, only few of them should claim.
	// Each waits for a random time, which grows with the number of stores, and the
	// one that empties the queue notifies the others.
	peers   map[string]time.Time     // the other stores that listen, and when each last sent something
	delayed map[string]chan struct{} // wake-ups of a queue that wait; closing one cancels it
	woken   map[string]bool          // queues with a wake-up that no claim has followed yet
}

// A payload is the id of the sender, one of these letters, and what the letter needs.
const (
	queueChanged    = "q" // an execution may be claimable in the queue that follows
	queueEmptied    = "e" // a claim has emptied a queue; a hash of what it could claim and the queue follow
	allQueues       = "*" // executions may be claimable in any queue
	scheduleChanged = "s" // a schedule or a monitor was put
	blocked         = "h" // a limit keeps the sender from claiming
	echo            = "?" // the sender tests whether its notifications come back
)

const (
	notifyEvery   = 5 * time.Millisecond   // the least time between two statements
	echoEvery     = 20 * time.Second       // the time between two echoes
	echoWithin    = 5 * time.Second        // how long an echo may take
	watchedFor    = 15 * time.Second       // see [store.Claims].Watched
	relisten      = 30 * time.Second       // the time between attempts to listen where notifications do not arrive
	maxWakeDelay  = time.Second            // the longest random delay of a wake-up
	peerTimeout   = 3 * echoEvery          // a store that has sent nothing for this long is gone
	maxPayload    = 7000                   // bytes; PostgreSQL takes 8000
	maxPollOpenTx = 200 * time.Millisecond // the longest time between two looks at pending transactions
)

func (n *notifier) init(s *Store) {
	n.s = s
	n.channel = "courier_" + s.opt.Schema
	if len(n.channel) > 63 {
		n.channel = strings.ToValidUTF8(n.channel[:63], "")
	}
	n.self = randomUUID()
	n.payloads, n.pending = make(map[string]bool), make(map[string]pending)
	n.echoed = make(chan struct{}, 1)
	n.peers, n.delayed, n.woken = make(map[string]time.Time), make(map[string]chan struct{}), make(map[string]bool)
}

// notifyQueue notifies the other stores that a queue has changed.
func (n *notifier) notifyQueue(queue string) { n.send(queueChanged + queue) }

// notifyAll notifies the other stores that any queue may have changed.
func (n *notifier) notifyAll() { n.send(allQueues) }

// send sends a payload, which may wait for [notifyEvery].
func (n *notifier) send(payload string) {
	if n.s.opt.PollOnly || n.s.ctx.Err() != nil {
		return
	}
	if len(payload) > maxPayload {
		payload = allQueues
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.payloads[payload] = true
	if !n.sending {
		n.sending, n.idle = true, make(chan struct{})
		n.s.wg.Go(n.sendAll)
	}
}

// sendAll sends payloads until none is left.
func (n *notifier) sendAll() {
	for {
		n.mu.Lock()
		payloads := make([]string, 0, len(n.payloads))
		for p := range n.payloads {
			payloads = append(payloads, n.self+p)
		}
		clear(n.payloads)
		if len(payloads) == 0 {
			n.sending = false
			close(n.idle)
		}
		n.mu.Unlock()
		if len(payloads) == 0 {
			return
		}
		if err := n.notify(payloads); err != nil && n.s.ctx.Err() == nil {
			n.s.log.Warn("notify other stores of new work; they find it when they poll", "error", err)
		}
		if !n.sleep(notifyEvery) {
			return
		}
	}
}

// sleep waits; it reports false when the store closes.
func (n *notifier) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-n.s.ctx.Done():
		return false
	}
}

// A pending is what an open transaction has enqueued.
type pending struct {
	queues []string
	waits  bool // some of the executions wait for other jobs
}

// watchTransaction notifies of queues when a transaction has committed.
func (n *notifier) watchTransaction(xid string, queues []string, waits bool) {
	if len(queues) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pending[xid]
	n.pending[xid] = pending{append(p.queues, queues...), p.waits || waits}
	if !n.polling {
		n.polling = true
		n.s.wg.Go(n.pollTransactions)
	}
}

// pollTransactions asks for the state of the pending transactions until all have
// ended: after a millisecond at first, since most end soon, then less and less often.
func (n *notifier) pollTransactions() {
	const first = time.Millisecond
	wait := first
	for n.sleep(wait) {
		xids := n.pendingTransactions()
		if len(xids) == 0 {
			n.mu.Lock()
			n.polling = len(n.pending) > 0
			polling := n.polling
			n.mu.Unlock()
			if polling {
				continue
			}
			return
		}
		ended, err := n.endTransactions(n.s.ctx, n.s.pool, xids)
		wait = min(2*wait, maxPollOpenTx)
		if err != nil || ended > 0 {
			wait = first
		}
		if err != nil && !n.sleep(maxPollOpenTx) {
			return
		}
	}
}

// endTransactions notifies of the transactions that have committed, drops those that
// have ended, and returns how many these are.
func (n *notifier) endTransactions(ctx context.Context, db querier, xids []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	ended := 0
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var xid string
		var status *string // null: the server has forgotten the transaction
		if err = rows.Scan(&xid, &status); err != nil || text(status) == "in progress" {
			return none, err
		}
		ended++
		n.mu.Lock()
		p, watched := n.pending[xid]
		delete(n.pending, xid)
		n.mu.Unlock()
		if watched && text(status) != "aborted" {
			if p.waits {
				n.s.wg.Go(func() { n.s.releaseWaiting(n.s.ctx) })
			}
			for _, q := range p.queues {
				n.s.queueWakeups.wake(q)
				n.notifyQueue(q)
			}
		}
		return none, nil
	}, n.s.sql("notify/transaction_states"), xids)
	return ended, err
}

// claimed notifies the other stores if a claim that followed a wake-up has emptied
// its queues.
func (n *notifier) claimed(c *claim) {
	n.mu.Lock()
	var payloads []string
	for _, q := range c.queues {
		if n.woken[q] {
			delete(n.woken, q)
			if len(c.rows) < c.Max && len(n.peers) > 0 {
				payloads = append(payloads, queueEmptied+n.s.claims.hash()+" "+q)
			}
		}
	}
	n.mu.Unlock()
	for _, p := range payloads {
		n.send(p)
	}
}

// notifyRequeued wakes the workers for an execution that went back to its queue.
func (s *Store) notifyRequeued(t *store.Transition) {
	// The transition does not name the queue. A claim too many does no harm.
	s.queueWakeups.wakeAll()
	if t.Delay == 0 {
		s.notifier.notifyAll()
	}
}
