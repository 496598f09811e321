//go:build !unix

package chromium

import "os/exec"

func group(*exec.Cmd) {}

func end(cmd *exec.Cmd) { cmd.Process.Kill() }
