package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	fastBuffer    = 1 << 20  // default bound without latency and rate
	slowBuffer    = 64 << 20 // default bound with one of them
	chunkSize     = 64 << 10 // up to which small writes share a chunk
	chunkOverhead = 64       // charged per chunk, so that tiny writes are bounded too
)

// A Flow describes one direction of a connection. The zero Flow delivers every
// byte at once.
//
// In a testing/synctest bubble, time stands still while a goroutine waits for a
// mutex. SSH and SFTP implementations hold mutexes while they write, so a write
// that had to wait for time to pass, with others queueing behind it, would wait
// for ever. Therefore stalled flows swallow bytes rather than block, and slow
// flows have a buffer larger than what SSH windows allow to be under way.
type Flow struct {
	// CutAfter is the number of bytes after which the whole connection is cut,
	// as [Conn.Cut] does. Exactly that many arrive. Nil means never, 0 cuts the
	// connection when it is made.
	CutAfter *int64

	// StallAfter is the number of bytes after which this direction becomes a
	// black hole: later bytes, and the news that the sender has closed, vanish.
	// Nil means never.
	StallAfter *int64

	// Latency is how long a byte travels. 0 means no time.
	Latency time.Duration

	// Rate is how many bytes per second get through. 0 means no limit.
	Rate int64

	// Buffer bounds the bytes that are written but not yet read. 0 means 1 MiB,
	// or 64 MiB with a latency or rate. Memory is used only as it fills.
	Buffer int
}

// A stream carries bytes from the Write of one side to the Read of the other.
type stream struct {
	flow Flow

	mu      sync.Mutex
	changed *sync.Cond // on mu: any field below has changed
	chunks  []chunk
	size    int       // of chunks, with their overhead
	sent    int64     // bytes accepted from the writer, swallowed ones included
	free    time.Time // when the link has sent all that was accepted
	hole    bool      // swallows from now on

	writeErr error // what Write returns; nil while it may go on
	readErr  error // what Read returns once chunks is empty; nil while it may go on
	readerUp bool  // false once the reading side has closed
	readBy   deadline
	writeBy  deadline
}

// A chunk is data that can be read from due on.
type chunk struct {
	due  time.Time
	data []byte
	read int
}

// A deadline belongs to the stream whose lock guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
	set    int // counts SetDeadline calls, so that a late timer does no harm
}

func newStream(flow Flow) *stream {
	if flow.Buffer <= 0 {
		flow.Buffer = fastBuffer
		if flow.Latency > 0 || flow.Rate > 0 {
			flow.Buffer = slowBuffer
		}
	}
	s := &stream{flow: flow, readerUp: true}
	s.changed = sync.NewCond(&s.mu)
	s.hole = flow.StallAfter != nil && *flow.StallAfter <= 0
	return s
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for {
		switch {
		case s.writeErr != nil:
			return total, s.writeErr
		case s.writeBy.passed:
			return total, os.ErrDeadlineExceeded
		case len(p) == 0:
			return total, nil
		case s.hole:
			s.sent += int64(len(p))
			return total + len(p), nil
		}
		n := min(len(p), s.flow.Buffer-s.size)
		if n <= 0 {
			s.changed.Wait()
			continue
		}
		n = s.accept(p[:n])
		total += n
		p = p[n:]
	}
}

// accept takes bytes of p, which fit into the buffer, up to the next fault.
func (s *stream) accept(p []byte) int {
	if s.flow.CutAfter != nil {
		p = p[:min(int64(len(p)), *s.flow.CutAfter-s.sent)]
	}
	if s.flow.StallAfter != nil {
		p = p[:min(int64(len(p)), *s.flow.StallAfter-s.sent)]
	}
	s.push(p)
	s.sent += int64(len(p))
	s.hole = s.flow.StallAfter != nil && s.sent >= *s.flow.StallAfter
	if s.spent() {
		s.reset()
	}
	s.changed.Broadcast()
	return len(p)
}

