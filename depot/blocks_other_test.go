//go:build !linux

package depot

import "io/fs"

// blocksOf is how many bytes of the disk a file takes, as far as that is known here.
func blocksOf(info fs.FileInfo) int64 { return cost(info.Size()) - entryBytes }
