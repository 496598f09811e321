package attention_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// Since when something is switched off, and by whom, is what the journal has since it was last
// enabled.
func TestDated(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2000, 1, n, 0, 0, 0, 0, time.UTC) }
	entry := func(n int, verb, now, by, reason string) store.Action {
		return store.Action{At: day(n), Verb: verb, Now: []byte(now), By: by, Reason: reason}
	}
	for _, c := range []struct {
		what         string
		subscription bool
		journal      []store.Action // the newest first
		by, message  string
		day          int
	}{
		{what: "nothing is known"},
		{what: "it was disabled", journal: []store.Action{entry(2, "disabled", "", "ann", "holidays"), entry(1, "set", `{}`, "bob", "")}, by: "ann", message: "holidays", day: 2},
		{what: "it was set afterwards", journal: []store.Action{entry(3, "set", `{"disabled":true}`, "bob", ""), entry(2, "disabled", "", "ann", "holidays")}, by: "ann", message: "holidays", day: 2},
		{what: "it was enabled in between", journal: []store.Action{entry(3, "disabled", "", "bob", ""), entry(2, "enabled", "", "ann", ""), entry(1, "disabled", "", "ann", "x")}, by: "bob", day: 3},
		{what: "other entries", journal: []store.Action{entry(3, "fired", "", "bob", ""), entry(2, "paused", "", "ann", "")}, by: "ann", day: 2},
		{what: "a subscription that was saved enabled before", subscription: true, journal: []store.Action{entry(3, "set", `{"disabled":true}`, "cleo", ""), entry(2, "set", `{}`, "ann", ""), entry(1, "set", `{"disabled":true}`, "bob", "")}, by: "cleo", day: 3},
	} {
		in(t, func(s *service) {
			s.journal = map[string][]store.Action{"s": c.journal}
			if c.subscription {
				s.subscriptions = []notify.Subscription{{Name: "s", Disabled: true}}
			} else {
				s.schedules = []schedule.Schedule{{Name: "s", Disabled: true}}
			}
			e := s.only()
			if e.Kind != attention.PutAway || e.By != c.by || e.Message != c.message || c.day == 0 && !e.Since.IsZero() || c.day > 0 && !e.Since.Equal(day(c.day)) {
				t.Errorf("%s: since %s, by %q: %q", c.what, e.Since, e.By, e.Message)
			}
			s.fails["journal"] = fmt.Errorf("it has none: %w", errors.ErrUnsupported)
			if got := s.list(); len(got.Entries) != 1 || len(got.Missing) != 1 || got.Missing[0] != "store.Journal" {
				t.Errorf("%s, without a journal: %+v", c.what, got)
			}
		})
	}
}

// Held and paused executions are counted by job and state, those that are so for longest first.
func TestHeld(t *testing.T) {
	in(t, func(s *service) {
		s.lastBy = "emil"
		for i := range 7 {
			s.aside = append(s.aside, courier.Execution{ID: courier.ExecutionID(fmt.Sprint("h", i)), Job: "held", State: courier.Created, By: "dora", UpdatedAt: ago(time.Hour)})
		}
		s.aside = append(s.aside, courier.Execution{ID: "p", Job: "held", State: courier.Paused, By: "dora", UpdatedAt: ago(2 * time.Hour)})
		got := s.list()
		if len(got.Entries) != 2 {
			t.Fatalf("%q", lines(got))
		}
		if e := got.Entries[0]; e.Title != `Job "held": 1 execution is paused.` || e.By != "emil" || e.Call != "Engine.Resume" || !e.Since.Equal(ago(2*time.Hour)) {
			t.Errorf("%+v", e)
		}
		if e := got.Entries[1]; e.Title != `Job "held": 7 executions are held.` || e.By != "dora" || e.Call != "Engine.Release" || len(e.Executions) != 5 {
			t.Errorf("%+v", e)
		}
		for range 50 {
			s.aside = append(s.aside, courier.Execution{Job: "held", State: courier.Created})
		}
		if got := s.list(); len(got.Cut) != 1 || !got.Entries[0].More {
			t.Errorf("of more: %+v", got)
		}
	})
}

// What executions keep after their end has names, sizes and workspace. What is being discarded
// is left out.
func TestKept(t *testing.T) {
	in(t, func(s *service) {
		x := courier.Execution{ID: "k", Job: "other", Workspace: "disk of w", EndedAt: ago(time.Hour), OnlyCopies: &courier.OnlyCopies{
			Files: []courier.File{{Path: "in/a.csv", Size: 7}}, Count: 3, Bytes: 12, Problem: "two are odd",
		}}
		s.kept = []courier.Execution{x}
		e := s.only()
		s.says(e.Title, `Job "other": 1 execution has ended and keeps 3 files with 12 bytes`, "workspace disk of w.")
		s.says(e.Message, "in/a.csv (7 bytes) and 2 more; two are odd")
		s.kept = append(s.kept, x)
		s.says(s.only().Title, `Job "other": 2 executions have ended and keep 6 files with 24 bytes`)
		s.kept = []courier.Execution{{ID: "k", Job: "other", OnlyCopies: &courier.OnlyCopies{Count: 4, Problem: "names left out: 4"}}}
		if e := s.only(); e.Message != "names left out: 4" {
			t.Errorf("without a name: %q", e.Message)
		}
		for i := range s.kept {
			s.kept[i].Request = store.RequestDiscard
		}
		if got := s.list(); len(got.Entries) != 0 {
			t.Errorf("discarded: %q", lines(got))
		}
	})
}

// What is kept by a job that the reader sees is found behind a hundred of other jobs.
func TestOwnKept(t *testing.T) {
	in(t, func(s *service) {
		s.sees = []string{"own"}
		keep := func(job string) {
			s.kept = append(s.kept, courier.Execution{ID: "k", Job: job, OnlyCopies: &courier.OnlyCopies{Count: 1}})
		}
		for range 100 {
			keep("other")
		}
		keep("own")
		if e := s.only(); e.Job != "own" || e.More {
			t.Errorf("%+v", e)
		}
	})
}
