package depot

import (
	"errors"
	"syscall"
)

// diskFull reports whether err says that a disk is full.
func diskFull(err error) bool {
	const handleDiskFull, diskFull, quota = syscall.Errno(39), syscall.Errno(112), syscall.Errno(1295)
	return errors.Is(err, handleDiskFull) || errors.Is(err, diskFull) || errors.Is(err, quota)
}
