package courierotel_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	courierotel "github.com/courierhq/courier/x/otel"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		worker()
		return
	}
	testMain(m)
}

// A buffer is a log that several goroutines write.
type buffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

// A world is an instrumented engine, with what it has told.
type world struct {
	testing.TB
	*courierotel.Instrumentation
	*engine.Engine
	reg     courier.Registry
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
	reader  *sdkmetric.ManualReader
	meters  *sdkmetric.MeterProvider
	log     buffer
}

// newWorld returns one on a store; opt and change may be nil.
func newWorld(t testing.TB, s store.Store, opt *engine.Options, change func(*courierotel.Options)) *world {
	t.Helper()
	w := &world{TB: t, spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	w.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans))
	w.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	o := courierotel.Options{Tracers: w.tracers, Meters: w.meters, URL: "https://ops.example.com/courier/", Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	if change != nil {
		change(&o)
	}
	var err error
	if w.Instrumentation, err = courierotel.New(&o); err != nil {
		t.Fatal(err)
	}
	var c engine.Options
	if opt != nil {
		c = *opt
	}
	if c.Workspace == "" {
		c.Workspace = t.TempDir()
	}
	c.Log = o.Log
	w.Engine = engine.New(s, &w.reg, w.Instrumentation.Engine(&c))
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// run enqueues an execution of a job within ctx and waits until the engine is done with it.
func (w *world) run(ctx context.Context, job courier.Job, params map[string]any) courier.Execution {
	w.Helper()
	if _, err := w.Jobs().Define(ctx, job, nil); err != nil {
		w.Fatal(err)
	}
	_ = w.Start(context.WithoutCancel(ctx)) // it may be started already
	x, err := w.Enqueue(ctx, job.Name, &courier.EnqueueOptions{Params: params})
	if err == nil {
		x, err = w.Wait(ctx, x.ID)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.eventually(func() bool {
		return slices.ContainsFunc(w.spans.GetSpans(), func(s tracetest.SpanStub) bool {
			return attr(s, "cicd.pipeline.run.id") == string(x.ID) && (attr(s, "courier.slice.end") == string(x.State) || x.State == courier.Queued)
		})
	})
	return x
}

func (w *world) eventually(f func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) && w.spans != nil {
			w.Fatalf("not within 20 s; spans:\n%s", show(w.spans.GetSpans()))
		} else if time.Now().After(end) {
			w.Fatal("not within 20 s")
		}
	}
}

// attr is the text of an attribute.
func attr(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// show is a span in a line, with what does not differ from run to run.
func show(spans tracetest.SpanStubs) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "%s %s links=%d", s.Name, s.SpanKind, len(s.Links))
		for _, a := range s.Attributes {
			if a.Key != "cicd.pipeline.run.id" && a.Key != "cicd.pipeline.run.url.full" {
				fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.String())
			}
		}
		if s.Status.Code == codes.Error {
			fmt.Fprintf(&b, " ! %s", s.Status.Description)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// collect returns the values of the series of a metric: of a histogram the counts. The key is the
// set of attributes.
func (w *world) collect(name string) map[string]float64 {
	w.Helper()
	var rm metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &rm); err != nil {
		w.Fatal(err)
	}
	values := make(map[string]float64)
	key := func(s attribute.Set) string { return s.Encoded(attribute.DefaultEncoder()) }
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					values[key(p.Attributes)] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					values[key(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					values[key(p.Attributes)] = float64(p.Count)
				}
			}
		}
	}
	return values
}

func (w *world) same(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s:\n%v\nwant\n%v", what, got, want)
	}
}

