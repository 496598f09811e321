// Package waiters wakes those who wait for an execution.
package waiters

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// A Set has the channels of those who wait, by execution; one who waits for a chain
// execution uses the id of that. The zero value is an empty set. Its methods may be called
// by several goroutines.
type Set struct {
	mu sync.Mutex
	m  map[courier.ExecutionID][]chan struct{}
}

// Add returns a channel that the next call of Wake with the id closes. It is in the set
// until then, or until Remove.
func (s *Set) Add(id courier.ExecutionID) chan struct{} {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[courier.ExecutionID][]chan struct{})
	}
	s.m[id] = append(s.m[id], c)
	return c
}

// Remove takes a channel that Add returned out of the set, if it is still there.
func (s *Set) Remove(id courier.ExecutionID, c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.m[id]
	if i := slices.Index(list, c); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(s.m, id)
	} else {
		s.m[id] = list
	}
}

// Wake closes the channels of an id, and takes them out of the set.
func (s *Set) Wake(id courier.ExecutionID) {
	s.mu.Lock()
	list := s.m[id]
	delete(s.m, id)
	s.mu.Unlock()
	for _, c := range list {
		close(c)
	}
}

// Until calls look until it returns true or an error, or ctx ends: at growing intervals of
// up to a second, and at once when Wake is called with the id.
func (s *Set) Until(ctx context.Context, id courier.ExecutionID, look func() (bool, error)) error {
	const first, most = 20 * time.Millisecond, time.Second
	for wait := first; ; wait = min(2*wait, most) {
		ended := s.Add(id)
		if done, err := look(); done || err != nil {
			s.Remove(id, ended)
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ended:
			wait = first / 2 // the next is the first
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		s.Remove(id, ended)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
