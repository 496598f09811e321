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

// wait waits for the program's end and kills what is left of its group.
func wait(cmd *exec.Cmd) error {
	defer kill(cmd)
	return cmd.Wait()
}
