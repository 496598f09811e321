package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// TestCalendars: a calendar is kept by version, is saved if it differs, and can't be removed while
// a schedule or a monitor goes by it.
func TestCalendars(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		if _, err := e.Apply(ctx, definitionsOf(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		week := calendar.Calendar{Name: "week", Weekend: []string{"saturday", "sunday"}}
		set := func(c calendar.Calendar, version int) {
			t.Helper()
			got, err := e.Calendars().Set(ctx, c, courier.By{Actor: "ann"})
			if err != nil || got.Version != version || got.SavedBy != "ann" || got.SavedAt.IsZero() {
				t.Errorf("%+v, %v; want version %d", got, err, version)
			}
		}
		set(week, 1)
		set(week, 1)
		week.Closed = []calendar.Closing{{Yearly: "12-25"}}
		set(week, 2)
		if _, err := e.Calendars().Set(ctx, calendar.Calendar{Name: "bad", Weekend: []string{"x"}}, courier.By{}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%v", err)
		}
		if got, err := e.Calendars().Get(ctx, "week", 1); err != nil || len(got.Closed) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if list, err := e.Calendars().Versions(ctx, "week", store.VersionFilter{}); err != nil || len(list) != 2 || list[0].Version != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := e.Calendars().Get(ctx, "wek", 0); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "week"?`) {
			t.Errorf("%v", err)
		}

		if _, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "s", Job: "fetch", Cron: "0 0 6 * * ?", Calendar: "week", OnClosed: "next"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Monitors().Set(ctx, monitor.Monitor{Name: "m", Job: "send", Path: "/in", Calendar: "week"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		err := e.Calendars().Remove(ctx, "week", courier.By{})
		if want := `calendar "week" is used by schedule "s", monitor "m"; have them go by another one first`; !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if err := e.Schedules().Remove(ctx, "s", courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Monitors().Remove(ctx, "m", courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Calendars().Remove(ctx, "week", courier.By{}); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"get": errOf(e.Calendars().Get(ctx, "week", 0)), "get its removal": errOf(e.Calendars().Get(ctx, "week", 3)), "remove": e.Calendars().Remove(ctx, "week", courier.By{}),
			"versions of another": errOf(e.Calendars().Versions(ctx, "other", store.VersionFilter{})),
		} {
			if !errors.Is(err, courier.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if list, err := e.Calendars().List(ctx, store.DefinitionFilter{}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err := e.Calendars().Versions(ctx, "week", store.VersionFilter{}); err != nil || len(list) != 2 {
			t.Errorf("versions of what was removed: %+v, %v", list, err)
		}
		set(week, 4)
		var verbs []string
		list, err := e.Journal(ctx, store.ActionFilter{Kind: "calendar", Limit: 10})
		for _, a := range list {
			verbs = append(verbs, a.Verb)
		}
		if err != nil || !slices.Equal(verbs, []string{"set", "removed", "set", "set"}) {
			t.Errorf("the journal has %q, %v", verbs, err)
		}
	})
}

// TestCalendarsByName: pages of calendars leave out those that were removed.
func TestCalendarsByName(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		for _, name := range []string{"a", "b", "c", "d"} {
			if _, err := e.Calendars().Set(ctx, calendar.Calendar{Name: name}, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Calendars().Remove(ctx, "b", courier.By{}); err != nil {
			t.Fatal(err)
		}
		for after, want := range map[string][]string{"": {"a", "c"}, "a": {"c", "d"}, "c": {"d"}, "d": nil} {
			list, err := e.Calendars().List(ctx, store.DefinitionFilter{After: after, Limit: 2})
			var names []string
			for _, c := range list {
				names = append(names, c.Name)
			}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("after %q: %q, %v", after, names, err)
			}
		}
	})
}

// TestFollowsCalendar: on every store a schedule follows a change of its calendar from its next
// tick on.
func TestFollowsCalendar(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		if _, err := e.Apply(ctx, definitionsOf(t, "a"), nil); err != nil {
			t.Fatal(err)
		}
		today := time.Now().UTC()
		day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
		c := calendar.Calendar{Name: "c", Closed: []calendar.Closing{{Date: day(1)}}}
		if _, err := e.Calendars().Set(ctx, c, courier.By{}); err != nil {
			t.Fatal(err)
		}
		x := schedule.Schedule{Name: "s", Job: "fetch", Cron: "0 0 0 * * ?", Calendar: "c", OnClosed: "previous"}
		if _, err := e.Schedules().Set(ctx, x, courier.By{}); err != nil {
			t.Fatal(err)
		}
		next := func(want string) {
			t.Helper()
			got, err := e.Schedules().Get(ctx, "s")
			if err != nil || got.NextFire.Format(time.DateOnly) != want {
				t.Errorf("it fires next at %v, %v; want %s", got.NextFire, err, want)
			}
		}
		next(day(2)) // midnight of today has passed, so tomorrow's is moved on
		list, err := e.Journal(ctx, store.ActionFilter{Kind: "schedule", Name: "s", Limit: 10})
		if err != nil || len(list) != 2 || list[0].Verb != "moved" || !strings.Contains(string(list[0].Now), "closed in c") {
			t.Errorf("the journal has %+v, %v", list, err)
		}
		c.Closed = nil
		if _, err := e.Calendars().Set(ctx, c, courier.By{}); err != nil {
			t.Fatal(err)
		}
		next(day(1))
	})
}

// TestApplyCalendars: a bundle saves calendars before what goes by them, and removes them after
// that; one that something else goes by is kept.
func TestApplyCalendars(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		e, ctx := applyEngine(s), t.Context()
		apply := func(want string, definitions ...string) engine.Applied {
			t.Helper()
			job := `{"name": "fetch", "steps": [{"id": "get", "type": "demo.shout", "config": {"text": "a"}}]}`
			a, err := e.Apply(ctx, bundleOf(t, append(definitions, job)...), &engine.ApplyOptions{Name: "service", Prune: true})
			if err != nil || changesIn(a) != want {
				t.Errorf("%s, %v; want %s", changesIn(a), err, want)
			}
			return a
		}
		const (
			week = `{"name": "week", "weekend": ["saturday", "sunday"]}`
			bank = `{"name": "bank", "weekend": ["saturday", "sunday"], "closed": [{"yearly": "12-25"}]}`
		)
		by := func(calendar string) string {
			return `{"name": "nightly", "job": "fetch", "cron": "0 0 3 * * ?", "calendar": "` + calendar + `", "on_closed": "next"}`
		}
		apply("create job fetch, create calendar week, create schedule nightly", by("week"), week)
		apply("", by("week"), week)
		apply("create calendar bank, change schedule nightly, remove calendar week", by("bank"), bank)
		if _, err := e.Schedules().Set(ctx, schedule.Schedule{Name: "by-hand", Job: "fetch", Every: time.Hour, Calendar: "bank"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		a := apply("remove schedule nightly, kept calendar bank")
		if want := `calendar "bank" is used by schedule "by-hand"`; !strings.Contains(a.String(), want) {
			t.Errorf("%s\ndoes not say %q", a.String(), want)
		}
		if err := e.Schedules().Remove(ctx, "by-hand", courier.By{}); err != nil {
			t.Fatal(err)
		}
		apply("remove calendar bank")
	})
}

// TestCheckCalendars: what names a calendar is checked with those of the bundle, and those that
// are saved.
func TestCheckCalendars(t *testing.T) {
	const text = `[{"name": "fetch", "steps": [{"id": "get", "type": "demo.shout", "config": {"text": "a"}}]},
{"name": "week", "weekend": ["saterday"]},
{"name": "nightly", "job": "fetch", "cron": "0 0 3 * * ?", "calendar": "wek"},
{"name": "hourly", "job": "fetch", "every_seconds": 3600, "calendar": "bank"}]`
	check := func(b engine.Bundle, want ...string) {
		t.Helper()
		var got []string
		for _, p := range b.Problems {
			got = append(got, p.String())
		}
		if len(got) != len(want) {
			t.Fatalf("%q", got)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}
	files := []courier.Source{{File: "all.json", Text: []byte(text)}}
	weekend := `all.json:2:30: weekend[0]: unknown day of the week "saterday"; did you mean "saturday"?`
	unknown := `calendar: there is no calendar "wek"; did you mean "week"?`
	check(engine.Check(files, exampleRegistry(), nil), weekend, unknown, `there is no calendar "bank"`)
	onStores(t, func(t *testing.T, s store.Store) {
		e := applyEngine(s)
		if _, err := e.Calendars().Set(t.Context(), calendar.Calendar{Name: "bank"}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		b, err := e.Check(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		check(b, weekend, unknown)
	})
}
