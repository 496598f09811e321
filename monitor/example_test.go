package monitor_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store/memstore"
)

// A monitor starts a job for each file that comes into a directory and is complete,
// once, however many engines poll.
func ExampleService_Set() {
	ctx := context.Background()
	in, err := os.MkdirTemp("", "in")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(in)
	done := make(chan bool, 1)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", func(_ context.Context, _ *courier.Context, cfg struct {
		Text string `json:"text"`
	}) (struct{}, error) {
		fmt.Println(cfg.Text)
		return struct{}{}, nil
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Roots:   []string{in},
		Listers: map[string]courier.Lister{"file": file.NewLister([]string{in}, nil)},
		Observers: []func(courier.Event){func(ev courier.Event) {
			if ev.Type == courier.EventJobCompleted {
				done <- true
			}
		}},
	})
	if _, err := e.Jobs().Define(ctx, courier.Job{Name: "receive", Params: map[string]any{"files": nil, "monitor": nil}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.files"}},
		{Type: "demo.show", Config: map[string]any{"text": "received ${context:loop.current_item.name}"}},
		{Type: "flow.end"},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Monitors().Set(ctx, monitor.Monitor{
		Name: "incoming", Path: in, Job: "receive", Every: time.Second,
		DoneFile: ".done", // a.csv is complete when there is a.csv.done; or give Stable
	}, courier.By{}); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"a.csv", "a.csv.done"} {
		if err := os.WriteFile(filepath.Join(in, name), nil, 0o600); err != nil {
			log.Fatal(err)
		}
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-done
	fmt.Println(e.Stop(ctx))
	// Output:
	// received a.csv
	// <nil>
}
