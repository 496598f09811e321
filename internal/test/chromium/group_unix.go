//go:build unix

package chromium

import (
	"os/exec"
	"syscall"
)

// group gives the command a process group of its own: a browser is many processes.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end kills the processes of the command's group.
func end(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
