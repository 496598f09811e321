package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/pgstore"
)

// lease is how long an execution stays with a worker that sends no renewals. The default is 15
// seconds; the example uses less so that the takeover comes sooner.
const lease = 2 * time.Second

// A place tells workers where their work is. They read it from their standard input, because a
// command line would show the password to everybody.
type place struct {
	URL, Schema string
	Dir         string // of the workspaces, which the workers share
}

// work executes executions until the standard input ends, at the latest when the client ends.
func work(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var at place
	if err := json.NewDecoder(in).Decode(&at); err != nil {
		return fmt.Errorf("the place of work: %w", err)
	}
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	pool, err := pgxpool.New(ctx, at.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: at.Schema})
	if err != nil {
		return err
	}
	defer store.Close()
	e := engine.New(store, registry(), &engine.Options{
		Worker: name, Workspace: at.Dir, Lease: lease,
		Observers: []func(courier.Event){func(v courier.Event) {
			if v.Step >= 0 {
				fmt.Fprintf(out, "%s: %s %s\n", name, courier.StepLabel(v.Step, v.ID, v.StepType), v.Type)
			}
		}},
	})
	if err := e.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return e.Stop(context.WithoutCancel(ctx))
}

// registry has the step type of the pipeline, which stands for any work that takes time.
func registry() *courier.Registry {
	type config struct {
		Seconds float64 `json:"seconds"`
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.work", func(ctx context.Context, _ *courier.Context, cfg config) (none struct{}, err error) {
		select {
		case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
			return none, nil
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}, nil)
	return reg
}

// A process is a worker as the client sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// start starts this program as a worker.
func start(name string, at place, out io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-worker", name)
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, stdin}
	if err := json.NewEncoder(stdin).Encode(at); err != nil {
		p.end()
		return nil, err
	}
	fmt.Fprintf(out, "client: worker %s is process %d\n", name, cmd.Process.Pid)
	return p, nil
}

// kill ends the worker without a warning.
func (p *process) kill() error { return p.cmd.Process.Kill() }

// end lets the worker stop, and waits until it has stopped. It returns at once if the worker was
// killed.
func (p *process) end() {
	p.stdin.Close()
	p.cmd.Wait()
}

// lines writes the lines of several writers.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
