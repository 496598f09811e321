package store

import (
	"context"
	"time"
)

// Statistics has figures for metrics that [Overview] lacks. It is an optional role of a
// [Store]; an engine finds it by a type assertion.
type Statistics interface {
	// Stats returns the figures. What it costs does not depend on how many executions there
	// are, since counts stop at most, as in [Overview].Census; 0 means [DefaultCountLimit].
	Stats(ctx context.Context, most int) (Stats, error)
}

// Stats are figures of a store at an instant.
type Stats struct {
	At time.Time `json:"at"` // by the clock of the store
	// ScheduleDue and MonitorDue are since when the schedule and the monitor have been due
	// that have been due for longest, and that no engine has leased; zero if none is due.
	ScheduleDue time.Time `json:"schedule_due,omitzero"`
	MonitorDue  time.Time `json:"monitor_due,omitzero"`
	// MonitorsDegraded and MonitorsFailed count the monitors in these states.
	MonitorsDegraded int `json:"monitors_degraded"`
	MonitorsFailed   int `json:"monitors_failed"`
	// DeliveriesPending counts the deliveries that were not made yet, without those that a
	// window holds back; DeliveriesFailed those that failed for good. DeliveryDue is since when
	// the pending one has been due that has been due for longest; zero if none is due.
	DeliveriesPending int       `json:"deliveries_pending"`
	DeliveriesFailed  int       `json:"deliveries_failed"`
	DeliveryDue       time.Time `json:"delivery_due,omitzero"`
	// Database has figures of the database; nil for a store that has none.
	Database *DatabaseStats `json:"-"`
}

// DatabaseStats are figures of a store's database.
type DatabaseStats struct {
	// XminAge is the age of the transaction that keeps the database from removing dead rows,
	// and XminTransactions how many began since; 0 if there is none, or if it is not known.
	XminAge          time.Duration
	XminTransactions int64
	Tables           []TableStats // those of the store, by their names
	// ConnectionsUsed is how many connections of this process's pool are in use, of
	// ConnectionsMax.
	ConnectionsUsed, ConnectionsMax int
}

// TableStats are the rows of a table, as the database estimates them.
type TableStats struct {
	Name       string
	Live, Dead int64
}
