// Command job-server executes Go functions as jobs, each in a separate process, and has an HTTP API
// that starts, shows and cancels them. README.md has the contract.
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
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

func main() {
	engine.RunIsolated(stepTypes) // does not return in the process of a job
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("job-server has failed", "error", err)
		os.Exit(1)
	}
}

// settings are the settings in the flags.
type settings struct {
	addr, database, workspace, worker, webhook string
	running, grace                             int
	memory                                     int64
	lease                                      time.Duration
	inProcess                                  bool
}

func parse(args []string) (s settings, err error) {
	f := flag.NewFlagSet("job-server", flag.ContinueOnError)
	f.StringVar(&s.addr, "addr", "127.0.0.1:8083", "the `address` to listen at")
	f.StringVar(&s.database, "database", "", "the `URL` of a PostgreSQL database; without one, jobs are kept in memory")
	f.StringVar(&s.workspace, "workspace", "", "a `directory` of this server alone; by default one for its address, among temporary files")
	f.StringVar(&s.worker, "worker", "", "the workerId, which no other server may have; by default host, process and a random part")
	f.StringVar(&s.webhook, "webhook", "", "a `URL` that is told of onStart, onSuccess, onFail and onEnd, signed with WEBHOOK_SECRET of the environment (whsec_ and 24 to 64 bytes in base64)")
	f.IntVar(&s.running, "max-concurrent", env("MAX_CONCURRENT_EXECUTIONS", 8), "how many jobs this server executes at once (MAX_CONCURRENT_EXECUTIONS)")
	f.IntVar(&s.grace, "cancel-grace", env("CANCEL_GRACE_MS", 10_000), "how many milliseconds a job has to stop before it is killed (CANCEL_GRACE_MS)")
	f.Int64Var(&s.memory, "memory", 256<<20, "how many `bytes` of data the process of a job may have; 0 means any number")
	f.DurationVar(&s.lease, "lease", 15*time.Second, "how long a job stays with a server that is not heard of; heartbeats come three times as often")
	f.BoolVar(&s.inProcess, "in-process", false, "execute jobs in the server itself, without limits")
	if err = f.Parse(args); err == nil && (f.NArg() > 0 || s.running < 1 || s.grace < 1) {
		err = errors.New("there are flags only, and -max-concurrent and -cancel-grace are at least 1; see -help")
	}
	s.workspace = cmp.Or(s.workspace, filepath.Join(os.TempDir(), "job-server-"+strings.ReplaceAll(s.addr, ":", "-")))
	return s, err
}

// env returns a number from the environment.
func env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// A server is the API with the engine that executes jobs.
type server struct {
	engine *engine.Engine
	api    *httpapi.Handler // Courier's own, for operators
	routes *http.ServeMux
	closed context.Context // has ended when streams must end
	close  func()
}

// newServer returns a server. Its engine is not started.
func newServer(ctx context.Context, s settings, on store.Store, log *slog.Logger) (*server, error) {
	reg, err := stepTypes()
	if err != nil {
		return nil, err
	}
	opt := &engine.Options{
		Workspace: s.workspace, Worker: s.worker, Slots: s.running, Lease: s.lease, Grace: time.Duration(s.grace) * time.Millisecond, Log: log,
		Subscribers: subscribers(),
		Secrets:     func(context.Context, courier.SecretRequest) (string, error) { return os.Getenv("WEBHOOK_SECRET"), nil },
		Webhooks:    notify.WebhookOptions{AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, // to try it on one host
	}
	if !s.inProcess {
		opt.Isolate = map[string]courier.Isolation{"*": {Memory: s.memory, Terminate: true}} // and is killed after Options.Grace
	}
	v := &server{engine: engine.New(on, reg, opt), routes: http.NewServeMux()}
	v.closed, v.close = context.WithCancel(context.Background())
	v.api = httpapi.New(v.engine, &httpapi.Options{Access: access.Local(), URL: "/courier/api/", Log: log})
	v.addRoutes()
	return v, define(ctx, v.engine, s.webhook)
}

// open opens the store: a database, whose tables it creates, or a store in memory.
func open(ctx context.Context, url string) (store.Store, func(), error) {
	if url == "" {
		return memstore.New(), func() {}, nil
	}
	s, err := pgstore.Open(ctx, url, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

const tryIt = `job-server: http://%[1]s
curl -i http://%[1]s/v1/jobs -H 'Content-Type: application/json' -d '{"definitionKey": "transcode.video", "definitionVersion": 1, "params": {"url": "https://example.com/video.mp4"}, "priority": 5, "maxAttempts": 3, "idempotencyKey": "upload-123"}'
curl http://%[1]s/v1/jobs/JOBID
curl -N http://%[1]s/v1/jobs/JOBID/events
curl -i -X POST http://%[1]s/v1/jobs/JOBID/cancel
curl 'http://%[1]s/v1/jobs?status=running&definitionKey=transcode.video&limit=20'
curl http://%[1]s/metrics
`

// run serves requests until the process is asked to end.
func run(args []string, out io.Writer) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "execution" {
			a.Key = "jobId"
		}
		return a
	}}))
	slog.SetDefault(log)
	on, closeStore, err := open(ctx, s.database)
	if err != nil {
		return err
	}
	defer closeStore()
	v, err := newServer(ctx, s, on, log)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	if err := v.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, l.Close())
	}
	h := &http.Server{Handler: v.api.Routes(v.routes), ReadHeaderTimeout: 5 * time.Second}
	h.RegisterOnShutdown(v.close)
	h.RegisterOnShutdown(v.api.Close)
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	fmt.Fprintf(out, tryIt, l.Addr())
	select {
	case <-ctx.Done():
		release() // a second signal ends the process at once
	case err = <-served:
	}
	// Jobs that take longer go back to the queue, and another server starts them from the
	// beginning.
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return errors.Join(err, h.Shutdown(ctx), v.engine.Stop(ctx))
}
