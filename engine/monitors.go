package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Monitors start jobs and chains for files that appear in directories.
// The store must have the role [store.Monitors]; started engines that have the
// lister of a monitor poll its directory.
type Monitors struct{ e *Engine }

// Monitors returns the monitors in the engine's store.
func (e *Engine) Monitors() Monitors { return Monitors{e} }

// Set checks a monitor and saves it under its name, so that started
// engines on the same store poll its directory, if they have its lister. If
// it equals the one that is there, that one is returned, as it stands, and
// nothing is saved: a program may set its monitors whenever it starts. Otherwise
// it replaces that one and keeps what that one has seen, unless the directory
// is another. What is in a directory at the first poll counts as created. The
// error of a monitor that can't be saved is a *[courier.MonitorError], which
// lists everything that is wrong with it.
func (h Monitors) Set(ctx context.Context, m courier.Monitor, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Set(ctx, m, by)
}

// Enable has the directory of a monitor that was disabled or paused polled again, at
// once.
// Files that came meanwhile are handed over. It changes nothing of one that is
// polled; one in the state error has to be acknowledged.
func (h Monitors) Enable(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Enable(ctx, name, by)
}

// Pause stops the polling of a monitor until it is enabled.
func (h Monitors) Pause(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Pause(ctx, name, by)
}

// Disable stops the polling of a monitor until it is enabled, whatever its
// state.
func (h Monitors) Disable(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Disable(ctx, name, by)
}

// Acknowledge has the directory of a monitor in the state error polled again, at once,
// with no failures counted. It changes nothing of a monitor in another state.
func (h Monitors) Acknowledge(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Acknowledge(ctx, name, by)
}

// Remove removes a monitor and what it has seen. What it has started goes
// on. If it is set again, files that it has handed over are not handed over
// again as long as their executions are in the store and they have not changed.
func (h Monitors) Remove(ctx context.Context, name string, by courier.By) error {
	return h.e.monitors.Remove(ctx, name, by)
}

// Get returns a monitor as it stands, with a value in every field that has a
// default.
func (h Monitors) Get(ctx context.Context, name string) (courier.Monitor, error) {
	return h.e.monitors.Get(ctx, name)
}

// List returns a page of monitors, in byte order of their names.
func (h Monitors) List(ctx context.Context, f store.MonitorFilter) ([]courier.Monitor, error) {
	return h.e.monitors.List(ctx, f)
}

// Files returns a page of the files that a monitor has seen, in byte order
// of their names.
func (h Monitors) Files(ctx context.Context, f store.SeenFilter) ([]store.SeenFile, error) {
	return h.e.monitors.Files(ctx, f)
}
