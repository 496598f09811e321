package store

import (
	"context"
	"time"
)

// Acknowledgements stores which problems people have acknowledged, which hides them for a time. It
// is an optional role of a [Store]; an engine finds it by a type assertion.
type Acknowledgements interface {
	// Acknowledge saves a, replacing an acknowledgement with the same key, and returns it with At.
	// It removes acknowledgements that ended more than [AcknowledgementsKept] ago. If
	// [MaxAcknowledgements] others hold, the error matches ErrConflict.
	Acknowledge(ctx context.Context, a Acknowledgement) (Acknowledgement, error)
	// Withdraw removes the acknowledgement with a key. If there is none, the error is
	// ErrNotFound.
	Withdraw(ctx context.Context, key string) error
	// Acknowledgements returns the acknowledgements that hold, and those that ended within the
	// last [AcknowledgementsKept], in byte order of their keys, at most twice
	// [MaxAcknowledgements].
	Acknowledgements(ctx context.Context) ([]Acknowledgement, error)
}

// Bounds of [Acknowledgements].
const (
	MaxAcknowledgements  = 500
	AcknowledgementsKept = 7 * 24 * time.Hour
)

// An Acknowledgement says that somebody is aware of a problem. It hides the problem until an
// instant.
type Acknowledgement struct {
	Key    string    `json:"key"`   // of the problem, such as "failed.0f3a"
	Title  string    `json:"title"` // the problem's title when it was acknowledged
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`    // by the clock of the store
	Until  time.Time `json:"until"` // it holds before this instant
	// Snoozed says that the problem stays hidden whatever is added to it. Otherwise it is shown
	// again as soon as a part of it is younger than At.
	Snoozed bool `json:"snoozed,omitempty"`
}
