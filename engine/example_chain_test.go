package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/courierhq/courier"
)

// A chain is a group of jobs that depend on each other. A member sees the outputs
// of the members before it.
func ExampleChains_Start() {
	ctx := context.Background()
	e := newExample()
	for name, step := range map[string]courier.StepSpec{
		"fetch":   {ID: "shout", Type: "demo.shout", Config: map[string]any{"text": "hello ${context:params.name}"}},
		"publish": {Type: "demo.show", Config: map[string]any{"text": "published ${context:chain.fetch.loud}"}},
	} {
		if _, err := e.Jobs().Define(ctx, courier.Job{Name: name, Steps: []courier.StepSpec{step}}, nil); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := e.Chains().Define(ctx, courier.Chain{Name: "nightly", Params: map[string]any{"name": nil}, Members: []courier.ChainMember{
		{Job: "fetch", Params: map[string]any{"name": "context:params.name"}},
		{Job: "publish", DependsOn: []courier.Dependency{{Member: "fetch"}}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	x, err := e.Chains().Start(ctx, "nightly", &courier.ChainOptions{Params: map[string]any{"name": "Ada"}})
	if err != nil {
		log.Fatal(err)
	}
	if x, err = e.Chains().Wait(ctx, x.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.State)
	// Output:
	// published HELLO ADA
	// completed
}
