// Package slots counts the executions that an engine runs, so that it claims no more
// than it may run at once.
package slots

import (
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/wakeup"
)

// A Pool has a number of slots, one for each execution whose steps may run. Its methods
// may be called by several goroutines.
type Pool struct {
	size  int
	freed chan struct{}

	mu   sync.Mutex
	held int
	// ending are executions whose steps are over, and the last write is under way.
	// They hold no slot, so that others are claimed meanwhile.
	ending int
	stuck  map[courier.ExecutionID]int // attempts that were cut off and have not returned
}

// New returns a pool of a size. It sends to freed, which has room for one value, when a
// slot becomes free, and Gather receives from it.
func New(size int, freed chan struct{}) *Pool {
	return &Pool{size: size, freed: freed, stuck: make(map[courier.ExecutionID]int)}
}

// Free returns how many executions may be claimed. Where the last writes take long, it is
// no more than can be written.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.size - p.held - max(0, p.ending-p.size)
	for _, n := range p.stuck {
		free -= n
	}
	return free
}

// A claim waits a little for more slots to become free: executions often end
// together, and one claim can replace them all. Where the last one got all that
// it could take, so that more is waiting than there are slots, it waits for as
// long as two claims take, or until a quarter of the slots is free.
const (
	MinGather = 50 * time.Microsecond
	MaxGather = 5 * time.Millisecond
)

// Gather waits for more slots to become free: for MinGather, and then until a quarter
// of them is, or the limit is over. It returns when stop is closed. It uses the timer.
func (p *Pool) Gather(stop <-chan struct{}, timer *time.Timer, limit time.Duration) {
	timer.Reset(MinGather)
	select {
	case <-stop:
		return
	case <-timer.C:
	}
	if limit <= MinGather {
		return
	}
	timer.Reset(limit - MinGather)
	for 4*p.Free() < p.size {
		select {
		case <-stop:
			return
		case <-timer.C:
			return
		case <-p.freed:
		}
	}
}

// Stuck takes a slot for an attempt of an execution that was cut off and has not
// returned; when it does, Returned must be called.
func (p *Pool) Stuck(id courier.ExecutionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck[id]++
}

// Returned frees the slot of an attempt that was cut off.
func (p *Pool) Returned(id courier.ExecutionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck[id]--; p.stuck[id] == 0 {
		delete(p.stuck, id)
	}
	wakeup.Send(p.freed)
}

// IsStuck reports whether an attempt of an execution was cut off and has not returned.
func (p *Pool) IsStuck(id courier.ExecutionID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck[id] > 0
}

// AllStuck returns the ids of the executions for which IsStuck is true, in order.
func (p *Pool) AllStuck() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.stuck {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return ids
}

// A Slot is held by an execution while its steps may run. A nil Slot is one of an
// execution that needs none.
type Slot struct {
	pool   *Pool
	ending bool
}

// Take returns a slot that is held.
func (p *Pool) Take() *Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
	return &Slot{pool: p}
}

// SetEnding says whether the steps are over and only the last write is left, which needs
// no slot.
func (s *Slot) SetEnding(ending bool) {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.ending == ending {
		return
	}
	s.ending = ending
	if ending {
		s.pool.held, s.pool.ending = s.pool.held-1, s.pool.ending+1
		wakeup.Send(s.pool.freed)
	} else {
		s.pool.held, s.pool.ending = s.pool.held+1, s.pool.ending-1
	}
}

// Release gives the slot back, after which it must not be used. The caller signals that a
// slot is free, when the execution is untracked too.
func (s *Slot) Release() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.ending {
		s.pool.ending--
	} else {
		s.pool.held--
	}
}
