package courierotel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/metrics"
)

// Meters are the instruments of a provider. All instrumentations with that provider share them,
// so that the gauges of several engines are merged and do not overwrite each other.
type meters struct {
	provider metric.MeterProvider
	log      *slog.Logger
	once     sync.Once
	record   map[*metrics.Metric]recorder
	gauges   map[*metrics.Metric]metric.Float64Observable
	callback metric.Registration

	mu      sync.Mutex
	users   int
	engines map[*engine.Engine]bool
}

// A recorder is an instrument that receives each value, with its sets of attributes.
type recorder struct {
	counter   metric.Float64Counter
	histogram metric.Float64Histogram
	sets      *metrics.Bounded[metric.MeasurementOption]
}

var shared struct {
	sync.Mutex
	by map[metric.MeterProvider]*meters
}

// metersOf returns the instruments of a provider.
func metersOf(p metric.MeterProvider, log *slog.Logger) (*meters, error) {
	shared.Lock()
	defer shared.Unlock()
	comparable := reflect.TypeOf(p).Comparable()
	if comparable && shared.by[p] != nil {
		m := shared.by[p]
		m.mu.Lock()
		m.users++
		m.mu.Unlock()
		return m, nil
	}
	m := &meters{
		provider: p, log: log, users: 1, engines: make(map[*engine.Engine]bool),
		record: make(map[*metrics.Metric]recorder), gauges: make(map[*metrics.Metric]metric.Float64Observable),
	}
	if err := m.make(p.Meter(Scope)); err != nil {
		return nil, err
	}
	if comparable {
		if shared.by == nil {
			shared.by = make(map[metric.MeterProvider]*meters)
		}
		shared.by[p] = m
	}
	return m, nil
}

// release ends the use of the instruments by an instrumentation and its engines.
func (m *meters) release(engines []*engine.Engine) error {
	shared.Lock()
	defer shared.Unlock()
	m.mu.Lock()
	for _, e := range engines {
		delete(m.engines, e)
	}
	m.users--
	last := m.users == 0
	m.mu.Unlock()
	if !last {
		return nil
	}
	if reflect.TypeOf(m.provider).Comparable() {
		delete(shared.by, m.provider)
	}
	if err := m.callback.Unregister(); err != nil {
		return fmt.Errorf("courierotel: unregister the gauges: %w", err)
	}
	return nil
}

// make makes an instrument for each metric.
func (m *meters) make(meter metric.Meter) error {
	var errs []error
	var all []metric.Observable
	for _, d := range metrics.All {
		var err error
		switch {
		case d.Kind == metrics.Gauge:
			m.gauges[d], err = meter.Float64ObservableGauge(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
		case d == metrics.EventsDropped:
			m.gauges[d], err = meter.Float64ObservableCounter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
		default:
			r := recorder{sets: metrics.NewBounded(d, func(v metrics.Values) metric.MeasurementOption {
				return metric.WithAttributeSet(attributeSet(d, v))
			}, func() { metrics.Overflow(&m.once, m.log, d) })}
			if d.Kind == metrics.Histogram {
				r.histogram, err = meter.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help), metric.WithExplicitBucketBoundaries(d.Buckets...))
			} else {
				r.counter, err = meter.Float64Counter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
			}
			m.record[d] = r
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("make the instrument %s: %w", d.Name, err))
		} else if o := m.gauges[d]; o != nil {
			all = append(all, o)
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	var err error
	for _, d := range metrics.FromZero {
		m.Record(d, 0, metrics.Values{})
	}
	if m.callback, err = meter.RegisterCallback(m.observe, all...); err != nil {
		return fmt.Errorf("register the gauges: %w", err)
	}
	return nil
}

// attributeSet returns the attributes for the label values of a metric.
func attributeSet(d *metrics.Metric, v metrics.Values) attribute.Set {
	var list []attribute.KeyValue
	for i, l := range d.Labels {
		if v[i] != "" {
			list = append(list, attribute.String(l.Name, v[i]))
		}
	}
	return attribute.NewSet(list...)
}

// Record implements [metrics.Sink].
func (m *meters) Record(d *metrics.Metric, value float64, labels metrics.Values) {
	r := m.record[d]
	if r.histogram != nil {
		r.histogram.Record(context.Background(), value, r.sets.Get(labels).(metric.RecordOption))
	} else {
		r.counter.Add(context.Background(), value, r.sets.Get(labels).(metric.AddOption))
	}
}

// observe reports the gauges of all engines.
func (m *meters) observe(ctx context.Context, o metric.Observer) error {
	m.mu.Lock()
	engines := make([]*engine.Engine, 0, len(m.engines))
	for e := range m.engines {
		engines = append(engines, e)
	}
	m.mu.Unlock()
	type series struct {
		*metrics.Metric
		labels metrics.Values
	}
	merged := make(map[series]float64)
	for _, e := range engines {
		for _, f := range e.Metrics().Figures(ctx) {
			s := series{Metric: metrics.ByName(f.Name)}
			for i, l := range s.Labels {
				s.labels[i] = f.Labels[l.Name]
			}
			before, ok := merged[s]
			switch {
			case !ok:
				merged[s] = f.Value
			case s.Merge == metrics.Sum:
				merged[s] = before + f.Value
			case s.Merge == metrics.Min:
				merged[s] = min(before, f.Value)
			default:
				merged[s] = max(before, f.Value)
			}
		}
	}
	for s, value := range merged {
		o.ObserveFloat64(m.gauges[s.Metric], value, metric.WithAttributeSet(attributeSet(s.Metric, s.labels)))
	}
	return nil
}

// attach adds an engine whose gauges are reported.
func (m *meters) attach(e *engine.Engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engines[e] = true
}

// A probe records what an engine does, and passes it on to the probe of the host.
type probe struct {
	i    *Instrumentation
	rec  metrics.Recorder[*meters]
	host engine.Probe // nil for none
}

func newProbe(i *Instrumentation, host engine.Probe) *probe {
	return &probe{i, metrics.Recorder[*meters]{Sink: i.meters}, host}
}

// Attach implements [engine.Attacher].
func (p *probe) Attach(e *engine.Engine) {
	p.i.mu.Lock()
	p.i.engines = append(p.i.engines, e)
	p.i.mu.Unlock()
	p.i.meters.attach(e)
	if a, ok := p.host.(engine.Attacher); ok {
		a.Attach(e)
	}
}

// Claimed implements [engine.Probe], as do the following methods.
func (p *probe) Claimed(n int, took time.Duration) {
	p.rec.Claimed(n, took)
	if p.host != nil {
		p.host.Claimed(n, took)
	}
}

func (p *probe) Began(x *courier.Execution, waited time.Duration) {
	p.rec.Began(x, waited)
	p.i.began(x, waited < 0)
	if p.host != nil {
		p.host.Began(x, waited)
	}
}

func (p *probe) Step(s *courier.StepExecution, took time.Duration) {
	p.rec.Step(s, took)
	p.i.told(s)
	if p.host != nil {
		p.host.Step(s, took)
	}
}

func (p *probe) Ended(x *courier.Execution, took time.Duration) {
	p.rec.Ended(x, took)
	p.i.ended(x)
	if p.host != nil {
		p.host.Ended(x, took)
	}
}

func (p *probe) Store(call string, took time.Duration, err error) {
	p.rec.Store(call, took, err)
	if p.host != nil {
		p.host.Store(call, took, err)
	}
}
