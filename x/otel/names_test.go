package courierotel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
	courierotel "github.com/courierhq/courier/x/otel"
)

// TestNames: OpenTelemetry's exporter for Prometheus serves the same metrics, by the same names,
// kinds and labels, as the engine itself. So dashboards and alerts fit both.
func TestNames(t *testing.T) {
	gatherer := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(gatherer), prometheus.WithoutScopeInfo(), prometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	i, err := courierotel.New(&courierotel.Options{Tracers: sdktrace.NewTracerProvider(), Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))})
	if err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.a", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		job.Progress(0, 2, "a")
		job.Progress(2, 2, "a")
		return struct{}{}, errors.New("no")
	}, nil)
	e := engine.New(memstore.New(), &reg, i.Engine(&engine.Options{Workspace: t.TempDir()}))
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x, err := e.Run(t.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "test.a"}}}, nil); err == nil && x.State != courier.Failed {
		t.Fatal(x.State)
	}
	var text strings.Builder
	for end := time.Now().Add(10 * time.Second); !strings.Contains(text.String(), "courier_workers") && time.Now().Before(end); time.Sleep(time.Millisecond) {
		text.Reset()
		if err := e.Metrics().Write(t.Context(), &text); err != nil {
			t.Fatal(err)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	own, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, theirs := range list {
		f := own[theirs.GetName()]
		delete(own, theirs.GetName())
		if f == nil {
			t.Errorf("%s is the exporter's alone", theirs.GetName())
			continue
		}
		if f.GetType() != theirs.GetType() || f.GetHelp() != theirs.GetHelp() {
			t.Errorf("%s is a %v, %q, and the exporter's a %v, %q", f.GetName(), f.GetType(), f.GetHelp(), theirs.GetType(), theirs.GetHelp())
		}
		names := func(m []string) string { slices.Sort(m); return strings.Join(m, " ") }
		var a, b []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			a = append(a, l.GetName())
		}
		for _, l := range theirs.GetMetric()[0].GetLabel() {
			b = append(b, l.GetName())
		}
		if names(a) != names(b) {
			t.Errorf("%s has the labels %v, and the exporter's %v", f.GetName(), a, b)
		}
	}
	for name := range own {
		t.Errorf("%s is not the exporter's", name)
	}
	if err := errors.Join(e.Stop(context.Background()), i.Shutdown(context.Background())); err != nil {
		t.Error(err)
	}
}
