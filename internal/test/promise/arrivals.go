package promise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/notify"
)

// CheckArrivals checks the records of expectations that go by no calendar and no cron, and were set
// long before now: each day has one, no file counts for two days, what has ended is decided an hour
// later, and each event is kept once for the one subscription that there is, which has all events of
// expectations and delivers none. Counted, if not nil, is called with each file that counts, or of
// which there is an event FileUnexpected.
func CheckArrivals(ctx context.Context, s interface {
	expectation.Store
	notify.Store
}, now time.Time, counted func(expected string, f *expectation.File),
) error {
	deliveries, err := s.Deliveries(ctx, notify.DeliveryFilter{Limit: 100_000})
	if err != nil {
		return err
	}
	told := make(map[string]int)
	events := 0
	for i := range deliveries {
		d := &deliveries[i]
		if told[d.ID]++; d.Type != courier.EventFileUnexpected {
			continue
		}
		events++
		var f expectation.File
		if err := json.Unmarshal(d.Payload, &f); err != nil {
			return fmt.Errorf("event %s: %w", d.ID, err)
		}
		if counted != nil {
			counted(d.Expectation, &f)
		}
	}
	list, err := s.Expectations(ctx, expectation.Filter{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.List {
		name := list.List[i].Name
		days, err := s.Arrivals(ctx, expectation.ArrivalFilter{Expectations: []string{name}, Limit: 100_000})
		if err != nil {
			return err
		}
		slices.Reverse(days)
		c := arrivals{name: name, now: now, told: told, files: make(map[string]string), counted: counted}
		for k := range days {
			var a expectation.Arrival
			if err := json.Unmarshal(days[k].Body, &a); err != nil {
				return err
			}
			a.ID = days[k].ID
			events += len(a.Events)
			c.day(&a)
		}
		if len(days) == 0 || c.last < calendar.DateOf(now.UTC())-1 {
			c.wrong("its last day is %s, and it is %v", c.last, now)
		}
		errs = append(errs, c.errs...)
	}
	if events != len(deliveries) {
		errs = append(errs, fmt.Errorf("there are %d events of expectations, and %d are kept", events, len(deliveries)))
	}
	return errors.Join(errs...)
}

// arrivals are the days of one expectation.
type arrivals struct {
	name    string
	now     time.Time
	told    map[string]int    // how often each event is kept
	files   map[string]string // the day that each file counts for
	counted func(string, *expectation.File)
	last    calendar.Date
	errs    []error
}

func (c *arrivals) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("expectation %q: %s", c.name, fmt.Sprintf(format, args...)))
}

// day checks the next day.
func (c *arrivals) day(a *expectation.Arrival) {
	day := a.Day()
	if c.last != 0 && (day <= c.last || day > c.last+1 && a.Opens.Before(c.now)) {
		c.wrong("%s follows %s", day, c.last)
	}
	if a.Opens.Before(c.now) || c.last == 0 {
		c.last = day
	}
	for i := range a.Files {
		f := &a.Files[i]
		key := fmt.Sprint(f.Name, " ", f.Appeared, " ", f.Size, " ", f.ModifiedAt)
		if was := c.files[key]; was != "" {
			c.wrong("%s counts for %s and %s", f.Name, was, a.Date)
		}
		if c.files[key] = a.Date; c.counted != nil {
			c.counted(c.name, f)
		}
	}
	if a.Ends.Before(c.now.Add(-time.Hour)) && a.DecidedAt.IsZero() {
		c.wrong("%s is not decided: %s", a.Date, a.State)
	}
	for i, e := range a.Events {
		if n := c.told[notify.EventID(courier.ExecutionID(a.ID), int64(i+1))]; n != 1 {
			c.wrong("%s of %s is kept %d times", e, a.Date, n)
		}
		if slices.Contains(a.Events[:i], e) {
			c.wrong("%s of %s happened twice", e, a.Date)
		}
	}
	want := map[expectation.State]courier.EventType{
		expectation.Missing: courier.EventFileMissing, expectation.Incomplete: courier.EventFileIncomplete,
		expectation.Late: courier.EventFileLate, expectation.Arrived: courier.EventFileArrived,
	}[a.State]
	if want != "" && !slices.Contains(a.Events, want) {
		c.wrong("%s is %s, and has only the events %v", a.Date, a.State, a.Events)
	}
}