func nothing(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

// TestTrace: an execution is a trace that is linked to who has enqueued it. Its steps are spans
// below it, requests carry them on, and records of the log name them. What the host has set is
// called too.
func TestTrace(t *testing.T) {
	var called, counted sync.Map
	probe := new(counting)
	w := newWorld(t, memstore.New(), &engine.Options{
		Around: func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
			called.Store(job.Type(), trace.SpanContextFromContext(ctx).IsValid())
			return next(ctx)
		},
		AroundExecution: func(ctx context.Context, x *courier.Execution, next func(context.Context)) {
			counted.Store(x.Job, trace.SpanContextFromContext(ctx).IsValid())
			next(ctx)
		},
		Probe: probe,
	}, nil)
	var received string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = r.Header.Get("Traceparent") }))
	defer server.Close()
	httpreq.Register(&w.reg, &httpreq.Options{AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	courier.RegisterFunc(&w.reg, "test.transfer", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		job.Progress(0, -1, "a.txt")
		job.Progress(1234, -1, "a.txt")
		job.Log().Info("from the step")
		if job.Attempt() == 1 {
			return struct{}{}, courier.WithClass(errors.New("a text that nobody sees"), courier.ReasonLogin)
		}
		return struct{}{}, nil
	}, nil)
	ctx, enqueuer := w.tracers.Tracer("host").Start(t.Context(), "POST /start")
	x := w.run(ctx, courier.Job{Name: "invoices", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}, Steps: []courier.StepSpec{
		{ID: "ask", Type: "http.request", Config: map[string]any{"url": server.URL}}, {Type: "test.transfer"},
	}}, nil)
	enqueuer.End()
	w.same("state", x.State, courier.Completed)
	spans := w.spans.GetSpans()
	host := spans[len(spans)-1]
	spans = spans[:len(spans)-1]
	task := " internal links=0 cicd.pipeline.task.name="
	w.same("spans", show(spans), strings.Join([]string{
		"http.request" + task + "ask courier.step.type=http.request courier.step.index=0 courier.step.attempt=1 courier.step.id=ask cicd.pipeline.task.run.result=success",
		"test.transfer" + task + "test.transfer courier.step.type=test.transfer courier.step.index=1 courier.step.attempt=1 cicd.pipeline.task.run.result=failure courier.transfer.bytes=1234 error.type=login ! login",
		"RUN invoices server links=1 cicd.pipeline.name=invoices courier.queue=default courier.execution.attempt=1 courier.slice.end=retried error.type=login ! login",
		"test.transfer" + task + "test.transfer courier.step.type=test.transfer courier.step.index=1 courier.step.attempt=2 cicd.pipeline.task.run.result=success courier.transfer.bytes=1234",
		"RUN invoices server links=1 cicd.pipeline.name=invoices courier.queue=default courier.execution.attempt=1 courier.slice.end=completed cicd.pipeline.result=success",
		"",
	}, "\n"))
	for _, r := range []tracetest.SpanStub{spans[2], spans[4]} {
		if l := r.Links[0].SpanContext; r.Parent.IsValid() || l.TraceID() != host.SpanContext.TraceID() || l.SpanID() != host.SpanContext.SpanID() || r.SpanContext.TraceID() == l.TraceID() {
			t.Errorf("the root %v has the parent %v and the link %v; the host's is %v", r.SpanContext, r.Parent, l, host.SpanContext)
		}
		w.same("URL", attr(r, "cicd.pipeline.run.url.full"), "https://ops.example.com/courier/executions/"+string(x.ID))
	}
	for n, root := range map[int]int{0: 2, 1: 2, 3: 4} {
		w.same("parent", spans[n].Parent.SpanID(), spans[root].SpanContext.SpanID())
		w.same("trace", spans[n].SpanContext.TraceID(), spans[root].SpanContext.TraceID())
	}
	w.same("traceparent of the request", received, "00-"+spans[0].SpanContext.TraceID().String()+"-"+spans[0].SpanContext.SpanID().String()+"-01")
	for _, text := range []string{`msg="from the step"`, `msg="step failed"`, `msg="execution completed"`} {
		i := strings.Index(w.log.String(), text)
		if i < 0 || !strings.Contains(strings.SplitN(w.log.String()[i:], "\n", 2)[0], "trace_id=") {
			t.Errorf("the record %s has no trace:\n%s", text, w.log.String())
		}
	}
	if line := "trace_id=" + spans[1].SpanContext.TraceID().String() + " span_id=" + spans[1].SpanContext.SpanID().String(); !strings.Contains(w.log.String(), line) {
		t.Errorf("no record of the step has %s:\n%s", line, w.log.String())
	}
	for _, m := range []*sync.Map{&called, &counted} {
		m.Range(func(name, traced any) bool {
			if traced != true {
				t.Errorf("the host's function has no span in %v", name)
			}
			return true
		})
	}
	if probe.ended != 2 || probe.engine != w.Engine {
		t.Errorf("the host's probe was told of %d ends, and has the engine %p", probe.ended, probe.engine)
	}
	// Metrics: the same names and labels as in Prometheus.
	w.same("run.duration", w.collect("cicd.pipeline.run.duration"), map[string]float64{"cicd.pipeline.name=invoices,cicd.pipeline.result=success,cicd.pipeline.run.state=executing": 1})
	w.same("slices", w.collect("courier.slices"), map[string]float64{"cicd.pipeline.name=invoices,courier.slice.end=completed": 1, "cicd.pipeline.name=invoices,courier.slice.end=failed": 0, "cicd.pipeline.name=invoices,courier.slice.end=retried": 1})
	w.same("step.errors", w.collect("courier.step.errors"), map[string]float64{"courier.step.type=test.transfer,error.type=login": 1})
	w.same("retries", w.collect("courier.retries"), map[string]float64{"courier.step.type=test.transfer": 1})
	w.same("transfer.io", w.collect("courier.transfer.io"), map[string]float64{"courier.step.type=test.transfer": 2468})
	w.same("queue.wait", w.collect("courier.queue.wait"), map[string]float64{"courier.queue=default": 2})
	w.same("queue.depth", w.collect("courier.queue.depth"), map[string]float64{"courier.queue=default": 0})
	w.same("store.reachable", w.collect("courier.store.reachable"), map[string]float64{"": 1})
}

