package procgroup

import "os/exec"

// Supported reports whether this system has groups of processes.
const Supported = false

// prepare does nothing: there is no group that could be ended as one.
func prepare(*exec.Cmd) {}

// wait waits for the program's end. Its handle stands for no other process.
func (g *Group) wait() error {
	defer g.end()
	return g.cmd.Wait()
}

// terminate kills the program, since it can't be asked to end.
func terminate(cmd *exec.Cmd) { kill(cmd) }

// kill kills the program, but not what it started.
func kill(cmd *exec.Cmd) { cmd.Process.Kill() }
