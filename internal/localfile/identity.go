package localfile

import "io/fs"

// An Identity tells a file from another that has its name at another time.
type Identity struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"`        // in nanoseconds
	Inode    uint64 `json:"inode,omitempty"` // 0 where files have none
}

// Identify returns the identity of the file that info describes.
func Identify(info fs.FileInfo) Identity {
	return Identity{Size: info.Size(), Modified: info.ModTime().UnixNano(), Inode: Inode(info)}
}

// Is reports whether the file that info describes is the one that had the identity id. It is
// false if info is nil or id is zero.
func (id Identity) Is(info fs.FileInfo) bool {
	return info != nil && id != Identity{} && Identify(info) == id
}
