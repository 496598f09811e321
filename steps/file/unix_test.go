//go:build unix

package file_test

import (
	"errors"
	"syscall"
)

// limitFileSize makes writes fail beyond n bytes of a file, for the rest of
// the process's life.
func limitFileSize(n uint64) {
	limit := syscall.Rlimit{Cur: n, Max: n}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
}

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }

// becomeNobody gives up the rights of root, if the process has them.
func becomeNobody() {
	const nobody = 65534
	if syscall.Getuid() != 0 {
		return
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		panic(err)
	}
}
