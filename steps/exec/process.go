package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// waitDelay is how long a pipe may stay open in a process that escaped.
const waitDelay = time.Second

// A group is a started program with what it has started. It gets signals only as
// long as its number can't be that of another: the system gives the number of a
// process away when somebody has taken note of its end.
type group struct {
	cmd             *exec.Cmd
	terminate, kill func(*exec.Cmd) // send signals

	mu   sync.Mutex
	over bool // the number may be that of another
}

// signal sends a signal, unless the group is over.
func (g *group) signal(send func(*exec.Cmd)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		send(g.cmd)
	}
}

// end kills what is left of the group, which gets no signals from then on.
func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill(g.cmd)
	g.over = true
}

// process starts the program and waits for its end, which it brings about when
// ctx ends. When it returns, nothing of the program's group is left.
func (r *run) process(ctx context.Context, cmd *exec.Cmd) error {
	g := &group{cmd: cmd, terminate: terminate, kill: kill}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The system kills a program when the thread that started it ends, and
		// lets only that thread set its limits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start(cmd, r.limits)
		started <- err
		if err == nil {
			ended <- g.wait()
		}
	}()
	if err := <-started; err != nil {
		return r.notStarted(err)
	}
	r.started = true
	err := r.await(ctx, g, ended)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, exit := errors.AsType[*exec.ExitError](err); err == nil || exit || errors.Is(err, exec.ErrWaitDelay) {
		return nil // how it ended is in the state
	}
	return fmt.Errorf("program %q: %w", r.cfg.Program, err)
}

// await waits for the program's end.
func (r *run) await(ctx context.Context, g *group, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace := r.opt.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	g.signal(g.terminate)
	timer := time.NewTimer(min(grace, maxGrace))
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
	}
	g.signal(g.kill)
	return <-ended
}

// notStarted is the error of a program that could not be started.
func (r *run) notStarted(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	err = fmt.Errorf("program %q can't be started: %w", r.cfg.Program, err)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = courier.Permanent(fmt.Errorf("%w; check its path in exec.Options.Programs, and that it may be executed", err))
	}
	return err
}
