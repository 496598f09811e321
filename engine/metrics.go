package engine

import (
	"context"
	"io"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/metrics"
)

// Metrics are the metrics of an engine and its store. docs/metrics.md has the list.
type Metrics struct{ e *Engine }

// Metrics returns the metrics of the engine.
func (e *Engine) Metrics() Metrics { return Metrics{e} }

// Dropped returns how many events were not passed to observers because too many were
// waiting.
func (m Metrics) Dropped() int64 { return m.e.observers.Dropped() }

// A Figure is the value of a metric at an instant.
type Figure struct {
	Name   string            // the name in OpenTelemetry, such as "courier.queue.depth"
	Labels map[string]string // by their OpenTelemetry names; nil for none
	Value  float64
}

// An Attacher is a [Probe] to which [New] passes its engine, as the last thing it does. Attach
// may keep the engine, but must not call it.
type Attacher interface{ Attach(*Engine) }

// Write writes the metrics in the text format of Prometheus, version 0.0.4. An engine that was
// never started has only those of the store. These cover the whole store and are up to a minute
// old: only the first call waits for the store. If the store can't be reached, they are missing,
// the metric courier_store_reachable is 0, and the log says why. The error is one of w.
func (m Metrics) Write(ctx context.Context, w io.Writer) error {
	e := m.e
	var recorded *metrics.Registry
	figures := e.figures.Store(ctx)
	if e.wasStarted.Load() {
		recorded, figures = e.recorded, append(figures, e.ownFigures(ctx)...)
	}
	_, err := w.Write(metrics.AppendText(nil, recorded, figures))
	return err
}

// Figures returns the values of the metrics of the store, and, if the engine was started,
// of its process: those that Write writes, without the measurements that a [Probe]
// receives.
func (m Metrics) Figures(ctx context.Context) []Figure {
	e := m.e
	list := e.figures.Store(ctx)
	if e.wasStarted.Load() {
		list = append(list, e.ownFigures(ctx)...)
	}
	figures := make([]Figure, len(list))
	for i, f := range list {
		figures[i] = Figure{Name: f.Name, Value: f.Value}
		for l, label := range f.Metric.Labels {
			if figures[i].Labels == nil {
				figures[i].Labels = make(map[string]string, len(f.Metric.Labels))
			}
			figures[i].Labels[label.Name] = f.Labels[l]
		}
	}
	return figures
}

// ownFigures are those of the process.
func (e *Engine) ownFigures(ctx context.Context) []metrics.Figure {
	kept, _, bytes := e.kept.Sum()
	list := []metrics.Figure{
		{Metric: metrics.EventsDropped, Value: float64(e.observers.Dropped())},
		{Metric: metrics.Refused, Value: float64(len(e.refusals.all()))},
		{Metric: metrics.FailedMaintenance, Value: float64(len(e.maintenance.Failures()))},
		{Metric: metrics.KeptExecutions, Value: float64(kept)},
		{Metric: metrics.KeptSize, Value: float64(bytes)},
	}
	if free, ok := e.work.Free(); ok {
		list = append(list, metrics.Figure{Metric: metrics.WorkspaceFree, Value: float64(free)}, metrics.Figure{Metric: metrics.WorkspaceMinFree, Value: float64(max(0, e.opt.MinFree))})
	}
	return append(list, e.usage(ctx)...)
}

// usageTimeout is how long step types may take to say how full what they keep is.
const usageTimeout = time.Second

// usage is how full the depot is; nothing without one that is limited.
func (e *Engine) usage(ctx context.Context) []metrics.Figure {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	for _, key := range e.reg.Keys() {
		t, ok := e.reg.Lookup(key)
		if !ok {
			continue
		}
		m, _ := t.Maintainer()
		if u, ok := m.(courier.UsageReporter); ok {
			if used, limit, err := u.Usage(ctx); err == nil && limit > 0 {
				return []metrics.Figure{{Metric: metrics.DepotUsed, Value: float64(used)}, {Metric: metrics.DepotLimit, Value: float64(limit)}}
			}
		}
	}
	return nil
}
