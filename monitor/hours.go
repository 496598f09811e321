package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/strictjson"
)

// Hours are the times of an open day between which a monitor polls, in the time zone of its
// calendar.
type Hours struct {
	From  string `json:"from,omitempty"`  // such as 06:00; empty means the start of the day
	Until string `json:"until,omitempty"` // such as 19:30, when polling stops; empty means the end of the day
}

// UnmarshalJSON reads the hours strictly.
func (h *Hours) UnmarshalJSON(data []byte) error { return strictjson.Read(h, data, (*Hours).read) }

func (h *Hours) read(dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{"from": strictjson.Into(&h.From), "until": strictjson.Into(&h.Until)})
}

// readClock reads a time of day; an empty text is 00:00.
func readClock(text string) (hour, minute int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, 0, fmt.Errorf("%q is not a time of day such as 06:00", errtext.Shorten(text, 60))
	}
	return t.Hour(), t.Minute(), nil
}

// checkHours checks when the monitor polls.
func (m *Monitor) checkHours(add func(field, format string, args ...any)) {
	h := m.Between
	if h == (Hours{}) {
		return
	}
	if m.Calendar == "" {
		add("between", "it is for monitors with a calendar only, whose time zone its times are in; name one in calendar")
	}
	fromHour, fromMinute, err := readClock(h.From)
	untilHour, untilMinute, wrong := readClock(h.Until)
	if err != nil {
		add("between.from", "%v", err)
	}
	if wrong != nil {
		add("between.until", "%v", wrong)
	}
	if err == nil && wrong == nil && h.Until != "" && untilHour*60+untilMinute <= fromHour*60+fromMinute {
		add("between.until", "%q is not after from, %q; leave it out for the end of the day", h.Until, h.From)
	}
}

// opening returns the first instant, not before at, at which a monitor polls by its calendar. If
// the clocks skip a time on a day, it is replaced by the instant at which they change.
func opening(h Hours, days *calendar.Days, at time.Time) time.Time {
	for day := days.On(at); ; day = days.Next(day) {
		if !days.Open(day) {
			continue
		}
		from, until := day.Begin(days.Zone()), (day + 1).Begin(days.Zone())
		if h.From != "" {
			from = clockOn(day, h.From, days.Zone())
		}
		if h.Until != "" {
			until = clockOn(day, h.Until, days.Zone())
		}
		if at.Before(until) && from.Before(until) {
			if at.After(from) {
				return at
			}
			return from
		}
	}
}

// clockOn returns the first instant of a day at which the clocks show a time, or a later time if
// they skip it.
func clockOn(day calendar.Date, clock string, zone *time.Location) time.Time {
	hour, minute, err := readClock(clock)
	if err != nil {
		return day.Begin(zone) // Check reports the wrong time
	}
	return day.At(hour, minute, zone)
}

// days returns the days of the monitor's calendar; nil if it has none.
func (v *Service) days(ctx context.Context, m *Monitor) (*calendar.Days, error) {
	if m.Calendar == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	return v.opt.Calendar(ctx, m.Calendar)
}

// checkCalendar returns the problems of a monitor's calendar. The error is from the store.
func (v *Service) checkCalendar(ctx context.Context, m *Monitor) ([]courier.Problem, error) {
	_, err := v.days(ctx, m)
	if errors.Is(err, courier.ErrNotFound) || errors.Is(err, courier.ErrInvalid) {
		return []courier.Problem{{Step: -1, Field: "calendar", Message: plainMessage(err)}}, nil
	}
	return nil, err
}

// closed returns the time until the calendar lets the monitor poll again; 0 if it may poll at the
// given instant.
func (g *polling) closed(at time.Time) time.Duration {
	if g.days == nil {
		return 0
	}
	return opening(g.def.Between, g.days, at).Sub(at)
}

// user returns a function that reports whether a monitor uses the calendar of that name.
func user(name string) func(*Record) bool {
	return func(r *Record) bool {
		var def Monitor
		return json.Unmarshal(r.Body, &def) == nil && def.Calendar == name
	}
}

// Using returns the names of the monitors that use a calendar. The list is empty if the store
// keeps no monitors.
func (v *Service) Using(ctx context.Context, name string) ([]string, error) {
	return v.records.Using(ctx, user(name))
}

// Follow applies a changed calendar to the monitors that use it: each becomes due at once. If the
// calendar does not allow that poll, it waits for the next opening.
func (v *Service) Follow(ctx context.Context, name string) error {
	return v.records.Rewrite(ctx, user(name), func(a Store, r *Record, _ time.Time) error {
		if !r.State.Polls() {
			return nil
		}
		if _, err := a.PutMonitor(ctx, Put{Record: *r}); err != nil {
			return fmt.Errorf("monitor %q: %w", r.Name, err)
		}
		v.loop.Now()
		return nil
	})
}
