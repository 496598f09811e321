package pgstore

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
	next    time.Time // when the next may begin
}

// An inlineNotification is what a statement sends itself; the zero value sends
// nothing.
type inlineNotification struct {
	channel, payload string
	started          time.Time
	sent             bool // the statement has created something and sent the payload
}

// beginInline returns the notification for a statement that creates an execution in
// a queue. A call of endInline must follow.
func (n *notifier) beginInline(queue string) inlineNotification {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s.opt.PollOnly || n.sending || n.inline.running || now.Before(n.inline.next) || len(queue) > maxPayload/2 {
		return inlineNotification{}
	}
	n.inline.running = true
	return inlineNotification{channel: n.channel, payload: n.self + queueChanged + queue, started: now}
}

// endInline ends what beginInline began.
func (n *notifier) endInline(o *inlineNotification) {
	if o.channel == "" {
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
