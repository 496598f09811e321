package localfile

import (
	"os"
	"syscall"
)

// StartWriting makes the kernel begin to write to the disk what it holds of f,
// without waiting for it, so that a sync later has less to wait for. That it
// fails means nothing: errors of the disk are for the sync to find.
func StartWriting(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	const begin = 2 // SYNC_FILE_RANGE_WRITE
	c.Control(func(fd uintptr) { syscall.SyncFileRange(int(fd), 0, 0, begin) })
}
