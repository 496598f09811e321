//go:build !unix

package file

import "io/fs"

// openDirectory has no meaning here.
const openDirectory = 0

// inode is 0, for not known.
func inode(info fs.FileInfo) uint64 { return 0 }

// isNotDir has no meaning here.
func isNotDir(err error) bool { return false }

// isOtherDevice reports whether err says that a rename would have to copy.
// Here any failed rename may mean that; copying fails for the other reasons
// too.
func isOtherDevice(err error) bool { return err != nil }
