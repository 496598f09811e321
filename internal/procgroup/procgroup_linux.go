package procgroup

import (
	"syscall"
	"unsafe"
)

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
