package courierotel_test

import (
	"context"
	"errors"
	"log/slog"
	"os"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
	courierotel "github.com/courierhq/courier/x/otel"
)

// A service gives the engine its providers, and shuts them down when the engine has stopped.
func Example() {
	serve := func(ctx context.Context, spans sdktrace.SpanExporter, metrics sdkmetric.Exporter) (err error) {
		i, err := courierotel.New(&courierotel.Options{
			Tracers: sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans)),
			Meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics))),
			URL:     "https://ops.example.com/courier/",
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, i.Shutdown(context.WithoutCancel(ctx))) }()
		var reg courier.Registry
		e := engine.New(memstore.New(), &reg, i.Engine(&engine.Options{Log: slog.New(slog.NewJSONHandler(os.Stdout, nil))}))
		if err := e.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return e.Stop(context.WithoutCancel(ctx))
	}
	_ = serve // main calls it with exporters such as those of otlptracehttp and otlpmetrichttp
}
