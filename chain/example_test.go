package chain_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A chain is a group of jobs that depend on each other. A member sees the outputs
// of the members before it.
func ExampleService_Start() {
	ctx := context.Background()
	reg := new(courier.Registry)
	type text struct {
		Text string `json:"text"`
	}
	courier.RegisterFunc(reg, "demo.shout", func(_ context.Context, _ *courier.Context, cfg text) (text, error) {
		return text{strings.ToUpper(cfg.Text)}, nil
	}, nil)
	courier.RegisterFunc(reg, "demo.show", func(_ context.Context, _ *courier.Context, cfg text) (struct{}, error) {
		fmt.Println(cfg.Text)
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, nil)
	for name, step := range map[string]courier.StepSpec{
		"fetch":   {ID: "shout", Type: "demo.shout", Config: map[string]any{"text": "hello ${context:params.name}"}},
		"publish": {Type: "demo.show", Config: map[string]any{"text": "published ${context:chain.fetch.text}"}},
	} {
		if _, err := e.Jobs().Define(ctx, courier.Job{Name: name, Steps: []courier.StepSpec{step}}, nil); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := e.Chains().Define(ctx, chain.Chain{Name: "nightly", Params: map[string]any{"name": nil}, Members: []chain.Member{
		{Job: "fetch", Params: map[string]any{"name": "context:params.name"}},
		{Job: "publish", DependsOn: []chain.Dependency{{Member: "fetch"}}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	x, err := e.Chains().Start(ctx, "nightly", &chain.StartOptions{Params: map[string]any{"name": "Ada"}})
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
