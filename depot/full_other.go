//go:build !windows

package depot

import (
	"errors"
	"syscall"
)

// diskFull reports whether err says that a disk is full.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
