// Command job-platform records jobs through an API, which never executes them. Workers execute them
// under leases. README.md has the contract.
//
//	go run ./examples/job-platform
//	go run ./examples/job-platform -database postgres://user@localhost/jobs
//	go run ./examples/job-platform -database postgres://user@localhost/jobs -workers 0 -addr :8005
//
// Without -database the jobs are in memory, and are lost when the process ends. Any number of
// processes may run on one database, with or without workers. Everybody who reaches the address may
// use it: a service sets Who of the [access.Policy] in newPlatform to its own authentication.
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
	"sync"
	"syscall"
	"time"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

const usage = `
# Record a job. The answer is 202, with its jobId. Send it again: the answer is the same job.
curl -i %[1]s/jobs -H 'Content-Type: application/json' -d '{"jobType": "SEND_EMAIL", "payload": {"to": "user@example.com", "subject": "Welcome"}, "idempotencyKey": "req_550e8400-e29b-41d4-a716-446655440000"}'

# Ask how it stands, with its jobId in place of ID.
curl %[1]s/jobs/ID

# One that fails twice before it succeeds, and one that fails for good.
curl -i %[1]s/jobs -H 'Content-Type: application/json' -d '{"jobType": "GENERATE_REPORT", "payload": {"failures": 2}, "idempotencyKey": "req_2"}'
curl -i %[1]s/jobs -H 'Content-Type: application/json' -d '{"jobType": "RUN_BATCH", "payload": {"failures": 99}, "idempotencyKey": "req_3"}'
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "job-platform:", err)
		os.Exit(1)
	}
}

// run serves requests until the process is asked to end.
func run(args []string, out io.Writer) error {
	f := flag.NewFlagSet("job-platform", flag.ContinueOnError)
	var opt options
	addr := f.String("addr", "127.0.0.1:8004", "the `address` to listen at")
	database := f.String("database", "", "the `URL` of a PostgreSQL database; empty keeps the jobs in memory")
	f.IntVar(&opt.workers, "workers", 4, "how many workers this process has; each executes one job at a time")
	f.IntVar(&opt.maxRetries, "max-retries", 3, "how often a job is retried")
	f.DurationVar(&opt.backoff, "backoff", 2*time.Second, "the delay before the first retry; each further one is twice as long")
	f.DurationVar(&opt.lease, "lease", 15*time.Second, "how long a worker owns a job that it does not report on")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || opt.workers < 0 {
		return errors.New("there are flags only, and -workers must not be negative; see -help")
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	st, closeStore, err := openStore(ctx, *database)
	if err != nil {
		return err
	}
	defer closeStore()
	if opt.dir, err = os.MkdirTemp("", "job-platform-"); err != nil {
		return err
	}
	defer os.RemoveAll(opt.dir)
	opt.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	p, err := newPlatform(ctx, st, opt)
	if err != nil {
		return err
	}
	return p.serve(ctx, release, *addr, out)
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

// serve starts the workers, answers requests until ctx ends, and stops the workers. Jobs that take
// more than 10 seconds after that are cut off. If the store is a database, other workers execute
// them again.
func (p *platform) serve(ctx context.Context, release func(), addr string, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if err := p.start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, l.Close(), p.stop(ctx))
	}
	server := &http.Server{Handler: p.routes, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(out, usage, "http://"+l.Addr().String())
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
	err = errors.Join(err, p.stop(stop))
	answered.Wait()
	return err
}
