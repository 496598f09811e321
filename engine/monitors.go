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

// Set checks a monitor and saves it under its name, so that started engines on the
// same store poll its directory, if they have its lister. If it equals the saved
// monitor, that one is returned and nothing is saved: a program may set its monitors
// whenever it starts. Otherwise it replaces the saved monitor, and keeps the record
// of files unless the directory is another. Files that are in the directory at the
// first poll count as created. If the monitor can't be saved, the error is a
// *[courier.MonitorError], which lists everything that is wrong.
func (h Monitors) Set(ctx context.Context, m courier.Monitor, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Set(ctx, m, by)
}

// Enable makes the engines poll the directory of a monitor that was disabled or
// paused again, at once. Files that came in the meantime are handed over. It changes
// nothing for a monitor that is polled. For one in the state error use Acknowledge.
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

// Acknowledge makes the engines poll the directory of a monitor in the state error
// again, at once, with no failures counted. On a monitor in another state it changes
// nothing.
func (h Monitors) Acknowledge(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return h.e.monitors.Acknowledge(ctx, name, by)
}

// Remove removes a monitor and its record of files. Executions that it has started go
// on. If the monitor is set again, it does not hand over a file again that has not
// changed, as long as the execution that got it is in the store.
func (h Monitors) Remove(ctx context.Context, name string, by courier.By) error {
	return h.e.monitors.Remove(ctx, name, by)
}

// Get returns a monitor in its present state. Every field that has a default is set.
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
