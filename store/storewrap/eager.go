package storewrap

import (
	"context"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// NewEager returns a store on s whose claims start the first step, as [store.Claimed.Started]
// allows. It is for tests of code that claims executions, if s itself leaves the start to the
// worker. No other call may reach s between the claim and the start. So s must answer at once, like
// memstore, and calls must be made one at a time.
func NewEager(s store.Store) store.Store {
	return &eager{Store: s, roles: rolesOf(s), first: make(map[courier.ExecutionID]*courier.StepExecution)}
}

type eager struct {
	store.Store
	roles

	mu    sync.Mutex
	first map[courier.ExecutionID]*courier.StepExecution // of executions that nobody has claimed or sent a request to
}

func (e *eager) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	got, err := e.Store.Enqueue(ctx, list)
	for i := range got {
		if n := &list[i]; !got[i].Existed && n.First != nil {
			e.first[n.ID] = n.First
		}
	}
	return got, err
}

func (e *eager) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.Store.Request(ctx, r)
	if err == nil {
		delete(e.first, r.Execution)
	}
	return x, err
}

func (e *eager) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	claims, err := e.Store.Claim(ctx, r)
	for i := range claims.List {
		c := &claims.List[i]
		s := e.first[c.Execution.ID]
		if s == nil {
			continue
		}
		delete(e.first, c.Execution.ID)
		if err := e.start(ctx, c, s); err != nil {
			return store.Claims{}, err
		}
	}
	return claims, err
}

// start starts the first step of a claimed execution.
func (e *eager) start(ctx context.Context, c *store.Claimed, s *courier.StepExecution) (err error) {
	t := store.Transition{
		Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Running, Counters: store.Counters{Attempts: 1},
		Start: &courier.StepExecution{ID: s.ID, Type: s.Type, Attempt: 1},
	}
	if err := e.Apply(ctx, t); err != nil {
		return err
	}
	if c.Execution, err = e.Execution(ctx, c.Execution.ID); err != nil {
		return err
	}
	started := *c.Execution.Current
	c.Started, c.Seq, c.Counters = &started, c.Seq+1, t.Counters
	return nil
}
