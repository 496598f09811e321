// Package courierotel reports the work of a Courier engine to OpenTelemetry: as traces, as
// metrics, and with trace ids in its log.
//
//	i, err := courierotel.New(&courierotel.Options{Tracers: tracers, Meters: meters, URL: "https://ops.example.com/courier/"})
//	...
//	e := engine.New(s, reg, i.Engine(&engine.Options{Log: log}))
//	...
//	err = i.Shutdown(ctx) // after the engine has stopped
//
// # Traces
//
// Each time that an engine works on an execution has its own trace, with the root span "RUN
// <job>". It is linked to the span that enqueued the execution, also after days and on another
// worker. Below it is a span for each attempt of a step, named after the step type. The context
// of a step has its span, and steps that send HTTP requests propagate it. A span has names,
// numbers and reasons. It never has a parameter, an output, a path or the text of an error. If a
// process dies, the spans that it has not ended are lost, and the next root span has the
// attribute courier.takeover.
//
// The first 100 iterations of a loop have spans. In later iterations only attempts that fail, or
// take as long as [Options].Slow, have one. A trace has at most 1000 spans of each kind; the
// attribute courier.spans.omitted of the root is the number of attempts without a span.
//
// # Metrics
//
// The metrics are those of [engine.Engine.Metrics], which docs/metrics.md lists, with their names
// in OpenTelemetry. Every process reports the same gauges of the whole store: take the maximum,
// not the sum.
//
// # Log
//
// The log records of a step, and an engine's log records about an execution, get the attributes
// trace_id and span_id.
//
// The package is a separate module, so that only programs that use OpenTelemetry link it.
package courierotel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// Scope is the name of the instrumentation scope of all spans and metrics.
const Scope = "github.com/courierhq/courier/x/otel"

// Options are the settings of an [Instrumentation]. The zero value is the default.
type Options struct {
	// Tracers and Meters take the spans and the metrics; nil means the global providers of
	// package otel. Spans should be exported by a batch processor: one that exports in the call
	// makes steps wait.
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	// URL is the address of the pages of package dashboard, such as
	// "https://ops.example.com/courier/". Root spans then have the address of the execution's
	// page. Empty means that they have none.
	URL string
	// Slow is the minimum duration for which an attempt in a later iteration of a loop has a
	// span. 0 means 10 seconds.
	Slow time.Duration
	// Log receives one warning for each metric with too many series. Nil means none.
	Log *slog.Logger
}

// An Instrumentation instruments engines. Its methods may be called by several goroutines.
type Instrumentation struct {
	opt    Options
	tracer trace.Tracer
	meters *meters

	mu      sync.Mutex
	engines []*engine.Engine
	slices  map[sliceKey]*slice
	last    map[courier.ExecutionID]*slice // the one that has begun last
	closed  bool
}

// New returns an instrumentation. Several engines may use one, and several instrumentations one
// provider. Nil options are the defaults. The error says what is wrong with the options.
func New(opt *Options) (*Instrumentation, error) {
	i := &Instrumentation{slices: make(map[sliceKey]*slice), last: make(map[courier.ExecutionID]*slice)}
	if opt != nil {
		i.opt = *opt
	}
	if i.opt.Tracers == nil {
		i.opt.Tracers = otel.GetTracerProvider()
	}
	if i.opt.Meters == nil {
		i.opt.Meters = otel.GetMeterProvider()
	}
	if i.opt.Log == nil {
		i.opt.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case i.opt.Slow < 0:
		return nil, fmt.Errorf("courierotel: Options.Slow: %v is negative; 0 means the default", i.opt.Slow)
	case i.opt.Slow == 0:
		i.opt.Slow = 10 * time.Second
	}
	if i.opt.URL != "" {
		u, err := url.Parse(i.opt.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, errors.New("courierotel: Options.URL: it must have a scheme, a host and a path alone, such as https://ops.example.com/courier/")
		}
		i.opt.URL = strings.TrimSuffix(i.opt.URL, "/") + "/executions/"
	}
	i.tracer = i.opt.Tracers.Tracer(Scope)
	var err error
	if i.meters, err = metersOf(i.opt.Meters, i.opt.Log); err != nil {
		return nil, fmt.Errorf("courierotel: %w", err)
	}
	return i, nil
}

// Engine returns the options for an instrumented engine: a copy of o in which Around,
// AroundExecution, Probe, Trace and Log are set. The functions in o are called within them. Nil
// means the defaults. The options are for one engine.
func (i *Instrumentation) Engine(o *engine.Options) *engine.Options {
	var c engine.Options
	if o != nil {
		c = *o
	}
	around, aroundExecution, traced := c.Around, c.AroundExecution, c.Trace
	c.Around = func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
		return i.step(ctx, job, func(ctx context.Context) error {
			if around == nil {
				return next(ctx)
			}
			return around(ctx, job, next)
		})
	}
	c.AroundExecution = func(ctx context.Context, x *courier.Execution, next func(context.Context)) {
		ctx = i.execution(ctx, x)
		if aroundExecution == nil {
			next(ctx)
		} else {
			aroundExecution(ctx, x, next)
		}
	}
	c.Trace = func(ctx context.Context) string {
		if traced != nil {
			if parent := traced(ctx); parent != "" {
				return parent
			}
		}
		return traceparent(ctx)
	}
	c.Probe = newProbe(i, c.Probe)
	if c.Log != nil {
		c.Log = slog.New(&logHandler{Handler: c.Log.Handler(), i: i})
	}
	return &c
}

// Shutdown ends the instrumentation. Spans of executions that have not ended are lost, gauges are
// no longer reported, and the providers of the options are shut down, even if one of them fails.
// It returns their errors, or the error of ctx. Call it after the engines have stopped. If the
// options name no providers, the host must shut down the providers of package otel.
func (i *Instrumentation) Shutdown(ctx context.Context) error {
	i.mu.Lock()
	again, engines := i.closed, i.engines
	i.closed, i.engines = true, nil
	i.mu.Unlock()
	if again {
		return nil
	}
	type provider interface{ Shutdown(context.Context) error }
	list := []struct {
		what string
		is   any
	}{{"tracer provider", i.opt.Tracers}, {"meter provider", i.opt.Meters}}
	errs := make([]error, len(list), len(list)+1)
	var all sync.WaitGroup
	for n, p := range list {
		if p, ok := p.is.(provider); ok {
			all.Go(func() {
				if err := p.Shutdown(ctx); err != nil {
					errs[n] = fmt.Errorf("courierotel: shut down the %s: what it had not exported is lost: %w", list[n].what, err)
				}
			})
		}
	}
	all.Wait()
	return errors.Join(append(errs, i.meters.release(engines))...)
}

// traceparent returns the trace context of ctx as a header; empty if it has none.
func traceparent(ctx context.Context) string {
	var c propagation.MapCarrier = make(map[string]string, 1)
	propagation.TraceContext{}.Inject(ctx, c)
	return c.Get("traceparent")
}

// remote returns the span of a traceparent header; invalid if the header is invalid.
func remote(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent}))
}
