package procgroup

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// prepare has the program make a group of its own, and end with the thread that starts it.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// wait waits for the program's end, and kills what is left of its group before
// the group's number can be that of another.
func (g *Group) wait() error {
	ended(g.cmd.Process.Pid)
	g.end()
	return g.cmd.Wait()
}

// ended waits until the process has ended, and leaves it to others to say so.
func ended(pid int) {
	const byPID = 1
	var info [128]byte // siginfo_t, of which nothing is needed
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if e != syscall.EINTR {
			return
		}
	}
}
