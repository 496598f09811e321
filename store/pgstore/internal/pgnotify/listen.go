package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
	"github.com/jackc/pgx/v5"
)

// Listen begins to listen, once.
func (n *Notifier) Listen() {
	if n.opt.PollOnly {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.listening && n.ctx.Err() == nil {
		n.listening = true
		n.wg.Go(n.listenAlways)
	}
}

// Watched is how long a caller may skip polling, 0 if notifications do not arrive.
func (n *Notifier) Watched(lease time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.echoedAt.IsZero() || time.Since(n.echoedAt) > echoEvery+echoWithin {
		return 0
	}
	return min(watchedFor, lease)
}

// errNoEcho says that the notifications of this store do not come back.
var errNoEcho = errors.New("notifications do not arrive; is there a pooler in transaction mode in between?")

// listenAlways listens until the store closes, on one connection after another.
func (n *Notifier) listenAlways() {
	for wait := time.Second; ; {
		started := time.Now()
		err := n.listenOnce()
		n.mu.Lock()
		n.echoedAt = time.Time{}
		n.mu.Unlock()
		if n.ctx.Err() != nil {
			return
		}
		n.opt.Log.Warn("listen for new work; until then workers poll", "error", err)
		if errors.Is(err, errNoEcho) || errors.Is(err, errPooler) {
			wait = relisten
		} else if time.Since(started) > relisten {
			wait = time.Second
		}
		if wakeup.Sleep(n.ctx, wait/2+rand.N(wait/2)) != nil {
			return
		}
		wait = min(2*wait, relisten)
	}
}

// listenOnce listens on a connection until that fails.
func (n *Notifier) listenOnce() error {
	ctx, cancel := context.WithTimeout(n.ctx, echoWithin)
	defer cancel()
	conn, err := n.opt.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(conn)
	if err := n.refusePooler(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{n.channel}.Sanitize()); err != nil {
		return err
	}
	// Changes from before the LISTEN were not received.
	n.Queues.WakeAll()
	n.Schedules.WakeAll()
	return n.receiveAll(conn)
}

// closeSoon closes a connection, within a second.
func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// receiveAll receives notifications until the connection fails. Every [echoEvery] it
// sends one to itself, to test whether notifications arrive.
func (n *Notifier) receiveAll(conn *pgx.Conn) error {
	ctx, cancel := context.WithCancelCause(n.ctx)
	defer cancel(nil)
	n.wg.Go(func() {
		for n.tryEcho(ctx, cancel) {
			t := time.NewTimer(echoEvery)
			select {
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
		}
	})
	for {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		n.receive(note.Payload)
	}
}

// tryEcho sends this store a notification. If it does not come back, tryEcho calls
// fail, which ends the listening.
func (n *Notifier) tryEcho(ctx context.Context, fail context.CancelCauseFunc) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-n.echoed: // an earlier echo that was late
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	sent := time.Now()
	if err := n.opt.Query(ctx, n.opt.Pool, func(pgx.Rows) error { return nil }, n.opt.SendSQL, n.channel, []string{n.self + echo}); err != nil {
		fail(fmt.Errorf("notify: %w", err))
		return false
	}
	select {
	case <-n.echoed:
		n.mu.Lock()
		n.echoedAt = sent
		n.mu.Unlock()
		return true
	case <-ctx.Done():
		fail(errNoEcho)
		return false
	}
}

// receive handles a notification.
func (n *Notifier) receive(payload string) {
	if mine, ok := strings.CutPrefix(payload, n.self); ok {
		if mine == echo {
			select {
			case n.echoed <- struct{}{}:
			default:
			}
		}
		return // this process was woken when the notification was sent
	}
	if len(payload) <= len(n.self) {
		return
	}
	from, letter, rest := payload[:len(n.self)], payload[len(n.self):len(n.self)+1], payload[len(n.self)+1:]
	n.mu.Lock()
	defer n.mu.Unlock()
	if letter == echo || letter == queueEmptied {
		n.peers[from] = time.Now()
	}
	switch letter {
	case allQueues:
		n.Queues.WakeAll()
	case scheduleChanged:
		n.Schedules.WakeAll()
	case blocked:
		n.othersBlockedAt = time.Now()
	case queueChanged:
		n.wakeLater(rest)
	case queueEmptied:
		if hash, queue, ok := strings.Cut(rest, " "); ok && hash == n.opt.ClaimScope() {
			if c := n.delayed[queue]; c != nil {
				delete(n.delayed, queue)
				close(c)
			}
		}
	}
}

// wakeLater wakes the workers of a queue after a random time, unless another store
// has emptied the queue by then. The caller holds n.mu.
func (n *Notifier) wakeLater(queue string) {
	d := n.delay()
	if d == 0 {
		n.woken[queue] = true
		n.Queues.Wake(queue)
		return
	}
	if n.delayed[queue] != nil {
		return
	}
	cancelled := make(chan struct{})
	n.delayed[queue] = cancelled
	n.wg.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-cancelled:
			return
		case <-n.ctx.Done():
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.delayed[queue] == cancelled {
			delete(n.delayed, queue)
			n.woken[queue] = true
			n.Queues.Wake(queue)
		}
	})
}

// delay returns how long to wait before a claim that follows a notification. The
// caller holds n.mu.
func (n *Notifier) delay() time.Duration {
	for id, at := range n.peers {
		if time.Since(at) > peerTimeout {
			delete(n.peers, id)
		}
	}
	if len(n.peers) == 0 {
		return 0
	}
	// Two claims' time for each store: when the next store claims, the one before has
	// usually Claimed and sent queueEmptied.
	return rand.N(min(time.Duration(len(n.peers))*2*n.opt.ClaimTime(), maxWakeDelay))
}
