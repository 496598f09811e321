package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/courierhq/courier"
)

// Limits hold for all engines on a store together: for all executions, for a job,
// and for a key that executions share.
func ExampleLimits_Set() {
	ctx := context.Background()
	e := newExample()
	for scope, n := range map[string]int{"global": 20, "job:greetings": 2, "key:partner:acme": 1} {
		if err := e.Limits().Set(ctx, scope, n, courier.By{}); err != nil { // 0 lifts a limit
			log.Fatal(err)
		}
	}
	if _, err := e.Jobs().Define(ctx, greetings, nil); err != nil {
		log.Fatal(err)
	}
	x, err := e.Enqueue(ctx, "greetings", &courier.EnqueueOptions{
		Params: map[string]any{"names": []string{"Ada"}}, LimitKeys: []string{"partner:acme"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.State, x.LimitKeys)
	_, err = e.Jobs().Define(ctx, courier.Job{Name: "greetings", Limit: -1, Steps: greetings.Steps}, nil)
	fmt.Println(err != nil)
	// Output:
	// queued [partner:acme]
	// true
}
