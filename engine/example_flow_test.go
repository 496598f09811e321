package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A job in JSON, with a loop, a branch and references: to a parameter, to the item
// of the loop, and to the output of a step.
func ExampleEngine_Run_control() {
	var job courier.Job
	if err := job.UnmarshalJSON([]byte(`{"name": "greet", "params": {"names": null, "loud": "Ada"}, "steps": [
		{"type": "flow.foreach", "config": {"source": "context:params.names"}},
		{"type": "flow.if", "config": {"left": "context:loop.current_item", "operator": "equals", "right": "context:params.loud"}},
		{"id": "shout", "type": "demo.shout", "config": {"text": "hello ${context:loop.current_item}"}},
		{"type": "demo.show", "config": {"text": "context:shout.loud"}},
		{"type": "flow.else"},
		{"type": "demo.show", "config": {"text": "hello ${context:loop.current_item}"}},
		{"type": "flow.end"},
		{"type": "flow.end"}]}`)); err != nil {
		log.Fatal(err)
	}
	x, err := newExample().Run(context.Background(), job, &courier.EnqueueOptions{
		Params: map[string]any{"names": []string{"Ada", "Grace"}},
	})
	fmt.Println(x.State, err)
	// Output:
	// HELLO ADA
	// hello Grace
	// completed <nil>
}

// A failure policy says what a failed step leads to. An error that is marked as
// permanent ends the retries.
func ExampleEngine_Run_policy() {
	attempts := 0
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.fetch", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		if attempts++; attempts < 3 {
			return struct{}{}, errors.New("connection refused")
		}
		return struct{}{}, courier.Permanent(errors.New("the account is locked"))
	}, nil)
	_, err := engine.New(memstore.New(), reg, nil).Run(context.Background(), courier.Job{
		Name: "fetch",
		FailurePolicy: courier.FailurePolicy{
			Type: courier.RetryStep, MaxRetries: new(10), BackoffBase: new(time.Millisecond),
		},
		Steps: []courier.StepSpec{{Type: "demo.fetch"}},
	}, nil)
	fmt.Println(err)
	// Output:
	// job "fetch": step 0 (demo.fetch), attempt 3: the account is locked
}
