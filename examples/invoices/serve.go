package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
)

// serve shows the engine in the dashboard until ctx ends or the process is asked to terminate. The
// engine executes the executions that are started or resumed there.
func serve(ctx context.Context, addr string, e *engine.Engine, p *partner, out io.Writer) error {
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer release()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	policy := access.Local()
	pages := dashboard.New(e, &dashboard.Options{Access: policy, Title: "Courier, invoices", Connections: p.list})
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(pages.Close) // open pages have streams
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(err, l.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(out, "\nThe dashboard is at %s until this program is interrupted\n", "http://"+l.Addr().String()+"/?token="+policy.Token())
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(stopping), e.Stop(stopping))
}

// list returns the partner for the page of connections.
func (p *partner) list(ctx context.Context) ([]dashboard.Connection, error) {
	c, err := p.connections.Connection(ctx, "partner")
	if err != nil {
		return nil, err
	}
	return []dashboard.Connection{{ID: "partner", Type: "sftp", Address: net.JoinHostPort(c.Host, strconv.Itoa(cmp.Or(c.Port, 22)))}}, nil
}
