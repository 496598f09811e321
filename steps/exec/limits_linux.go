//go:build linux && (386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64 || s390x)

package exec

import (
	"os"
	"syscall"
	"unsafe"
)

// canLimit reports whether this system supports limits.
const canLimit = true

// rlimitNProc is the number of a limit for which package syscall has no name.
const rlimitNProc = 6

// set sets the limits of a process.
func (l Limits) set(pid int) error {
	for _, r := range []struct {
		resource int
		value    int64
	}{
		{syscall.RLIMIT_CPU, l.CPUSeconds},
		{syscall.RLIMIT_AS, l.Memory},
		{syscall.RLIMIT_FSIZE, l.FileSize},
		{syscall.RLIMIT_NOFILE, l.Files},
		{rlimitNProc, l.Processes},
	} {
		if r.value <= 0 {
			continue
		}
		// struct rlimit64 has 64 bits on all systems.
		limit := [2]uint64{uint64(r.value), uint64(r.value)}
		_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(r.resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if e != 0 {
			return os.NewSyscallError("prlimit", e)
		}
	}
	return nil
}
