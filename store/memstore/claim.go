package memstore

import (
	sorted "container/heap"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// slots counts the running executions, as the limits do.
type slots struct {
	all      int
	job, key map[string]int
}

func (n *slots) add(x *execution, d int) {
	n.all += d
	count(n.job, x.Job, d)
	for _, k := range x.LimitKeys {
		count(n.key, k, d)
	}
}

func count(m map[string]int, k string, d int) {
	if m[k] += d; m[k] == 0 {
		delete(m, k)
	}
}

// room reports whether the limits let x run.
func (s *Store) room(x *execution) bool {
	if full(s.running.all, s.globalLimit()) || full(s.running.job[x.Job], s.jobLimit(x)) {
		return false
	}
	for _, k := range x.LimitKeys {
		if full(s.running.key[k], s.keyLimit(k)) {
			return false
		}
	}
	return true
}

// globalLimit is the limit of all executions; 0 means none.
func (s *Store) globalLimit() int {
	if n, set := s.limits[""]; set {
		return n
	}
	return store.DefaultLimit
}

// jobLimit is the limit of the job of x; 0 means none.
func (s *Store) jobLimit(x *execution) int {
	if n, set := s.limits["job:"+x.Job]; set {
		return n
	}
	return x.jobLimit
}

// keyLimit is the limit of a limit key; 0 means none. A key without a limit of its own has
// that of the longest pattern.
func (s *Store) keyLimit(key string) int {
	if n, set := s.limits["key:"+key]; set && !strings.HasSuffix(key, "*") {
		return n
	}
	limit, longest := 0, -1
	for _, p := range s.patterns {
		if len(p) > longest && strings.HasPrefix(key, p) {
			limit, longest = s.limits["key:"+p+"*"], len(p)
		}
	}
	return limit
}

func full(n, limit int) bool { return limit > 0 && n >= limit }

// A claim is a ClaimRequest that is being answered.
type claim struct {
	store.ClaimRequest
	types map[string]bool
	only  map[courier.ExecutionID]bool // nil if anything may be claimed
	now   time.Time
}

// matches reports whether the worker can take x, if x can be taken at all.
func (c *claim) matches(x *execution) bool {
	if x.Workspace != "" && x.Workspace != c.Workspace || !slices.Contains(c.Queues, x.Queue) {
		return false
	}
	if c.only != nil && !c.only[x.ID] {
		return false
	}
	for _, t := range x.types {
		if !c.types[t] {
			return false
		}
	}
	return true
}

// Claim leases executions to a worker.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	if err := ctx.Err(); err != nil {
		return store.Claims{}, err
	}
	c := &claim{ClaimRequest: r, types: make(map[string]bool, len(r.StepTypes))}
	for _, t := range r.StepTypes {
		c.types[t] = true
	}
	if r.Only != nil {
		c.only = make(map[courier.ExecutionID]bool, len(r.Only))
		for _, id := range r.Only {
			c.only[id] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.now = s.clock()
	claims := store.Claims{Mark: s.changes, Subscribed: s.subscribed()}
	for _, x := range s.lost(c) {
		claims.List = append(claims.List, s.lease(x, c))
	}
	queued := s.first(c)
	for len(claims.List) < r.Max {
		x := queued()
		if x == nil {
			claims.Next = s.next(c)
			break
		}
		claims.List = append(claims.List, s.lease(x, c))
	}
	claims.Unclaimed = s.noted(c)
	return claims, nil
}

// lost returns the executions with expired leases that c can take, in order.
func (s *Store) lost(c *claim) []*execution {
	var list []*execution
	for x := range s.leases.while(func(x *execution) bool { return x.expired(c.now) }) {
		if c.matches(x) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, inOrder)
	return list[:min(len(list), max(0, c.Max))]
}

// first returns a function that returns the first of the queued executions that
// c can take and the limits allow, or nil. Each has to be claimed before the
// next call.
func (s *Store) first(c *claim) func() *execution {
	if c.only != nil {
		return s.firstOf(c)
	}
	var classes classHeap
	for i, name := range c.Queues {
		if slices.Contains(c.Queues[:i], name) {
			continue
		}
		for _, cl := range s.queues[name] {
			if x := cl.due(c.now); x != nil && c.matches(x) {
				classes = append(classes, cl)
			}
		}
	}
	sorted.Init(&classes)
	claimed := false
	return func() *execution {
		if claimed { // the first of the first class is another one now
			if classes[0].ready.top() == nil {
				sorted.Pop(&classes)
			} else {
				sorted.Fix(&classes, 0)
			}
		}
		// Claims only take slots, so a class without room has none later.
		for len(classes) > 0 && !s.room(classes[0].ready.top()) {
			sorted.Pop(&classes)
		}
		if claimed = len(classes) > 0; !claimed {
			return nil
		}
		return classes[0].ready.top()
	}
}

// A classHeap has the class at the front whose first execution is claimed first.
type classHeap []*class

func (h classHeap) Len() int           { return len(h) }
func (h classHeap) Less(i, j int) bool { return claimedBefore(h[i].ready.top(), h[j].ready.top()) }
func (h classHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *classHeap) Push(cl any)       { *h = append(*h, cl.(*class)) }

func (h *classHeap) Pop() any {
	last := len(*h) - 1
	cl := (*h)[last]
	*h = (*h)[:last]
	return cl
}

// due returns the first of the class that is due, or nil.
func (c *class) due(now time.Time) *execution {
	for x := c.waiting.top(); x != nil && !x.DueAt.After(now); x = c.waiting.top() {
		c.waiting.remove(x)
		c.ready.push(x)
	}
	return c.ready.top()
}

// firstOf is first for the executions that c names.
func (s *Store) firstOf(c *claim) func() *execution {
	var list []*execution
	for id := range c.only {
		if x := s.executions[id]; x != nil && x.State == courier.Queued && x.class != nil && !x.DueAt.After(c.now) && c.matches(x) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, inOrder)
	return func() *execution {
		for len(list) > 0 {
			x := list[0]
			list = list[1:]
			if s.room(x) {
				return x
			}
		}
		return nil
	}
}

// next returns the time until something that c can take becomes due or its
// lease expires, or 0.
func (s *Store) next(c *claim) time.Duration {
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(c.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, x := range s.leases.list {
		if c.matches(x) {
			sooner(x.LeaseExpiresAt)
		}
	}
	if c.only != nil {
		for id := range c.only {
			if x := s.executions[id]; x != nil && x.State == courier.Queued && x.class != nil && c.matches(x) {
				sooner(x.DueAt)
			}
		}
	} else {
		for _, name := range c.Queues {
			for _, cl := range s.queues[name] {
				if x := cl.waiting.top(); x != nil && c.matches(x) {
					sooner(x.DueAt)
				}
			}
		}
	}
	if at.IsZero() {
		return 0
	}
	return at.Sub(c.now)
}

// lease gives x, which is queued or whose lease has expired, to c's worker.
func (s *Store) lease(x *execution, c *claim) store.Claimed {
	claimed := store.Claimed{First: x.StartedAt.IsZero(), Reclaimed: x.State == courier.Running}
	n := x.seq()
	if x.State == courier.Running {
		s.leases.remove(x)
		x.log(c.now, entry{
			from: string(courier.Running), to: string(courier.Queued), elapsed: c.now.Sub(x.since), worker: c.Worker,
			note: &note{reason: courier.ReasonWorkerLost, err: fmt.Sprintf("the lease of worker %q expired", x.Worker)},
		})
		x.since = c.now
		x.counters.Reclaims++
	} else {
		s.dequeue(x)
		s.running.add(x, 1)
	}
	x.log(c.now, entry{from: string(courier.Queued), to: string(courier.Running), elapsed: c.now.Sub(x.since), worker: c.Worker})
	s.enter(x, courier.Running)
	x.since, x.Worker, x.OnlyCopies = c.now, c.Worker, nil
	s.notify(x, n, claimed.First)
	x.token = store.Token(rand.Text())
	x.first, x.last = x.seq(), x.seq()
	x.HeartbeatAt, x.LeaseExpiresAt = c.now, c.now.Add(c.Lease)
	s.leases.push(x)
	if claimed.First {
		x.StartedAt = c.now
	}
	if x.clock.IsZero() {
		x.clock = c.now
	}
	timeout := x.Timeout
	if x.finish != nil {
		timeout = x.finish.Timeout
	}
	if timeout != 0 {
		claimed.Remaining = timeout - c.now.Sub(x.clock)
	}
	claimed.Execution = s.view(x)
	claimed.Token, claimed.Seq, claimed.Counters = x.token, x.seq(), x.counters
	claimed.Definition = *s.definition(store.Job, x.Job, x.Version)
	claimed.Latest = x.latestSteps(0)
	claimed.Progress, claimed.Finish = x.progress, x.finish
	if x.Current != nil {
		lost := *x.Current
		claimed.Lost = &lost
	}
	return claimed
}
