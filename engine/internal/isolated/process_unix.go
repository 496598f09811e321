//go:build unix

package isolated

import (
	"syscall"
	"time"
)

// isPipe reports whether a descriptor is that of a pipe.
func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// closeOnExec keeps a descriptor from programs that the step starts.
func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// killOwnGroup ends the process and what it has started.
func killOwnGroup() { _ = syscall.Kill(0, syscall.SIGKILL) }

// usedCPU is the processor time that a process has used.
func usedCPU(usage any) time.Duration {
	u, ok := usage.(*syscall.Rusage)
	if !ok {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// signalOf returns the signal that has ended a process; "" for none.
func signalOf(sys any) string {
	if s, ok := sys.(syscall.WaitStatus); ok && s.Signaled() {
		return s.Signal().String()
	}
	return ""
}
