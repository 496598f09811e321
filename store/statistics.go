package store

import (
	"context"
	"time"
)

// Statistics provides figures for metrics that are not in [Overview]. It is an optional
// role of a [Store]; an engine finds it by a type assertion.
type Statistics interface {
	// Stats returns the figures. The cost does not depend on the number of executions,
	// since no count exceeds most, as in [Overview].Census; 0 means [DefaultCountLimit].
	Stats(ctx context.Context, most int) (Stats, error)
}

// Stats are figures of a store at an instant.
type Stats struct {
	At time.Time `json:"at"` // by the clock of the store
	// ScheduleDue and MonitorDue are the earliest instants at which a schedule and a
	// monitor that no engine has leased became due; zero if none is due.
	ScheduleDue time.Time `json:"schedule_due,omitzero"`
	MonitorDue  time.Time `json:"monitor_due,omitzero"`
	// MonitorsDegraded and MonitorsFailed count the monitors in these states.
	MonitorsDegraded int `json:"monitors_degraded"`
	MonitorsFailed   int `json:"monitors_failed"`
	// DeliveriesPending counts the deliveries that are still to be made, without those that a
	// window holds back; DeliveriesFailed counts those that failed for good. DeliveryDue is the
	// earliest instant at which a pending delivery became due; zero if none is due.
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
