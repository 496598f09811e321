package exec

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"unsafe"
)

// start starts the program in a group of its own. The calling goroutine is
// locked to its thread until the program has ended.
//
// Limits have to be there before the program's first instruction. So the
// program is started as one that is traced, which stops it when it is loaded;
// then it gets its limits and is let go.
func start(cmd *exec.Cmd, limits Limits) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: limits != Limits{}}
	if err := cmd.Start(); err != nil {
		return err
	}
	if limits == (Limits{}) {
		return nil
	}
	err := release(cmd.Process.Pid, limits)
	if err != nil {
		if err != errEnded {
			kill(cmd)
		}
		cmd.Process.Kill()
		cmd.Wait()
		err = fmt.Errorf("its limits can't be set: %w", err)
	}
	return err
}

// errEnded is about a program of which nothing is left.
var errEnded = errors.New("it ended before it began")

// release gives a program that waits for it its limits and lets it run.
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

// wait waits for the program's end, and kills what is left of its group before
// the group's number can be that of another.
func (g *group) wait() error {
	ended(g.cmd.Process.Pid)
	g.end()
	return g.cmd.Wait()
}

// ended waits until the process has ended, and leaves it to others to say so.
func ended(pid int) {
	const byPID = 1
	var info [128]byte // siginfo_t, of which nothing is needed
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if e != syscall.EINTR {
			return
		}
	}
}
