//go:build unix

package localfile

import (
	"errors"
	"os"
	"syscall"
)

// SyncDir makes the names in the directory dir below root durable.
func SyncDir(root *os.Root, dir string) error {
	d, err := root.OpenFile(dir, os.O_RDONLY|Nonblock, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems can't sync directories and say so; then nothing is to
	// be gained.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
