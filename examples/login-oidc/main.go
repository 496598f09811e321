// Command login-oidc serves the pages of package dashboard, and the API below them, to users who
// have logged in at an OpenID Connect provider, such as Keycloak, Entra ID or Google. It uses the
// sessions of examples/login. docs/how-to/log-in.md explains it.
//
//	CLIENT_SECRET=... go run . -issuer https://id.example.com -client courier
//
// Register the address http://localhost:8080/callback with the provider. Members of the group
// courier-operators are operators, and members of courier-viewers are viewers.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

// run serves requests until ctx ends.
func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("login-oidc", flag.ContinueOnError)
	addr := f.String("addr", "127.0.0.1:8080", "the `address` to listen at")
	c := config{secret: os.Getenv("CLIENT_SECRET")}
	f.StringVar(&c.issuer, "issuer", "", "the `URL` of the provider")
	f.StringVar(&c.client, "client", "courier", "the `id` of this service at the provider")
	f.StringVar(&c.url, "url", "http://localhost:8080", "the `URL` at which browsers reach this service")
	if err := f.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "login-oidc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s, err := newService(ctx, work, c)
	if err != nil {
		return err
	}
	if err := s.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	defer s.engine.Stop(context.WithoutCancel(ctx))
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	server.RegisterOnShutdown(s.pages.Close)
	slog.Info("listening", "pages", c.url+home)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(end)
}
