// Command service is an HTTP service that embeds the engine with its API, its dashboard, metrics
// and traces. One request starts an execution, other requests return its status and pause, resume
// or cancel it. A SIGTERM stops the service without cutting off the steps in progress. The pages
// for operators are at the address that the program logs, which contains a token.
//
//	go run -C examples/service .
//	auth="Authorization: Bearer TOKEN" # of the log
//	curl -H "$auth" -i --json '{"seconds": 5}' -H 'Idempotency-Key: 1' localhost:8080/reports/acme
//	curl -H "$auth" localhost:8080/courier/api/v1/executions/ID
//	curl -H "$auth" localhost:8080/courier/api/v1/executions/ID/audit
//	curl -H "$auth" -X POST localhost:8080/courier/api/v1/executions/ID/cancel      # or pause, resume
//	curl localhost:8080/courier/api/v1/readyz
//	curl -H "$auth" localhost:8080/courier/api/v1/arrivals # which files were expected today, and came
//	curl -H "$auth" localhost:8080/courier/api/metrics # for Prometheus; with -metrics-token by a token of its own
//
// Files that arrive in the directory incoming below -dir start a job. Two expectations say which
// files must arrive on which days. The page Today shows them, and the log reports missing files.
//
// It serves only users of this host who can read its log ([access.Local]). Before you expose it,
// set Who and Role of [access.Policy], for the pages too.
//
// Executions are kept in memory, and are lost when the service stops. With -database they are kept
// in PostgreSQL, and any number of processes work on them. A process that stops hands its
// executions over, and other processes take over the executions of a process that dies.
//
// It is a separate module, so that only programs that use OpenTelemetry need its modules.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

// A config has the settings in the flags.
type config struct {
	addr            string
	url             string // the address of this service, for people
	database        string // empty: executions are kept in memory
	dir             string // of workspaces and files
	collector       string // of OpenTelemetry; empty for none
	metrics         string // the token with which Prometheus reads the metrics; if empty, only the token of the log works
	running         int
	lease           time.Duration
	drain, patience time.Duration
}

// A service is an engine with its API, its pages and one endpoint.
type service struct {
	engine *engine.Engine
	pages  *dashboard.Handler
	policy access.Policy
	routes *http.ServeMux
	ends   []func() error // the functions that close calls, last first
}

// newService returns a service. Its engine is not started.
func newService(ctx context.Context, c config, log *slog.Logger) (_ *service, err error) {
	s := &service{policy: access.Local(), routes: http.NewServeMux()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	traces, err := newTraces(ctx, c, log)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return traces.Shutdown(ctx)
	})
	on, err := s.openStore(ctx, c.database)
	if err != nil {
		return nil, err
	}
	files, err := depot.Dir(filepath.Join(c.dir, "files"), &depot.DirOptions{Most: 10 << 30})
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, files.Close)
	var reg courier.Registry
	register(&reg)
	depot.Register(&reg, files, nil)
	options := &engine.Options{
		Workspace: filepath.Join(c.dir, "work"), Slots: c.running, Lease: c.lease,
		BaseURL: c.url + "/courier/", Around: logged(log), Log: log,
	}
	if err := incoming(c.dir, options, log); err != nil {
		return nil, err
	}
	s.engine = engine.New(on, &reg, traces.Engine(options))
	_, err = s.engine.Jobs().Define(ctx, report(), nil)
	if err := errors.Join(err, expect(ctx, s.engine, c.dir), s.engine.Limits().Set(ctx, "global", c.running, courier.By{})); err != nil {
		return nil, err
	}
	s.policy.Metrics = c.metrics
	s.pages = dashboard.New(s.engine, &dashboard.Options{Access: s.policy, URL: "/courier/api/", Depot: files, Log: log})
	s.routes.Handle("/courier/", s.pages)
	s.routes.Handle("POST /reports/{customer}", s.pages.API().Async("report", &httpapi.AsyncOptions{Params: params}))
	return s, nil
}

// close closes everything that the service has opened. The engine must have stopped.
func (s *service) close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// openStore opens the store in a database, or in memory if there is none.
func (s *service) openStore(ctx context.Context, database string) (store.Store, error) {
	if database == "" {
		return memstore.New(), nil
	}
	on, err := pgstore.Open(ctx, database, nil)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { on.Close(); return nil })
	return on, nil
}

// flags reads the flags of the program.
func flags(args []string) (c config, err error) {
	f := flag.NewFlagSet("service", flag.ExitOnError)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "the `address` to listen at; programs on other hosts are refused")
	f.StringVar(&c.url, "url", "", "the `URL` of this service as people reach it, for notifications and traces; by default that of -addr")
	f.StringVar(&c.database, "database", "", "the `URL` of a PostgreSQL database; by default executions are kept in memory")
	f.StringVar(&c.dir, "dir", "", "the `directory` of workspaces and files, which stays, and which all processes on a database share; by default a temporary one")
	f.StringVar(&c.collector, "otlp", "", "the `URL` of a collector of OpenTelemetry for traces, such as http://localhost:4318")
	tokenFile := f.String("metrics-token", "", "a `file` with the token for GET /courier/api/metrics, as credentials_file of Prometheus names it")
	f.IntVar(&c.running, "running", 64, "how many executions run at once")
	f.DurationVar(&c.lease, "lease", 15*time.Second, "how soon another process takes over from one that has died")
	f.DurationVar(&c.drain, "drain", 0, "how long a stopping service still accepts requests, for load balancers that look at readyz")
	f.DurationVar(&c.patience, "patience", 15*time.Second, "how long a stop lets the steps in progress go on; cut off, they have 10s more")
	f.Parse(args)
	if f.NArg() > 0 || c.running < 1 || c.lease < time.Second || c.drain < 0 || c.patience < 0 {
		return c, errors.New("there are flags only, -running must be at least 1, -lease at least 1s, and no duration may be negative; see -help")
	}
	if c.database != "" && c.dir == "" {
		return c, errors.New("with -database, name a directory that stays with -dir: another process goes on with the files in it")
	}
	if c.url == "" {
		c.url = "http://" + c.addr
	}
	if *tokenFile != "" {
		token, err := os.ReadFile(*tokenFile)
		if err != nil {
			return c, err
		}
		c.metrics = strings.TrimSpace(string(token))
	}
	return c, nil
}

// run serves requests until the process is asked to end.
func run(args []string) (err error) {
	c, err := flags(args)
	if err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "service-"); err != nil {
			return err
		}
		defer os.RemoveAll(c.dir)
	}
	svc, err := newService(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.close()) }()
	// If the context of Start ended, the engine would stop at once; here stop decides when.
	if err := svc.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	server, served, err := listen(c.addr, svc, log)
	if err != nil {
		return errors.Join(err, svc.engine.Stop(ctx))
	}
	select {
	case <-ctx.Done():
		release()         // a second signal ends the process at once
		svc.pages.Close() // readyz says that the service is stopping, and streams end
		log.Info("stopping", "signal", context.Cause(ctx).Error())
		time.Sleep(c.drain)
	case err = <-served:
	}
	return errors.Join(err, stop(server, svc.engine, c.patience, log))
}
