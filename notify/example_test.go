package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// A subscription is told of events at least once, also after a restart. This one
// calls a function of the program; others call webhooks, start jobs or send e-mail.
func ExampleService_Set() {
	ctx := context.Background()
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.fail", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		return struct{}{}, errors.New("the partner's server is full")
	}, nil)
	told := make(chan bool, 1)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Subscribers: map[string]func(context.Context, notify.Notification) error{
			"page": func(_ context.Context, n notify.Notification) error {
				fmt.Printf("%s of %s in step %d: %s\n", n.Type, n.Job, *n.Step, n.Error)
				told <- true
				return nil // an error delivers it again later
			},
		},
	})
	if _, err := e.Subscriptions().Set(ctx, notify.Subscription{
		Name: "failures", Kind: notify.KindFunc, Func: "page",
		Events: []courier.EventType{courier.EventJobFailed},
	}, courier.By{}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Jobs().Define(ctx, courier.Job{Name: "send", Steps: []courier.StepSpec{{Type: "demo.fail"}}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	if _, err := e.Enqueue(ctx, "send", nil); err != nil {
		log.Fatal(err)
	}
	<-told
	// Output:
	// JobFailed of send in step 0: the partner's server is full
}

// A delivery that has failed for good is listed, and can be made again.
func ExampleService_Replay() {
	ctx := context.Background()
	calls, down := make(chan string, 8), true
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.nothing", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Subscribers: map[string]func(context.Context, notify.Notification) error{
			"desk": func(_ context.Context, n notify.Notification) error {
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
	if _, err := e.Subscriptions().Set(ctx, notify.Subscription{
		Name: "ends", Kind: notify.KindFunc, Func: "desk", Events: []courier.EventType{courier.EventJobCompleted},
	}, courier.By{}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Jobs().Define(ctx, courier.Job{Name: "greet", Steps: []courier.StepSpec{
		{Type: "demo.nothing"},
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
		n, err := e.Subscriptions().Replay(ctx, "ends", nil, courier.By{})
		if err != nil {
			log.Fatal(err)
		}
		again = n
	}
	fmt.Println(<-calls)
	// Output:
	// refused JobCompleted
	// took JobCompleted
}