func (s *stream) push(p []byte) {
	due := s.schedule(len(p))
	if n := len(s.chunks); n > 0 {
		last := &s.chunks[n-1]
		if last.due.Equal(due) && len(last.data)+len(p) <= chunkSize {
			last.data = append(last.data, p...)
			s.size += len(p)
			return
		}
	}
	s.chunks = append(s.chunks, chunk{due: due, data: append([]byte(nil), p...)})
	s.size += len(p) + chunkOverhead
}

// schedule returns when n further bytes arrive; the zero time means at once.
func (s *stream) schedule(n int) time.Time {
	if s.flow.Latency <= 0 && s.flow.Rate <= 0 {
		return time.Time{}
	}
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	if s.flow.Rate > 0 {
		s.free = s.free.Add(time.Duration(float64(n) / float64(s.flow.Rate) * float64(time.Second)))
	}
	return s.free.Add(s.flow.Latency)
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case !s.readerUp:
			return 0, net.ErrClosed
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(s.chunks) == 0 && s.readErr != nil:
			return 0, s.readErr
		case len(s.chunks) == 0:
			s.changed.Wait()
			continue
		}
		wait := time.Duration(0)
		if due := s.chunks[0].due; !due.IsZero() {
			wait = time.Until(due)
		}
		if wait <= 0 {
			return s.take(p)
		}
		wake := time.AfterFunc(wait, s.broadcast)
		s.changed.Wait()
		wake.Stop()
	}
}

// take reads from the first chunk, which is due, and from those behind it that
// are due at the same time.
func (s *stream) take(p []byte) (int, error) {
	first := &s.chunks[0]
	if len(first.data) == 0 { // the end of the writer travels as an empty chunk
		s.pop()
		return 0, io.EOF
	}
	due, total := first.due, 0
	for len(p) > 0 && len(s.chunks) > 0 {
		c := &s.chunks[0]
		if len(c.data) == 0 || !c.due.Equal(due) {
			break
		}
		n := copy(p, c.data[c.read:])
		c.read += n
		p = p[n:]
		total += n
		if c.read == len(c.data) {
			s.pop()
		}
	}
	s.changed.Broadcast()
	return total, nil
}

func (s *stream) pop() {
	c := &s.chunks[0]
	s.size -= len(c.data) + chunkOverhead
	if len(c.data) == 0 {
		s.readErr = io.EOF
	}
	*c = chunk{}
	s.chunks = s.chunks[1:]
}

func (s *stream) broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// closeWriter lets the reader see the end after all that was written, unless
// it vanishes on the way. Later writes fail with err.
func (s *stream) closeWriter(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.writeErr == nil
	if first || err == net.ErrClosed {
		s.writeErr = err
	}
	if first && !s.hole {
		s.chunks = append(s.chunks, chunk{due: s.schedule(0)})
		s.size += chunkOverhead
	}
	s.writeBy.stop()
	s.changed.Broadcast()
}

// closeReader discards what is buffered. The writer learns that nobody reads,
// unless that news is lost: then its bytes vanish from now on.
func (s *stream) closeReader(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readerUp = false
	s.chunks, s.size = nil, 0
	if lost {
		s.hole = true
	} else if s.writeErr == nil {
		s.writeErr = syscall.EPIPE
	}
	s.readBy.stop()
	s.changed.Broadcast()
}

func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset()
	s.changed.Broadcast()
}

// reset makes both ends fail; the reader only after what is buffered.
func (s *stream) reset() {
	if s.writeErr == nil {
		s.writeErr = syscall.ECONNRESET
	}
	if s.readErr == nil {
		s.readErr = syscall.ECONNRESET
	}
}

func (s *stream) stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hole = true
	s.changed.Broadcast()
}

func (s *stream) stalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hole
}

func (s *stream) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// exhausted reports whether the flow has carried all bytes up to its cut.
func (s *stream) exhausted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent()
}

func (s *stream) spent() bool {
	return s.flow.CutAfter != nil && s.sent >= *s.flow.CutAfter
}

func (s *stream) setDeadline(d *deadline, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.set++
	d.passed = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.passed {
		set := d.set
		d.timer = time.AfterFunc(time.Until(t), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if d.set == set {
				d.passed = true
				s.changed.Broadcast()
			}
		})
	}
	s.changed.Broadcast()
	return nil
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
