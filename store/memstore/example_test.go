package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// The store of unit tests, and of services whose executions need not survive their
// process.
func ExampleNew() {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.greet", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		fmt.Println("hello")
		return struct{}{}, nil
	}, nil)
	x, err := engine.New(memstore.New(), &reg, nil).Run(context.Background(), courier.Job{
		Name: "greet", Steps: []courier.StepSpec{{Type: "demo.greet"}},
	}, nil)
	fmt.Println(x.State, err)
	// Output:
	// hello
	// completed <nil>
}

// A store whose clock is put forward shows what happens tomorrow.
func ExampleStore_Advance() {
	s := memstore.NewAt(time.Date(2030, 1, 4, 18, 0, 0, 0, time.UTC))
	s.Advance(12 * time.Hour)
	fmt.Println(s.Now().UTC().Format(time.DateTime))
	// Output:
	// 2030-01-05 06:00:00
}
