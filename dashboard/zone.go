package dashboard

import (
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
)

// The cookies that the script time.js sets below the mount: the time zone of the browser, and "1"
// if the visitor prefers instants in UTC. Without cookies all instants are in UTC.
const (
	zoneCookie = "courier-zone"
	utcCookie  = "courier-utc"
)

// clocks returns the zone in which the page shows instants, and the zone of their titles. One is
// the zone of the browser and the other UTC, according to the choice of the visitor. If the browser
// has named no zone, or one that this host does not know, both are UTC.
func (c *call) clocks() (shown, other *time.Location) {
	if c.shown != nil {
		return c.shown, c.other
	}
	c.shown, c.other = time.UTC, time.UTC
	k, err := c.r.Cookie(zoneCookie)
	if err != nil {
		return c.shown, c.other
	}
	own, err := zoneOf(k.Value)
	if err != nil {
		return c.shown, c.other
	}
	if k, err = c.r.Cookie(utcCookie); err == nil && k.Value == "1" {
		c.other = own
	} else {
		c.shown = own
	}
	return c.shown, c.other
}

// zone is the name of the zone in which the page shows instants.
func (c *call) zone() string {
	shown, _ := c.clocks()
	return shown.String()
}

// day is today in the zone in which the page shows instants.
func (c *call) day() calendar.Date {
	shown, _ := c.clocks()
	return calendar.DateOf(now().In(shown))
}

// zoneOf returns the time zone with a name, such as "Europe/Berlin".
func zoneOf(name string) (*time.Location, error) {
	l, err := time.LoadLocation(name)
	if err != nil || name == "Local" || len(name) > 100 {
		return nil, problem.Invalid("There is no time zone %q. Write one such as Europe/Berlin.", format.Clip(60, name))
	}
	return l, nil
}

// A clock names the zone of instants, in the head of the page.
type clock struct {
	Zone  string
	Other string // the zone that the switch selects; empty if the browser has named none
	Again bool   // the page can be reloaded, because it is not the answer to a form
}

// finished returns the text of a page, or of a part of it, in the form in which it is sent: with
// hidden characters shown by their numbers, and with instants in the zone of the visitor.
func (v *view) finished(text []byte) []byte {
	return format.InZone(format.Visible(text), v.shown, v.other)
}
