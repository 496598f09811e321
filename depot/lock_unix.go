//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package depot

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file unless another open file of it is locked, and reports whether it did.
// The lock ends when the file is closed, or its process has died.
func tryLock(f *os.File) (locked bool, err error) {
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case errors.Is(err, syscall.ENOLCK):
		return false, errors.ErrUnsupported // a network file system without a server of locks
	}
	return err == nil, err
}

func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Flock(int(fd), how)
		}
	})
	return errors.Join(err, failed)
}
