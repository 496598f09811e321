//go:build !linux && !darwin && !freebsd

package transfer

import "os"

// Room is not known here.
func Room(root *os.Root, dir string) (free uint64, ok bool) { return 0, false }
