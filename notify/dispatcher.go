package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
)

// The maximum numbers of concurrent deliveries of one engine, in total and per subscription. A
// receiver that hangs does not delay the others.
const (
	maxDeliveries = 32
	maxOfEach     = 8
)

// An attempt ends before its lease does, so that a receiver seldom gets the same event twice at
// once.
const (
	deliverTimeout = time.Minute
	deliverLease   = 3 * time.Minute
)

// The time between two polls for deliveries: deliverSoon after a delivery was found, then doubled
// each time up to deliverIdle.
const (
	deliverSoon = time.Second
	deliverIdle = 30 * time.Second
)

// deliverNone is the time between two polls while there are no subscriptions. Claims report the
// first subscription; see [Service.Claimed].
const deliverNone = 5 * time.Minute

// gatherNotices is the minimum time between two polls, so that events that come together are
// leased together.
const gatherNotices = 10 * time.Millisecond

// stopDeliveries is the time for which a stop waits for deliveries in progress.
const stopDeliveries = 5 * time.Second

// retryDelays are the delays after the first, second, ... failed attempt, as Standard Webhooks
// proposes. After one more attempt the delivery has failed.
var retryDelays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// A dispatcher makes deliveries during one [Service.Run].
type dispatcher struct {
	v       *Service
	o       Store
	ctx     context.Context // of the deliveries; ends with a cause
	http    *safehttp.Client
	busy    map[string]int // deliveries in progress, by subscription
	all     int
	done    chan Outcome // never full
	settled []settling   // outcomes that are not written yet
}

// A settling is an outcome that has not been written yet.
type settling struct {
	Outcome
	at time.Time
}

// Run makes due deliveries until ctx ends. Then it waits up to 5 seconds for deliveries in
// progress, and interrupts the rest, which do not count as attempts. It returns at once if the
// store keeps no subscriptions. An engine calls it while it is started; several engines may do so
// for one store.
func (v *Service) Run(ctx context.Context) {
	o, err := v.opt.Store()
	if err != nil {
		return // nobody can have subscribed
	}
	deliveries, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	p := &dispatcher{
		v: v, o: o, ctx: deliveries, http: safehttp.New(v.opt.Webhooks.guard()),
		busy: make(map[string]int), done: make(chan Outcome, maxDeliveries),
	}
	defer p.http.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := deliverSoon
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case out := <-p.done:
			p.ended(out)
		case <-v.wake:
			idle = deliverSoon
		case <-timer.C:
		}
		p.gather(ctx)
		wait, found := p.round(ctx)
		if found {
			idle = deliverSoon
		}
		timer.Reset(min(wait, idle))
		idle = min(2*idle, deliverIdle)
		if !v.wanted.Load() {
			timer.Reset(deliverNone)
		}
	}
	p.stop(cancel)
}

// gather waits a moment for deliveries that end, and for events that come together.
func (p *dispatcher) gather(ctx context.Context) {
	timer := time.NewTimer(gatherNotices)
	defer timer.Stop()
	for {
		select {
		case out := <-p.done:
			p.ended(out)
		case <-ctx.Done():
			return
		case <-timer.C:
			wakeup.Taken(p.v.wake)
			return
		}
	}
}

// round writes the outcomes of ended deliveries, and leases and begins due deliveries. It returns
// the time to wait for the next round, and whether it found a delivery.
func (p *dispatcher) round(ctx context.Context) (wait time.Duration, found bool) {
	p.settle(ctx)
	most := maxDeliveries - p.all
	if most <= 0 {
		return deliverIdle, true // the end of the next delivery wakes us
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	r := DueRequest{Channels: p.v.channels(), Max: most, Each: maxOfEach, Lease: deliverLease}
	for name, n := range p.busy {
		if n >= maxOfEach {
			r.Except = append(r.Except, name)
		}
	}
	slices.Sort(r.Except)
	got, err := p.o.DueDeliveries(ctx, r)
	if err != nil {
		if p.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			p.v.opt.Log.Warn("look for deliveries; will retry", "error", err)
		}
		return deliverIdle, false
	}
	p.v.wanted.Store(len(got.Events) > 0)
	for i := range got.List {
		p.begin(&got.List[i])
	}
	wait = deliverIdle
	if len(got.List) == most {
		wait = 0 // or until one ends
	}
	if got.Next > 0 {
		wait = min(wait, got.Next)
	}
	return wait, len(got.List) > 0
}

