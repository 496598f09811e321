// Command service is an HTTP service that embeds the engine with its API and its dashboard: a
// request starts an execution, others tell how it stands and pause, resume or cancel it, and a
// SIGTERM stops everything without breaking off what is under way. A browser finds the pages
// for operators at http://localhost:8080/courier/.
//
//	go run ./examples/service
//	curl -i --json '{"seconds": 5}' -H 'Idempotency-Key: 1' localhost:8080/reports/acme
//	curl localhost:8080/courier/api/v1/executions/ID
//	curl localhost:8080/courier/api/v1/executions/ID/audit
//	curl -X POST localhost:8080/courier/api/v1/executions/ID/cancel      # or pause, resume
//	curl localhost:8080/courier/api/v1/readyz
//
// It asks nobody who they are, and therefore serves programs on this host only. Whoever
// exposes it sets [httpapi.Access], for the pages too.
//
// Executions are kept in memory: those that are not done when the service stops
// end with it. With a durable store they would be handed over, and another
// process, or this one when it is back, would go on where they stand. Only the
// store and the directory of the workspaces would change in this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	addr            string
	running         int
	drain, patience time.Duration
}

func parseFlags(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("service", flag.ContinueOnError)
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "the `address` to listen at; programs on other hosts are refused")
	f.IntVar(&s.running, "running", 64, "how many executions run at once")
	f.DurationVar(&s.drain, "drain", 0, "how long a stopping service still accepts requests, for load balancers that look at readyz")
	f.DurationVar(&s.patience, "patience", 15*time.Second, "how long a stop lets the steps in progress go on; cut off, they have 10s more")
	err := f.Parse(args)
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	case s.running < 1 || s.drain < 0 || s.patience < 0:
		err = errors.New("-running must be at least 1, and no duration may be negative")
	}
	return s, err
}

// A service is an engine with its API, its pages and one endpoint.
type service struct {
	engine *engine.Engine
	api    *httpapi.Handler
	pages  *dashboard.Handler
	routes *http.ServeMux
}

// newService returns a service whose engine is not started yet.
func newService(ctx context.Context, work string, running int, log *slog.Logger) (*service, error) {
	var reg courier.Registry
	register(&reg)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: work, Slots: running, Around: logged(log), Log: log})
	if err := e.Limits().Set(ctx, "global", running, courier.By{}); err != nil {
		return nil, err
	}
	if _, err := e.Jobs().Define(ctx, report(), nil); err != nil {
		return nil, err
	}
	s := &service{e, httpapi.New(e, &httpapi.Options{URL: "/courier/api/", Log: log}), dashboard.New(e, &dashboard.Options{Log: log}), http.NewServeMux()}
	s.routes.Handle("/courier/", s.pages)
	s.routes.Handle("/courier/api/", s.api)
	s.routes.Handle("POST /reports/{customer}", s.api.Async("report", &httpapi.AsyncOptions{Params: params}))
	return s, nil
}

// run serves until the process is asked to end.
func run(args []string, out io.Writer) (err error) {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	log := slog.New(slog.NewJSONHandler(out, nil))
	// Each process needs a directory of its own, because each has a store of its
	// own. With a durable store, this is a directory that stays.
	work, err := os.MkdirTemp("", "service-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	svc, err := newService(ctx, work, s.running, log)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	// The end of the context that Start is given would stop the engine at once;
	// here stop decides when.
	if err := svc.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, l.Close())
	}
	server := newServer(svc.routes, log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	log.Info("listening", "url", "http://"+l.Addr().String())
	select {
	case <-ctx.Done():
		release()       // a second signal ends the process at once
		svc.api.Close() // readyz says that the service is stopping, and streams end
		svc.pages.Close()
		log.Info("stopping", "signal", context.Cause(ctx).Error())
		time.Sleep(s.drain)
	case err = <-served:
	}
	return errors.Join(err, stop(server, svc.engine, s.patience, log))
}
