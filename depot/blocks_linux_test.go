package depot

import (
	"io/fs"
	"syscall"
)

// blocksOf is how many bytes of the disk a file takes.
func blocksOf(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }
