package store

import (
	"context"
	"strings"

	"github.com/courierhq/courier"
)

// Trail finds executions by the files that their steps have reported, by the items of loops
// in which they have failed, and by their labels. It is an optional role of a [Store]; an
// engine finds it by a type assertion.
//
// An entry is written in the same statement as what it refers to: one for each label
// when an execution is created, and one for each name of a file or an item when the record is
// written. Entries are removed with their execution.
type Trail interface {
	// Find returns a page of entries. They are in falling order of Value, then Execution,
	// then Seq, so that the entries of one value come newest first.
	Find(ctx context.Context, f TrailFilter) ([]TrailEntry, error)
	// Reports returns the records that entries of files refer to, in the order of the
	// entries, at most 1000, with their versions as by [SetVersions]. Records that were
	// removed since the entry was read are left out. Fields that only
	// [StepFilter].Details fills are empty.
	Reports(ctx context.Context, entries []TrailEntry) ([]courier.StepExecution, error)
}

// TrailFile is the key of entries for files and items: the ItemLabels of a record count as
// names of files. No label can have this key.
const TrailFile = "file"

// MaxTrailItems is how many records of an execution with a FailedLoop or a Rescue have trail
// entries for their items: the first ones. Later records have trail entries for their files only.
const MaxTrailItems = 1000

// MaxTrailWalk is how many of the newest file entries a search for a part of a name
// examines.
const MaxTrailWalk = 100_000

// A TrailFilter selects entries of one key.
type TrailFilter struct {
	Key string // [TrailFile], or the name of a label
	// Value is the whole value; for files it is a name in the form of [TrailName].
	Value string
	// Prefix selects the values that begin with Value.
	Prefix bool
	// Part selects the values that contain Value, for files only. About the newest
	// [MaxTrailWalk] entries are examined; a store may leave out some of them. Before is
	// ignored.
	Part   bool
	Before *TrailEntry // those that come after this one in the order
	Limit  int         // 0 means 100, the most is 1000
}

// A TrailEntry says that an execution has a label, or that one of its records names a
// file or an item.
type TrailEntry struct {
	Value     string              `json:"value"`
	Execution courier.ExecutionID `json:"execution_id"`
	Seq       int64               `json:"seq,omitempty"` // of the record; 0 for a label
}

// TrailName returns the name under which the trail finds the file with a path: the part
// after the last slash, with the letters A to Z in lower case, cut to 200 characters. It
// returns "" for a path that ends with a slash.
func TrailName(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	n := 0
	for i := range name {
		if n++; n > 200 {
			name = name[:i]
			break
		}
	}
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
}
