package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store"
)

// news tells other processes what may have become claimable, and hears of it
// from them. It only makes things faster: what gets lost, polling finds.
//
// What is told is the name of a queue, mostly in a statement of its own after the
// commit: a NOTIFY in a transaction takes a lock that all commits with one wait
// for; see inline.go. While one statement is under way, and for a moment after it, what is to
// be told gathers and is told together.
type news struct {
	s       *Store
	channel string
	self    string // marks what this store tells itself

	mu      sync.Mutex
	queues  map[string]bool // to be told
	telling bool
	told    chan struct{} // closed when there is nothing left to tell
	inline  inlining
	holding time.Time          // when this store last told that it is held back
	held    time.Time          // when another last did
	pending map[string]pending // transactions that are not over
	looking bool

	listening bool
	heard     time.Time     // when a notification last came all the way round
	echo      chan struct{} // one came

	// Many who hear of one execution must not all go for it. They wait for a
	// random time, the longer the more they are, and who gets the last of a queue
	// tells the others.
	peers   map[string]time.Time     // the other stores that listen, and when they were last heard of
	waiting map[string]chan struct{} // to ring for a queue; closed if it need not
	rung    map[string]bool          // queues for which it has rung, and no claim has looked since
}

// What is told begins with the id of who tells it, and a letter.
const (
	newIn     = "q" // something is new in a queue
	emptied   = "e" // a claim by somebody who can do certain steps has emptied a queue
	everybody = "*" // something changed for all queues
	planned   = "s" // a schedule was put
	heldBack  = "h" // who tells this waits for room under a limit
	areYou    = "?" // the way round; the others hear that this store is there
)

// What governs telling and hearing.
const (
	tellEvery  = 5 * time.Millisecond // the least time between two statements
	echoEvery  = 20 * time.Second     // how often the way round is tried
	vouchFor   = 15 * time.Second     // see [store.Claims].Watched
	echoWithin = 5 * time.Second      // how long it may take
	relisten   = 30 * time.Second     // between attempts where notifications do not pass
	maxSpread  = time.Second          // how far those who hear the same spread
	peerFor    = 3 * echoEvery        // without a word
	maxPayload = 7000                 // bytes; Postgres takes 8000
)

func (n *news) init(s *Store) {
	n.s = s
	n.channel = "courier_" + s.opt.Schema
	if len(n.channel) > 63 {
		n.channel = strings.ToValidUTF8(n.channel[:63], "")
	}
	n.self = randomUUID()
	n.queues, n.pending = make(map[string]bool), make(map[string]pending)
	n.echo = make(chan struct{}, 1)
	n.peers, n.waiting, n.rung = make(map[string]time.Time), make(map[string]chan struct{}), make(map[string]bool)
}

// tell tells of something new in a queue.
func (n *news) tell(queue string) { n.send(newIn + queue) }

// tellAll tells of something new for all queues.
func (n *news) tellAll() { n.send(everybody) }

func (n *news) send(payload string) {
	if n.s.opt.PollOnly || n.s.ctx.Err() != nil {
		return
	}
	if len(payload) > maxPayload {
		payload = everybody
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queues[payload] = true
	if !n.telling {
		n.telling, n.told = true, make(chan struct{})
		n.s.rest.Go(n.sendAll)
	}
}

// sendAll tells what there is to tell until there is nothing.
func (n *news) sendAll() {
	for {
		n.mu.Lock()
		payloads := make([]string, 0, len(n.queues))
		for q := range n.queues {
			payloads = append(payloads, n.self+q)
		}
		clear(n.queues)
		if len(payloads) == 0 {
			n.telling = false
			close(n.told)
		}
		n.mu.Unlock()
		if len(payloads) == 0 {
			return
		}
		if err := n.notify(payloads); err != nil && n.s.ctx.Err() == nil {
			n.s.log.Warn("tell of new work; others find it when they poll", "error", err)
		}
		if !n.sleep(tellEvery) {
			return
		}
	}
}

// sleep waits; it reports false when the store closes.
func (n *news) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-n.s.ctx.Done():
		return false
	}
}

