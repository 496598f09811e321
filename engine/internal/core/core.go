// Package core is what the engine and its rooms share: the interface through
// which a room reaches the engine, and the rules for text, secrets and loops
// that hold in all of them.
//
// A room is a package below engine/internal that does one thing beside the
// execution of jobs, such as package notifications. It knows [Core] and not the
// engine; the engine knows the room.
package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Core is what rooms need of the engine. All methods may be called by any number
// of goroutines, and Catalog and Log at any time after the engine was made.
type Core interface {
	// Catalog returns the part of the engine's store that keeps definitions.
	Catalog() store.Catalog
	// Log returns the engine's log, which is never nil.
	Log() *slog.Logger
	// Changed writes to the log what has changed besides executions, who has changed
	// it, and why.
	Changed(kind, name, change string, by courier.By, more ...slog.Attr)
	Roles
	Secrets
	Jobs
}

// Roles are those that not every store has. The error of one that the store lacks
// says so and matches [errors.ErrUnsupported].
type Roles interface {
	// Outbox keeps events for subscribers; its error matches [courier.ErrInvalid] too.
	Outbox() (store.Outbox, error)
	// Monitors keeps monitors and what they have seen.
	Monitors() (store.Monitors, error)
}

// Secrets resolves secrets.
type Secrets interface {
	// HasSecrets reports whether this engine can resolve any.
	HasSecrets() bool
	// Secret returns a secret, which known remembers.
	Secret(ctx context.Context, r courier.SecretRequest, known *Redactor) (string, error)
}

// Jobs reads jobs and starts them.
type Jobs interface {
	// Job returns a version of a job; version 0 means the latest.
	Job(ctx context.Context, name string, version int) (courier.Job, error)
	// Start creates an execution of the latest version of a job. One that was created
	// with the same key is no error, unless it has other parameters, which is
	// [courier.ErrConflict].
	Start(ctx context.Context, job string, s Start) error
	// Target returns the latest version of a job, or of a chain if job is empty, to
	// start it together with a record of the store. The error of one that isn't there
	// is [courier.ErrNotFound].
	Target(ctx context.Context, job, chain string) (Target, error)
}

// A Target is a job or a chain, in the version that was the latest at one moment.
type Target interface {
	// Params are the parameters that the target declares; nil if it takes any.
	Params() map[string]any
	// Job returns the name and the version of a job; the name is empty for a chain.
	Job() (name string, version int)
	// AddTo adds an execution of the target to a record, and returns its id.
	AddTo(r *store.MonitorRecord, s Start) (courier.ExecutionID, error)
}

// Start is what an execution is started with.
type Start struct {
	Params         map[string]any
	Priority       int16
	IdempotencyKey string
	By             courier.By
}

// A Life is how long the loops of a room go on: between the start and the stop of
// the engine.
type Life struct {
	Base context.Context // carries the values that Start was given, and does not end
	Ctx  context.Context // ends with the stop
	Stop <-chan struct{} // is closed when the stop begins
}

// StoreTimeout bounds the calls to the store that no lease bounds.
const StoreTimeout = 10 * time.Second

// Signal wakes whoever receives from c, unless that is about to wake up anyway.
// The channel has room for one.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Taken reports whether something was there to be received, which it no longer is.
func Taken[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
