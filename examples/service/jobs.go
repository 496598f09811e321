package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
)

// A WorkConfig is the configuration of demo.work.
type WorkConfig struct {
	Seconds float64 `json:"seconds" doc:"how long it takes"`
	Error   string  `json:"error" doc:"if not empty, what it fails with"`
}

// work stands for real work, such as the steps of package steps. Like them it
// ends soon after its context.
func work(ctx context.Context, job *courier.Context, cfg WorkConfig) (struct{}, error) {
	const size = 1 << 20 // bytes, of the file that it would transfer
	job.Progress(0, size, "report.csv")
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return struct{}{}, context.Cause(ctx)
	}
	if cfg.Error != "" {
		return struct{}{}, errors.New(cfg.Error)
	}
	job.Progress(size, size, "report.csv")
	return struct{}{}, nil
}

// register adds the step types of this service to a registry.
func register(reg *courier.Registry) {
	courier.RegisterFunc(reg, "demo.work", work, &courier.TypeOptions{Doc: "takes its time"})
}

// report is the job of this service. Defining it at every start creates no new version unless it
// has changed.
func report() courier.Job {
	seconds := "context:params.seconds"
	backoff, retries := time.Second, 2
	return courier.Job{
		Name: "report",
		Params: map[string]any{
			"customer": courier.Param{Type: "text", Required: true},
			"seconds":  courier.Param{Type: "number", Default: 1},
			"error":    "",
		},
		FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, BackoffBase: &backoff, MaxRetries: &retries},
		Result:        "the report for ${context:params.customer}",
		Steps: []courier.StepSpec{
			{ID: "fetch", Type: "demo.work", Config: map[string]any{"seconds": seconds}},
			{ID: "convert", Type: "demo.work", Config: map[string]any{"seconds": seconds}},
			{ID: "deliver", Type: "demo.work", Config: map[string]any{"seconds": seconds, "error": "context:params.error"}},
		},
	}
}

// params makes the parameters of the job from a request such as
// POST /reports/acme with the body {"seconds": 5}.
func params(r *httpapi.Received) (map[string]any, error) {
	all, ok := r.Body.(map[string]any)
	if !ok && r.Body != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "the body must be a JSON object")
	}
	if all == nil {
		all = make(map[string]any)
	}
	all["customer"] = r.Route["customer"]
	return all, nil
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
