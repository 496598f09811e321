//go:build !unix

package localfile

import "os"

// SyncDir makes the names in the directory dir below root durable. This system
// has no such call; its renames are durable by themselves.
func SyncDir(root *os.Root, dir string) error { return nil }
