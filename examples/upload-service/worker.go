package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/pgstore"
)

// A place is where processes find their work. It reaches workers through their standard
// input, since a command line would show the password to everybody.
type place struct {
	URL, Schema      string
	Workspace, Depot string // directories that all processes reach
}

// open opens an engine and its depot.
func open(ctx context.Context, pool *pgxpool.Pool, at place, name string) (*engine.Engine, *depot.Directory, func(), error) {
	store, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: at.Schema})
	if err != nil {
		return nil, nil, nil, err
	}
	files, err := depot.Dir(at.Depot, nil)
	if err != nil {
		store.Close()
		return nil, nil, nil, err
	}
	var reg courier.Registry
	depot.Register(&reg, files, &depot.Retention{Keep: 48 * time.Hour}) // the workers remove what is older
	courier.RegisterFunc(&reg, "demo.convert", toUpper, nil)
	e := engine.New(store, &reg, &engine.Options{Worker: name, Workspace: at.Workspace, Queues: []string{"remote"}, Lease: 2 * time.Second})
	return e, files, func() { files.Close(); store.Close() }, nil
}

// work executes what there is to execute until the standard input ends, which it does with
// the server at the latest.
func work(ctx context.Context, name string, in io.Reader) error {
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
	e, _, closeAll, err := open(ctx, pool, at, name)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := e.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return e.Stop(context.WithoutCancel(ctx))
}

type convertConfig struct {
	Directory string  `json:"directory" courier:"path"`
	Seconds   float64 `json:"seconds"`
}

// toUpper is the step type demo.convert: it writes the text of files in capital letters. It
// can be repeated.
func toUpper(ctx context.Context, job *courier.Context, cfg convertConfig) (none struct{}, err error) {
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	root, dir, err := job.Files().Root(cfg.Directory)
	if err != nil {
		return none, err
	}
	names, err := fs.Glob(root.FS(), path.Join(dir, "*"))
	if err != nil {
		return none, err
	}
	for _, name := range names {
		text, err := root.ReadFile(name)
		if err != nil {
			return none, err
		}
		if err := root.WriteFile(name, bytes.ToUpper(text), 0o600); err != nil {
			return none, err
		}
	}
	return none, nil
}

// A process is a worker as the client sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// start starts this program as a worker.
func start(name string, at place) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-worker", name)
	cmd.Stderr = os.Stderr
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
	return p, nil
}

// end lets the worker stop, and waits until it has. One that was killed is gone.
func (p *process) end() {
	p.stdin.Close()
	p.cmd.Wait()
}