// A pending is what a transaction that is not over has enqueued.
type pending struct {
	queues []string
	waits  bool // some of it waits for other jobs
}

// watch tells of queues when a transaction has committed.
func (n *news) watch(xid string, queues []string, waits bool) {
	if len(queues) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pending[xid]
	n.pending[xid] = pending{append(p.queues, queues...), p.waits || waits}
	if !n.looking {
		n.looking = true
		n.s.rest.Go(n.look)
	}
}

// look asks for the transactions that are watched until all are over: often at
// first, for most end soon.
func (n *news) look() {
	const first, most = time.Millisecond, 200 * time.Millisecond
	wait := first
	for n.sleep(wait) {
		xids := n.watchedXids()
		if len(xids) == 0 {
			n.mu.Lock()
			n.looking = len(n.pending) > 0
			looking := n.looking
			n.mu.Unlock()
			if looking {
				continue
			}
			return
		}
		over, err := n.over(n.s.ctx, n.s.pool, xids)
		wait = min(2*wait, most)
		if err != nil || over > 0 {
			wait = first
		}
		if err != nil && !n.sleep(most) {
			return
		}
	}
}

// over tells of the transactions that have committed, and forgets those that
// are over.
func (n *news) over(ctx context.Context, db querier, xids []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	over := 0
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var xid string
		var status *string // null: so long ago that nobody knows
		if err = rows.Scan(&xid, &status); err != nil || text(status) == "in progress" {
			return none, err
		}
		over++
		n.mu.Lock()
		p, watched := n.pending[xid]
		delete(n.pending, xid)
		n.mu.Unlock()
		if watched && text(status) != "aborted" {
			if p.waits {
				n.s.rest.Go(func() { n.s.letThrough(n.s.ctx) })
			}
			for _, q := range p.queues {
				n.s.bell.ring(q)
				n.tell(q)
			}
		}
		return none, nil
	}, n.s.q.committed, xids)
	return over, err
}

