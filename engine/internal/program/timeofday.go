package program

import (
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/cron"
)

// A TimeOfDay is a time by the clock on the wall in a time zone.
type TimeOfDay struct {
	daily *cron.Expression
	zone  *cron.Zone
}

// ParseTimeOfDay reads a time of day with the name of a zone, such as
// "07:30 Europe/Berlin". Without a zone it is UTC.
func ParseTimeOfDay(text string) (*TimeOfDay, error) {
	clock, name, _ := strings.Cut(text, " ")
	at, err := time.Parse("15:04", clock)
	if err != nil || len(clock) != len("15:04") {
		const most = 60
		return nil, fmt.Errorf("%.*q is not a time of day; write hours and minutes, and a time zone, such as \"07:30 Europe/Berlin\"", most, text)
	}
	zone, err := cron.LoadZone(name)
	if err != nil {
		return nil, err
	}
	daily, err := cron.Parse(fmt.Sprintf("0 %d %d * * ?", at.Minute(), at.Hour()))
	if err != nil {
		return nil, err
	}
	return &TimeOfDay{daily, zone}, nil
}

// Next returns the first instant after another one at which it is that time. A time that
// the clocks skip is later by as much, and of one that comes twice it is the first.
func (t *TimeOfDay) Next(after time.Time) time.Time {
	next, _ := t.daily.Next(after, t.zone)
	return next
}
