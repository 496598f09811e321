package coordination

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasFigures(s store.Store) bool {
	_, ok := s.(store.Figures)
	return ok
}

var figureCases = []testCase{
	// The figures of an hour have what executions have done in it, whichever call counts it.
	{"figures_have_what_was_done", func(k *kit) {
		k.did(store.HourFigures{}, func() {})
		k.did(store.HourFigures{Completed: 2}, func() { k.complete(); k.complete() })
		k.did(store.HourFigures{Failed: 1}, func() { k.Start().End(courier.Failed) })
		k.did(store.HourFigures{}, func() { k.Start().End(courier.Cancelled) })
		h := k.Start()
		k.did(store.HourFigures{FilesIn: 2, BytesIn: 1100, FilesOut: 1, BytesOut: 70}, func() {
			h.Must(h.Begin(0))
			t := h.Finish(0)
			t.Ended[0].Files = []courier.File{
				{Path: "a", Size: 1000, Connection: "sftp://bank", Received: true}, {Path: "b", Size: 100, Connection: "sftp://bank", Received: true},
				{Path: "c", Size: 70, Connection: "sftp://shop"}, {Path: "d", Removed: true, Connection: "sftp://shop"}, {Path: "e", Size: 5},
			}
			h.Must(t)
		})
		item := func(change func(s *courier.StepExecution)) {
			h.Must(h.Begin(0))
			t := h.Finish(0)
			s := &t.Ended[0]
			s.State, s.Error, s.Files = courier.StepFailed, "why", []courier.File{{Path: "a", Size: 1, Connection: "sftp://bank"}}
			change(s)
			h.Must(t)
		}
		k.did(store.HourFigures{}, func() { item(func(*courier.StepExecution) {}) }) // it may have been sent in part
		k.did(store.HourFigures{FailedItems: 2}, func() {
			item(func(s *courier.StepExecution) { s.FailedLoop = new(2) })
			item(func(s *courier.StepExecution) { s.FailedLoop = new(0) })
		})
		k.did(store.HourFigures{RescuedItems: 1}, func() { item(func(s *courier.StepExecution) { s.Rescue = new(0) }) })
	}},
	// An execution that has failed, was resumed and completes counts in both; that somebody has given
	// up what it keeps counts nothing.
	{"figures_count_each_end", func(k *kit) {
		h := k.Start()
		k.did(store.HourFigures{Completed: 1, Failed: 2}, func() {
			h.End(courier.Failed)
			for _, to := range []courier.State{courier.Failed, courier.Completed} {
				k.Ask(h.ID(), courier.RequestResume)
				h = k.Again(h.ID())
				h.End(to)
			}
		})
	}},
	// In virtual time: each hour has its own, and those that nobody has counted are counted later.
	{"figures_are_counted_later", func(k *kit) {
		if !k.Virtual {
			return
		}
		k.complete()
		k.OK(k.figures().CountHours(k.Ctx(), 0))
		k.complete() // in the hour that was counted
		k.Pass(5 * time.Hour)
		k.complete()
		k.OK(k.figures().CountHours(k.Ctx(), 0))
		list := k.hours(7)
		k.Same("hours", len(list), 7)
		k.Same("then", list[1].Completed, int64(2))
		k.Same("between", list[1].Hour.Add(time.Hour).Equal(list[2].Hour) && list[2].Completed == 0, true)
		k.Same("now", list[6].Completed, int64(1))
		k.Same("the last two", k.hours(2), list[5:])
		k.Pass((store.KeptHours - 1) * time.Hour)
		for range store.KeptHours/(store.MaxCountedHours-2) + 1 {
			k.OK(k.figures().CountHours(k.Ctx(), 0))
		}
		list = k.hours(store.KeptHours + 1)
		k.Same("hours that are kept", len(list), store.KeptHours)
		k.Same("the first of them", list[0].Completed, int64(1))
	}},
	// Of several engines that call it again and again one counts: what was counted lately is left.
	{"figures_are_counted_by_the_first", func(k *kit) {
		k.OK(k.figures().CountHours(k.Ctx(), 0))
		k.did(store.HourFigures{Completed: 1}, func() {
			k.complete()
			before := k.hours(1)
			k.OK(k.figures().CountHours(k.Ctx(), time.Hour))
			k.Same("counted lately", k.hours(1), before)
		})
		if k.Virtual {
			k.Pass(time.Minute)
			before := k.hours(1)[0].CountedAt
			k.OK(k.figures().CountHours(k.Ctx(), time.Minute))
			k.Same("counted a minute ago", k.hours(1)[0].CountedAt.Sub(before), time.Minute)
		}
	}},
	// A sample has what runs and waits at an instant, and an hour the most of its samples.
	{"figures_sample_what_runs_and_waits", func(k *kit) {
		if !k.Virtual {
			return
		}
		sample := func(what string, running, queued int64) {
			k.Helper()
			k.OK(k.figures().CountHours(k.Ctx(), 0))
			h := k.hours(1)[0]
			k.Same(what, []int64{h.Running, h.Queued}, []int64{running, queued})
		}
		sample("of nothing", 0, 0)
		h := k.Start()
		k.Add(k.New(), k.With(func(n *store.NewExecution) { n.Hold = true }), k.With(func(n *store.NewExecution) { n.Delay = time.Hour }))
		sample("of one that runs", 1, 2)
		h.End(courier.Completed)
		sample("the most", 1, 2)
		k.Pass(time.Hour)
		sample("of the next hour", 0, 2)
		k.Same("of the hour before", k.hours(2)[0].Running, int64(1))
	}},
}

func (k *kit) figures() store.Figures { return k.Store.(store.Figures) }

func (k *kit) hours(most int) []store.HourFigures {
	k.Helper()
	list, err := k.figures().Hours(k.Ctx(), most)
	k.OK(err)
	return list
}

// did checks what f adds to the figures, which are counted twice before it and after it.
func (k *kit) did(want store.HourFigures, f func()) {
	k.Helper()
	count := func() (sum store.HourFigures) {
		for range 2 {
			k.OK(k.figures().CountHours(k.Ctx(), 0))
		}
		for _, h := range k.hours(3) {
			if h.Hour.Truncate(time.Hour) != h.Hour || h.CountedAt.Before(h.Hour) {
				k.Errorf("an hour that begins at %v was counted at %v", h.Hour, h.CountedAt)
			}
			sum.Completed, sum.Failed = sum.Completed+h.Completed, sum.Failed+h.Failed
			sum.FilesIn, sum.BytesIn, sum.FilesOut, sum.BytesOut = sum.FilesIn+h.FilesIn, sum.BytesIn+h.BytesIn, sum.FilesOut+h.FilesOut, sum.BytesOut+h.BytesOut
			sum.FailedItems, sum.RescuedItems = sum.FailedItems+h.FailedItems, sum.RescuedItems+h.RescuedItems
		}
		return sum
	}
	before := count()
	f()
	after := count()
	k.Same("figures", store.HourFigures{
		Completed: after.Completed - before.Completed, Failed: after.Failed - before.Failed,
		FilesIn: after.FilesIn - before.FilesIn, BytesIn: after.BytesIn - before.BytesIn, FilesOut: after.FilesOut - before.FilesOut, BytesOut: after.BytesOut - before.BytesOut,
		FailedItems: after.FailedItems - before.FailedItems, RescuedItems: after.RescuedItems - before.RescuedItems,
	}, want)
}
