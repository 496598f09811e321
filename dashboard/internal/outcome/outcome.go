// Package outcome keeps the results of the forms that were sent last.
package outcome

import (
	"sync"
	"time"

	"github.com/courierhq/courier/dashboard/internal/problem"
)

// A Result is the result of an action.
type Result struct {
	To   string // reference of the page that shows the result
	Err  error
	Kept any    // for the page that shows the result
	By   string // the ID of the visitor
}

// Recent has the results of the last forms, by their ids. A form that is sent twice is carried out
// once, and both requests get the same answer. A form that was refused can be sent again. The zero
// value is empty. Its methods may be called by several goroutines.
type Recent struct {
	mu    sync.Mutex
	list  map[string]*sent // by id
	order []*sent          // the oldest first
}

// A sent is a form that was sent, with its result when it is known.
type sent struct {
	id   string
	at   time.Time
	done chan struct{} // closed when the result is known
	Result
}

// The limits of the forms that are kept.
const (
	maxForms = 1000
	keptFor  = 10 * time.Minute
	sameFor  = time.Minute // for how long the same form is the same action
)

// Once returns the result of the form with an id. The first call with the id calls f, and other
// calls wait for it. A form without a key is always carried out.
func (o *Recent) Once(id string, keyed bool, f func() Result) Result {
	if !keyed {
		return f()
	}
	o.mu.Lock()
	at := time.Now()
	for len(o.order) > 0 && (len(o.order) >= maxForms || at.Sub(o.order[0].at) > keptFor) {
		o.forget(o.order[0])
		o.order = o.order[1:]
	}
	if s := o.list[id]; s != nil && at.Sub(s.at) < sameFor {
		o.mu.Unlock()
		<-s.done
		return s.Result
	}
	if o.list == nil {
		o.list = make(map[string]*sent)
	}
	s := &sent{id: id, at: at, done: make(chan struct{}), Result: Result{Err: problem.ErrPanic}}
	o.list[id] = s
	o.order = append(o.order, s)
	o.mu.Unlock()
	defer func() {
		if s.Err != nil {
			o.mu.Lock()
			o.forget(s)
			o.mu.Unlock()
		}
		close(s.done)
	}()
	s.Result = f()
	return s.Result
}

// forget removes a form, unless it was sent again.
func (o *Recent) forget(s *sent) {
	if o.list[s.id] == s {
		delete(o.list, s.id)
	}
}

// Kept returns the result that a form has kept for the visitor who sent it. It is nil if there is
// none.
func (o *Recent) Kept(id, by string) any {
	o.mu.Lock()
	s := o.list[id]
	o.mu.Unlock()
	if s == nil {
		return nil
	}
	if <-s.done; s.By != by {
		return nil
	}
	return s.Result.Kept
}
