package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Apply writes a checkpoint of a running execution. A free writer takes all checkpoints that are
// waiting and writes them in one statement. Thus many executions share a commit, and a single one
// is written at once.
func (s *Store) Apply(ctx context.Context, t store.Transition) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return err
	}
	n := transitionBytes(&t)
	if n > maxTransition {
		return fmt.Errorf("transition %d of %s: it has %d bytes, more than the %d that are sent to the database at once; nothing was written: %w", t.Seq, t.Execution, n, maxTransition, courier.ErrInvalid)
	}
	if t.Chain != "" && changesMember(&t) {
		member := t
		return s.applyMember(ctx, &member, t.Chain)
	}
	a := newApplyCall(t)
	if a.bytes = n; n > maxBytes {
		s.wg.Go(func() { s.writeLarge(a) })
	} else {
		s.writers.add(s, a)
	}
	select {
	case err := <-a.done:
		a.reuse()
		return err
	case <-ctx.Done():
		return fmt.Errorf("transition %d of %s, which may or may not have been written: %w", t.Seq, t.Execution, ctx.Err())
	}
}

// An applyCall is a call of Apply. After sending to done, a writer must not use it.
type applyCall struct {
	t     *store.Transition
	done  chan error // has room for one
	own   store.Transition
	bytes int
}

var applyCalls = sync.Pool{New: func() any { return &applyCall{done: make(chan error, 1)} }}

func newApplyCall(t store.Transition) *applyCall {
	a := applyCalls.Get().(*applyCall)
	a.own = t
	a.t = &a.own
	return a
}

// reuse returns an applyCall for another call of Apply, after done has been received.
func (a *applyCall) reuse() {
	a.own = store.Transition{}
	applyCalls.Put(a)
}

// transitionBytes returns approximately how many bytes a transition has to write.
func transitionBytes(t *store.Transition) int {
	const perFile = 40 // in addition to its path
	n := 0
	for i := range t.Ended {
		e := &t.Ended[i]
		n += len(e.Outputs) + len(e.Error) + len(e.Stack) + len(e.Log) + perFile*len(e.Files)
		for j := range e.Events {
			n += perFile + len(e.Events[j].Payload)
		}
		for j := range e.Files {
			n += len(e.Files[j].Path)
		}
	}
	n += len(t.Result)
	if f := t.Failure; f != nil {
		n += len(f.Message)
	}
	if t.Progress != nil {
		n += len(t.Progress.Cursor)
	}
	if t.Repairs != nil {
		n += len(encode(t.Repairs))
	}
	return n
}

// writers write the checkpoints of callers of Apply. Their goroutines end when
// nothing is waiting.
type writers struct {
	mu      sync.Mutex
	waiting []*applyCall
	active  int
	taken   time.Time // when a writer last took something to write
	large   sync.Mutex
}

// Limits of one statement. The bytes are bytes of outputs. A transition with more than maxBytes is
// written alone, beside the writers. One with more than maxTransition is refused: the server takes
// no message of more than a gigabyte, and holds the texts of a statement several times.
const (
	maxBatch      = 256
	maxBytes      = 1 << 20
	maxTransition = 256 << 20
)

// leastRate is how many bytes of a large transition must be written in a second. If it is slower,
// the connection is considered dead.
const leastRate = 2 << 20

// writeWithin returns the time limit of a statement that writes so many bytes.
func writeWithin(bytes int) time.Duration {
	return writeTimeout + time.Duration(bytes/leastRate)*time.Second
}

// writeLarge writes a transition with many bytes on a connection of its own, one at a time.
// Otherwise small transitions would wait for the writer until it is done.
func (s *Store) writeLarge(a *applyCall) {
	s.writers.large.Lock()
	defer s.writers.large.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, writeWithin(a.bytes))
	defer cancel()
	s.writeBatch(ctx, s.pool, []*applyCall{a})
}

// Another writer begins when manyWaiting transitions are waiting, or when the others
// have been writing for longWriting. With fewer writers each statement writes more,
// and all of it costs less.
const (
	manyWaiting = 32
	longWriting = 2 * time.Millisecond
)

// writeTimeout bounds a statement that writes progress: its callers may have
// given up by then.
const writeTimeout = 10 * time.Second

func (w *writers) add(s *Store, a *applyCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, a)
	if w.active == 0 || w.active < s.opt.Writers && (len(w.waiting) >= manyWaiting || time.Since(w.taken) > longWriting) {
		w.active++
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			s.write()
		}()
	}
}

// take returns the next batch, or nil if the writer may end.
func (w *writers) take() []*applyCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.active--
		return nil
	}
	w.taken = time.Now()
	n, bytes := 0, 0
	for n < min(len(w.waiting), maxBatch) {
		if bytes += w.waiting[n].bytes; n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	batch := append([]*applyCall(nil), w.waiting[:n]...)
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	clear(w.waiting[len(w.waiting):cap(w.waiting)])
	slices.SortFunc(batch, func(a, b *applyCall) int { return cmp.Compare(a.t.Execution, b.t.Execution) })
	// A statement can write to an execution only once. A second write follows in a later statement.
	alone := batch[:0]
	for _, a := range batch {
		if len(alone) > 0 && alone[len(alone)-1].t.Execution == a.t.Execution {
			w.waiting = append(w.waiting, a)
		} else {
			alone = append(alone, a)
		}
	}
	return alone
}

// write writes batches while there are any. It keeps its connection meanwhile, because the
// statements are prepared on it and the caches of the server's process are filled. It releases the
// connection if too few would be left for other calls.
func (s *Store) write() {
	keep := int(s.pool.unchecked.Stat().MaxConns()) > s.opt.Writers+1
	var conn *session
	release := func() {
		if conn != nil {
			conn.release()
			conn = nil
		}
	}
	defer release()
	for {
		batch := s.writers.take()
		if batch == nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
		var db querier = s.pool
		if keep {
			if conn != nil && conn.IsClosed() {
				release()
			}
			if conn == nil {
				conn, _ = s.pool.acquire(ctx) // without one, the pool returns the error
			}
			if conn != nil {
				db = conn
			}
		}
		s.writeBatch(ctx, db, batch)
		cancel()
	}
}
