//go:build !unix

package inetd

import "os/exec"

func group(*exec.Cmd) {}

func end(cmd *exec.Cmd) { cmd.Process.Kill() }
