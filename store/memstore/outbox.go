package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

var _ notify.Store = (*Store)(nil)

// A box holds what is to be delivered for a subscription.
type box struct {
	notify.Record
	list    []*delivery // in the order in which they came
	windows map[windowOf]time.Time
}

// A windowOf is what has a flood window of its own.
type windowOf struct {
	job, chain string
	event      courier.EventType
}

// A delivery is an event that is kept for a subscription.
type delivery struct {
	notify.Notification
	held, failed bool // held: not joined with others yet
	due          time.Time
	attempts     int
	token        store.Token // of the last lease
	err          string
}

func (d *delivery) window() windowOf { return windowOf{d.Job, d.Chain, d.Type} }

// notify keeps the events of what was written to x since its audit had n
// entries. First says that this was its first claim.
func (s *Store) notify(x *execution, n int64, first bool) {
	if len(s.boxes) == 0 {
		return
	}
	for seq := n + 1; seq <= x.seq(); seq++ {
		a := x.auditEntry(seq)
		var list []notify.Notification
		if r := x.audit[seq-1].step; r != nil && r.Seq == seq {
			list = notify.OfStepEvents(&x.Execution, r)
		}
		if e, ok := notify.OfEntry(&x.Execution, &a, first); ok {
			list = append(list, e)
		}
		for i := range list {
			if c := s.chains.all[x.Chain]; c != nil {
				list[i].Chain = c.Chain
			}
			s.keep(&list[i])
		}
	}
}

// notifyChain keeps the event of a chain execution that has just been evaluated.
// Begun says that its first members were released.
func (s *Store) notifyChain(c *chainRecord, started bool, now time.Time) {
	v := c.view()
	if e := v.Event(c.was, started); e.Type != "" {
		c.events++
		n := notify.OfChain(e, c.events, now)
		s.keep(&n)
	}
}

// keep keeps an event for all subscriptions that want it.
func (s *Store) keep(n *notify.Notification) {
	for _, b := range s.boxes {
		if b.Wants(n.Type, n.Job, n.Chain) {
			d := &delivery{Notification: *n, held: b.Window > 0, due: n.At}
			d.Subscription = b.Name
			b.list = append(b.list, d)
		}
	}
}

// keepExpected keeps an event of an expectation for all subscriptions that want it.
func (s *Store) keepExpected(e *expectation.Event, now time.Time) {
	for _, b := range s.boxes {
		if b.WantsExpectation(e.Type, e.Expectation) {
			d := &delivery{Notification: notify.OfExpectation(e.Expectation, e.ID, e.Seq, e.Type, e.At, e.Text, e.Payload), held: b.Window > 0, due: now}
			d.Subscription = b.Name
			b.list = append(b.list, d)
		}
	}
}

// PutSubscription saves a subscription.
func (s *Store) PutSubscription(ctx context.Context, r notify.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[r.Name]
	if b == nil {
		b = &box{windows: make(map[windowOf]time.Time)}
		s.boxes[r.Name] = b
	}
	since := b.DisabledAt
	if b.Record = r; r.Disabled {
		if b.DisabledAt = since; since.IsZero() {
			b.DisabledAt = s.clock()
		}
	} else {
		b.DisabledAt = time.Time{}
	}
	return nil
}

// RemoveSubscription removes a subscription and its deliveries.
func (s *Store) RemoveSubscription(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes[name] == nil {
		return courier.Errorf(courier.ErrNotFound, "there is no subscription %q", name)
	}
	delete(s.boxes, name)
	return nil
}

// subscribed reports whether there are subscriptions.
func (s *Store) subscribed() bool {
	for _, b := range s.boxes {
		if !b.Disabled {
			return true
		}
	}
	return false
}

// Subscriptions returns a page of subscriptions.
func (s *Store) Subscriptions(ctx context.Context, f notify.Filter) ([]notify.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []notify.Record
	for _, name := range slices.Sorted(maps.Keys(s.boxes)) {
		if name > f.After && (f.Name == "" || f.Name == name) && len(list) < f.Limit {
			list = append(list, s.boxes[name].Record)
		}
	}
	return list, nil
}

