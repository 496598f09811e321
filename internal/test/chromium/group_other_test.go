//go:build !unix

package chromium

import "os/exec"

// alive reports whether the command's process is there.
func alive(cmd *exec.Cmd) bool { return cmd.ProcessState == nil }