// counting is a probe of a host.
type counting struct {
	sync.Mutex
	ended  int
	engine *engine.Engine
}

func (c *counting) Attach(e *engine.Engine)                     { c.engine = e }
func (*counting) Claimed(int, time.Duration)                    {}
func (*counting) Began(*courier.Execution, time.Duration)       {}
func (*counting) Step(*courier.StepExecution, time.Duration)    {}
func (*counting) Store(string, time.Duration, error)            {}
func (c *counting) Ended(x *courier.Execution, _ time.Duration) { c.Lock(); c.ended++; c.Unlock() }

var iterations = flag.Int("iterations", 4100, "of the loop of TestLoop, at least 4100")

// TestLoop: of a long loop the first 100 iterations have spans, and the others if they fail or
// take long; the root counts what has none. Late attempts have no children.
func TestLoop(t *testing.T) {
	w := newWorld(t, memstore.New(), nil, func(o *courierotel.Options) { o.Slow = 50 * time.Millisecond })
	courier.RegisterFunc(&w.reg, "test.item", func(ctx context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		_, child := w.tracers.Tracer("host").Start(ctx, "child")
		child.End()
		switch n := job.Iteration()[0]; {
		case n == 150:
			time.Sleep(60 * time.Millisecond)
		case n >= 3000 || n == 3:
			return struct{}{}, errors.New("no")
		}
		return struct{}{}, nil
	}, nil)
	items := make([]int, *iterations)
	x := w.run(t.Context(), courier.Job{Name: "long", Params: map[string]any{"items": []any{}}, FailurePolicy: courier.FailurePolicy{Type: courier.Stop}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items", "on_item_failure": "continue"}}, {Type: "test.item"}, {Type: "flow.end"},
	}}, map[string]any{"items": items})
	w.same("state", x.State, courier.Failed) // once all items have run
	var early, slow, failed, children int
	var root tracetest.SpanStub
	for _, s := range w.spans.GetSpans() {
		var n int
		_, _ = fmt.Sscan(strings.Trim(attr(s, "courier.step.iteration"), "[]"), &n)
		switch {
		case s.Name == "child":
			children++
		case s.Name != "test.item":
			root = s
		case n < 100:
			early++
		case n == 150:
			slow++
			if d := s.EndTime.Sub(s.StartTime); d < 50*time.Millisecond || s.Parent.SpanID().IsValid() == false {
				t.Errorf("the slow attempt took %v", d)
			}
		case s.Status.Code == codes.Error:
			failed++
		default:
			t.Errorf("a span that should not be: %s", show(tracetest.SpanStubs{s}))
		}
	}
	w.same("early, slow, failed, children", []int{early, slow, failed, children}, []int{100, 1, 999, 100})
	w.same("omitted", attr(root, "courier.spans.omitted"), fmt.Sprint(*iterations-1100))
}

