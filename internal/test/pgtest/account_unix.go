//go:build unix

package pgtest

import (
	"os/exec"
	"syscall"
)

// command returns the command, to be run in dir by the account. It gets a
// session of its own, so that an interrupt from the terminal reaches the test
// only.
func (a *account) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}
