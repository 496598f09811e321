package isolated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/internal/nearest"
)

// marker is the first argument of a child. An argument, unlike a variable of the
// environment, is not inherited, so nobody has it by chance.
const marker = "courier:isolated-step"

// The pipes of a child.
const (
	fdIn  = 3
	fdOut = 4
)

// What happens once in a process: Main was called, and has found it to be a child.
var called, taken atomic.Bool

// isChild reports whether the process was started to make a call.
func isChild() bool { return len(os.Args) > 1 && os.Args[1] == marker }

// Main makes the call for which the process was started, and ends the process, or returns
// at once if it was started for nothing of the kind.
func Main(build func() (*courier.Registry, error)) {
	called.Store(true)
	if !isChild() || !taken.CompareAndSwap(false, true) {
		return
	}
	os.Args = append(os.Args[:1], os.Args[2:]...)
	pipes, err := openPipes()
	if err == nil {
		err = serve(pipes[0], pipes[1], build)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", marker, err)
	os.Exit(2)
}

// Astray returns an error in a process that was started to make a call, and has come to
// make an engine without calling Main before. The parent then ends it.
func Astray() error {
	if !isChild() {
		return nil
	}
	astray.Do(func() {
		if pipes, err := openPipes(); err == nil {
			_ = newConn(pipes[0], pipes[1], minFrame).send(&frame{Astray: true})
		}
	})
	return fmt.Errorf("this process was started to run one step; %w", errLate)
}

var astray sync.Once

// errLate says that the program does more than it should before it calls Main.
var errLate = errors.New("engine.RunIsolated was called too late: make engine.RunIsolated(build) the first statement of main, before anything is opened and before engine.New")

// openPipes returns the pipes that the parent has given to the process.
func openPipes() (pipes [2]*os.File, err error) {
	for i, fd := range []int{fdIn, fdOut} {
		if !isPipe(fd) {
			return pipes, fmt.Errorf("the argument %q is for processes that a worker starts; leave it out", marker)
		}
		closeOnExec(fd)
		pipes[i] = os.NewFile(uintptr(fd), "worker")
	}
	return pipes, nil
}

// maxFromParent bounds the frames of the parent, which are as large as values and secrets.
const maxFromParent = 1 << 30

// serve makes the call that is asked for on in, and reports on out. It returns only if
// nothing is asked for.
func serve(in, out *os.File, build func() (*courier.Registry, error)) error {
	c := newConn(in, out, maxFromParent)
	f, err := c.receive()
	if err != nil || f.Hello == nil {
		return fmt.Errorf("the worker has not said what to do: %w", errors.Join(err, errFrame))
	}
	dir := f.Hello.Dir
	if err := setLimits(f.Hello.Memory, f.Hello.CPU); err != nil {
		return fmt.Errorf("the limits can't be set: %w", err)
	}
	// The worker decides when it is over: what ends it is often sent to all processes. It also
	// relies on that when it sends SIGTERM itself, which it does not before the hello.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := c.send(&frame{Hello: &hello{Nonce: f.Hello.Nonce}}); err != nil {
		return err
	}
	if f, err = c.receive(); err != nil || f.Begin == nil {
		return fmt.Errorf("the worker has not said what to call: %w", errors.Join(err, errFrame))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &host{conn: c}
	h.silence = time.AfterFunc(f.Begin.Silence, func() {
		fmt.Fprintf(os.Stderr, "nothing was heard of the worker for %v\n", f.Begin.Silence)
		leave(dir)
	})
	go h.listen(cancel, f.Begin.Silence, dir)
	o := h.perform(ctx, f.Begin, dir, build)
	if err := c.send(&frame{Outcome: o}); err != nil {
		return err
	}
	select {} // the worker ends the process
}

// listen takes what the worker sends, until the worker is gone. Then it ends the process,
// with all that it has started.
func (h *host) listen(cancel context.CancelCauseFunc, silence time.Duration, dir string) {
	for {
		f, err := h.conn.receive()
		h.silence.Reset(silence)
		switch {
		case err != nil:
			cancel(errGone)
			leave(dir)
		case f.Cancel != nil:
			cancel(f.Cancel.error(nil))
		case f.Answer != nil:
			h.answered(f.Answer)
		}
	}
}

// leave ends the process with all that it has started.
func leave(dir string) {
	_ = os.RemoveAll(dir)
	killOwnGroup()
	os.Exit(2)
}

// perform makes the call.
func (h *host) perform(ctx context.Context, b *begin, dir string, build func() (*courier.Registry, error)) *outcome {
	var outputs json.RawMessage
	o := &outcome{}
	returned := false
	done := make(chan struct{})
	go func() { // runtime.Goexit ends only this
		defer close(done)
		defer func() {
			if !returned {
				what, stack := stepcall.Panicked(recover())
				o.Panic, o.Stack = what, stack
			}
		}()
		var err error
		if outputs, err = h.call(ctx, b, dir, build); err != nil {
			o.Error = failureOf(stepcall.SafeError(err), context.Cause(ctx))
		}
		returned = true
	}()
	<-done
	h.flush()
	if o.Outputs = outputs; len(outputs) > b.MaxOutput && b.MaxOutput > 0 {
		o.Outputs = nil
		if o.Error == nil {
			o.Error = failureOf(courier.Permanent(fmt.Errorf("the work is done, but its output has %d bytes, more than the %d of engine.Options.MaxOutput; "+
				"have the step give less, such as the path of a file with the rest, or raise the limit", len(outputs), b.MaxOutput)), nil)
		}
	}
	return o
}

// call builds the registry and calls the step.
func (h *host) call(ctx context.Context, b *begin, dir string, build func() (*courier.Registry, error)) (json.RawMessage, error) {
	reg, err := build()
	if err != nil {
		return nil, fmt.Errorf("build of engine.RunIsolated: %w", err)
	}
	if reg == nil {
		return nil, courier.Permanent(errors.New("build of engine.RunIsolated returns no registry"))
	}
	typ, ok := reg.Lookup(b.Type)
	if !ok {
		return nil, courier.Permanent(fmt.Errorf("build of engine.RunIsolated: the registry that it returns has no step type %q; %s", b.Type, nearest.DidYouMean(b.Type, reg.Keys())))
	}
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	job := h.newContext(b)
	defer func() {
		if err := job.Close(); err != nil {
			job.Log().Warn("close what the step has open", "error", err)
		}
	}()
	switch b.Method {
	case "Execute":
		return typ.Execute(ctx, job, b.Config)
	case "Validate":
		return nil, typ.Validate(ctx, job, b.Config)
	case "Cleanup":
		return nil, typ.Cleanup(ctx, job, b.Config)
	case "Rollback":
		return nil, typ.Rollback(ctx, job, b.Config)
	}
	return nil, courier.Permanent(fmt.Errorf("no method of a step is called %q", b.Method))
}

// limitHeap has the garbage collector work harder before a limit of memory is reached.
func limitHeap(memory int64) {
	if memory > 0 {
		debug.SetMemoryLimit(memory - memory/8)
	}
}

// goneAfter is how long a child may take to answer the first frame, which is before it
// builds anything.
var goneAfter = 10 * time.Second
