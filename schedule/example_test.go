package schedule_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

// A schedule starts a job by cron, by an interval or once. Any number of engines
// fire it, and each tick starts one execution. Here the clock of the memory store
// is put forward.
func ExampleService_Set() {
	ctx := context.Background()
	s := memstore.NewAt(time.Date(2030, 1, 4, 18, 0, 0, 0, time.UTC)) // a Friday
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", func(_ context.Context, _ *courier.Context, cfg struct {
		Text string `json:"text"`
	}) (struct{}, error) {
		fmt.Println(cfg.Text)
		return struct{}{}, nil
	}, nil)
	started := make(chan courier.Event, 8)
	e := engine.New(s, reg, &engine.Options{Observers: []func(courier.Event){func(ev courier.Event) {
		if ev.Type == courier.EventJobCompleted {
			started <- ev
		}
	}}})
	if _, err := e.Jobs().Define(ctx, courier.Job{Name: "report", Params: map[string]any{"text": nil}, Steps: []courier.StepSpec{
		{Type: "demo.show", Config: map[string]any{"text": "context:params.text"}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer e.Stop(ctx)
	saved, err := e.Schedules().Set(ctx, schedule.Schedule{
		Name: "weekdays", Job: "report", Params: map[string]any{"text": "the report"},
		Cron: "0 30 5 ? * MON-FRI", Zone: "Europe/Berlin", // seconds first
		Overlap: schedule.OverlapSkip,
	}, courier.By{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next:", saved.NextFire.UTC())
	s.Advance(3 * 24 * time.Hour)
	<-started
	if saved, err = e.Schedules().Get(ctx, "weekdays"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("next:", saved.NextFire.UTC())
	// Output:
	// next: 2030-01-07 04:30:00 +0000 UTC
	// the report
	// next: 2030-01-08 04:30:00 +0000 UTC
}

// What a cron expression means, in words.
func ExampleExplainCron() {
	x, err := schedule.ExplainCron("0 30 2 * * ?", "Europe/Berlin", time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(x)
	// Output:
	// At 02:30:00 every day
	// next: Sat 2026-03-28 02:30:00 CET
	// next: Sun 2026-03-29 03:30:00 CEST
	// next: Mon 2026-03-30 02:30:00 CEST
	// note: 2026-03-29: 02:30 doesn't exist in Europe/Berlin; fires at 03:30
	// note: 2026-10-25: 02:30 comes twice in Europe/Berlin; fires at the first only
	// note: 2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30
}
