// Package failures makes a world with exactly ten failures, for walks through the dashboard by a
// person who has never seen it, and by tests. The failures are real, as far as they need no server
// of another program: SFTP servers, a web server and the engines run in this process. Each failure
// has the complaint of a colleague on the telephone, who does not know the cause, and a check that
// says whether it is repaired.
//
// TestRepairs of dashboard/browser repairs all ten with the keyboard alone. A walk by hand shows
// whether a person who does not know the dashboard can repair them. It reads one command at a time,
// and answers with the words of a screen reader:
//
//	go test ./dashboard/browser -run '^TestRepairByHand$' -timeout 0 -repair /tmp/repair.sock &
//	c() { n=$1; shift; curl -sS --unix-socket /tmp/repair.sock --data-binary "$*" "http://repair/$n"; }
//	c complaints            # what colleagues say, and which of it is repaired; "c complaints 3" is one of them
//	c press Tab Tab Enter   # also Shift+Tab, Space, Escape, ArrowDown, Control+a, letters; F5 loads the page again
//	c type "some text"      # into the field that has the focus
//
// Further commands are where, read, read all, value, look (a picture), call acme (or globex, hooli,
// initech, accounting), start and quit.
package failures

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
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/store/memstore"
)

// A World is a store with ten failures, an engine that executes, and an engine that only serves the
// pages, as in another process. Its methods may be called by several goroutines.
type World struct {
	Engine *engine.Engine     // it executes
	Store  *memstore.Store    // of all engines
	Pages  *dashboard.Handler // of an engine that does not execute
	List   []*Failure         // the failures

	partners *partners
	machines *machines
	dir      string
	log      *slog.Logger
	planted  map[string]courier.ExecutionID // by the name of the failure
}

// A Failure is one of the failures.
type Failure struct {
	Name      string // such as "host-key"; it tells the cause
	Complaint string // the words of a colleague who does not know the cause
	check     func(ctx context.Context) (bool, string)
}

// Repaired reports whether the failure is repaired, and describes its state.
func (f *Failure) Repaired(ctx context.Context) (bool, string) { return f.check(ctx) }

// Options are the settings of a world. The zero value is the usual world.
type Options struct {
	Log *slog.Logger // of pages and engines; nil means none
}

// history is how long ago the world began.
const history = 6 * time.Hour

// Open makes a world whose files are in dir, which must be empty. It takes a second or two.
func Open(ctx context.Context, dir string, opt Options) (w *World, err error) {
	w = &World{Store: memstore.NewAt(time.Now().Add(-history)), dir: dir, log: opt.Log, machines: newMachines(), planted: make(map[string]courier.ExecutionID)}
	if w.partners, err = openPartners(filepath.Join(dir, "partners")); err != nil {
		return nil, err
	}
	w.Engine = engine.New(w.Store, w.registry(), w.options("worker-1"))
	pages := engine.New(w.Store, w.registry(), w.options("web-1"))
	w.Pages = dashboard.New(pages, &dashboard.Options{
		Access: access.Policy{Who: func(*http.Request) (access.Principal, error) {
			return access.Principal{ID: "ann", Name: "Ann Meyer"}, nil
		}},
		Title: "Courier, demo", Connections: w.connections, Log: opt.Log,
	})
	w.List = w.failures()
	if err = w.fill(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// fill runs the past and then the present of the world.
func (w *World) fill(ctx context.Context) error {
	for _, f := range []func(context.Context) error{w.define, w.lose, w.past, w.present} {
		if err := f(ctx); err != nil {
			return fmt.Errorf("failures: %w", err)
		}
	}
	return nil
}

// registry returns the step types: those of Courier, and those of the machines.
func (w *World) registry() *courier.Registry {
	r := new(courier.Registry)
	steps.Register(r, &steps.Options{
		Connections: w.partners, HTTP: &httpreq.Options{TrustedHosts: []string{"127.0.0.1"}, AllowPlain: true},
	})
	w.machines.register(r)
	return r
}

// options returns the options of an engine whose worker has its own disk.
func (w *World) options(worker string) *engine.Options {
	return &engine.Options{
		Workspace: filepath.Join(w.dir, worker), WorkspaceID: "disk of " + worker, Worker: worker, Queues: []string{courier.DefaultQueue, "night"},
		Slots: 16, Log: w.log, Poll: 50 * time.Millisecond, Grace: time.Second, Secrets: secrets,
		Webhooks: notify.WebhookOptions{TrustedHosts: []string{"127.0.0.1"}, AllowPlain: true},
	}
}

// secrets returns the secrets of the host.
func secrets(_ context.Context, r courier.SecretRequest) (string, error) {
	switch r.Name {
	case "sftp/password":
		return password, nil
	case "initech/token":
		return token, nil
	case "hook":
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr", nil
	}
	return "", courier.Permanent(fmt.Errorf("the vault has no secret %q; of Initech it has %q", r.Name, "initech/token"))
}

// Call telephones somebody outside: "acme", "globex", "hooli", "initech" or "accounting". It
// returns the answer. Globex repairs its server when it is called.
func (w *World) Call(who string) (string, error) { return w.partners.call(who) }

// Close ends the engine, the streams of pages and the servers.
func (w *World) Close() error {
	w.Pages.Close()
	w.machines.release()
	stop(w.Engine)
	return w.partners.close()
}
