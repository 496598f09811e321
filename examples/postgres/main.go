// Command postgres shows two worker processes and a client on one PostgreSQL database: a worker is
// killed in the middle of a pipeline, and the other one finishes it.
//
//	go run ./examples/postgres
//	go run ./examples/postgres -url postgres://user:password@localhost/database
//
// Without -url it starts a PostgreSQL server, if PostgreSQL is installed. On the server of a -url
// it creates a schema, which it removes at the end.
//
// The program fails unless the pipeline was finished and every step was completed exactly once.
// worker.go has the code of a service; this file has the client, which also kills a worker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("postgres", flag.ContinueOnError)
	url := f.String("url", "", "the `URL` of a database; by default that of a server of the program's own")
	name := f.String("worker", "", "be the worker of this `name`; the program starts itself so")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	case *name != "":
		return work(ctx, *name, in, out)
	case *url == "":
		server, err := pgtest.Open(nil)
		if err != nil {
			return fmt.Errorf("a PostgreSQL server of its own: %w; or name one that is there with -url", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		*url = server.URL("")
	}
	return demonstrate(ctx, *url, out)
}

// pipeline takes about three seconds.
func pipeline() courier.Job {
	job := courier.Job{Name: "invoice"}
	for _, name := range []string{"fetch", "decrypt", "check", "convert", "deliver", "archive"} {
		job.Steps = append(job.Steps, courier.StepSpec{ID: name, Type: "demo.work", Config: map[string]any{"seconds": 0.5}})
	}
	return job
}

// demonstrate is the client.
func demonstrate(ctx context.Context, url string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	place := place{URL: url, Schema: fmt.Sprintf("courier_example_%d", os.Getpid()), Dir: dir}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: place.Schema}); err != nil {
		return err
	}
	defer func() {
		_, e := pool.Exec(context.WithoutCancel(ctx), "drop schema "+pgx.Identifier{place.Schema}.Sanitize()+" cascade")
		err = errors.Join(err, e)
	}()
	store, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: place.Schema})
	if err != nil {
		return err
	}
	defer store.Close()
	// A client defines, enqueues and reads. It executes nothing, because it is not started. It
	// needs the step types to check the definition.
	e := engine.New(store, registry(), &engine.Options{Workspace: dir})
	if _, err := e.Jobs().Define(ctx, pipeline(), nil); err != nil {
		return err
	}
	out = &lines{w: out}
	workers := make(map[string]*process)
	for _, name := range []string{"ann", "bob"} {
		p, err := start(name, place, out)
		if err != nil {
			return err
		}
		defer p.end()
		workers[name] = p
	}
	x, err := e.Enqueue(ctx, "invoice", &courier.EnqueueOptions{By: courier.By{Actor: "client"}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "client: enqueued execution %s\n", x.ID)
	return killOne(ctx, e, x.ID, workers, out)
}

// killOne kills the worker that executes the third step, and checks the result of the execution.
func killOne(ctx context.Context, e *engine.Engine, id courier.ExecutionID, workers map[string]*process, out io.Writer) error {
	x, err := until(ctx, e, id, func(x *courier.Execution) bool { return x.Current != nil && x.Current.Step == 2 })
	if err != nil {
		return err
	}
	victim := x.Worker
	if err := workers[victim].kill(); err != nil {
		return err
	}
	killed := time.Now()
	fmt.Fprintf(out, "client: killed %s with SIGKILL; its lease lasts %v at most\n", victim, lease)
	if x, err = until(ctx, e, id, func(x *courier.Execution) bool { return x.Worker != victim }); err != nil {
		return err
	}
	fmt.Fprintf(out, "client: %s took over after %v\n", x.Worker, time.Since(killed).Round(10*time.Millisecond))
	if x, err = e.Wait(ctx, id); err != nil {
		return err
	}
	if err := show(ctx, e, id, out); err != nil {
		return err
	}
	if err := check(ctx, e, &x, victim); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe execution is %s. Every step was completed once, by whoever was there.\n", x.State)
	return nil
}

// until waits until a condition of an execution holds.
func until(ctx context.Context, e *engine.Engine, id courier.ExecutionID, is func(*courier.Execution) bool) (courier.Execution, error) {
	for {
		x, err := e.Executions().Get(ctx, id)
		if err != nil || is(&x) {
			return x, err
		}
		if x.State.Ended() {
			return x, fmt.Errorf("the execution is %s too early", x.State)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// show prints the audit, which has the actor of each change.
func show(ctx context.Context, e *engine.Engine, id courier.ExecutionID, out io.Writer) error {
	audit, err := e.Executions().Audit(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAudit of execution %s\n", id)
	for _, a := range audit {
		what := "execution"
		if a.Step != nil {
			what = fmt.Sprintf("%s, attempt %d", courier.StepLabel(*a.Step, a.ID, a.Type), a.Attempt)
		}
		line := fmt.Sprintf("%4d %5.2fs  %-42s %8s -> %-9s  %s %s", a.Seq, a.At.Sub(audit[0].At).Seconds(), what, a.From, a.To, a.Worker+a.By, a.Error)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	return nil
}

// check returns an error unless the execution was finished by another worker
// and each step was completed once.
func check(ctx context.Context, e *engine.Engine, x *courier.Execution, victim string) error {
	steps, err := e.Executions().Steps(ctx, x.ID)
	if err != nil {
		return err
	}
	completed, workers := make(map[int]int), make(map[string]int)
	for _, s := range steps {
		if s.State == courier.StepCompleted {
			completed[s.Step]++
			workers[s.Worker]++
		}
	}
	for i := range pipeline().Steps {
		if completed[i] != 1 {
			return fmt.Errorf("step %d was completed %d times", i, completed[i])
		}
	}
	if x.State != courier.Completed || x.Worker == victim || len(workers) != 2 {
		return fmt.Errorf("the execution is %s, finished by %s, and its steps were completed by %v", x.State, x.Worker, workers)
	}
	return nil
}
