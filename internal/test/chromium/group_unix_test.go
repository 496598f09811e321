//go:build unix

package chromium

import (
	"os/exec"
	"syscall"
)

// alive reports whether a process of the command's group is there.
func alive(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }
