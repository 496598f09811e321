package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

type half struct {
	Done int    `json:"done"`
	Text string `json:"text,omitempty"`
}

// TestFailedOutputs checks what is recorded of the outputs that a step returns together
// with an error: nothing unless its type says so, and never a secret or too much.
func TestFailedOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{
			MaxOutput: 1000,
			Secrets:   func(context.Context, courier.SecretRequest) (string, error) { return "correct horse battery", nil },
		})
		type config struct {
			Done   int    `json:"done"`
			Text   string `json:"text"`
			Long   int    `json:"long"`
			Set    bool   `json:"set"`
			Passes bool   `json:"passes"`
		}
		work := func(_ context.Context, job *courier.Context, c config) (half, error) {
			if c.Set {
				if err := job.Set("more", 7); err != nil {
					return half{}, err
				}
			}
			out := half{c.Done, c.Text + strings.Repeat("x", c.Long)}
			if c.Passes {
				return out, nil
			}
			return out, courier.Permanent(errors.New("it broke"))
		}
		courier.RegisterFunc(h.Registry, "demo.plain", work, nil)
		courier.RegisterFunc(h.Registry, "demo.tells", work, &courier.TypeOptions{FailedOutputs: true, Sets: []string{"more"}})
		for _, c := range []struct{ name, step, want string }{
			{"plain", `"demo.plain", "config": {"done": 3}`, ""},
			{"told", `"demo.tells", "config": {"done": 3}`, `{"done":3}`},
			{"set", `"demo.tells", "config": {"done": 3, "set": true}`, `{"done":3,"more":7}`},
			{"zero", `"demo.tells", "config": {"set": true}`, ""},
			{"secret", `"demo.tells", "config": {"done": 3, "text": "secret:pw"}`, ""},
			{"large", `"demo.tells", "config": {"done": 3, "long": 1001}`, ""},
		} {
			r := h.Run(h.Job(`{"name": "`+c.name+`", "failure_policy": "skip_and_continue", "steps": [
				{"id": "a", "type": `+c.step+`},
				{"type": "flow.if", "config": {"left": "context:a.done", "operator": "exists"}},
				{"id": "b", "type": "demo.plain", "config": {"passes": true}},
				{"type": "flow.end"}]}`), nil).RequireState(courier.Completed)
			if len(r.Steps) != 1 || string(r.Steps[0].Outputs) != c.want || r.Steps[0].Error != "it broke" {
				t.Errorf("%s: records %+v, want one with outputs %s", c.name, r.Steps, c.want)
			}
			for _, key := range []string{"0.done", "a.done", "0.more"} {
				if v, ok := r.Values[key]; ok {
					t.Errorf("%s: the value %s is %v", c.name, key, v)
				}
			}
		}
	})
}
