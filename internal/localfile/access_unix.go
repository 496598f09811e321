//go:build linux || darwin || freebsd

package localfile

import "syscall"

// MayRead returns the reason why this process can't read the file or directory at
// path; nil if it can.
func MayRead(path string) error { return syscall.Access(path, 4) }

// MayWrite returns the reason why this process can't make files in the directory at
// path; nil if it can.
func MayWrite(path string) error { return syscall.Access(path, 2|1) }
