//go:build !unix

package localfile

import "io/fs"

// Nonblock and OpenDirectory are 0: this system has no such flags.
const (
	Nonblock      = 0
	OpenDirectory = 0
)

// Inode returns 0: it is not known on this system.
func Inode(info fs.FileInfo) uint64 { return 0 }

// IsNotDir returns false: this system has no such error.
func IsNotDir(err error) bool { return false }

// IsOtherDevice reports whether err says that a rename would have to copy.
// On this system it returns true for every error of a rename: copying fails for
// the other reasons too.
func IsOtherDevice(err error) bool { return err != nil }
