package store

import (
	"context"
	"time"
)

// Figures stores hourly figures of the executions. It is an optional role of a [Store]; an engine
// finds it by a type assertion.
//
// An hour, or a part of it, is counted anew from the history each time, and the result replaces the
// former figures. No position in the history is stored: the history is not in the order in which
// transactions commit, so an entry that is committed late would be lost. It does no harm if two
// engines count at once, if one repeats the work of another, or if a clock jumps. A figure never
// decreases: executions that retention has removed since stay counted. Executions that retention
// removes before they were counted are not in the figures, such as those that a retention by number
// removes within a minute of their end.
type Figures interface {
	// CountHours counts the changes since its last call, within the last [KeptHours], the latest
	// hour first, at most [MaxCountedHours] hours. Since changes may be committed late, it counts
	// at least the two minutes before that call again. It removes older hours. Hours are in UTC by
	// the store's clock. It does nothing if it has counted within age, so that one of several
	// engines that call it counts. It samples only the present hour.
	CountHours(ctx context.Context, age time.Duration) error
	// Hours returns the figures of the given number of hours, up to and including the
	// present one, the oldest first; 0 means 24, the most is [KeptHours]. Hours that were
	// not counted are left out. The cost does not depend on the number of executions.
	Hours(ctx context.Context, most int) ([]HourFigures, error)
}

// Bounds of [Figures].
const (
	DefaultHours    = 24
	KeptHours       = 15 * 24
	MaxCountedHours = 26
)

// HourFigures are the figures of the executions in one hour.
type HourFigures struct {
	Hour      time.Time `json:"hour"`       // when it begins
	CountedAt time.Time `json:"counted_at"` // the figures cover the time before it; by the store's clock
	// Completed and Failed count how often executions of jobs became completed and failed. An
	// execution that fails, is resumed and completes counts in both.
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	// FilesIn count the files that completed steps have received from connections, and FilesOut those
	// that they have sent to connections; BytesIn and BytesOut have their sizes. Files that were
	// removed are in neither.
	FilesIn  int64 `json:"files_in"`
	BytesIn  int64 `json:"bytes_in"`
	FilesOut int64 `json:"files_out"`
	BytesOut int64 `json:"bytes_out"`
	// FailedItems count the items of loops that have failed while their loops went on, and
	// RescuedItems the items of loops and the blocks of flow.try whose rescue has begun.
	FailedItems  int64 `json:"failed_items"`
	RescuedItems int64 `json:"rescued_items"`
	// Running and Queued are the highest numbers of executions that were running, and that were
	// queued and waited for no other job, among the samples of the hour. Each call of CountHours
	// takes one sample, of at most [DefaultCountLimit].
	Running int64 `json:"running"`
	Queued  int64 `json:"queued"`
}
