// Command service is an HTTP service that embeds the engine with its API and its dashboard: a
// request starts an execution, others tell how it stands and pause, resume or cancel it, and a
// SIGTERM stops everything without breaking off what is under way. A browser finds the pages
// for operators at the address that the program logs, with a token in it.
//
//	go run ./examples/service
//	auth="Authorization: Bearer TOKEN" # of the log
//	curl -H "$auth" -i --json '{"seconds": 5}' -H 'Idempotency-Key: 1' localhost:8080/reports/acme
//	curl -H "$auth" localhost:8080/courier/api/v1/executions/ID
//	curl -H "$auth" localhost:8080/courier/api/v1/executions/ID/audit
//	curl -H "$auth" -X POST localhost:8080/courier/api/v1/executions/ID/cancel      # or pause, resume
//	curl localhost:8080/courier/api/v1/readyz
//	curl -H "$auth" localhost:8080/courier/api/metrics # for Prometheus; with -metrics-token by a token of its own
//
// It serves who can read its log, on this host only ([access.Local]). Whoever exposes it
// sets Who and Role of [access.Policy], for the pages too.
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
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

// A service is an engine with its API, its pages and one endpoint.
type service struct {
	engine *engine.Engine
	pages  *dashboard.Handler
	policy access.Policy
	routes *http.ServeMux
}

// newService returns a service whose engine is not started yet. Metrics is the token with which
// Prometheus reads its metrics; empty for none but that of the log.
func newService(ctx context.Context, work string, running int, metrics string, log *slog.Logger) (*service, error) {
	var reg courier.Registry
	register(&reg)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: work, Slots: running, Around: logged(log), Log: log})
	_, err := e.Jobs().Define(ctx, report(), nil)
	if err := errors.Join(err, e.Limits().Set(ctx, "global", running, courier.By{})); err != nil {
		return nil, err
	}
	policy := access.Local()
	policy.Metrics = metrics
	s := &service{e, dashboard.New(e, &dashboard.Options{Access: policy, URL: "/courier/api/", Log: log}), policy, http.NewServeMux()}
	s.routes.Handle("/courier/", s.pages)
	s.routes.Handle("POST /reports/{customer}", s.pages.API().Async("report", &httpapi.AsyncOptions{Params: params}))
	return s, nil
}

// run serves until the process is asked to end.
func run(args []string) error {
	f := flag.NewFlagSet("service", flag.ExitOnError)
	addr := f.String("addr", "127.0.0.1:8080", "the `address` to listen at; programs on other hosts are refused")
	running := f.Int("running", 64, "how many executions run at once")
	tokenFile := f.String("metrics-token", "", "a `file` with the token for GET /courier/api/metrics, as credentials_file of Prometheus names it")
	drain := f.Duration("drain", 0, "how long a stopping service still accepts requests, for load balancers that look at readyz")
	patience := f.Duration("patience", 15*time.Second, "how long a stop lets the steps in progress go on; cut off, they have 10s more")
	f.Parse(args)
	if f.NArg() > 0 || *running < 1 || *drain < 0 || *patience < 0 {
		return errors.New("there are flags only, -running must be at least 1, and no duration may be negative; see -help")
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	// Each process needs a directory of its own, because each has a store of its
	// own. With a durable store, this is a directory that stays.
	work, err := os.MkdirTemp("", "service-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var metrics []byte
	if *tokenFile != "" {
		if metrics, err = os.ReadFile(*tokenFile); err != nil {
			return err
		}
	}
	svc, err := newService(ctx, work, *running, strings.TrimSpace(string(metrics)), log)
	if err != nil {
		return err
	}
	// The end of the context that Start is given would stop the engine at once;
	// here stop decides when.
	if err := svc.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	server, served, err := listen(*addr, svc, log)
	if err != nil {
		return errors.Join(err, svc.engine.Stop(ctx))
	}
	select {
	case <-ctx.Done():
		release()         // a second signal ends the process at once
		svc.pages.Close() // readyz says that the service is stopping, and streams end
		log.Info("stopping", "signal", context.Cause(ctx).Error())
		time.Sleep(*drain)
	case err = <-served:
	}
	return errors.Join(err, stop(server, svc.engine, *patience, log))
}
