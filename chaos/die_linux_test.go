package chaos

import "syscall"

// dieWithParent lets a process end with this one even if it stands still.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
