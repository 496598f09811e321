// Package pgnotify tells the stores on a schema, in this process and in others, that an
// execution may have become claimable. A [Notifier] sends NOTIFY to the other stores
// and receives theirs through LISTEN, on a connection of its own; [Wakeups] wakes the
// goroutines of this process that wait. Notifications only shorten the wait: callers
// poll for what they miss, at the latest after [Notifier.Watched].
//
// What each part is for:
//
//   - A single execution is announced by the statement that creates it, at most every 5 ms, and
//     not for 5 s after that took 20 ms. Its step begins 0.3 ms sooner.
//   - Other notifications are collected for 5 ms, since each statement with a NOTIFY takes a
//     lock of all commits. One for a transaction of the caller is sent when pg_xact_status
//     reports that it has committed.
//   - Listeners wait at random before they claim, longer the more there are, and one that has
//     emptied a queue says so, with a hash of what it can claim. 20 executions that come one by
//     one to 30 workers cause 31 claims, and 698 without that. An execution that the sender
//     cannot execute is claimed by another at once.
//   - A store that is blocked by a limit says so every 10 s, and until then the others notify it
//     of each execution that ends. To announce all ends would wake all workers for each; to
//     announce none would leave a free slot until the next poll.
//   - A listener sends itself a notification every 20 s. That detects a dead connection, a
//     pooler that loses LISTEN, and how many other listeners there are.
//   - When a store is closed, notifications that are due are sent, for a second at most.
package pgnotify

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
	"github.com/jackc/pgx/v5"
)

// Options are the functions and settings that a [Notifier] gets from its store. All fields are
// required, except PollOnly.
type Options struct {
	Pool     Querier
	Schema   string
	ID       string // of this notifier: random, and of the same length in all notifiers
	PollOnly bool   // neither send nor listen
	Log      *slog.Logger
	// Connect opens a connection outside of the pool.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Query sends a statement, repeats it if it collides with another transaction,
	// and calls row for each row.
	Query func(ctx context.Context, db Querier, row func(pgx.Rows) error, sql string, args ...any) error
	// SendSQL sends notifications; $1 is the channel and $2 the payloads.
	SendSQL string
	// TransactionStatesSQL returns transaction ids with their states, of those in $1.
	TransactionStatesSQL string
	// ReleaseWaiting releases executions whose dependencies are met. It is called when
	// a transaction has committed that created executions with dependencies.
	ReleaseWaiting func(ctx context.Context)
	// ClaimScope returns a text that is equal for stores that can claim the same
	// executions.
	ClaimScope func() string
	// ClaimTime returns the approximate duration of a claim.
	ClaimTime func() time.Duration
}

// A Querier sends a statement: a connection or a pool.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// A Notifier exchanges notifications with the other stores on a schema. It may be used
// by any number of goroutines.
//
// A notification names a queue. It is sent in a statement of its own after the
// commit, because a transaction with a NOTIFY takes a lock that all commits with one
// wait for; see inline.go for the exception. While one statement is under
// way, and for [notifyEvery] after it, payloads are collected for the next.
type Notifier struct {
	Queues    Wakeups // changes of queues, from this store and from others
	Schedules Wakeups // changes of schedules and monitors

	opt     Options
	channel string
	self    string // begins every payload that this store sends
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

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

// A payload is the id of the sender, one of these letters, and the data of the letter.
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
	watchedFor    = 15 * time.Second       // the longest time that a caller may skip polling
	relisten      = 30 * time.Second       // the time between attempts to listen where notifications do not arrive
	maxWakeDelay  = time.Second            // the longest random delay of a wake-up
	peerTimeout   = 3 * echoEvery          // a store that has sent nothing for this long is gone
	maxPayload    = 7000                   // bytes; PostgreSQL takes 8000
	maxPollOpenTx = 200 * time.Millisecond // the longest time between two polls of pending transactions
)

// New returns a notifier that neither sends nor listens yet.
func New(opt Options) *Notifier {
	n := &Notifier{opt: opt, channel: "courier_" + opt.Schema}
	if len(n.channel) > 63 {
		n.channel = strings.ToValidUTF8(n.channel[:63], "")
	}
	n.self = opt.ID
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.payloads, n.pending = make(map[string]bool), make(map[string]pending)
	n.echoed = make(chan struct{}, 1)
	n.peers, n.delayed, n.woken = make(map[string]time.Time), make(map[string]chan struct{}), make(map[string]bool)
	n.Queues.init()
	n.Schedules.init()
	return n
}

