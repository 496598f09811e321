package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	courierotel "github.com/courierhq/courier/x/otel"
)

// newTraces returns the instrumentation that sends traces to the collector, if there is one.
// Prometheus reads the metrics from the API instead.
func newTraces(ctx context.Context, c config, log *slog.Logger) (*courierotel.Instrumentation, error) {
	opt := &courierotel.Options{Tracers: noop.NewTracerProvider(), URL: c.url + "/courier/", Log: log}
	if c.collector != "" {
		u, err := url.Parse(c.collector)
		if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
			return nil, fmt.Errorf("-otlp %q: it must be a URL such as http://localhost:4318", c.collector)
		}
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
		if err != nil {
			return nil, err
		}
		service := resource.NewSchemaless(attribute.String("service.name", "courier-example"))
		opt.Tracers = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(service))
	}
	return courierotel.New(opt)
}
