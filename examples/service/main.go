// Command service is an HTTP service that embeds the engine: a request enqueues
// an execution, others tell how it stands and pause, resume or cancel it, and a
// SIGTERM stops everything without breaking off what is under way.
//
//	go run ./examples/service
//	curl -i -d '{"params": {"seconds": 5}}' -H 'Idempotency-Key: 1' localhost:8080/jobs/demo/executions
//	curl localhost:8080/executions/ID
//	curl localhost:8080/executions/ID/audit
//	curl -X POST localhost:8080/executions/ID/cancel      # or pause, resume
//	curl localhost:8080/healthz
//
// It asks nobody who they are, and therefore listens on the loopback interface
// only. Whoever exposes it puts an authorizer in front of [newService]'s routes,
// and gives the engine the name of the user in place of the address.
//
// Executions are kept in memory: those that are not done when the service stops
// end with it. With a durable store they would be handed over, and another
// process, or this one when it is back, would go on where they stand. Only the
// store and the directory of the workspaces would change in this program.
package main

import (
	"cmp"
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

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
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
	f.StringVar(&s.addr, "addr", "127.0.0.1:8080", "where to listen; there is no authorization, so think before you change the `address`")
	f.IntVar(&s.running, "running", 64, "how many executions run at once")
	f.DurationVar(&s.drain, "drain", 0, "how long a stopping service still accepts requests, for load balancers that look at /healthz")
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
	server := newServer(svc, log)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	log.Info("listening", "url", "http://"+l.Addr().String())
	select {
	case <-ctx.Done():
		release() // a second signal ends the process at once
		svc.stopping.Store(true)
		log.Info("stopping", "signal", context.Cause(ctx).Error())
		time.Sleep(s.drain)
	case err = <-served:
	}
	return errors.Join(err, stop(server, svc, s.patience))
}

// newServer returns a server that slow or greedy clients can't wear out.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// stop accepts no more connections and claims no more executions, answers the
// requests that have come and waits for the steps in progress, both for at most
// patience, and logs what it leaves to others.
func stop(server *http.Server, svc *service, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var answered sync.WaitGroup
	// At the same time, or a slow client would use up the time of the steps.
	answered.Go(func() {
		if err := server.Shutdown(ctx); err != nil {
			svc.log.Warn("shut down", "error", err)
			server.Close()
		}
	})
	err := svc.engine.Stop(ctx)
	svc.log.Info("engine stopped")
	answered.Wait()
	return errors.Join(err, handedOver(context.WithoutCancel(ctx), svc))
}

// handedOver logs the executions that are not done. If several processes share
// the store, they are those of all of them.
func handedOver(ctx context.Context, svc *service) error {
	begun, waiting := 0, 0
	f := store.Filter{States: []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused}, Limit: 1000}
	for {
		list, err := svc.engine.Executions().List(ctx, f)
		if err != nil {
			return err
		}
		for _, x := range list {
			f.Before = x.ID
			if x.StartedAt.IsZero() {
				waiting++
				continue
			}
			begun++
			svc.log.Info("handed over", "execution", x.ID, "job", x.Job, "status", x.Status(time.Now()), "next_step", x.Position.Step)
		}
		if len(list) == 0 {
			svc.log.Info("stopped", "handed_over", begun+waiting, "begun", begun, "waiting", waiting)
			return nil
		}
	}
}

// who is the name under which a request goes into the audit.
func who(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return "http " + cmp.Or(host, "client")
}
