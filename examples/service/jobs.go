package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
)

// A WorkConfig is the configuration of demo.work.
type WorkConfig struct {
	Seconds float64 `json:"seconds" doc:"how long it takes"`
	Error   string  `json:"error" doc:"if not empty, what it fails with"`
}

// work stands for real work, such as the steps of package steps. Like them it
// ends soon after its context.
func work(ctx context.Context, _ *courier.Context, cfg WorkConfig) (struct{}, error) {
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return struct{}{}, context.Cause(ctx)
	}
	if cfg.Error != "" {
		return struct{}{}, errors.New(cfg.Error)
	}
	return struct{}{}, nil
}

// register adds the step types of this service to a registry.
func register(reg *courier.Registry) {
	courier.RegisterFunc(reg, "demo.work", work, &courier.TypeOptions{Doc: "takes its time"})
}

// demo is the job of this service. Defining it at every start makes no new
// version as long as it stays the same.
func demo() courier.Job {
	seconds := "context:params.seconds"
	return courier.Job{
		Name:   "demo",
		Params: map[string]any{"seconds": 1, "error": ""},
		Steps: []courier.StepSpec{
			{ID: "fetch", Type: "demo.work", Config: map[string]any{"seconds": seconds}},
			{ID: "convert", Type: "demo.work", Config: map[string]any{"seconds": seconds}},
			{ID: "deliver", Type: "demo.work", Config: map[string]any{"seconds": seconds, "error": "context:params.error"}},
		},
	}
}

// logged returns a hook around each step that logs when it began and ended.
func logged(log *slog.Logger) func(context.Context, *courier.Context, func(context.Context) error) error {
	return func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
		log := log.With("execution", job.Execution(), "step", job.Step(), "attempt", job.Attempt())
		log.Info("step began")
		start := time.Now()
		err := next(ctx)
		log = log.With("seconds", time.Since(start).Seconds())
		if err != nil {
			log.Warn("step ended", "error", err.Error())
		} else {
			log.Info("step ended")
		}
		return err
	}
}
