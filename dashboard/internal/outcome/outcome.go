// Package outcome keeps the result of the forms that were sent last.
package outcome

import (
	"sync"
	"time"

	"github.com/courierhq/courier/dashboard/internal/problem"
)

// A Result is the result of an action.
type Result struct {
	To   string // reference of the page that says the result
	Err  error
	Kept any    // for the page that says the result
	By   string // the ID of the visitor
}

// Recent has the results of the last forms, by their ids. A form that is sent twice is carried
// out once, and both are answered alike; one that was refused can be sent again. The zero value is
// empty. Its methods may be called by several goroutines.
type Recent struct {
	mu    sync.Mutex
	list  map[string]*sent // by id
	order []*sent          // the oldest first
}

// A sent is a form, with its result as soon as there is one.
type sent struct {
	id   string
	at   time.Time
	done chan struct{} // closed when the result is there
	Result
}

// What is kept of forms.
const (
	maxForms = 1000
	keptFor  = 10 * time.Minute
	sameFor  = time.Minute // in which the same form is the same action
)

// Once returns the result of the first call with an id, which has called f, and waits for it. A
// form without a key is always carried out.
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

// forget removes a form, if it is not there again.
func (o *Recent) forget(s *sent) {
	if o.list[s.id] == s {
		delete(o.list, s.id)
	}
}

// Kept returns what a form has left for the visitor who has sent it; nil if it is not there.
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
