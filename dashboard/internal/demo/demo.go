// Package demo makes sample data for a dashboard: jobs, executions in all states, loops of ten
// thousand items, failures, schedules, chains, monitors, subscriptions, and hostile names from
// outside. Everything is really executed, on a store in memory and within seconds; the history
// covers a day.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// A World is a store with two engines: one that executes, and one that only serves the pages, as in
// another process.
type World struct {
	Engine *engine.Engine     // it executes
	Store  *memstore.Store    // of both
	Pages  *dashboard.Handler // of the other engine
	// By are interesting executions, by what they show, such as "failed" and "running".
	By map[string]courier.ExecutionID

	other *engine.Engine
}

// Options are the settings of a world. The zero value is a full one.
type Options struct {
	Empty bool         // without any definitions
	Small bool         // loops of a hundred items instead of ten thousand
	Log   *slog.Logger // of pages and engines; nil means none
}

// history is the length of the history, which ends at the present time of the world.
const history = 26 * time.Hour

// Open makes a world whose files are in dir, which must be empty.
func Open(ctx context.Context, dir string, opt Options) (*World, error) {
	w := &World{Store: memstore.NewAt(time.Now().Add(-history)), By: make(map[string]courier.ExecutionID)}
	w.Engine = engine.New(w.Store, registry(), w.options(dir, "worker-1", opt.Log))
	w.other = engine.New(w.Store, registry(), w.options(dir, "web-1", opt.Log))
	w.Pages = dashboard.New(w.other, &dashboard.Options{
		Access: access.Policy{Who: func(*http.Request) (access.Principal, error) {
			return access.Principal{ID: "ann", Name: "Ann Meyer"}, nil
		}},
		Title: "Courier, demo", Connections: connections, Log: opt.Log,
		Links: func(x courier.Execution) []dashboard.Link {
			return []dashboard.Link{{Text: "Trace", URL: "https://traces.example.com/" + string(x.ID)}, {Text: "Runbook", URL: "https://wiki.example.com/courier"}}
		},
	})
	if opt.Empty {
		w.Store.Advance(history)
		return w, nil
	}
	return w, w.fill(ctx, dir, opt)
}

func (w *World) options(dir, worker string, log *slog.Logger) *engine.Options {
	return &engine.Options{
		Workspace: filepath.Join(dir, worker), WorkspaceID: "demo", Worker: worker, Slots: 64, Log: log, Poll: 100 * time.Millisecond,
		Secrets: func(_ context.Context, r courier.SecretRequest) (string, error) {
			if r.Name != "acme/password" && r.Name != "hook" {
				return "", courier.Permanent(fmt.Errorf("there is no secret %q", r.Name))
			}
			return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr", nil
		},
		Listers: map[string]courier.Lister{"sftp": shelf{}},
		Subscribers: map[string]func(context.Context, notify.Notification) error{"count": func(context.Context, notify.Notification) error { return nil }, "refuse": func(context.Context, notify.Notification) error {
			return courier.Permanent(errors.New("the receiver answers 410 Gone: this hook was removed"))
		}},
	}
}

// connections returns the partners.
func connections(context.Context) ([]dashboard.Connection, error) {
	return []dashboard.Connection{
		{ID: "acme-sftp", Type: "sftp", Address: "sftp.acme.example:22", Owner: "Integration", Note: "Maintenance on Sundays from 02:00 to 04:00 UTC."},
		{ID: "globex-ftps", Type: "ftps", Address: "ftp.globex.example:990", Owner: "Integration"},
		{ID: "ledger", Type: "sftp", Address: "ledger.internal.example:22", Owner: "Accounting"},
		{ID: Hostile[0], Type: "sftp", Address: Hostile[2], Owner: Hostile[3], Note: endless},
	}, nil
}

// fill runs the day.
func (w *World) fill(ctx context.Context, dir string, opt Options) error {
	for _, j := range jobs() {
		if _, err := w.Engine.Jobs().Define(ctx, j, &courier.DefineOptions{By: courier.By{Actor: "ann", Reason: "demo"}}); err != nil {
			return fmt.Errorf("job %q: %w", j.Name, err)
		}
	}
	if err := w.Engine.Limits().Set(ctx, "global", 64, courier.By{Actor: "admin"}); err != nil {
		return err
	}
	if err := w.lost(ctx, dir, opt); err != nil {
		return err
	}
	if err := w.Engine.Start(ctx); err != nil {
		return err
	}
	for _, f := range []func(context.Context, Options) error{w.past, w.chains, w.present, w.kept} {
		if err := f(ctx, opt); err != nil {
			return err
		}
	}
	return w.Store.CountHours(ctx, 0) // the engine does this once a minute
}

// Close ends the engine, and the streams of pages.
func (w *World) Close() error {
	w.Pages.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stopped, stop := context.WithTimeout(ctx, time.Millisecond) // steps that last for hours would take too long
	defer stop()
	_ = w.Engine.Stop(stopped)
	return nil
}
