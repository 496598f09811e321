// Package procgroup starts a program as the leader of a group of processes, and ends the
// whole group: what the program has started is in it, unless it makes a group of its own.
// On Windows there are no such groups, and only the program itself is ended.
package procgroup

import (
	"os/exec"
	"runtime"
	"sync"
)

// Unsupported says that this system has no such groups, and what that means for steps.
const Unsupported = "steps in processes of their own are not supported on this system, which has no groups of processes; leave isolation out here, and run such steps on Linux or another Unix"

// A Group is a program with what it has started. It gets signals only as long as its
// number can't be that of another: the system gives the number of a process away when
// somebody has taken note of its end. Its methods may be called by several goroutines.
type Group struct {
	cmd             *exec.Cmd
	terminate, kill func(*exec.Cmd) // send signals

	mu   sync.Mutex
	over bool // the number may be that of another
}

// New returns the group of a program that is not started yet, and prepares the program to
// be the leader of it.
func New(cmd *exec.Cmd) *Group {
	prepare(cmd)
	return &Group{cmd: cmd, terminate: terminate, kill: kill}
}

// Start calls start, which starts the program, in a goroutine that keeps its thread until
// the program has ended: if the program is to be killed with its parent (Pdeathsig), the
// system goes by that thread, and it lets only that thread trace the program. The outcome of the program's end is sent to ended when
// nothing of the group is left.
func (g *Group) Start(start func() error) (ended <-chan error, err error) {
	started, over := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start()
		started <- err
		if err == nil {
			over <- g.wait()
		}
	}()
	return over, <-started
}

// Terminate asks the group to end.
func (g *Group) Terminate() { g.signal(g.terminate) }

// Kill ends the group.
func (g *Group) Kill() { g.signal(g.kill) }

// signal sends a signal, unless the group is over.
func (g *Group) signal(send func(*exec.Cmd)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		send(g.cmd)
	}
}

// end kills what is left of the group, which gets no signals from then on.
func (g *Group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill(g.cmd)
	g.over = true
}