// channels returns the channels that this engine can deliver.
func (v *Service) channels() []string {
	list := []string{string(KindWebhook), string(KindJob)}
	if v.opt.Mailer != nil {
		list = append(list, string(KindEmail))
	}
	for name := range v.opt.Subscribers {
		s := Subscription{Kind: KindFunc, Func: name}
		list = append(list, s.channel())
	}
	slices.Sort(list)
	return list
}

// channel returns the Channel of the subscription's [Record].
func (s *Subscription) channel() string {
	if s.Kind == KindFunc {
		return string(s.Kind) + ":" + s.Func
	}
	return string(s.Kind)
}

// begin begins a delivery.
func (p *dispatcher) begin(t *Due) {
	name := t.Notification.Subscription
	p.busy[name]++
	p.all++
	go func() {
		ctx, cancel := context.WithTimeout(p.ctx, deliverTimeout)
		defer cancel()
		p.done <- p.v.verdict(ctx, t, p.deliver(ctx, t))
	}()
}

// ended records that a delivery has ended.
func (p *dispatcher) ended(o Outcome) {
	if p.all--; p.busy[o.Subscription] <= 1 {
		delete(p.busy, o.Subscription)
	} else {
		p.busy[o.Subscription]--
	}
	p.settled = append(p.settled, settling{o, time.Now()})
}

// settle writes the outcomes of deliveries. If one can't be written, settle tries again until the
// lease ends; then the delivery is due again anyway.
func (p *dispatcher) settle(ctx context.Context) {
	p.settled = slices.DeleteFunc(p.settled, func(s settling) bool { return time.Since(s.at) > deliverLease })
	if len(p.settled) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	list := make([]Outcome, len(p.settled))
	for i, s := range p.settled {
		list[i] = s.Outcome
	}
	if err := p.o.RecordDeliveries(ctx, list); err != nil {
		p.v.opt.Log.Warn("settle deliveries; will retry", "error", err, "count", len(list))
		return
	}
	p.settled = nil
}

// stop ends deliveries: it waits for those in progress, and then ends their contexts. If a
// delivery does not return even then, it is due again when its lease ends.
func (p *dispatcher) stop(cancel context.CancelCauseFunc) {
	timer := time.NewTimer(stopDeliveries)
	defer timer.Stop()
	const rest = time.Second
	for cancelled := false; p.all > 0; {
		select {
		case out := <-p.done:
			p.ended(out)
			continue
		case <-timer.C:
		}
		if cancelled {
			break
		}
		cancelled = true
		cancel(courier.ErrStopped)
		timer.Reset(rest)
	}
	p.settle(context.WithoutCancel(p.ctx))
}

// verdict returns the outcome of an attempt that ended with err.
func (v *Service) verdict(ctx context.Context, t *Due, err error) Outcome {
	n := &t.Notification
	o := Outcome{Subscription: n.Subscription, Event: n.ID, Token: t.Token, Result: Delivered}
	if err == nil {
		return o
	}
	var none secret.Redactor
	o.Error = text.Shorten(none.Message(err), text.Max)
	answer, _ := errors.AsType[*answerError](err)
	log := v.opt.Log.With("subscription", n.Subscription, "event", n.ID, "attempt", t.Attempt, "error", o.Error)
	switch {
	case errors.Is(context.Cause(ctx), courier.ErrStopped):
		o.Result = Returned
	case answer != nil && answer.gone:
		o.Result = EndpointGone
		log.Error("delivery was refused; the subscription is disabled")
	case courier.IsPermanent(err) || t.Attempt > len(retryDelays):
		o.Result = GivenUp
		log.Error("delivery failed; it can be replayed")
	default:
		o.Result = Retry
		o.Delay = retryDelays[t.Attempt-1]
		o.Delay += rand.N(o.Delay/5 + 1)
		if answer != nil {
			o.Delay = max(o.Delay, min(answer.after, retryDelays[len(retryDelays)-1]))
		}
		log.Warn("delivery failed; it will be retried", "after", o.Delay)
	}
	return o
}

// An answerError is the response of a receiver that did not accept a delivery.
type answerError struct {
	err   error
	after time.Duration // the delay that the receiver asks for before the next request
	gone  bool          // the receiver wants no further requests
}

func (a *answerError) Error() string { return a.err.Error() }
func (a *answerError) Unwrap() error { return a.err }
