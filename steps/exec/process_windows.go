package exec

import (
	"errors"
	"os/exec"
)

// start starts the program. There is no group of processes here that could be
// ended as one.
func start(cmd *exec.Cmd, limits Limits) error {
	if limits != (Limits{}) {
		return errors.Join(errors.New("its limits can't be set"), limits.set(0))
	}
	return cmd.Start()
}

// wait waits for the program's end. Its handle stands for no other process.
func (g *group) wait() error {
	defer g.end()
	return g.cmd.Wait()
}

// terminate kills the program, since it can't be asked to end.
func terminate(cmd *exec.Cmd) { kill(cmd) }

// kill kills the program, but not what it started.
func kill(cmd *exec.Cmd) { cmd.Process.Kill() }
