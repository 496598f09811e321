//go:build linux || darwin || freebsd

package transfer

import (
	"os"
	"syscall"
)

// Room returns the number of bytes that this process may still write to the
// file system of the directory dir below root. Ok is false if that cannot be
// determined.
func Room(root *os.Root, dir string) (free uint64, ok bool) {
	d, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer d.Close()
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(int(d.Fd()), &s); err != nil {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true
}
