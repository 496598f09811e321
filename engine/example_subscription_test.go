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

// A subscription is told of events at least once, also after a restart. This one
// calls a function of the program; others call webhooks, start jobs or send e-mail.
func ExampleEngine_Subscribe() {
	ctx := context.Background()
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.fail", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		return struct{}{}, errors.New("the partner's server is full")
	}, nil)
	told := make(chan bool, 1)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Subscribers: map[string]func(context.Context, courier.Notification) error{
			"page": func(_ context.Context, n courier.Notification) error {
				fmt.Printf("%s of %s in step %d: %s\n", n.Type, n.Job, *n.Step, n.Error)
				told <- true
				return nil // an error delivers it again later
			},
		},
	})
	if _, err := e.Subscribe(ctx, courier.Subscription{
		Name: "failures", Kind: courier.SubscribeFunc, Func: "page",
		Events: []courier.EventType{courier.EventJobFailed},
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Define(ctx, courier.Job{Name: "send", Steps: []courier.StepSpec{{Type: "demo.fail"}}}, nil); err != nil {
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
