package pgstore

import "time"

// A lone execution is told of in the statement that creates it, if that is not
// done too often: its worker hears of it two ways between process and server
// sooner. Transactions that tell wait for each other until they are on the disk,
// so a store has one of them at a time, one every [tellEvery] at most, and none for
// a while after one took long.
const (
	slowOwn  = 20 * time.Millisecond
	pauseOwn = 5 * time.Second
)

// own is what news knows of statements that tell themselves.
type own struct {
	running bool
	next    time.Time // not before
}

// An ownNews is what a statement tells itself; the zero value tells nothing.
type ownNews struct {
	channel, payload string
	begun            time.Time
	told             bool // of what it has created
}

// begin returns what a statement may tell that creates something in a queue, and
// calls end.
func (n *news) begin(queue string) ownNews {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s.opt.PollOnly || n.telling || n.own.running || now.Before(n.own.next) || len(queue) > maxPayload/2 {
		return ownNews{}
	}
	n.own.running = true
	return ownNews{channel: n.channel, payload: n.self + newIn + queue, begun: now}
}

// end takes note that a statement is over.
func (n *news) end(o *ownNews) {
	if o.channel == "" {
		return
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.own.running, n.own.next = false, now.Add(tellEvery)
	if now.Sub(o.begun) > slowOwn {
		n.own.next = now.Add(pauseOwn)
	}
}
