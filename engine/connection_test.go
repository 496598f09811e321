package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/connerr"
)

// TestFailureNamesItsConnection: a failure has the connection that its error names, or else the one
// of the configuration with the values as they were, without secrets.
func TestFailureNamesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{
			Secrets: func(ctx, courier.SecretRequest) (string, error) { return "hunter22", nil },
		})
		type config struct {
			ConnectionID string `json:"connection_id"`
			Says         string `json:"says"`
		}
		courier.RegisterFunc(h.Registry, "demo.send", func(_ ctx, _ *courier.Context, cfg config) (struct{}, error) {
			if cfg.Says != "" {
				return struct{}{}, &connerr.OperationError{Connection: cfg.Says, Op: "open", Err: errors.New("no")}
			}
			return struct{}{}, errors.New("no")
		}, nil)
		for _, c := range []struct{ name, step, want string }{
			{"none", `{"type": "demo.send"}`, ""},
			{"constant", `{"type": "demo.send", "config": {"connection_id": "bank"}}`, "bank"},
			{"parameter", `{"type": "demo.send", "config": {"connection_id": "${context:params.at}-2"}}`, "shop-2"},
			{"item", `{"type": "flow.foreach", "config": {"source": ["depot"]}}, {"type": "demo.send", "config": {"connection_id": "context:loop.current_item"}}, {"type": "flow.end"}`, "depot"},
			{"error", `{"type": "demo.send", "config": {"connection_id": "bank", "says": "shop"}}`, "shop"},
			{"secret", `{"type": "demo.send", "config": {"says": "secret:s"}}`, "[secret s]"},
			{"marker", `{"type": "flow.foreach", "config": {"source": "context:params.at"}}, {"type": "demo.send"}, {"type": "flow.end"}`, ""},
		} {
			job := h.Job(`{"name": "` + c.name + `", "params": {"at": "shop"}, "steps": [` + c.step + `]}`)
			if f := h.Run(job, nil).Failure; f == nil || f.Connection != c.want {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
	})
}
