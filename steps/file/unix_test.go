//go:build unix

package file_test

import "syscall"

// limitFileSize makes writes fail beyond n bytes of a file, for the rest of
// the process's life.
func limitFileSize(n uint64) {
	limit := syscall.Rlimit{Cur: n, Max: n}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
}

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }
