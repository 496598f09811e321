// Command killed runs the pipeline of README.md in two worker processes on one PostgreSQL database,
// kills the first one with SIGKILL in the middle of a step, and prints the steps that each of them
// has executed. README.md shows the output.
//
//	go run ./examples/killed
//	go run ./examples/killed -url postgres://user:password@localhost/database
//
// Without -url it starts a PostgreSQL server, if PostgreSQL is installed. On the server of a -url
// it creates a schema, which it removes at the end. The SFTP servers of the partners run inside
// this process; worker.go has the workers.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
)

//go:embed pipeline.json
var pipeline []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "killed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("killed", flag.ContinueOnError)
	url := f.String("url", "", "the `URL` of a database; by default that of a server of the program's own")
	worker := f.String("worker", "", "be the worker of this `name`; the program starts itself so")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	case *worker != "":
		return work(ctx, *worker, in, out)
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

// demonstrate is the client: it defines the job, enqueues an execution, kills the
// worker that executes it, and prints the steps.
func demonstrate(ctx context.Context, url string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "killed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	partners, err := startPartners(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, partners.close()) }()
	at := place{
		URL: url, Schema: fmt.Sprintf("courier_example_%d", os.Getpid()),
		Workspace: filepath.Join(dir, "work"), Connections: partners.connections, Keys: partners.keys,
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Schema: at.Schema}); err != nil {
		return err
	}
	defer func() {
		_, e := pool.Exec(context.WithoutCancel(ctx), "drop schema "+pgx.Identifier{at.Schema}.Sanitize()+" cascade")
		err = errors.Join(err, e)
	}()
	e, closeStore, err := open(ctx, pool, at, &engine.Options{})
	if err != nil {
		return err
	}
	defer closeStore()
	var job courier.Job
	if err := json.Unmarshal(pipeline, &job); err != nil {
		return err
	}
	if _, err := e.Jobs().Define(ctx, job, nil); err != nil {
		return err
	}
	x, err := e.Enqueue(ctx, job.Name, nil)
	if err != nil {
		return err
	}
	if err := kill(at, e, x.ID, ctx); err != nil {
		return err
	}
	if x, err = e.Executions().Get(ctx, x.ID); err != nil {
		return err
	}
	return printTree(ctx, out, e, x)
}

// kill lets worker-1 begin, kills it in the middle of a step, and waits until
// worker-2 has completed the execution.
func kill(at place, e *engine.Engine, id courier.ExecutionID, ctx context.Context) error {
	first, err := start("worker-1", at)
	if err != nil {
		return err
	}
	defer first.end()
	if err := first.await(); err != nil {
		return err
	}
	if err := first.cmd.Process.Kill(); err != nil {
		return err
	}
	second, err := start("worker-2", at)
	if err != nil {
		return err
	}
	defer second.end()
	_, err = e.Wait(ctx, id)
	return err
}
