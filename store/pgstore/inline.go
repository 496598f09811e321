package pgstore

import "time"

// A lone execution is told of in the statement that creates it, if that is not
// done too often: its worker hears of it two ways between process and server
// sooner. Transactions that tell wait for each other until they are on the disk,
// so a store has one of them at a time, one every [tellEvery] at most, and none for
// a while after one took long.
const (
	slowInline  = 20 * time.Millisecond
	pauseInline = 5 * time.Second
)

// inlining is what news knows of statements that tell themselves.
type inlining struct {
	running bool
	next    time.Time // not before
}

// An inlineNews is what a statement tells itself; the zero value tells nothing.
type inlineNews struct {
	channel, payload string
	begun            time.Time
	told             bool // of what it has created
}

// beginInline returns what a statement may tell that creates something in a queue,
// and that is followed by a call of endInline.
func (n *news) beginInline(queue string) inlineNews {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s.opt.PollOnly || n.telling || n.inline.running || now.Before(n.inline.next) || len(queue) > maxPayload/2 {
		return inlineNews{}
	}
	n.inline.running = true
	return inlineNews{channel: n.channel, payload: n.self + newIn + queue, begun: now}
}

// endInline takes note that a statement is over.
func (n *news) endInline(o *inlineNews) {
	if o.channel == "" {
		return
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inline.running, n.inline.next = false, now.Add(tellEvery)
	if now.Sub(o.begun) > slowInline {
		n.inline.next = now.Add(pauseInline)
	}
}
