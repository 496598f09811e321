//go:build unix

package confined

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"
)

// Apply imposes l on this process, for the rest of its life.
func (l Limits) Apply() {
	if l.FileSize > 0 {
		limit := syscall.Rlimit{Cur: l.FileSize, Max: l.FileSize}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			panic(err)
		}
	}
	if l.Memory > 0 {
		limit := syscall.Rlimit{Cur: l.Memory, Max: l.Memory}
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
			panic(err)
		}
		debug.SetMemoryLimit(int64(l.Memory / 2))
		debug.SetGCPercent(100) // the default, whatever GOGC the tests are run with
	}
	const nobody = 65534
	if !l.Nobody || os.Getuid() != 0 {
		return
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		panic(err)
	}
}

// Die ends this process at once, with nothing that it would still do.
func Die() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
