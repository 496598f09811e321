//go:build unix

package glob

import "syscall"

// openDirectory keeps the opening of what is no directory, such as a pipe, from
// waiting.
const openDirectory = syscall.O_DIRECTORY | syscall.O_NONBLOCK
