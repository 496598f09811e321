//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

// command returns a command that says that it cannot be run: the servers are
// guarded by a shell.
func (a *account) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Err = errors.New("private servers need a Unix system")
	return cmd
}
