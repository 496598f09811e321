// Command tutorial is the program of docs/tutorial.md: a pipeline on PostgreSQL
// that survives kill -9, with a schedule and a notification.
//
//	tutorial URL deploy     # creates the tables and saves the job
//	tutorial URL work       # executes what there is to execute, until Ctrl-C
//	tutorial URL enqueue    # creates an execution
//	tutorial URL show       # prints the latest execution
//	tutorial URL automate   # saves a schedule and a subscription
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

//go:embed job.json
var definition []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run connects to the database and carries out one command.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: tutorial URL COMMAND")
	}
	pool, err := pgxpool.New(ctx, args[0])
	if err != nil {
		return err
	}
	defer pool.Close()
	if args[1] == "deploy" {
		if _, err := pgstore.Migrate(ctx, pool, nil); err != nil {
			return err
		}
	}
	s, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer s.Close()

	var reg courier.Registry
	file.Register(&reg, nil)
	courier.RegisterFunc(&reg, "text.count", count, nil)
	e := engine.New(s, &reg, &engine.Options{
		Workspace:   "work",
		Roots:       []string{"in", "out"},
		Lease:       5 * time.Second, // the default is 15 s
		Log:         slog.New(slog.NewTextHandler(out, nil)),
		Subscribers: subscribers(out), // automate
	})
	switch args[1] {
	case "deploy":
		var job courier.Job
		if err := json.Unmarshal(definition, &job); err != nil {
			return err
		}
		_, err := e.Jobs().Define(ctx, job, nil)
		return err
	case "work":
		if err := e.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return e.Stop(context.WithoutCancel(ctx))
	case "enqueue":
		x, err := e.Enqueue(ctx, "invoices", &courier.EnqueueOptions{Params: params()})
		fmt.Fprintln(out, "execution", x.ID)
		return err
	case "show":
		return show(ctx, e, out)
	case "automate": // automate
		return automate(ctx, e) // automate
	}
	return fmt.Errorf("there is no command %q", args[1])
}

// params are the parameters of the job.
func params() map[string]any {
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	return map[string]any{"dir": dir}
}

// show prints the attempts of the steps of the latest execution.
func show(ctx context.Context, e *engine.Engine, out io.Writer) error {
	list, err := e.Executions().List(ctx, store.Filter{Job: "invoices", Limit: 1})
	if err != nil || len(list) == 0 {
		return err
	}
	steps, err := e.Executions().Steps(ctx, list[0].ID)
	for _, s := range steps {
		fmt.Fprintf(out, "%-8s %v  attempt %d  %s\n", s.ID, s.Iteration, s.Attempt, s.State)
	}
	fmt.Fprintln(out, "the execution is", list[0].Status(time.Now()))
	return err
}
