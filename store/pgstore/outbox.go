package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ notify.Store = (*Store)(nil)

// retryIfSubscribed calls claim, and calls it again if it claimed nothing because a subscription
// was saved in the meantime. It sets c.took to the time of the longest call.
func (s *Store) retryIfSubscribed(c *claim, claim func(*claim) error) error {
	for {
		try := *c
		try.subscribed, try.keepsEvents = false, s.subscribed.Load()
		started := time.Now()
		if err := claim(&try); err != nil {
			return err
		}
		try.took = max(try.took, time.Since(started))
		if !try.subscribed {
			*c = try
			return nil
		}
		s.subscribed.Store(true)
	}
}

// PutSubscription saves a subscription.
func (s *Store) PutSubscription(ctx context.Context, r notify.Record) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	events := make([]string, len(r.Events))
	for i, e := range r.Events {
		events[i] = string(e)
	}
	err := repeat(ctx, func() error {
		_, err := s.pool.Exec(ctx, s.sql("subscription/save"), r.Name, r.Channel, events, textsOf(r.Jobs), textsOf(r.Chains), micros(r.Window), r.Disabled, r.Reason, string(r.Body), textsOf(r.Expectations))
		return err
	})
	if err != nil {
		return failed(fmt.Sprintf("save subscription %q", r.Name), err)
	}
	if !r.Disabled {
		s.subscribed.Store(true)
	}
	return nil
}

// RemoveSubscription removes a subscription and its deliveries.
func (s *Store) RemoveSubscription(ctx context.Context, name string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	var there bool
	err := repeat(ctx, func() error { return s.pool.QueryRow(ctx, s.sql("subscription/remove"), name).Scan(&there) })
	if err != nil {
		return failed(fmt.Sprintf("remove subscription %q", name), err)
	}
	if !there {
		return courier.Errorf(courier.ErrNotFound, "there is no subscription %q", name)
	}
	return nil
}

// Subscriptions returns a page of subscriptions.
func (s *Store) Subscriptions(ctx context.Context, f notify.Filter) ([]notify.Record, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (sub notify.Record, err error) {
		var body string
		var window int64
		var disabled *time.Time
		err = rows.Scan(&sub.Name, &sub.Channel, &sub.Events, &sub.Jobs, &sub.Chains, &sub.Expectations, &window, &sub.Disabled, &disabled, &sub.Reason, &body)
		sub.DisabledAt = instant(disabled)
		sub.Window, sub.Body = time.Duration(window)*time.Microsecond, []byte(body)
		return sub, err
	}, s.sql("subscription/list"), f.After, f.Name, int64(f.Limit))
	if err != nil {
		return nil, failed("list subscriptions", err)
	}
	return list, nil
}

// maxJoins is how often DueDeliveries coalesces held events before it leaves the rest to the
// next call.
const maxJoins = 2

// DueDeliveries leases due deliveries. It is one statement, and two more if a window has ended
// with held events.
func (s *Store) DueDeliveries(ctx context.Context, r notify.DueRequest) (notify.DueList, error) {
	if err := s.checkOpen(ctx); err != nil {
		return notify.DueList{}, err
	}
	var taken notify.DueList
	for n := 0; ; n++ {
		more, err := s.take(ctx, r, &taken)
		if err != nil {
			if len(taken.List) > 0 {
				break // the deliveries that were taken must not be lost
			}
			return notify.DueList{}, failed("take deliveries", err)
		}
		if !more || len(taken.List) >= r.Max || n == maxJoins {
			break
		}
		err = repeat(ctx, func() error {
			_, err := s.pool.Exec(ctx, s.sql("delivery/coalesce"), textsOf(r.Channels), textsOf(r.Except), int64(notify.MaxCoalesced), int64(notify.MaxCoalescedError))
			return err
		})
		if err != nil {
			s.log.Warn("join deliveries; will retry", "error", err)
			break
		}
	}
	if len(taken.List) >= r.Max {
		taken.Next = 0
	}
	return taken, nil
}

// take adds the deliveries that are due, and reports whether there are held events to
// coalesce.
func (s *Store) take(ctx context.Context, r notify.DueRequest, to *notify.DueList) (more bool, err error) {
	token := randomUUID()
	got := *to
	err = repeat(ctx, func() error {
		got, more = *to, false
		rows, err := s.pool.Query(ctx, s.sql("delivery/lease_due"), textsOf(r.Channels), textsOf(r.Except), int64(max(0, r.Max-len(to.List))), int64(max(0, r.Each)), micros(r.Lease), token)
		if err != nil {
			return err
		}
		var d deliveryRow
		var body string
		var was time.Time
		var next int64
		var held bool
		var events []courier.EventType
		_, err = pgx.ForEachRow(rows, append(d.fields(), &d.attempts, &body, &was, &next, &held, &events), func() error {
			if d.subscription == "" {
				got.Next, more, got.Events = time.Duration(next)*time.Microsecond, held, events
				return nil
			}
			n, err := d.notification()
			got.List = append(got.List, notify.Due{Notification: n, Token: store.Token(token), Attempt: int(d.attempts), Body: []byte(body)})
			return err
		})
		return err
	})
	if err != nil {
		return false, err
	}
	if len(got.Events) == 0 {
		s.subscribed.Store(false)
	}
	got.Next = max(got.Next, 0)
	*to = got
	return more, nil
}

