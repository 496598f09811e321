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

// A failed execution goes on with the step that failed. Completed steps do not run
// again.
func ExampleEngine_Resume() {
	ctx := context.Background()
	full := true
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	courier.RegisterFunc(reg, "demo.send", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		if full {
			return struct{}{}, errors.New("the partner's server is full")
		}
		fmt.Println("sent")
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, nil)
	x, err := e.Run(ctx, courier.Job{Name: "send", Steps: []courier.StepSpec{
		{Type: "demo.show", Config: map[string]any{"text": "prepared"}},
		{Type: "demo.send"},
	}}, nil)
	fmt.Println(err)
	full = false // somebody has mended it
	if _, err := e.Resume(ctx, x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ann", Reason: "the partner made room"}}); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	if x, err = e.Wait(ctx, x.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.State)
	// Output:
	// prepared
	// job "send": step 1 (demo.send): the partner's server is full
	// sent
	// completed
}

// A paused execution stops before its next step. A cancelled one is given up. Every
// request is in the audit, with who asked.
func ExampleEngine_Pause() {
	ctx := context.Background()
	e := newExample()
	if _, err := e.Jobs().Define(ctx, greetings, nil); err != nil {
		log.Fatal(err)
	}
	x, err := e.Enqueue(ctx, "greetings", &courier.EnqueueOptions{Params: map[string]any{"names": []string{"Ada"}}, By: courier.By{Actor: "client"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := e.Pause(ctx, x.ID, courier.By{Actor: "ann"}); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{Actor: "bob"}}); err != nil {
		log.Fatal(err)
	}
	audit, err := e.Executions().Audit(ctx, x.ID)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range audit {
		fmt.Printf("%s -> %s by %s\n", a.From, a.To, a.By)
	}
	// Output:
	// -> queued by client
	// queued -> paused by ann
	// paused -> cancelled by bob
}
