//go:build linux || darwin || freebsd

package file

import "syscall"

// mayRead says why the file or directory at path can't be read by this process.
func mayRead(path string) error { return syscall.Access(path, 4) }

// mayWrite says why nothing can be made in the directory at path.
func mayWrite(path string) error { return syscall.Access(path, 2|1) }
