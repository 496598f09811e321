package store

import (
	"context"
	"time"

	"github.com/courierhq/courier"
)

// Overview answers operators' questions about the executions as a whole, and about one
// that makes no progress. It is an optional role of a [Store]; an engine finds it by a
// type assertion.
type Overview interface {
	// Census counts executions that have not ended, and failed ones. No count goes
	// beyond most, and that of a queue not beyond [QueueCountLimit]: a count that equals its cap
	// means that many or more. So the cost does not depend on how many executions there
	// are. Completed and cancelled ones are not counted. A most of 0 means [DefaultCountLimit];
	// the highest is [MaxCountLimit].
	Census(ctx context.Context, most int) (Census, error)
	// Circumstances returns the facts that decide whether an execution makes progress,
	// read in one snapshot. It changes nothing. Age says which workers are present, as
	// for [Workers.Workers]. If there is no such execution, the error is ErrNotFound.
	Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (Circumstances, error)
	// Incidents returns executions that may need attention, at most the given number of each
	// kind: the latest failed ones, and of the other kinds those that have been in that condition
	// for longest. Only the oldest [MaxCountLimit] running executions are examined. Overdue ones
	// are found only in a store with the role [Deadlines]. A most of 0 means [DefaultCountLimit];
	// the highest is [MaxCountLimit].
	Incidents(ctx context.Context, most int) (Incidents, error)
	// Transfers returns the newest attempts of some steps, over all their executions, in the
	// order of their ends, the latest first, and in falling order of Execution and Seq if they
	// ended at the same instant. Of each step at most as many are read as it returns, by an index.
	Transfers(ctx context.Context, f TransferFilter) ([]Transfer, error)
}

// Bounds of [Overview].
const (
	DefaultCountLimit = 1000
	MaxCountLimit     = 100000
	MaxQueues         = 1000 // queues of a census, in byte order of their names
)

// The cap of a queue in a census is a share of QueueCountShare times the cap of other counts,
// and at least MinQueueCountLimit, but never above the cap of other counts.
const (
	QueueCountShare    = 4
	MinQueueCountLimit = 10
)

// QueueCountLimit returns the cap of the count of each queue in a census with the cap most and
// the given number of queues.
func QueueCountLimit(most, queues int) int {
	return min(most, max(MinQueueCountLimit, QueueCountShare*most/max(queues, 1)))
}

// A Census has counts of executions at an instant. No count is higher than CountLimit.
type Census struct {
	At         time.Time     `json:"at"`
	CountLimit int           `json:"count_limit"`
	Queues     []QueueCensus `json:"queues"` // those with queued executions, by name
	// QueueCountLimit is the cap of the counts of Queues, as the function [QueueCountLimit] returns
	// it. With up to four queues it is CountLimit.
	QueueCountLimit int `json:"queue_count_limit"`
	// Running counts the running executions, and Lost those of them whose leases have
	// ended. Jobs and Keys count the running executions by job and by limit key, in byte
	// order of the names.
	Running int          `json:"running"`
	Lost    int          `json:"lost"`
	Jobs    []NamedCount `json:"jobs"`
	Keys    []NamedCount `json:"keys"`
	Created int          `json:"created"` // held until they are released
	Waiting int          `json:"waiting"` // queued, held by dependencies of their jobs
	Paused  int          `json:"paused"`
	Failed  int          `json:"failed"`
}

// A QueueCensus counts the queued executions of one queue that no dependency holds.
type QueueCensus struct {
	Queue  string `json:"queue"`
	Queued int    `json:"queued"` // at most [Census].QueueCountLimit
	// Oldest is the execution that has been due for longest, Job its job, and DueAt when it became
	// due; all zero if none is due.
	Oldest courier.ExecutionID `json:"oldest,omitempty"`
	Job    string              `json:"job,omitempty"`
	DueAt  time.Time           `json:"due_at,omitzero"`
}

// A NamedCount is a number of executions with one job or limit key.
type NamedCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Circumstances are the facts that decide whether an execution makes progress, at one
// instant by the clock of the store.
type Circumstances struct {
	At        time.Time
	Execution courier.Execution
	// StepTypes are the step types that a worker needs for the execution.
	StepTypes []string
	// Limits are the limits in force for the execution: the global one, that of its job,
	// and those of its limit keys, in this order.
	Limits []LimitUse
	// Ahead is how many due executions of the queue come before this one in the order of
	// claims, at most [DefaultCountLimit]. It is 0 if the execution is not queued.
	Ahead int
	// Workers are the present workers, as [Workers.Workers] returns them. WorkersUnknown
	// says that the store does not record workers.
	Workers        []Worker
	WorkersUnknown bool
	// Entry is the last audit entry of a paused execution; zero for others.
	Entry courier.AuditEntry
	// ChainPaused says that the execution was paused by its chain execution and not by
	// a request to itself.
	ChainPaused bool
}

// A LimitUse is a limit that is in force, and how much of it is used.
type LimitUse struct {
	Scope   string // as for [LimitSetting]
	Limit   int    // more than 0
	Running int    // how many executions run under it, at most [DefaultCountLimit]
	// Job and Holder are the job and the id of the oldest execution that runs under the
	// limit; empty if none does.
	Job    string
	Holder courier.ExecutionID
}
