package courierotel_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
	courierotel "github.com/courierhq/courier/x/otel"
)

// A collector takes spans and metrics, unless it is gone.
type collector struct {
	sdkmetric.Exporter // of which only the selectors are called

	mu    sync.Mutex
	gone  bool
	spans map[string]int // by their names
	sums  map[string]float64
}

func (c *collector) take(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errors.New("connection refused")
	}
	f()
	return nil
}

func (c *collector) set(gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = gone
}

func (c *collector) count(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums[name]
}

func (c *collector) has(span string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[span] > 0
}

func (c *collector) ExportSpans(_ context.Context, list []sdktrace.ReadOnlySpan) error {
	return c.take(func() {
		for _, s := range list {
			c.spans[s.Name()]++
		}
	})
}

func (c *collector) Export(_ context.Context, rm *metricdata.ResourceMetrics) error {
	return c.take(func() {
		for _, scope := range rm.ScopeMetrics {
			for _, m := range scope.Metrics {
				if d, ok := m.Data.(metricdata.Sum[float64]); ok {
					c.sums[m.Name] = 0
					for _, p := range d.DataPoints {
						c.sums[m.Name] += p.Value
					}
				}
			}
		}
	})
}

func (c *collector) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}
func (c *collector) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (c *collector) ForceFlush(context.Context) error { return nil }
func (c *collector) Shutdown(context.Context) error   { return nil }

// TestCollectorGone: while the collector is gone, executions end as ever, and their spans are
// lost. When it is back, the sums have all of them.
func TestCollectorGone(t *testing.T) {
	c := &collector{spans: make(map[string]int), sums: make(map[string]float64)}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(c, sdktrace.WithBatchTimeout(time.Millisecond)))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(c, sdkmetric.WithInterval(5*time.Millisecond))))
	i, err := courierotel.New(&courierotel.Options{Tracers: tracers, Meters: meters})
	if err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.a", nothing, nil)
	e := engine.New(memstore.New(), &reg, i.Engine(&engine.Options{Workspace: t.TempDir()}))
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := func(job string) {
		t.Helper()
		if x, err := e.Run(t.Context(), courier.Job{Name: job, Steps: []courier.StepSpec{{Type: "test.a"}}}, nil); err != nil || x.State != courier.Completed {
			t.Fatal(x.State, err)
		}
		if err := tracers.ForceFlush(t.Context()); err != nil && !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}
	}
	run("before")
	for end := time.Now().Add(10 * time.Second); !c.has("RUN before") && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := tracers.ForceFlush(t.Context()); err != nil { // another goroutine may have ended the span after Run
			t.Error(err)
		}
	}
	c.set(true)
	for range 10 {
		run("meanwhile")
	}
	c.set(false)
	run("after")
	for end := time.Now().Add(10 * time.Second); c.count("courier.slices") != 12; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the collector has %v slices", c.count("courier.slices"))
		}
	}
	if err := errors.Join(e.Stop(context.Background()), i.Shutdown(context.Background())); err != nil {
		t.Error(err)
	}
	if c.spans["RUN before"] != 1 || c.spans["RUN after"] != 1 {
		t.Errorf("the collector has the spans %v", c.spans)
	}
}
