package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A delivery that has failed for good is listed, and can be made again.
func ExampleEngine_Replay() {
	ctx := context.Background()
	calls, down := make(chan string, 8), true
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Subscribers: map[string]func(context.Context, courier.Notification) error{
			"desk": func(_ context.Context, n courier.Notification) error {
				if down {
					down = false
					calls <- "refused " + string(n.Type)
					return courier.Permanent(errors.New("the desk is closed")) // others are tried again
				}
				calls <- "took " + string(n.Type)
				return nil
			},
		},
	})
	if _, err := e.Subscribe(ctx, courier.Subscription{
		Name: "ends", Kind: courier.SubscribeFunc, Func: "desk", Events: []courier.EventType{courier.EventJobCompleted},
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Define(ctx, courier.Job{Name: "greet", Steps: []courier.StepSpec{
		{Type: "demo.show", Config: map[string]any{"text": "hello"}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	if _, err := e.Enqueue(ctx, "greet", nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-calls)
	for again := 0; again == 0; { // the failure is recorded a moment after the call
		n, err := e.Replay(ctx, "ends")
		if err != nil {
			log.Fatal(err)
		}
		again = n
	}
	fmt.Println(<-calls)
	// Output:
	// hello
	// refused JobCompleted
	// took JobCompleted
}
