package pgstore

import "time"

// Room under a limit may be freed by a process that does not know that somebody
// waits for it: it executes something else. So who is held back tells the others,
// and again while that lasts, and they tell of each execution that ends.
const (
	heldBackEvery = 10 * time.Second
	heldBackFor   = 3 * vouchFor // without a word
	// What ended before the others knew is found by another claim, after the time
	// that it takes to tell them.
	heldBackAgain = 50 * time.Millisecond
)

// holdBack tells the others that this store waits for room, unless it has.
// It reports whether they may not know yet.
func (n *news) holdBack() bool {
	n.mu.Lock()
	known := n.s.opt.PollOnly || time.Since(n.holding) < heldBackEvery
	if !known {
		n.holding = time.Now()
	}
	n.mu.Unlock()
	if !known {
		n.send(heldBack)
	}
	return !known
}

// freed tells those who wait for room under a limit that there may be some.
func (s *Store) freed() {
	s.claims.mu.Lock()
	limited := s.claims.limited
	s.claims.mu.Unlock()
	if limited {
		s.bell.ringAll()
	}
	if limited || s.news.othersHeldBack() {
		s.news.tellAll()
	}
}

func (n *news) othersHeldBack() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.held.IsZero() && time.Since(n.held) < heldBackFor
}
