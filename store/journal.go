package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
)

// Journal records who changed what: schedules, monitors, subscriptions, limits, and whatever else a
// host wants to record. Changes of executions are in their audit. It is an optional role of a
// [Store]; an engine finds it by a type assertion. Entries are only added: no method changes or
// removes one.
type Journal interface {
	// Note adds an entry and returns it with its ID and At.
	Note(ctx context.Context, a Action) (Action, error)
	// Actions returns a page of entries, the newest first.
	Actions(ctx context.Context, f ActionFilter) ([]Action, error)
}

// An Action is an entry of the journal. Only Verb and Kind must be given.
type Action struct {
	ID   int64     `json:"id"` // assigned by Note; later entries have higher ones
	At   time.Time `json:"at"` // by the clock of the store
	By   string    `json:"by,omitempty"`
	Via  string    `json:"via,omitempty"` // the interface that was used, such as "go", "api" or "page"
	Verb string    `json:"verb"`          // such as "set", "removed", "disabled"
	Kind string    `json:"kind"`          // of the thing that was changed, such as "schedule" or "limit"
	Name string    `json:"name,omitempty"`
	Job  string    `json:"job,omitempty"` // the job to which that thing belongs, if any
	// Was and Now are the definition or the number before and after, as JSON; nil if not
	// given.
	Was json.RawMessage `json:"was,omitempty"`
	Now json.RawMessage `json:"now,omitempty"`
	// Execution is the execution or chain execution that was changed, if any.
	Execution courier.ExecutionID `json:"execution_id,omitempty"`
	Reason    string              `json:"reason,omitempty"`  // why the action was requested
	Outcome   string              `json:"outcome,omitempty"` // such as "asked", "done", "refused" or "failed"
	// Of is the ID of the entry that recorded the request for this action; 0 if there is
	// none.
	Of int64 `json:"of,omitempty"`
}

// An ActionFilter selects entries of the journal. Zero fields select all.
type ActionFilter struct {
	Kind   string
	Name   string
	By     string
	Before int64 // those with a lower ID
	Acts   bool  // leaves out requests whose outcome has an entry, so that each action has one entry
	Limit  int   // 0 means 100, the most is 1000
}