// DueDeliveries leases deliveries that are due.
func (s *Store) DueDeliveries(ctx context.Context, r notify.DueRequest) (notify.DueList, error) {
	if err := ctx.Err(); err != nil {
		return notify.DueList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	taken := notify.DueList{Events: s.wanted()}
	var ready []*delivery
	var next time.Time
	for _, b := range s.boxes {
		if b.Disabled || !slices.Contains(r.Channels, b.Channel) || slices.Contains(r.Except, b.Name) {
			continue
		}
		b.join(now)
		due, later := b.due(now, r.Each)
		ready = append(ready, due...)
		if !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
	}
	slices.SortFunc(ready, func(a, b *delivery) int {
		return cmp.Or(a.due.Compare(b.due), strings.Compare(a.Subscription, b.Subscription), strings.Compare(a.ID, b.ID))
	})
	token := store.Token(rand.Text())
	for _, d := range ready[:min(len(ready), max(0, r.Max))] {
		b := s.boxes[d.Subscription]
		if d.attempts == 0 && b.Window > 0 {
			b.windows[d.window()] = now.Add(b.Window)
		}
		d.attempts++
		d.token, d.due = token, now.Add(r.Lease.Truncate(time.Microsecond))
		taken.List = append(taken.List, notify.Due{Notification: d.Notification, Token: token, Attempt: d.attempts, Body: b.Body})
	}
	if len(taken.List) < r.Max && !next.IsZero() {
		taken.Next = next.Sub(now)
	}
	return taken, nil
}

// wanted returns the types of events that are wanted.
func (s *Store) wanted() []courier.EventType {
	types := make(map[courier.EventType]bool)
	for _, b := range s.boxes {
		for _, e := range b.Events {
			if !b.Disabled {
				types[e] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// join makes one delivery of all that a window has held back, where the last one
// has ended.
func (b *box) join(now time.Time) {
	first := make(map[windowOf]*delivery)
	others := make(map[windowOf][]notify.Notification)
	kept := b.list[:0]
	for _, d := range b.list {
		w := d.window()
		switch {
		case !d.held || b.Window > 0 && b.windows[w].After(now):
			kept = append(kept, d)
		case first[w] == nil:
			first[w] = d
			kept = append(kept, d)
		default:
			others[w] = append(others[w], d.Notification)
		}
	}
	clear(b.list[len(kept):])
	b.list = kept
	for w, d := range first {
		d.held = false
		b.windows[w] = now.Add(b.Window)
		d.Notification.Coalesce(others[w])
	}
}

// due returns what is due, the longest first and at most so many, and when there
// is more.
func (b *box) due(now time.Time, most int) (list []*delivery, next time.Time) {
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, d := range b.list {
		switch {
		case d.failed:
		case d.held:
			sooner(b.windows[d.window()])
		case d.due.After(now):
			sooner(d.due)
		default:
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b *delivery) int { return a.due.Compare(b.due) })
	return list[:min(len(list), max(0, most))], next
}

// RecordDeliveries records the results of deliveries.
func (s *Store) RecordDeliveries(ctx context.Context, list []notify.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	for i := range list {
		s.settle(&list[i], now)
	}
	return nil
}

func (s *Store) settle(o *notify.Outcome, now time.Time) {
	b := s.boxes[o.Subscription]
	if b == nil {
		return
	}
	i := slices.IndexFunc(b.list, func(d *delivery) bool { return d.ID == o.Event && d.token == o.Token && d.token != "" })
	if i < 0 {
		return
	}
	d := b.list[i]
	d.token, d.due, d.err = "", now, o.Error
	switch o.Result {
	case notify.Delivered:
		b.list = slices.Delete(b.list, i, i+1)
	case notify.Retry:
		d.due = now.Add(o.Delay.Truncate(time.Microsecond))
	case notify.Returned:
		d.attempts--
	case notify.EndpointGone:
		if b.Disabled, b.Reason = true, o.Error; b.DisabledAt.IsZero() {
			b.DisabledAt = now
		}
		d.failed = true
	default:
		d.failed = true
	}
	b.list = slices.DeleteFunc(b.list, func(d *delivery) bool { return d.failed && now.Sub(d.due) > notify.FailedRetention })
}

// Deliveries returns a page of the events that have not been delivered.
func (s *Store) Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []notify.Delivery
	for _, b := range s.boxes {
		if f.Subscription != "" && b.Name != f.Subscription {
			continue
		}
		for _, d := range b.list {
			v := notify.Delivery{Notification: d.Notification, State: notify.Pending, Attempts: d.attempts, DueAt: d.due, LastErr: d.err}
			if d.failed {
				v.State = notify.Failed
			}
			if (f.State == "" || v.State == f.State) && (f.AfterSubscription == "" || compareDeliveries(&v, f.AfterSubscription, f.AfterEvent) > 0) {
				list = append(list, v)
			}
		}
	}
	slices.SortFunc(list, func(a, b notify.Delivery) int { return compareDeliveries(&a, b.Subscription, b.ID) })
	return list[:min(len(list), f.Page())], nil
}

// compareDeliveries compares the place of d with that of another.
func compareDeliveries(d *notify.Delivery, subscription, event string) int {
	of, seq, _ := notify.ParseEventID(event)
	own, ownSeq, _ := notify.ParseEventID(d.ID)
	return cmp.Or(strings.Compare(d.Subscription, subscription), cmp.Compare(own, of), cmp.Compare(ownSeq, seq))
}

// ReplayDeliveries makes deliveries due that failed or wait for their next attempt.
func (s *Store) ReplayDeliveries(ctx context.Context, subscription string, events []string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[subscription]
	if b == nil {
		return 0, courier.Errorf(courier.ErrNotFound, "there is no subscription %q", subscription)
	}
	n, now := 0, s.clock()
	for _, d := range b.list {
		waits := d.failed || d.token == "" && !d.held && d.due.After(now)
		if waits && (events == nil || slices.Contains(events, d.ID)) {
			d.failed, d.attempts, d.due = false, 0, now
			n++
		}
	}
	return n, nil
}
