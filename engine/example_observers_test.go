package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// An observer sees the events of its own engine as they pass, at most once.
func ExampleOptions_observers() {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	seen := make(chan string, 8)
	e := engine.New(memstore.New(), reg, &engine.Options{Observers: []func(courier.Event){func(ev courier.Event) {
		seen <- string(ev.Type)
	}}})
	if _, err := e.Run(context.Background(), courier.Job{Name: "greet", Steps: []courier.StepSpec{
		{Type: "demo.show", Config: map[string]any{"text": "hello"}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-seen, <-seen, <-seen, <-seen)
	// Output:
	// hello
	// JobStarted StepStarted StepCompleted JobCompleted
}
