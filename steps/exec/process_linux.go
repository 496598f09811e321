package exec

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/courierhq/courier/internal/procgroup"
)

// start starts the leader of a group. The calling goroutine is locked to its thread until the
// program has ended.
//
// Limits must be set before the program's first instruction. So the program is started under
// ptrace, which stops it when it is loaded. Then its limits are set and it continues.
func start(g *procgroup.Group, cmd *exec.Cmd, limits Limits) error {
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Ptrace = syscall.SIGKILL, limits != Limits{}
	if err := cmd.Start(); err != nil {
		return err
	}
	if limits == (Limits{}) {
		return nil
	}
	err := release(cmd.Process.Pid, limits)
	if err != nil {
		if err != errEnded {
			g.Kill()
		}
		cmd.Process.Kill()
		cmd.Wait()
		err = fmt.Errorf("its limits can't be set: %w", err)
	}
	return err
}

// errEnded is the error of a program that has already ended.
var errEnded = errors.New("it ended before it began")

// release sets the limits of a stopped program and lets it run.
func release(pid int, limits Limits) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if !status.Stopped() {
		return errEnded
	}
	if err := limits.set(pid); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}
