//go:build unix && !linux

package exec

import (
	"errors"
	"os/exec"
	"syscall"
)

// start starts the program in a group of its own.
func start(cmd *exec.Cmd, limits Limits) error {
	if limits != (Limits{}) {
		return errors.Join(errors.New("its limits can't be set"), limits.set(0))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// wait waits for the program's end and kills what is left of its group. Here a
// signal may come just after the system has given the number away, if nothing is
// left of the group: package syscall has no way to wait without that.
func (g *group) wait() error {
	defer g.end()
	return g.cmd.Wait()
}
