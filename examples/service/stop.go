package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// listen serves requests with a server that limits slow and greedy clients. The error that ends the
// server is sent to the channel.
func listen(addr string, s *service, log *slog.Logger) (*http.Server, <-chan error, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{
		Handler:           s.routes,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	url := "http://" + l.Addr().String()
	log.Info("listening", "url", url, "pages", url+"/courier/?token="+s.policy.Token())
	return server, served, nil
}

// stop accepts no more connections and claims no more executions. It answers the requests that have
// arrived and waits for the steps in progress, both for at most patience. It logs the executions
// that it leaves to others.
func stop(server *http.Server, e *engine.Engine, patience time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var answered sync.WaitGroup
	// Both at the same time, or a slow client would use up the time of the steps.
	answered.Go(func() {
		if err := server.Shutdown(ctx); err != nil {
			log.Warn("shut down", "error", err)
			server.Close()
		}
	})
	err := e.Stop(ctx)
	log.Info("engine stopped")
	answered.Wait()
	return errors.Join(err, handedOver(context.WithoutCancel(ctx), e, log))
}

// handedOver logs the executions that have not ended. If several processes share the store, these
// are the executions of all of them.
func handedOver(ctx context.Context, e *engine.Engine, log *slog.Logger) error {
	begun, waiting := 0, 0
	f := store.Filter{States: []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused}, Limit: 1000}
	for {
		list, err := e.Executions().List(ctx, f)
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
			log.Info("handed over", "execution", x.ID, "job", x.Job, "status", x.Status(time.Now()), "next_step", x.Position.Step)
		}
		if len(list) == 0 {
			log.Info("stopped", "handed_over", begun+waiting, "begun", begun, "waiting", waiting)
			return nil
		}
	}
}
