// Command upload-service takes files over HTTP and returns results: a server and
// two workers on one PostgreSQL database, with a depot in a directory that all of
// them reach. The first worker is killed in the middle, and the second one goes on.
//
//	go run ./examples/upload-service
//	go run ./examples/upload-service -url postgres://user:password@localhost/database
//
// Without -url it starts a server of its own, if PostgreSQL is installed. On the
// server of a -url it makes a schema, which it removes in the end. The server is in
// this file, its client in client.go, and the workers are in worker.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "upload-service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("upload-service", flag.ContinueOnError)
	url := f.String("url", "", "the `URL` of a database; by default that of a server of the program's own")
	name := f.String("worker", "", "be the worker of this `name`; the program starts itself so")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	case *name != "":
		return work(ctx, *name, in)
	case *url == "":
		server, err := pgtest.Open(nil)
		if err != nil {
			return fmt.Errorf("a PostgreSQL server of its own: %w; or name one that is there with -url", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		*url = server.URL("")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return serve(ctx, *url, out)
}

// convert is what the service does with files: workers of the queue remote do it.
var convert = courier.Job{
	Name: "convert", Queue: "remote",
	Params: map[string]any{"files": courier.Param{Type: "list", Required: true}, "seconds": courier.Param{Type: "number", Default: 0}},
	Steps: []courier.StepSpec{
		{ID: "get", Type: "depot.fetch"},
		{ID: "convert", Type: "demo.convert", Config: map[string]any{"directory": "context:get.fetched_directory", "seconds": "context:params.seconds"}},
		{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "${context:get.fetched_directory}/*"}},
	},
}

// serve serves the API until the client has its results. The server itself does no work: its
// engine is not started.
func serve(ctx context.Context, url string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "upload-service-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := place{URL: url, Schema: fmt.Sprintf("courier_example_%d", os.Getpid()), Workspace: filepath.Join(dir, "work"), Depot: filepath.Join(dir, "depot")}
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
	e, files, closeAll, err := open(ctx, pool, at, "server")
	if err != nil {
		return err
	}
	defer closeAll()
	if _, err := e.Jobs().Define(ctx, convert, nil); err != nil {
		return err
	}
	mux := http.NewServeMux()
	policy := access.Local()
	mux.Handle("/api/", httpapi.New(e, &httpapi.Options{Access: policy, Depot: files}))
	loopback := httptest.NewServer(mux) // a service has an http.Server
	defer loopback.Close()
	return client(ctx, server{loopback.URL + "/api/v1/", policy.Token()}, at, out)
}