// TestCanary: a secret is in no span, metric or record, wherever a step puts it.
func TestCanary(t *testing.T) {
	const canary = "canary-91bc-secret"
	w := newWorld(t, memstore.New(), &engine.Options{Secrets: func(context.Context, courier.SecretRequest) (string, error) { return canary, nil }}, nil)
	courier.RegisterFunc(&w.reg, "test.leak", func(ctx context.Context, job *courier.Context, cfg struct {
		Token string `json:"token"`
	}) (struct{}, error) {
		job.Log().InfoContext(ctx, "using "+cfg.Token, "token", cfg.Token)
		job.Progress(1, 2, cfg.Token)
		if job.Attempt() == 2 {
			panic(cfg.Token)
		}
		return struct{}{}, fmt.Errorf("refused %s", cfg.Token)
	}, nil)
	x := w.run(t.Context(), courier.Job{
		Name: "leaky", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: new(1)},
		Steps: []courier.StepSpec{{Type: "test.leak", Config: map[string]any{"token": "secret:partner"}}},
	}, nil)
	w.same("state", x.State, courier.Failed)
	var rm metricdata.ResourceMetrics
	if err := w.reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	var prom bytes.Buffer
	if err := w.Metrics().Write(t.Context(), &prom); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"span": fmt.Sprintf("%+v", w.spans.GetSpans()), "metric": fmt.Sprintf("%+v", rm), "log": w.log.String(), "text": prom.String()} {
		if strings.Contains(text, canary) || len(text) < 100 {
			t.Errorf("the secret is in a %s, or there is none:\n%s", what, text)
		}
	}
}

// A stuck exporter does not return until it is let go.
type stuck struct{ let chan struct{} }

