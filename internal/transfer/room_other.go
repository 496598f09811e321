//go:build !linux && !darwin && !freebsd

package transfer

import "os"

// Room cannot determine the free space on this system.
func Room(root *os.Root, dir string) (free uint64, ok bool) { return 0, false }
