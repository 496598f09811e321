package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/procgroup"
)

// waitDelay is how long a process that left the group may hold a pipe open.
const waitDelay = time.Second

// process starts the program and waits for its end. It ends the program when
// ctx ends. When it returns, no process of the program's group is left.
func (r *run) process(ctx context.Context, cmd *exec.Cmd) error {
	g := procgroup.New(cmd)
	ended, err := g.Start(func() error { return start(g, cmd, r.limits) })
	if err != nil {
		return r.notStarted(err)
	}
	r.started = true
	err = r.await(ctx, g, ended)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, exit := errors.AsType[*exec.ExitError](err); err == nil || exit || errors.Is(err, exec.ErrWaitDelay) {
		return nil // how it ended is in the state
	}
	return fmt.Errorf("program %q: %w", r.cfg.Program, err)
}

// await waits until the program has ended.
func (r *run) await(ctx context.Context, g *procgroup.Group, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace := r.opt.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	g.Terminate()
	timer := time.NewTimer(min(grace, maxGrace))
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
	}
	g.Kill()
	return <-ended
}

// notStarted returns the error of a program that could not be started.
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
