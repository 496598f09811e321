package engine_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/store/memstore"
)

// Check reads the definitions of a deployment, here from memory, and finds what is
// wrong with them before anything is saved.
func ExampleCheck() {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.shout", shout, nil)
	files, err := engine.ReadFiles(fstest.MapFS{
		"greet.json":   {Data: []byte("{\"name\": \"greet\",\n \"steps\": [{\"type\": \"demo.shout\", \"config\": {\"txt\": \"hello\"}}]}")},
		"nightly.json": {Data: []byte(`{"name": "nightly", "job": "gret", "cron": "0 0 3 * * ?"}`)},
	}, "*.json")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(engine.Check(files, reg, nil).Err())
	// Output:
	// 3 problems in the definitions:
	//   greet.json:2:45: step 0 (demo.shout): config: unknown field "txt"; did you mean "text"?
	//   greet.json:2:45: step 0 (demo.shout): config.text: is required
	//   nightly.json:1:28: job: there is no job "gret"; did you mean "greet"?
}

// DryRunChain looks at a chain whose jobs are not saved.
func ExampleEngine_DryRunChain() {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	e := engine.New(memstore.New(), reg, nil)
	job := courier.Job{Name: "tell", Params: map[string]any{"day": nil}, Steps: []courier.StepSpec{
		{Type: "demo.show", Config: map[string]any{"text": "context:params.day"}},
	}}
	daily := chain.Chain{Name: "daily", Members: []chain.Member{{Job: "tell", Params: map[string]any{"dya": "today"}}}}
	r, err := e.DryRunChain(context.Background(), daily, &dryrun.Options{Jobs: []courier.Job{job}})
	fmt.Println(r.Problems, err)
	// Output:
	// [members[0] "tell": params.dya: job "tell" declares no such param; did you mean "day"?] <nil>
}

// Define leaves a newer definition alone where an old binary starts once more, as
// in a rolling deployment.
func ExampleJobs_Define_deployment() {
	e := newExample()
	ctx := context.Background()
	older, newer := greetings, greetings
	newer.Queue = "night"
	for _, job := range []courier.Job{older, newer, older} {
		d, err := e.Jobs().Define(ctx, job, &courier.DefineOptions{By: courier.By{Actor: "deploy"}, KeepNewer: true})
		fmt.Println(d.Job.Version, d.Job.Queue, d.Superseded, err)
	}
	// Output:
	// 1  false <nil>
	// 2 night false <nil>
	// 2 night true <nil>
}
