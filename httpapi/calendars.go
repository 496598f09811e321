package httpapi

import (
	"net/http"
	"slices"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

var calendars = &kept[calendar.Calendar, *calendar.Calendar]{
	Kept: desk.Calendars,
	list: func(c *call, after string, limit int) ([]calendar.Calendar, string, error) {
		return c.Calendars(c.ctx(), after, limit)
	},
	kept: []*code{codeConflict},
}

var calendarRoutes = slices.Concat(calendars.routes(), []route{{
	method: "GET", path: "v1/calendars/{name}/versions", id: "listCalendarVersions", group: "calendars", on: onBody,
	does: "Lists the versions of a calendar, the newest first.", query: []param{limitParam, cursorParam},
	answers: map[int]any{http.StatusOK: page[calendar.Calendar]{}}, do: (*call).calendarVersions,
}})

func (c *call) calendarVersions() error {
	before, limit, err := c.after()
	if err != nil {
		return err
	}
	if before > 1<<30 {
		return errCursor()
	}
	x, err := calendars.find(c)
	if err != nil {
		return err
	}
	version := func(x *calendar.Calendar) int {
		if x.Version > 1 {
			return x.Version
		}
		return 0 // there is no next page
	}
	items, next, err := inParts(limit, partSize, int(before), func(before, limit int) ([]calendar.Calendar, int, error) {
		list, err := c.h.e.Calendars().Versions(c.ctx(), x.Name, store.VersionFilter{Before: before, Limit: limit})
		list, next := fullPage(list, limit, version)
		return list, next, err
	}, version, asIs)
	if err != nil {
		return err
	}
	return answerPage(c, items, numberCursor(int64(next)))
}
