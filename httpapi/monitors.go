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
	kind: "monitor", name: func(m *monitor.Monitor) *string { return &m.Name },
	hide: desk.HideMonitor,
	list: func(c *call, after string, limit int) ([]monitor.Monitor, string, error) {
		return c.Monitors(c.ctx(), after, limit)
	},
	get: func(c *call, name string) (monitor.Monitor, error) { return c.h.e.Monitors().Get(c.ctx(), name) },
	set: func(ctx context.Context, c *call, m monitor.Monitor) (monitor.Monitor, []courier.Problem, error) {
		saved, err := c.h.e.Monitors().Set(ctx, m, c.By(""))
		return saved, nil, err
	},
	remove: func(ctx context.Context, c *call, name string) error {
		return c.h.e.Monitors().Remove(ctx, name, c.By(""))
	},
	wrong: func(name string, list []courier.Problem) error {
		return &monitor.Error{Monitor: name, Problems: list}
	},
}

var monitorRoutes = slices.Concat(monitors.routes(), []route{
	{
		method: "GET", path: "v1/monitors/{name}/files", id: "listMonitorFiles", group: "monitors", on: onBody,
		does: "Lists the files that a monitor has seen, by name. It needs the role that sees values.", query: []param{limitParam, cursorParam},
		answers: map[int]any{http.StatusOK: page[monitor.SeenFile]{}}, do: (*call).monitorFiles,
	},
	monitors.turnRoute("enable", "Lets a monitor that was disabled or paused poll again, at once.",
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
	monitors.turnRoute("acknowledge", "Lets a monitor that has failed too often poll again, at once.",
		turnMonitor(func(c *call, ctx context.Context, name string, by courier.By) (monitor.Monitor, error) {
			return c.h.e.Monitors().Acknowledge(ctx, name, by)
		})),
})

// turnMonitor gives a state that does not permit something its code.
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
