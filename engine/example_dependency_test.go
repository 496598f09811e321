package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/courierhq/courier"
)

// An execution waits until the latest execution of another job has completed.
func ExampleEngine_Enqueue_dependency() {
	ctx := context.Background()
	e := newExample()
	for _, job := range []courier.Job{
		{Name: "masterdata", Steps: []courier.StepSpec{{Type: "demo.show", Config: map[string]any{"text": "master data"}}}},
		{Name: "invoices", DependsOn: []courier.JobDependency{{Job: "masterdata"}},
			Steps: []courier.StepSpec{{Type: "demo.show", Config: map[string]any{"text": "invoices"}}}},
	} {
		if _, err := e.Define(ctx, job, nil); err != nil {
			log.Fatal(err)
		}
	}
	x, err := e.Enqueue(ctx, "invoices", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoices:", x.Status(time.Now()))
	if _, err := e.Enqueue(ctx, "masterdata", nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	if x, err = e.Wait(ctx, x.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoices:", x.State)
	// Output:
	// invoices: waiting
	// master data
	// invoices
	// invoices: completed
}
