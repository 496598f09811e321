package pgnotify

import "time"

// A single Enqueue sends its notification in the INSERT itself, which saves a worker
// two round trips of waiting. Transactions with a NOTIFY wait for each other until
// they are on disk. So a store has one such statement at a time, one every
// [notifyEvery] at most, and none for [inlinePause] after one that took longer than
// [slowInline].
const (
	slowInline  = 20 * time.Millisecond
	inlinePause = 5 * time.Second
)

// inlineState limits the statements that send a notification themselves.
type inlineState struct {
	running bool
	next    time.Time // when the next statement may begin
}

// An Inline is a notification that a statement sends itself. The zero value sends
// nothing.
type Inline struct {
	Channel, Payload string
	started          time.Time
	Sent             bool   // the statement has created something and sent the payload
	Transaction      string // the transaction in which it has created something, for [Notifier.WatchTransaction]
}

// BeginInline returns the notification for a statement that creates an execution in
// a queue. A call of EndInline must follow.
func (n *Notifier) BeginInline(queue string) Inline {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opt.PollOnly || n.sending || n.inline.running || now.Before(n.inline.next) || len(queue) > maxPayload/2 {
		return Inline{}
	}
	n.inline.running = true
	return Inline{Channel: n.channel, Payload: n.self + queueChanged + queue, started: now}
}

// EndInline ends what BeginInline began.
func (n *Notifier) EndInline(o *Inline) {
	if o.Channel == "" {
		return
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inline.running, n.inline.next = false, now.Add(notifyEvery)
	if now.Sub(o.started) > slowInline {
		n.inline.next = now.Add(inlinePause)
	}
}
