// Command job-orchestrator accepts files with a script from users, lets another machine run the
// script, and returns the results. It has two parts: a server, which users call, and a client,
// which executes scripts. They share no database and no disk, and communicate by HTTP. README.md
// has the contract.
//
//	go run ./examples/job-orchestrator                  # both, in memory, with the service "demo"
//	export ORCHESTRATOR_TOKEN=...                       # the same for servers and clients
//	job-orchestrator client -addr 10.0.0.7:8085 -database postgres://localhost/client
//	job-orchestrator server -service docking=5@http://10.0.0.7:8085 -database postgres://localhost/server
//
// The server is in server.go, and the client in client.go. Each has its own engine and store.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

func main() {
	engine.RunIsolated(clientTypes) // does not return in the process of a script's step
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("job-orchestrator has failed", "error", err)
		os.Exit(1)
	}
}

// settings are the settings in the flags.
type settings struct {
	addr, host, database, dir, token string
	maxAge, lease                    time.Duration
	services                         []service // of a server
}

// A service is a client that executes the jobs of a name. Each user may have a limited number of
// them in progress.
type service struct {
	name, url string
	quota     int
}

var serviceForm = regexp.MustCompile(`^([a-z][a-z0-9_-]{0,49})=([0-9]{1,6})@(https?://[^/?#@]+)$`)

func parse(name, addr string, args []string) (s settings, err error) {
	f := flag.NewFlagSet("job-orchestrator "+name, flag.ContinueOnError)
	f.StringVar(&s.addr, "addr", addr, "the `address` to listen at")
	f.StringVar(&s.host, "host", "localhost", "the `name` by which it is reached; requests for others are refused, but for addresses")
	f.StringVar(&s.database, "database", "", "the `URL` of a PostgreSQL database; without one, jobs are kept in memory")
	f.StringVar(&s.dir, "dir", "", "a `directory` for files, which all processes on one database share; one that is removed in the end by default")
	f.DurationVar(&s.maxAge, "max-age", 48*time.Hour, "MAX_AGE: how long after its end the files of a job are kept, and how long results are asked for")
	f.DurationVar(&s.lease, "lease", 15*time.Second, "how long a job stays with a process that is not heard of")
	f.Func("service", "a service of a server: `NAME=QUOTA@URL` of its client; may be repeated", func(text string) error {
		m := serviceForm.FindStringSubmatch(text)
		if m == nil {
			return errors.New("write NAME=QUOTA@URL, such as docking=5@http://10.0.0.7:8085")
		}
		quota, _ := strconv.Atoi(m[2])
		s.services = append(s.services, service{m[1], m[3], quota})
		return nil
	})
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	s.token = os.Getenv("ORCHESTRATOR_TOKEN")
	return s, err
}

// A part is a server or a client.
type part struct {
	settings
	engine *engine.Engine
	files  depot.Depot
	api    *httpapi.Handler
	routes *http.ServeMux
}

// A maker makes a part on a store. The engine of the part is not started.
type maker func(ctx context.Context, s settings, on store.Store, files depot.Depot) (*part, error)

const tryIt = `job-orchestrator: http://%[1]s
printf 'tr a-z A-Z < data.txt > result.txt\n' > run.sh; echo hello > data.txt
curl -i http://%[1]s/upload -F file=@run.sh -F file=@data.txt -F user_id=ann -F service=demo
curl -OJ http://%[1]s/download/ID
`

func run(args []string, out io.Writer) error {
	role := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		role, args = args[0], args[1:]
	}
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	switch role {
	case "server", "client":
		s, err := parse(role, map[string]string{"server": "127.0.0.1:8084", "client": "127.0.0.1:8085"}[role], args)
		switch {
		case err != nil:
			return err
		case s.token == "":
			return errors.New("ORCHESTRATOR_TOKEN is not set: clients execute what a server sends that has the same one")
		case (role == "server") != (len(s.services) > 0):
			return errors.New("a server needs services (-service), and a client has none")
		case role == "client":
			return serve(ctx, s, newClient, func(addr net.Addr) { fmt.Fprintf(out, "job-orchestrator client: http://%s\n", addr) })
		}
		return serve(ctx, s, newServer, func(addr net.Addr) { fmt.Fprintf(out, tryIt, addr) })
	case "":
		s, err := parse("", "127.0.0.1:8084", args)
		if err != nil || s.database != "" || len(s.services) > 0 {
			return cmp.Or(err, errors.New("both in one process are for a try, in memory; begin with server or client otherwise"))
		}
		return serveBoth(ctx, s, out)
	}
	return fmt.Errorf("%q is neither server nor client", role)
}

// serveBoth serves a client, and a server that has it as its service.
func serveBoth(ctx context.Context, s settings, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.token = rand.Text()
	c := s
	c.addr = "127.0.0.1:0"
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		defer cancel()
		ended <- serve(ctx, c, newClient, func(a net.Addr) { at <- a })
	}()
	select {
	case a := <-at:
		s.services = []service{{"demo", "http://" + a.String(), 2}}
		err := serve(ctx, s, newServer, func(a net.Addr) { fmt.Fprintf(out, tryIt, a) })
		cancel()
		return errors.Join(err, <-ended)
	case err := <-ended:
		return err
	}
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

// serve serves a part until ctx ends. It calls ready with the address.
func serve(ctx context.Context, s settings, newPart maker, ready func(net.Addr)) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "job-orchestrator-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.dir)
	}
	on, closeStore, err := open(ctx, s.database)
	if err != nil {
		return err
	}
	defer closeStore()
	files, err := depot.Dir(filepath.Join(s.dir, "depot"), nil)
	if err != nil {
		return err
	}
	defer files.Close()
	p, err := newPart(ctx, s, on, files)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	if err := p.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, l.Close())
	}
	h := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 5 * time.Second}
	h.RegisterOnShutdown(p.api.Close)
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	ready(l.Addr())
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return errors.Join(err, h.Shutdown(ctx), p.engine.Stop(ctx))
}

// handler serves the routes of a part only under its own host name. Otherwise a web page could bind
// its name to this address (DNS rebinding) and upload a script, which would be executed.
func (p *part) handler() http.Handler {
	routes := p.api.Routes(p.routes)
	return p.api.Func(func(w http.ResponseWriter, r *http.Request) error {
		u := url.URL{Host: r.Host}
		if name := u.Hostname(); net.ParseIP(name) == nil && name != p.host {
			return &access.Error{Text: "this service has another name"}
		}
		routes.ServeHTTP(w, r)
		return nil
	})
}

// options returns the settings of the engine of a part.
func (s *settings) options() *engine.Options {
	return &engine.Options{
		Workspace: filepath.Join(s.dir, "work"), Slots: 1000, Poll: 500 * time.Millisecond, Lease: s.lease, SoftStop: time.Second,
		Log: slog.Default(),
	}
}

// hosts returns the hosts of the clients.
func hosts(services []service) (list []string) {
	for _, s := range services {
		if u, err := url.Parse(s.url); err == nil {
			list = append(list, u.Hostname())
		}
	}
	return list
}
