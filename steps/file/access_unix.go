//go:build linux || darwin || freebsd

package file

import (
	"os"
	"syscall"
)

// mayRead says why the file or directory at path can't be read by this process.
func mayRead(path string) error { return syscall.Access(path, 4) }

// mayWrite says why nothing can be made in the directory at path.
func mayWrite(path string) error { return syscall.Access(path, 2|1) }

// room is how many bytes this process may still write to the file system of a
// directory.
func room(root *os.Root, dir string) (free uint64, ok bool) {
	d, err := root.OpenFile(dir, os.O_RDONLY|openDirectory, 0)
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