func (s *stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { <-s.let; return nil }
func (*stuck) Shutdown(context.Context) error                               { return nil }

// TestBlockedExporter: an exporter that does not return holds no step; when it returns, later
// spans are exported.
func TestBlockedExporter(t *testing.T) {
	s := &stuck{make(chan struct{})}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(s, sdktrace.WithMaxQueueSize(10), sdktrace.WithMaxExportBatchSize(1), sdktrace.WithBatchTimeout(time.Millisecond)))
	i, err := courierotel.New(&courierotel.Options{Tracers: tp, Meters: noop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.a", nothing, nil)
	e := engine.New(memstore.New(), &reg, i.Engine(&engine.Options{Workspace: t.TempDir()}))
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := courier.Job{Name: "j"}
	for range 50 {
		job.Steps = append(job.Steps, courier.StepSpec{Type: "test.a"})
	}
	began := time.Now()
	x, err := e.Run(t.Context(), job, nil)
	if err != nil || x.State != courier.Completed || time.Since(began) > 10*time.Second {
		t.Errorf("%s after %v: %v", x.State, time.Since(began), err)
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	close(s.let)
	if err := i.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestTwoEngines: two engines on one meter provider, whether they share an instrumentation or
// not, are added up, and what is about the whole store is there once.
func TestTwoEngines(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	s := memstore.New()
	var stop []func()
	for n := range 2 {
		i, err := courierotel.New(&courierotel.Options{Tracers: sdktrace.NewTracerProvider(), Meters: unclosed{mp}})
		if err != nil {
			t.Fatal(err)
		}
		var reg courier.Registry
		courier.RegisterFunc(&reg, "test.a", nothing, nil)
		e := engine.New(s, &reg, i.Engine(&engine.Options{Workspace: t.TempDir(), Worker: fmt.Sprint("w", n), Queues: []string{fmt.Sprint("q", n)}}))
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop = append(stop, func() {
			if err := errors.Join(e.Stop(context.Background()), i.Shutdown(context.Background()), i.Shutdown(context.Background())); err != nil {
				t.Error(err)
			}
		})
		job := courier.Job{Name: "j", Queue: fmt.Sprint("q", n), Steps: []courier.StepSpec{{Type: "test.a"}}}
		if x, err := e.Run(t.Context(), job, nil); err != nil || x.State != courier.Completed {
			t.Fatal(x.State, err)
		}
	}
	w := &world{TB: t, reader: reader}
	w.same("slices", w.collect("courier.slices"), map[string]float64{"cicd.pipeline.name=j,courier.slice.end=completed": 2, "cicd.pipeline.name=j,courier.slice.end=failed": 0})
	w.eventually(func() bool { // an engine says that it is there beside what it executes
		present, err := s.Workers(t.Context(), time.Minute)
		return err == nil && len(present) == 2
	})
	w.eventually(func() bool { return len(w.collect("courier.workers")) > 0 }) // not the first time
	w.same("workers", w.collect("courier.workers"), map[string]float64{"courier.worker.state=available": 2, "courier.worker.state=draining": 0})
	w.same("refused", w.collect("courier.refused.writes"), map[string]float64{"": 0})
	if got := w.collect("courier.workspace.free"); len(got) != 1 {
		t.Errorf("workspace.free: %v", got)
	}
	stop[0]()
	if got := w.collect("courier.queue.depth"); got["courier.queue=q1"] != 0 || len(got) == 0 {
		t.Errorf("queue.depth after the first has ended: %v", got)
	}
	stop[1]()
	if got := w.collect("courier.queue.depth"); len(got) != 0 {
		t.Errorf("queue.depth after both have ended: %v", got)
	}
}

// unclosed is a provider that others use too.
type unclosed struct{ metric.MeterProvider }

// TestBounded: 10,000 names of jobs make no more series than the limit, with the counts of all.
func TestBounded(t *testing.T) {
	w := newWorld(t, memstore.New(), nil, nil)
	o := w.Instrumentation.Engine(nil)
	for n := range 10_000 {
		o.Probe.Ended(&courier.Execution{Job: fmt.Sprint("job", n), State: courier.Completed}, time.Second)
	}
	for _, name := range []string{"courier.slices", "cicd.pipeline.run.duration"} {
		sum := 0.0
		got := w.collect(name)
		for _, n := range got {
			sum += n
		}
		if len(got) > metrics.MaxSeries || sum != 10_000 {
			t.Errorf("%s has %d series and %v values", name, len(got), sum)
		}
	}
	w.same("lines of the log", strings.Count(w.log.String(), "too many series"), 1)
}

// A failing provider can't be shut down.
type failing struct {
	sdktrace.TracerProvider
	err error
}

func (f *failing) Shutdown(context.Context) error { return f.err }
func (f *failing) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return sdktrace.NewTracerProvider().Tracer("")
}

// TestShutdown: the error of a provider that fails says which one, and the other one is shut down
// all the same.
func TestShutdown(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	broken := errors.New("the collector is gone")
	i, err := courierotel.New(&courierotel.Options{Tracers: &failing{err: broken}, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	err = i.Shutdown(t.Context())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "shut down the tracer provider: what it had not exported is lost") {
		t.Errorf("the error is %v", err)
	}
	if err := reader.Collect(t.Context(), new(metricdata.ResourceMetrics)); !errors.Is(err, sdkmetric.ErrReaderShutdown) {
		t.Errorf("the meters are not shut down: %v", err)
	}
	// An engine that is used nevertheless works.
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.a", nothing, nil)
	e := engine.New(memstore.New(), &reg, i.Engine(&engine.Options{Workspace: t.TempDir()}))
	if x, err := e.Run(t.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "test.a"}}}, nil); err != nil || x.State != courier.Completed {
		t.Error(x.State, err)
	}
}

// TestNew: wrong options have errors that name them.
func TestNew(t *testing.T) {
	for want, o := range map[string]courierotel.Options{
		"Options.Slow": {Slow: -1}, "Options.URL": {URL: "/courier/"}, "Options.URL: it must": {URL: "https://ann:pw@x/"}, "scheme": {URL: "ftp://x"},
	} {
		if _, err := courierotel.New(&o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ann:pw") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	i, err := courierotel.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkStep is a step on memstore: alone, and with spans and metrics by the SDK.
func BenchmarkStep(b *testing.B) {
	for name, with := range map[string]bool{"alone": false, "SDK": true} {
		b.Run(name, func(b *testing.B) {
			var reg courier.Registry
			courier.RegisterFunc(&reg, "test.a", nothing, nil)
			opt := &engine.Options{Workspace: b.TempDir()}
			if with {
				reader := sdkmetric.NewManualReader()
				i, err := courierotel.New(&courierotel.Options{
					Tracers: sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter())), Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
				})
				if err != nil {
					b.Fatal(err)
				}
				defer i.Shutdown(context.Background())
				opt = i.Engine(opt)
			}
			e := engine.New(memstore.New(), &reg, opt)
			if err := e.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer e.Stop(context.Background())
			const steps = 500
			job := courier.Job{Name: "j"}
			for range steps {
				job.Steps = append(job.Steps, courier.StepSpec{Type: "test.a"})
			}
			done, began := 0, time.Now()
			for b.Loop() {
				if x, err := e.Run(b.Context(), job, nil); err != nil || x.State != courier.Completed {
					b.Fatal(x.State, err)
				}
				done += steps
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(done), "ns/step")
		})
	}
}
