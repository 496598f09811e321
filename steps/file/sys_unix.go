//go:build unix

package file

import (
	"errors"
	"io/fs"
	"syscall"
)

// openDirectory keeps the opening of what is no directory, such as a pipe, from
// waiting.
const openDirectory = syscall.O_DIRECTORY | syscall.O_NONBLOCK

// inode is the number that a file keeps when it is renamed.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}

// isNotDir reports whether err says that a path leads through a file.
func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// isOtherDevice reports whether err says that a rename would have to copy.
func isOtherDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }
