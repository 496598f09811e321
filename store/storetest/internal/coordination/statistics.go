package coordination

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

func hasStatistics(s store.Store) bool {
	_, measured := s.(store.Statistics)
	_, scheduled := s.(schedule.Store)
	_, monitored := s.(monitor.Store)
	return measured && scheduled && monitored && hasOutbox(s)
}

// stats returns the figures, without those of a database.
func (k *kit) stats(most int) store.Stats {
	k.Helper()
	st, err := k.Store.(store.Statistics).Stats(k.Ctx(), most)
	k.OK(err)
	if st.At.IsZero() {
		k.Errorf("the figures are of no instant")
	}
	st.Database = nil
	return st
}

var statisticsCases = []testCase{
	// The statistics of an empty store are none.
	{"stats_of_nothing", func(k *kit) {
		st := k.stats(0)
		k.Same("stats", st, store.Stats{At: st.At})
	}},
	{"stats_have_since_when_a_schedule_is_due", withSchedules(func(p *scheduleKit) {
		p.put(daily("never"), -1)
		p.put(daily("later"), long)
		p.Same("none is due", p.stats(0).ScheduleDue, time.Time{})
		first := p.put(daily("first"), 0)
		p.Pass(p.Unit / 10)
		p.put(daily("second"), 0)
		p.Same("due", p.stats(0).ScheduleDue, first.Due)
		_, err := p.DueSchedules(p.Ctx(), 10, long)
		p.OK(err)
		p.Same("all are leased", p.stats(0).ScheduleDue, time.Time{})
	})},
	{"stats_have_since_when_a_monitor_is_due", withMonitors(func(l *monitorKit) {
		l.put(monitorOf("later"), long)
		l.Same("none is due", l.stats(0).MonitorDue, time.Time{})
		first := l.put(monitorOf("first"), 0)
		l.Pass(l.Unit / 10)
		for name, state := range map[string]monitor.State{"second": monitor.Degraded, "third": monitor.Failed, "fourth": monitor.Failed} {
			m := monitorOf(name)
			m.State = state
			l.put(m, 0)
		}
		st := l.stats(0)
		l.Same("due, degraded and failed", []any{st.MonitorDue, st.MonitorsDegraded, st.MonitorsFailed}, []any{first.Due, 1, 2})
		l.due(10, long)
		l.Same("all are leased", l.stats(0).MonitorDue, time.Time{})
	})},
	// They count deliveries that are pending and that failed, no further than the caller gives.
	{"stats_count_deliveries", func(k *kit) {
		k.subscribe("all", courier.EventJobCompleted)
		k.subscribe("others", courier.EventJobCompleted)
		for range 3 {
			k.complete()
		}
		st := k.stats(0)
		k.Same("pending and failed", []int{st.DeliveriesPending, st.DeliveriesFailed}, []int{6, 0})
		if st.DeliveryDue.IsZero() || st.DeliveryDue.After(st.At) {
			k.Errorf("the oldest delivery is due since %v, at %v", st.DeliveryDue, st.At)
		}
		k.Same("counted no further than asked", k.stats(4).DeliveriesPending, 4)
		list := k.taken(nil)
		k.Same("taken", len(list), 6)
		k.Same("all are leased", k.stats(0).DeliveryDue, time.Time{})
		for i, d := range list {
			if i < 2 {
				k.settle(d, notify.GivenUp)
			} else if i < 4 {
				k.settle(d, notify.Delivered)
			}
		}
		st = k.stats(0)
		k.Same("pending and failed", []int{st.DeliveriesPending, st.DeliveriesFailed}, []int{2, 2})
	}},
	{"stats_leave_out_what_a_window_holds_back", func(k *kit) {
		s := k.subscription("calm", courier.EventJobCompleted)
		s.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.complete()
		k.complete()
		k.Same("pending", k.stats(0).DeliveriesPending <= 1, true)
	}},
}
