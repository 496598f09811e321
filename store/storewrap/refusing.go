package storewrap

import (
	"context"
	"sync"

	"github.com/courierhq/courier/store"
)

// A Refusing is a store that refuses the writes that a test selects. It passes all other
// calls on. Its methods may be called by several goroutines.
type Refusing struct {
	store.Store
	roles

	mu      sync.Mutex
	verdict func(*Call) error
	refused int
}

var _ store.Store = (*Refusing)(nil)

// NewRefusing returns a store that works like s until [Refusing.Refuse] is called.
func NewRefusing(s store.Store) *Refusing {
	r := new(Refusing)
	r.Store = Intercept(s, r.call)
	r.roles = rolesOf(r.Store)
	return r
}

// Refuse makes the store refuse calls from now on: if verdict returns an error for a call, the
// caller gets this error. Like the error of a real store, it should match [courier.ErrInvalid] or
// be marked by [courier.Permanent]. A nil verdict refuses no call.
func (r *Refusing) Refuse(verdict func(*Call) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict = verdict
}

// Refused returns how many calls were refused so far.
func (r *Refusing) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// call is the interceptor.
func (r *Refusing) call(ctx context.Context, c *Call, do func(context.Context) error) error {
	if err := r.judge(c); err != nil {
		return err
	}
	return do(ctx)
}

func (r *Refusing) judge(c *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict == nil {
		return nil
	}
	err := r.verdict(c)
	if err != nil {
		r.refused++
	}
	return err
}