// listen begins to listen, once.
func (n *news) listen() {
	if n.s.opt.PollOnly {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.listening && n.s.ctx.Err() == nil {
		n.listening = true
		n.s.rest.Go(n.hear)
	}
}

// watched is for how long Await can be relied on.
func (n *news) watched(lease time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.heard.IsZero() || time.Since(n.heard) > echoEvery+echoWithin {
		return 0
	}
	return min(vouchFor, lease)
}

// errNoEcho says that what this store tells does not come back.
var errNoEcho = errors.New("notifications do not arrive; is there a pooler in transaction mode in between?")

// hear listens until the store closes, on one connection after another.
func (n *news) hear() {
	for wait := time.Second; ; {
		begun := time.Now()
		err := n.hearOn()
		n.mu.Lock()
		n.heard = time.Time{}
		n.mu.Unlock()
		if n.s.ctx.Err() != nil {
			return
		}
		n.s.log.Warn("listen for new work; it is found by polling meanwhile", "error", err)
		if errors.Is(err, errNoEcho) || errors.Is(err, errPooler) {
			wait = relisten
		} else if time.Since(begun) > relisten {
			wait = time.Second
		}
		if !n.sleep(wait/2 + rand.N(wait/2)) {
			return
		}
		wait = min(2*wait, relisten)
	}
}

// hearOn listens on a connection until it fails.
func (n *news) hearOn() error {
	ctx, cancel := context.WithTimeout(n.s.ctx, echoWithin)
	defer cancel()
	conn, err := connect(ctx, n.s.pool)
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
	n.s.bell.ringAll() // what came before it was listening
	n.s.agenda.ring("")
	return n.wait(conn)
}

// closeSoon closes a connection, politely if that takes no time.
func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// wait hears notifications, and sends itself one now and then, to know whether
// they arrive.
func (n *news) wait(conn *pgx.Conn) error {
	ctx, cancel := context.WithCancelCause(n.s.ctx)
	defer cancel(nil)
	n.s.rest.Go(func() {
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
		n.hearNote(note.Payload)
	}
}

// tryEcho sends this store a notification. If it does not arrive, it ends the
// listening.
func (n *news) tryEcho(ctx context.Context, fail context.CancelCauseFunc) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-n.echo: // a late one
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	sent := time.Now()
	if _, err := n.s.pool.Exec(ctx, n.s.q.notify, n.channel, []string{n.self + areYou}); err != nil {
		fail(fmt.Errorf("notify: %w", err))
		return false
	}
	select {
	case <-n.echo:
		n.mu.Lock()
		n.heard = sent
		n.mu.Unlock()
		return true
	case <-ctx.Done():
		fail(errNoEcho)
		return false
	}
}

// hearNote takes what somebody told.
func (n *news) hearNote(payload string) {
	if mine, ok := strings.CutPrefix(payload, n.self); ok {
		if mine == areYou {
			select {
			case n.echo <- struct{}{}:
			default:
			}
		}
		return // the bell has rung when it was told
	}
	if len(payload) <= len(n.self) {
		return
	}
	from, what := payload[:len(n.self)], payload[len(n.self):]
	n.mu.Lock()
	defer n.mu.Unlock()
	if what[:1] == areYou || what[:1] == emptied {
		n.peers[from] = time.Now()
	}
	switch queue := what[1:]; what[:1] {
	case everybody:
		n.s.bell.ringAll()
	case planned:
		n.s.agenda.ring("")
	case heldBack:
		n.held = time.Now()
	case newIn:
		n.ringLater(queue)
	case emptied:
		if hash, queue, ok := strings.Cut(queue, " "); ok && hash == n.s.claims.hash() {
			if c := n.waiting[queue]; c != nil {
				delete(n.waiting, queue)
				close(c)
			}
		}
	}
}

// ringLater rings for a queue after a random time, unless somebody else has
// emptied it by then.
func (n *news) ringLater(queue string) {
	d := n.delay()
	if d == 0 {
		n.rung[queue] = true
		n.s.bell.ring(queue)
		return
	}
	if n.waiting[queue] != nil {
		return
	}
	stop := make(chan struct{})
	n.waiting[queue] = stop
	n.s.rest.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-stop:
			return
		case <-n.s.ctx.Done():
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.waiting[queue] == stop {
			delete(n.waiting, queue)
			n.rung[queue] = true
			n.s.bell.ring(queue)
		}
	})
}

// delay returns how long to wait before going for what all have heard of.
func (n *news) delay() time.Duration {
	for id, at := range n.peers {
		if time.Since(at) > peerFor {
			delete(n.peers, id)
		}
	}
	if len(n.peers) == 0 {
		return 0
	}
	// By the time that one more of them goes, the one before should have claimed
	// and told.
	return rand.N(min(time.Duration(len(n.peers))*2*n.s.claims.duration(), maxSpread))
}

// claimed tells the others if a claim that followed a notification has emptied
// its queues.
func (n *news) claimed(c *claim) {
	n.mu.Lock()
	var tell []string
	for _, q := range c.queues {
		if n.rung[q] {
			delete(n.rung, q)
			if len(c.rows) < c.Max && len(n.peers) > 0 {
				tell = append(tell, emptied+n.s.claims.hash()+" "+q)
			}
		}
	}
	n.mu.Unlock()
	for _, t := range tell {
		n.send(t)
	}
}

// wakeQueueOf tells those who wait of an execution that went back to its queue.
func (s *Store) wakeQueueOf(t *store.Transition) {
	// Which queue that is, only the row knows; a claim too many does no harm.
	s.bell.ringAll()
	if t.Delay == 0 {
		s.news.tellAll()
	}
}
