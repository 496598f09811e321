// Command async-endpoints turns any handler into an asynchronous endpoint: a request is answered at
// once with 202 and a job, a worker calls the handler later, and GET /jobs/{jobId} returns the
// status of the job. README.md has the contract.
//
//	go run ./examples/async-endpoints
//	go run ./examples/async-endpoints -database postgres://user@localhost/jobs
//
// Without -database the jobs are in memory, and are lost when the process ends. Any number of
// processes may run on one database. Everybody who reaches the address may use it: a service sets
// Who of the [access.Policy] in newService to its own authentication.
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
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

const usage = `
# worker %[2]s

# Turn a request into a job. The answer is 202, with the job and its Location.
curl -i -X POST '%[1]s/reports/acme?format=pdf' -H 'Content-Type: application/json' -d '{"seconds": 60}'

# Ask how it stands, with its id in place of ID, and cancel it.
curl %[1]s/jobs/ID
curl -X PUT %[1]s/jobs/ID/status -H 'Content-Type: application/json' -d '{"status": "Canceled"}'

# One that fails: it is retried after 2, 4 and 8 seconds.
curl -i -X POST %[1]s/reports/acme -d '{"fail": "the archive is closed"}'

# When it has failed, retry it at once or later.
curl -X PUT %[1]s/jobs/ID/status -H 'Content-Type: application/json' -d '{"status": "Queued"}'
curl -X PUT %[1]s/jobs/ID/status -H 'Content-Type: application/json' -d '{"status": "Scheduled", "delaySeconds": 60}'
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "async-endpoints:", err)
		os.Exit(1)
	}
}

// Options are the settings of a service; the flags in run say what each is.
type options struct {
	timeout, claimTimeout, retryBase, lease time.Duration

	maxRetries, concurrency int

	dir string // of the engine, for this process alone: jobs have no files
	log *slog.Logger
}

// A service is an engine with the routes of its endpoints.
type service struct {
	engine *engine.Engine
	opt    options
	worker string // the GUID of this process
	routes *http.ServeMux
	api    *httpapi.Handler
}

// newService returns a service whose engine is not started yet.
func newService(ctx context.Context, st store.Store, opt options, endpoints []endpoint) (*service, error) {
	s := &service{opt: opt, worker: newGUID(), routes: http.NewServeMux()}
	var reg courier.Registry
	for _, p := range endpoints {
		courier.RegisterFunc(&reg, p.stepType(), p.work, &courier.TypeOptions{Doc: "calls the handler of " + p.pattern})
	}
	s.engine = engine.New(st, &reg, &engine.Options{Worker: s.worker, Workspace: opt.dir, Slots: opt.concurrency, Lease: opt.lease, Log: opt.log})
	if err := s.engine.Limits().Set(ctx, "global", 0, courier.By{}); err != nil { // each process has its own limit
		return nil, err
	}
	s.api = httpapi.New(s.engine, &httpapi.Options{URL: "/courier/api/", Log: opt.log, Access: access.Policy{
		Who:        func(*http.Request) (access.Principal, error) { return access.Principal{ID: "anyone"}, nil },
		Role:       func(context.Context, access.Principal, string) access.Role { return access.Client },
		MaxUnbegun: -1,
	}})
	for _, p := range endpoints {
		if _, err := s.engine.Jobs().Define(ctx, p.job(&opt), nil); err != nil {
			return nil, err
		}
		// The timeout of the step is for each execution of the handler.
		s.routes.Handle(p.pattern, s.api.Async(p.name, &httpapi.AsyncOptions{
			Params: params, Answer: s.accepted, KeyAlone: true, Expires: opt.claimTimeout, Timeout: new(time.Duration),
		}))
	}
	s.routes.Handle("GET /jobs/{jobId}", s.api.Func(s.get))
	s.routes.Handle("PUT /jobs/{jobId}/status", s.api.Func(s.putStatus))
	s.routes.Handle("/courier/api/", s.api) // has the pages of the problem types
	return s, nil
}

// run serves requests until the process is asked to end.
func run(args []string, out io.Writer) error {
	f := flag.NewFlagSet("async-endpoints", flag.ContinueOnError)
	var opt options
	addr := f.String("addr", "127.0.0.1:8001", "the `address` to listen at")
	database := f.String("database", "", "the `URL` of a PostgreSQL database; empty keeps the jobs in memory")
	f.DurationVar(&opt.timeout, "timeout", 30*time.Minute, "how long a handler may take")
	f.DurationVar(&opt.claimTimeout, "claim-timeout", 5*time.Minute, "how long a job may wait for a worker before it fails")
	f.DurationVar(&opt.retryBase, "retry-base", 2*time.Second, "the delay before the first retry; each further one is twice as long")
	f.IntVar(&opt.maxRetries, "max-retries", 3, "how often a job is retried")
	f.IntVar(&opt.concurrency, "concurrency", runtime.NumCPU(), "how many jobs this process runs at once")
	f.DurationVar(&opt.lease, "lease", 15*time.Second, "how long a job stays with a process that has died")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || opt.timeout <= 0 || opt.claimTimeout <= 0 || opt.concurrency < 1 {
		return errors.New("there are flags only, the timeouts must be longer than 0, and -concurrency at least 1; see -help")
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	st, closeStore, err := openStore(ctx, *database)
	if err != nil {
		return err
	}
	defer closeStore()
	if opt.dir, err = os.MkdirTemp("", "async-endpoints-"); err != nil {
		return err
	}
	defer os.RemoveAll(opt.dir)
	opt.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := newService(ctx, st, opt, endpoints)
	if err != nil {
		return err
	}
	if err := s.engine.Start(context.WithoutCancel(ctx)); err != nil { // serve decides when the engine stops
		return err
	}
	return s.serve(ctx, release, *addr, out)
}

// openStore opens the store, and returns the function that closes it.
func openStore(ctx context.Context, url string) (store.Store, func(), error) {
	if url == "" {
		return memstore.New(), func() {}, nil
	}
	s, err := pgstore.Open(ctx, url, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// serve answers requests until ctx ends, and then stops the engine. Handlers that take more than 10
// seconds after that are cut off. If the store is a database, another process runs these jobs
// again.
func (s *service) serve(ctx context.Context, release func(), addr string, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, s.engine.Stop(ctx))
	}
	server := &http.Server{Handler: s.routes, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	server.RegisterOnShutdown(s.api.Close)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(out, usage, "http://"+l.Addr().String(), s.worker)
	select {
	case <-ctx.Done():
		release() // a second signal ends the process at once
	case err = <-served:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var answered sync.WaitGroup
	answered.Go(func() {
		if server.Shutdown(stop) != nil {
			server.Close()
		}
	})
	err = errors.Join(err, s.engine.Stop(stop))
	answered.Wait()
	return err
}
