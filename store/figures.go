package store

import (
	"context"
	"time"
)

// Figures keeps figures by hour of what executions have done. It is an optional role of a
// [Store]; an engine finds it by a type assertion.
//
// An hour, or a part of it, is counted anew from the history each time, and the result replaces the
// former figures. There is no kept position in the history: it would have to be in the order
// in which transactions commit, which a history has not got, and an entry that is committed late
// would be lost. So it does no harm if two engines count at once, if one repeats what another
// has begun, or if a clock jumps. A figure never falls: what retention has removed since stays
// counted. What it removes before it was counted is not in the figures, such as executions that
// a retention by number removes within a minute of their end.
type Figures interface {
	// CountHours counts what has happened in the last [KeptHours] since it was last called, the
	// latest first, at most [MaxCountedHours], and again at least what happened two minutes before,
	// since changes are committed late. It removes older hours. Hours are those of the store's
	// clock, in UTC. It does nothing if it has counted within age: so of several engines that
	// call it again and again one counts. Of an hour that is over, nothing is sampled.
	CountHours(ctx context.Context, age time.Duration) error
	// Hours returns the present hour and those before it, so many in all, the oldest first;
	// 0 means 24, the most is [KeptHours]. Hours that were not counted are left out. What it
	// costs does not depend on how many executions there are.
	Hours(ctx context.Context, most int) ([]HourFigures, error)
}

// Bounds of [Figures].
const (
	DefaultHours    = 24
	KeptHours       = 15 * 24
	MaxCountedHours = 26
)

// HourFigures are what executions have done in an hour.
type HourFigures struct {
	Hour      time.Time `json:"hour"`       // when it begins
	CountedAt time.Time `json:"counted_at"` // it has what happened before; by the store's clock
	// Completed and Failed count how often executions of jobs became completed and failed. One that
	// fails, is resumed and completes counts in both.
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
	// Running and Queued are the most executions that were running, and that were queued and waited
	// for no other job, when the hour was counted: a sample for each call of CountHours, of at most
	// [DefaultCountLimit]. What happens between two samples is in neither.
	Running int64 `json:"running"`
	Queued  int64 `json:"queued"`
}
