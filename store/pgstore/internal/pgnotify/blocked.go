package pgnotify

import "time"

// A store that a limit keeps from claiming announces it every [blockedEvery]. For [blockedFor]
// after that, the other stores notify it whenever an execution ends: without the announcement they
// send nothing, because most stores do not need it.
const (
	blockedEvery = 10 * time.Second
	blockedFor   = 3 * watchedFor
)

// BlockedRetry is the time after which a claim is repeated that has announced the limit: an
// execution may have ended before the other stores received the announcement.
const BlockedRetry = 50 * time.Millisecond

// AnnounceBlocked announces that a limit keeps this store from claiming, unless it
// has done so lately. It reports whether the announcement is under way.
func (n *Notifier) AnnounceBlocked() bool {
	n.mu.Lock()
	known := n.opt.PollOnly || time.Since(n.announced) < blockedEvery
	if !known {
		n.announced = time.Now()
	}
	n.mu.Unlock()
	if !known {
		n.send(blocked)
	}
	return !known
}

// OthersBlocked reports whether another store has announced that it is blocked.
func (n *Notifier) OthersBlocked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.othersBlockedAt.IsZero() && time.Since(n.othersBlockedAt) < blockedFor
}
