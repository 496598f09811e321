package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/monitor"
)

var monitors = &kept[monitor.Monitor, *monitor.Monitor]{
	Kept: desk.Monitors,
	list: func(c *call, after string, limit int) ([]monitor.Monitor, string, error) {
		return c.Monitors(c.ctx(), after, limit)
	},
	kept: []*code{codeConflict}, // an expectation checks with this monitor
}

var monitorRoutes = slices.Concat(monitors.routes(), []route{
	{
		method: "GET", path: "v1/monitors/{name}/files", id: "listMonitorFiles", group: "monitors", on: onBody,
		does: "Lists the files that a monitor has seen, by name. It needs the role that sees values.", query: []param{limitParam, cursorParam},
		answers: map[int]any{http.StatusOK: page[monitor.SeenFile]{}}, do: (*call).monitorFiles,
	},
	monitors.turnRoute("enable", "Lets a disabled or paused monitor poll again, at once.",
		turnMonitor(func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
			return c.h.e.Monitors().Enable(ctx, name, by)
		})),
	monitors.turnRoute("disable", "Keeps a monitor from polling until it is enabled, whatever its state.",
		turnMonitor(func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
			return c.h.e.Monitors().Disable(ctx, name, by)
		})),
	monitors.turnRoute("pause", "Keeps a monitor that polls from polling until it is enabled.",
		turnMonitor(func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
			return c.h.e.Monitors().Pause(ctx, name, by)
		})),
	monitors.turnRoute("acknowledge", "Lets a monitor in the state error poll again, at once.",
		turnMonitor(func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
			return c.h.e.Monitors().Acknowledge(ctx, name, by)
		})),
})

// turnMonitor returns f with the code of a transition problem for errors about a state that does
// not permit the change.
func turnMonitor(f turn[monitor.Monitor]) turn[monitor.Monitor] {
	return func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
		m, err := f(c, ctx, name, by)
		if state, ok := errors.AsType[*desk.StateError](c.MonitorRefusal(ctx, name, err)); ok {
			err = errors.Join(state, problemf(codeTransition, "%s", state.Text))
		}
		return m, err
	}
}

func (c *call) monitorFiles() error {
	m, err := monitors.find(c)
	if err != nil {
		return err
	}
	name := func(f *monitor.SeenFile) string { return f.Name }
	return answerList(c, "file", func(after string, limit int) ([]monitor.SeenFile, string, error) {
		list, err := c.h.e.Monitors().Files(c.ctx(), monitor.SeenFilter{Monitor: m.Name, After: after, Limit: limit})
		list, next := fullPage(list, limit, name)
		return list, next, err
	}, name)
}
