//go:build !linux

package chaos

import "syscall"

// dieWithParent is for systems that can't let a process end with its parent. It
// still ends with its standard input, unless it stands still.
func dieWithParent() *syscall.SysProcAttr { return nil }
