package pgstore

import "time"

// A store that a limit keeps from claiming announces it every [blockedEvery]. For
// [blockedFor] after that, the other stores notify it whenever an execution ends:
// without the announcement they send nothing then, since most stores have no use for
// it.
const (
	blockedEvery = 10 * time.Second
	blockedFor   = 3 * watchedFor
	// An execution may end before the others have received the announcement. So the
	// claim that announced is repeated after this time.
	blockedRetry = 50 * time.Millisecond
)

// announceBlocked announces that a limit keeps this store from claiming, unless it
// has done so lately. It reports whether the announcement is under way.
func (n *notifier) announceBlocked() bool {
	n.mu.Lock()
	known := n.s.opt.PollOnly || time.Since(n.announced) < blockedEvery
	if !known {
		n.announced = time.Now()
	}
	n.mu.Unlock()
	if !known {
		n.send(blocked)
	}
	return !known
}

// slotFreed wakes the workers that a limit keeps from claiming, here and in other
// stores: an execution has ended.
func (s *Store) slotFreed() {
	s.claims.mu.Lock()
	limited := s.claims.limited
	s.claims.mu.Unlock()
	if limited {
		s.queueWakeups.wakeAll()
	}
	if limited || s.notifier.othersBlocked() {
		s.notifier.notifyAll()
	}
}

// othersBlocked reports whether another store has announced that it is blocked.
func (n *notifier) othersBlocked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.othersBlockedAt.IsZero() && time.Since(n.othersBlockedAt) < blockedFor
}
