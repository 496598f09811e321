//go:build unix

package localfile

import (
	"errors"
	"io/fs"
	"syscall"
)

// Nonblock keeps the opening of a pipe from waiting for a writer.
const Nonblock = syscall.O_NONBLOCK

// OpenDirectory are the flags for opening a directory: opening anything else, such
// as a pipe, fails instead of waiting.
const OpenDirectory = syscall.O_DIRECTORY | Nonblock

// Inode returns the number that a file keeps when it is renamed; 0 if it is not
// known.
func Inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}

// IsNotDir reports whether err says that a path leads through a file.
func IsNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// IsOtherDevice reports whether err says that a rename would have to copy.
func IsOtherDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }
