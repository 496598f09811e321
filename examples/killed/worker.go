package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/pgstore"
)

// A place tells a worker where its database, its partners and its keys are.
type place struct {
	URL, Schema, Workspace string
	Connections            string // file of the SFTP connections
	Keys                   string // file of the private OpenPGP key
}

// open returns an engine on the store of a place.
func open(ctx context.Context, pool *pgxpool.Pool, at place, opt *engine.Options) (*engine.Engine, func(), error) {
	connections, err := sftp.ReadConnections(at.Connections)
	if err != nil {
		return nil, nil, err
	}
	keys, err := pgp.ReadKeyring(at.Keys, nil)
	if err != nil {
		return nil, nil, err
	}
	var reg courier.Registry
	sftp.Register(&reg, connections)
	pgp.Register(&reg, keys)
	file.Register(&reg, nil)
	s, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: at.Schema})
	if err != nil {
		return nil, nil, err
	}
	opt.Workspace = at.Workspace
	opt.Secrets = func(context.Context, courier.SecretRequest) (string, error) { return password, nil }
	return engine.New(s, &reg, opt), func() { s.Close() }, nil
}

// killedIn is the place at which worker-1 waits to be killed: the step pgp.decrypt
// of the second file.
const killedIn = "pgp.decrypt[1]"

// work executes executions until the standard input ends. The standard input has the place, because
// a command line would show passwords.
func work(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var at place
	if err := json.NewDecoder(in).Decode(&at); err != nil {
		return fmt.Errorf("standard input: %w", err)
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
	opt := &engine.Options{Worker: name, Lease: 2 * time.Second} // the default is 15 s
	if name == "worker-1" {
		opt.Around = func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
			if killedIn == fmt.Sprint(job.Type(), job.Iteration()) {
				fmt.Fprintln(out, "at", killedIn)
				<-ctx.Done()
			}
			return next(ctx)
		}
	}
	e, closeStore, err := open(ctx, pool, at, opt)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := e.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return e.Stop(context.WithoutCancel(ctx))
}

// A process is a worker as the client sees it.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

// start starts this program as a worker.
func start(name string, at place) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-worker", name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, in, bufio.NewScanner(out)}
	if err := json.NewEncoder(in).Encode(at); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// await returns when the worker has reached killedIn.
func (p *process) await() error {
	if !p.out.Scan() {
		return fmt.Errorf("the worker ended before %s", killedIn)
	}
	return nil
}

// end lets the worker stop, and waits until it has stopped. It returns at once if the worker was
// killed.
func (p *process) end() {
	p.in.Close()
	p.cmd.Wait()
}
