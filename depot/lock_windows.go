package depot

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel       = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel.NewProc("LockFileEx")
	unlockFileEx = kernel.NewProc("UnlockFileEx")
)

// tryLock locks a file unless another open file of it is locked, and reports whether it did.
// The lock ends when the file is closed, or its process has died.
func tryLock(f *os.File) (locked bool, err error) {
	const exclusive, atOnce, violation = 2, 1, syscall.Errno(33)
	at := region()
	ok, _, err := lockFileEx.Call(f.Fd(), exclusive|atOnce, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, violation) || errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, err
}

func unlock(f *os.File) error {
	at := region()
	if ok, _, err := unlockFileEx.Call(f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(&at))); ok == 0 {
		return err
	}
	return nil
}

// region is the locked byte. It is far after the content, since a locked byte cannot be read.
func region() syscall.Overlapped { return syscall.Overlapped{OffsetHigh: 1 << 30} }