// A deliveryRow is a row of outbox, as the statements select it.
type deliveryRow struct {
	subscription, id       string
	seq                    int64
	event, job, chain      string
	version                int32
	at                     time.Time
	step                   *int
	stepID, typ, iteration *string
	stepAttempt            *int32
	bytes                  *int64
	reason, err, by        *string
	count                  int32
	more, name, payload    *string
	attempts               int32
}

func (d *deliveryRow) fields() []any {
	return []any{
		&d.subscription, &d.id, &d.seq, &d.event, &d.job, &d.chain, &d.version, &d.at, &d.step, &d.stepID, &d.typ, &d.iteration, &d.stepAttempt,
		&d.bytes, &d.reason, &d.err, &d.by, &d.count, &d.more, &d.name, &d.payload,
	}
}

func (d *deliveryRow) notification() (notify.Notification, error) {
	id := courier.ExecutionID(d.id)
	n := notify.Notification{
		ID: notify.EventID(id, d.seq), Subscription: d.subscription, Type: courier.EventType(d.event), At: d.at.UTC(), Execution: id, Seq: d.seq,
		Job: d.job, Chain: d.chain, Version: int(d.version), StepID: text(d.stepID), StepType: text(d.typ), Reason: courier.Reason(text(d.reason)),
		Error: text(d.err), By: text(d.by), Count: int(d.count), Name: text(d.name), Payload: raw(d.payload),
	}
	switch {
	case n.Type.OfExpectation():
		n.Expectation, n.Name, n.Execution = n.Name, "", ""
	case d.job == "":
		n.ChainExecution, n.Execution = id, ""
	}
	if d.step != nil {
		step := *d.step
		n.Step = &step
	}
	if d.stepAttempt != nil {
		n.StepAttempt = int(*d.stepAttempt)
	}
	if d.bytes != nil {
		n.Bytes = *d.bytes
	}
	if err := decode(d.iteration, &n.Iteration); err != nil {
		return n, err
	}
	if err := decode(d.more, &n.Coalesced); err != nil {
		return n, err
	}
	for i := range n.Coalesced {
		n.Coalesced[i].At = n.Coalesced[i].At.UTC()
	}
	return n, nil
}

// RecordDeliveries records the results of deliveries.
func (s *Store) RecordDeliveries(ctx context.Context, list []notify.Outcome) error {
	if err := s.checkOpen(ctx); err != nil || len(list) == 0 {
		return err
	}
	n := len(list)
	names, ids, tokens, verdicts, errs := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	seqs, delays := make([]int64, n), make([]int64, n)
	for i := range list {
		o := &list[i]
		id, seq, err := notify.ParseEventID(o.Event)
		if err != nil {
			return err
		}
		names[i], ids[i], seqs[i], tokens[i] = o.Subscription, bind.ID(string(id)), seq, bind.ID(string(o.Token))
		verdicts[i], delays[i], errs[i] = string(o.Result), micros(o.Delay), o.Error
	}
	err := repeat(ctx, func() error {
		_, err := s.pool.Exec(ctx, s.sql("delivery/record_results"), names, ids, seqs, tokens, verdicts, delays, errs, micros(notify.FailedRetention))
		return err
	})
	if err != nil {
		return failed("settle deliveries", err)
	}
	return nil
}

// Deliveries returns a page of events that have not been delivered.
func (s *Store) Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	after, seq := courier.ExecutionID(bind.NilUUID), int64(0)
	if f.AfterSubscription != "" {
		var err error
		if after, seq, err = notify.ParseEventID(f.AfterEvent); err != nil {
			return nil, err
		}
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (v notify.Delivery, err error) {
		var d deliveryRow
		var state string
		if err := rows.Scan(append(d.fields(), &d.attempts, &v.LastErr, &v.DueAt, &state)...); err != nil {
			return v, err
		}
		v.Notification, err = d.notification()
		v.State, v.Attempts, v.DueAt = notify.Pending, int(d.attempts), v.DueAt.UTC()
		if state == string(notify.Failed) {
			v.State = notify.Failed
		}
		return v, err
	}, s.sql("delivery/list_undelivered"), f.Subscription, string(f.State), f.AfterSubscription, bind.ID(string(after)), seq, int64(f.Page()))
	if err != nil {
		return nil, failed("list deliveries", err)
	}
	return list, nil
}

// ReplayDeliveries makes deliveries due that failed or wait for their next attempt.
func (s *Store) ReplayDeliveries(ctx context.Context, subscription string, events []string) (int, error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	ids, seqs := make([]string, len(events)), make([]int64, len(events))
	for i, e := range events {
		id, seq, err := notify.ParseEventID(e)
		if err != nil {
			return 0, err
		}
		ids[i], seqs[i] = bind.ID(string(id)), seq
	}
	var there bool
	var n int
	err := repeat(ctx, func() error {
		return s.pool.QueryRow(ctx, s.sql("delivery/replay"), subscription, events == nil, ids, seqs).Scan(&there, &n)
	})
	switch {
	case err != nil:
		return 0, failed(fmt.Sprintf("replay deliveries of subscription %q", subscription), err)
	case !there:
		return 0, courier.Errorf(courier.ErrNotFound, "there is no subscription %q", subscription)
	}
	return n, nil
}
