package desk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// What people have put away stands behind everything else, with since when and by whom.
func TestPutAway(t *testing.T) {
	in(t, func(w *world) {
		ctx, e := w.Context(), w.Engine
		by := func(name string) courier.By { return courier.By{Actor: name} }
		began := time.Now()
		at := func(days int, does func() error) {
			t.Helper()
			time.Sleep(time.Until(began.AddDate(0, 0, days)))
			w.ok(does())
		}
		s := schedule.Schedule{Name: "nightly", Job: "daily-a", Cron: "0 0 3 * * ?"}
		at(0, func() error { _, err := e.Schedules().Set(ctx, s, by("ops")); return err })
		at(1, func() error {
			_, err := e.Schedules().Disable(ctx, "nightly", courier.By{Actor: "ann", Reason: "holidays"})
			return err
		})
		s.Cron, s.Disabled = "0 0 4 * * ?", true // still switched off, by somebody else
		at(2, func() error { _, err := e.Schedules().Set(ctx, s, by("bob")); return err })
		at(2, func() error {
			_, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "over", Job: "daily-a", At: time.Now().Add(time.Hour)}, by("ops"))
			return err
		})
		sub := notify.Subscription{Name: "desk", Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{"daily-a"}, Job: &notify.JobTarget{Name: "other"}}
		at(2, func() error { _, err := e.Subscriptions().Set(ctx, sub, by("ops")); return err })
		sub.Disabled = true
		at(3, func() error { _, err := e.Subscriptions().Set(ctx, sub, by("cleo")); return err })
		var held []courier.ExecutionID
		for range 2 {
			at(4, func() error {
				held = append(held, w.add("daily-b", courier.EnqueueOptions{Hold: true, By: by("dora")}))
				return nil
			})
		}
		paused := w.add("other", courier.EnqueueOptions{})
		at(5, func() error { _, err := e.Pause(ctx, paused, by("emil")); return err })
		at(6, func() error { _, err := e.Schedules().Get(ctx, "over"); return err })

		var got []string
		for _, e := range w.attention().Entries {
			if e.Kind == attention.PutAway {
				got = append(got, fmt.Sprintf("%s %d %s %s %d %s", e.Title, int(e.Since.Sub(began).Hours())/24, e.By, e.Message, e.Count, e.Call))
			}
		}
		want := []string{
			`The schedule "nightly" is disabled. 1 ann holidays 1 `,
			`The subscription "desk" is disabled. 3 cleo  1 `,
			`Job "daily-b": 2 executions are held. 4 dora  2 Engine.Release`,
			`Job "other": 1 execution is paused. 5 emil  1 Engine.Resume`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		// Who sees one job is told of what belongs to it.
		d := desk.New(e, &desk.Options{Access: access.Policy{Role: func(_ context.Context, _ access.Principal, job string) access.Role {
			if job == "other" {
				return access.Viewer
			}
			return 0
		}}})
		v := d.Visitor(access.Principal{ID: "vera"})
		a, err := v.Attention(ctx)
		w.ok(err)
		if len(a.Entries) != 1 || a.Entries[0].Job != "other" || a.Entries[0].Executions[0] != paused {
			t.Errorf("of one job: %+v", a.Entries)
		}

		// What is put back is gone.
		at(6, func() error { _, err := e.Schedules().Enable(ctx, "nightly", by("ann")); return err })
		sub.Disabled = false
		at(6, func() error { _, err := e.Subscriptions().Set(ctx, sub, by("ann")); return err })
		for _, id := range held {
			w.ok(func() error { _, err := e.Release(ctx, id, by("ann")); return err }())
		}
		w.ok(func() error { _, err := e.Resume(ctx, paused, nil); return err }())
		for _, e := range w.attention().Entries {
			if e.Kind == attention.PutAway {
				t.Errorf("after it was put back: %+v", e)
			}
		}
	})
}
