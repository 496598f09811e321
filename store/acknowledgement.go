package store

import (
	"context"
	"time"
)

// Acknowledgements keeps what people have put out of sight for a time, of what needs somebody. It is
// an optional role of a [Store]; an engine finds it by a type assertion.
type Acknowledgements interface {
	// Acknowledge keeps a in the place of what was kept under its key, and returns it with At. It
	// removes those that ended more than [AcknowledgementsKept] ago. If [MaxAcknowledgements] others
	// hold, the error matches ErrConflict.
	Acknowledge(ctx context.Context, a Acknowledgement) (Acknowledgement, error)
	// Withdraw removes what is kept under a key. If there is nothing, the error is ErrNotFound.
	Withdraw(ctx context.Context, key string) error
	// Acknowledgements returns those that hold, and those that ended within the last
	// [AcknowledgementsKept], in byte order of their keys, at most twice [MaxAcknowledgements].
	Acknowledgements(ctx context.Context) ([]Acknowledgement, error)
}

// Bounds of [Acknowledgements].
const (
	MaxAcknowledgements  = 500
	AcknowledgementsKept = 7 * 24 * time.Hour
)

// An Acknowledgement says that somebody knows of a trouble, which is out of sight until an instant.
type Acknowledgement struct {
	Key    string    `json:"key"`   // of the trouble, such as "failed.0f3a"
	Title  string    `json:"title"` // what it was when it was acknowledged
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`    // by the clock of the store
	Until  time.Time `json:"until"` // it holds before this instant
	// Snoozed says that the trouble stays out of sight whatever is added to it. Otherwise it comes
	// back as soon as something of it is younger than At.
	Snoozed bool `json:"snoozed,omitempty"`
}
