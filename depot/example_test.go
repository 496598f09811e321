package depot_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// An input comes before its execution: Prepare chooses the id, the file is written under it,
// and EnqueueAll creates the execution.
func ExampleDirectory_Create() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "depot")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d, err := depot.Dir(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	var reg courier.Registry
	depot.Register(&reg, d, nil)
	e := engine.New(memstore.New(), &reg, nil)
	convert := courier.Job{Name: "convert", Steps: []courier.StepSpec{{Type: "depot.fetch"}}}
	if _, err := e.Jobs().Define(ctx, convert, nil); err != nil {
		log.Fatal(err)
	}

	x, err := e.Prepare(ctx, "convert", nil)
	if err != nil {
		log.Fatal(err)
	}
	p, err := d.Create(ctx, depot.InputKey(x.ID, "input.csv"))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close() // gives the file up, unless it was committed
	if _, err := io.Copy(p, strings.NewReader("1;2")); err != nil {
		log.Fatal(err) // depot.ErrFull if there is no room
	}
	info, err := p.Commit() // durable, with its size and SHA-256
	if err != nil {
		log.Fatal(err)
	}
	if _, err = e.EnqueueAll(ctx, []store.NewExecution{x}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Size, "bytes")
	// Output: 3 bytes
}
