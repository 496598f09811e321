package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/store/memstore"
)

type shoutConfig struct {
	Text string `json:"text" courier:"required"`
}

type shoutOutput struct {
	Loud string `json:"loud"`
}

func shout(_ context.Context, _ *courier.Context, cfg shoutConfig) (shoutOutput, error) {
	return shoutOutput{strings.ToUpper(cfg.Text)}, nil
}

func show(_ context.Context, _ *courier.Context, cfg shoutConfig) (struct{}, error) {
	fmt.Println(cfg.Text)
	return struct{}{}, nil
}

// greetings is a pipeline of the two step types above.
var greetings = courier.Job{
	Name:   "greetings",
	Params: map[string]any{"names": nil},
	Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.names"}},
		{ID: "shout", Type: "demo.shout", Config: map[string]any{"text": "hello ${context:loop.current_item}"}},
		{Type: "demo.show", Config: map[string]any{"text": "${context:loop.index}: ${context:shout.loud}"}},
		{Type: "flow.end"},
	},
}

func newExample() *engine.Engine {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.shout", shout, nil)
	courier.RegisterFunc(reg, "demo.show", show, nil)
	return engine.New(memstore.New(), reg, nil)
}

// Run defines and executes a job in the calling goroutine.
func ExampleEngine_Run() {
	e := newExample()
	x, err := e.Run(context.Background(), greetings, &courier.EnqueueOptions{
		Params: map[string]any{"names": []string{"Ada", "Grace"}},
	})
	fmt.Println(x.State, err)
	// Output:
	// 0: HELLO ADA
	// 1: HELLO GRACE
	// completed <nil>
}

// A service defines its jobs, starts the engine, and enqueues executions.
func ExampleEngine_Start() {
	ctx := context.Background()
	e := newExample()
	if _, err := e.Jobs().Define(ctx, greetings, nil); err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	x, err := e.Enqueue(ctx, "greetings", &courier.EnqueueOptions{
		Params:         map[string]any{"names": []string{"Ada"}},
		IdempotencyKey: "2026-11-21", // a second Enqueue with it returns the same execution
		By:             courier.By{Actor: "scheduler"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if x, err = e.Wait(ctx, x.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.State, "by", x.By)
	if err := e.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0: HELLO ADA
	// completed by scheduler
}

// What is wrong with a definition is found before anything runs, all at once.
func ExampleJobs_Define() {
	_, err := newExample().Jobs().Define(context.Background(), courier.Job{Name: "bad", Steps: []courier.StepSpec{
		{ID: "shout", Type: "demo.shuot"},
		{Type: "demo.shout", Config: map[string]any{"txt": "hello"}},
		{Type: "demo.show", Config: map[string]any{"text": "context:1.laud"}},
	}}, nil)
	fmt.Println(err)
	// Output:
	// define job "bad": 4 problems (nothing was saved):
	//   step 0 "shout" (demo.shuot): type: unknown step type "demo.shuot"; did you mean "demo.shout"?
	//   step 1 (demo.shout): config: unknown field "txt"; did you mean "text"?
	//   step 1 (demo.shout): config.text: is required
	//   step 2 (demo.show): config.text: "1.laud" has no value: step 1 (demo.shout) has no output "laud"; did you mean "loud"?
}

// A dry run asks every step whether it could do its work. Its report prints
// itself for people; programs look at its fields, or take it as JSON.
func ExampleJobs_DryRun() {
	report, err := newExample().Jobs().DryRun(context.Background(), greetings, &dryrun.Options{
		Params: map[string]any{"names": []string{"Ada"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range report.Steps {
		fmt.Println(s.Path, s.Type, s.State, s.Unresolved)
		fmt.Println("   ", s.Message)
	}
	fmt.Println("ok:", report.OK())
	// Output:
	// 0.1 demo.shout not_checked [text]
	//     the step type has no Validate, so only its configuration was checked
	// 0.2 demo.show not_checked [text]
	//     the step type has no Validate, so only its configuration was checked
	// ok: true
}

// A policy by prefix: the secrets "acme/..." are for jobs, monitors and
// subscriptions whose names begin with "acme-".
func ExampleOptions_secrets() {
	vault := map[string]string{"acme/sftp": "correct horse"}
	secrets := func(_ context.Context, r courier.SecretRequest) (string, error) {
		owner, _, ok := strings.Cut(r.Name, "/")
		if !ok || !strings.HasPrefix(r.Job+r.Monitor+r.Subscription, owner+"-") {
			return "", courier.Permanent(errors.New("is not for this job"))
		}
		return vault[r.Name], nil
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.login", func(_ context.Context, _ *courier.Context, cfg shoutConfig) (struct{}, error) {
		return struct{}{}, fmt.Errorf("the server says: no %q here", cfg.Text)
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{Secrets: secrets})
	for _, name := range []string{"acme-in", "other-in"} {
		_, err := e.Run(context.Background(), courier.Job{
			Name: name, Steps: []courier.StepSpec{{Type: "demo.login", Config: map[string]any{"text": "secret:acme/sftp"}}},
		}, nil)
		if step, ok := errors.AsType[*courier.StepError](err); ok {
			fmt.Println(name, "-", step.Err, courier.IsPermanent(err))
		}
	}
	// Output:
	// acme-in - the server says: no "[secret acme/sftp]" here false
	// other-in - config.text: secret "acme/sftp": is not for this job true
}