// Close sends the notifications of all calls that have returned, within a second, and
// ends the notifier's connections and goroutines.
func (n *Notifier) Close() {
	n.flush()
	n.cancel()
	n.wg.Wait()
}

// QueueChanged notifies the other stores that a queue may have an execution to claim.
func (n *Notifier) QueueChanged(queue string) { n.send(queueChanged + queue) }

// AnyQueueChanged notifies the other stores that any queue may have an execution to
// claim.
func (n *Notifier) AnyQueueChanged() { n.send(allQueues) }

// SchedulesChanged notifies the other stores that a schedule or a monitor was put.
func (n *Notifier) SchedulesChanged() { n.send(scheduleChanged) }

// send sends a payload, which may wait for [notifyEvery].
func (n *Notifier) send(payload string) {
	if n.opt.PollOnly || n.ctx.Err() != nil {
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
		n.wg.Go(n.sendAll)
	}
}

// sendAll sends payloads until none is left.
func (n *Notifier) sendAll() {
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
		if err := n.notify(payloads); err != nil && n.ctx.Err() == nil {
			n.opt.Log.Warn("notify other stores of new work; they find it when they poll", "error", err)
		}
		if wakeup.Sleep(n.ctx, notifyEvery) != nil {
			return
		}
	}
}

// A pending has the queues in which an open transaction has enqueued executions.
type pending struct {
	queues []string
	waits  bool // some of the executions wait for other jobs
}

// WatchTransaction notifies all stores of the change of queues when a transaction has
// committed. Waits says that some of the executions wait for other jobs.
func (n *Notifier) WatchTransaction(xid string, queues []string, waits bool) {
	if len(queues) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pending[xid]
	n.pending[xid] = pending{append(p.queues, queues...), p.waits || waits}
	if !n.polling {
		n.polling = true
		n.wg.Go(n.pollTransactions)
	}
}

// pollTransactions polls the states of the pending transactions until all have ended:
// after a millisecond at first, because most end soon, then less and less often.
func (n *Notifier) pollTransactions() {
	const first = time.Millisecond
	wait := first
	for wakeup.Sleep(n.ctx, wait) == nil {
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
		ended, err := n.endTransactions(n.ctx, n.opt.Pool, xids)
		wait = min(2*wait, maxPollOpenTx)
		if err != nil || ended > 0 {
			wait = first
		}
		if err != nil && wakeup.Sleep(n.ctx, maxPollOpenTx) != nil {
			return
		}
	}
}

// endTransactions notifies of the transactions that have committed, drops those that
// have ended, and returns how many these are.
func (n *Notifier) endTransactions(ctx context.Context, db Querier, xids []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	ended := 0
	err := n.opt.Query(ctx, db, func(rows pgx.Rows) error {
		var xid string
		var status *string // null: the server has forgotten the transaction
		if err := rows.Scan(&xid, &status); err != nil || status != nil && *status == "in progress" {
			return err
		}
		ended++
		n.mu.Lock()
		p, watched := n.pending[xid]
		delete(n.pending, xid)
		n.mu.Unlock()
		if watched && (status == nil || *status != "aborted") {
			if p.waits {
				n.wg.Go(func() { n.opt.ReleaseWaiting(n.ctx) })
			}
			for _, q := range p.queues {
				n.Queues.Wake(q)
				n.QueueChanged(q)
			}
		}
		return nil
	}, n.opt.TransactionStatesSQL, xids)
	return ended, err
}

// Claimed is to be called after each claim. If the claim followed a wake-up of one of
// its queues and has emptied it, Claimed notifies the other stores, so that they do
// not claim in vain.
func (n *Notifier) Claimed(queues []string, emptied bool) {
	n.mu.Lock()
	var payloads []string
	for _, q := range queues {
		if n.woken[q] {
			delete(n.woken, q)
			if emptied && len(n.peers) > 0 {
				payloads = append(payloads, queueEmptied+n.opt.ClaimScope()+" "+q)
			}
		}
	}
	n.mu.Unlock()
	for _, p := range payloads {
		n.send(p)
	}
}
