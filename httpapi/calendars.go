package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/store"
)

var calendars = &kept[calendar.Calendar, *calendar.Calendar]{
	kind: "calendar", name: func(x *calendar.Calendar) *string { return &x.Name },
	hide: func(*calendar.Calendar) {}, // it has no values
	list: func(c *call, after string, limit int) ([]calendar.Calendar, string, error) {
		return c.Calendars(c.ctx(), after, limit)
	},
	get: func(c *call, name string) (calendar.Calendar, error) { return c.h.e.Calendars().Get(c.ctx(), name, 0) },
	set: func(ctx context.Context, c *call, x calendar.Calendar) (calendar.Calendar, []courier.Problem, error) {
		saved, err := c.h.e.Calendars().Set(ctx, x, c.By(""))
		return saved, nil, err
	},
	remove: func(ctx context.Context, c *call, name string) error {
		return c.h.e.Calendars().Remove(ctx, name, c.By(""))
	},
	wrong: func(name string, list []courier.Problem) error {
		return &calendar.Error{Calendar: name, Problems: list}
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
		return 0 // there is none behind it
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
