package pgstore_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier/internal/test/pgproxy"
)

// sniffed are the statements that passed through a proxy, with the names that the
// store gives them, and when they did.
type sniffed struct {
	mu       sync.Mutex
	started  time.Time
	prepared map[string]string // the name of a prepared statement: the store's
	bound    map[int]string    // a connection: what it executes next
	list     []string
	late     atomic.Int64 // how late an answer is delivered
}

// sniff begins to note the statements that pass through p.
func sniff(p *pgproxy.Proxy) *sniffed {
	s := &sniffed{started: time.Now(), prepared: make(map[string]string), bound: make(map[int]string)}
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		if !m.FromServer {
			s.note(m)
		} else if m.Type == 'Z' { // ready for the next
			time.Sleep(time.Duration(s.late.Load()))
		}
		return pgproxy.Pass
	})
	return s
}

// answerLate delivers each answer so much later from now on.
func (s *sniffed) answerLate(d time.Duration) { s.late.Store(int64(d)) }

func (s *sniffed) note(m pgproxy.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, rest, _ := strings.Cut(string(m.Body), "\x00")
	second, _, _ := strings.Cut(rest, "\x00")
	switch m.Type {
	case 'P': // its name, and its text
		s.prepared[first] = titleOf(second)
	case 'B': // the name of the portal, and that of the statement
		s.bound[m.Conn] = cmp.Or(s.prepared[second], second)
	case 'E':
		s.add(m, s.bound[m.Conn])
	case 'Q':
		if !strings.HasPrefix(first, "-- ping") { // the pool's own look at a connection that was idle
			s.add(m, titleOf(first))
		}
	}
}

func (s *sniffed) add(m pgproxy.Message, what string) {
	s.list = append(s.list, fmt.Sprintf("%6.2f s, connection %d: %s", time.Since(s.started).Seconds(), m.Conn, what))
}

// restart forgets what passed so far.
func (s *sniffed) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started, s.list = time.Now(), nil
}

func (s *sniffed) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

func (s *sniffed) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.list, "\n")
}
