package courier

import "time"

// EnqueueOptions are the settings of a new execution of a job. The zero value is the
// default.
type EnqueueOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Priority       int16          // higher is claimed first
	Delay          time.Duration  // from now until it is due; 0 means at once
	IdempotencyKey string         // unique in its scope; a used one returns the execution that used it
	// KeyScope is the scope in which the idempotency key is unique: no other execution of any
	// job has the same key in the same scope. Empty means the job alone. For a key that is
	// unique in the whole store, give all jobs the same scope. A key that another job has used
	// in the scope is a conflict, unless KeyAlone is true. Without a key it has no effect.
	KeyScope string
	// KeyAlone compares the idempotency key alone: a used key returns the execution that used it,
	// even if the parameters differ, or, with a KeyScope, the job. False means that different
	// parameters are a conflict. Without a key it has no effect.
	KeyAlone bool
	// LimitKeys are added to those of the job. Only these may begin with the users'
	// prefix, "user:". An execution has at most 16, of at most 1,000 bytes each and 2
	// KiB together.
	LimitKeys []string
	Hold      bool           // leaves it in the state created until somebody releases it
	Version   int            // of the job; 0 means the latest
	Timeout   *time.Duration // of the whole execution, in place of the job's; nil means the job's, 0 none
	// Expires is the time, from now, within which the execution must begin; 0 means no
	// limit. If no worker has claimed it by then, it fails with the reason expired, even if
	// it is held, paused or waits for other jobs. It can be resumed afterwards.
	Expires time.Duration
	// Labels are names and values by which people find the execution: at most 16 besides
	// [LabelBy]. A name begins with a small letter, and has up to 63 small letters, digits,
	// "_" and "-"; it is not "file". A value has 1 to 200 characters.
	Labels map[string]string
	// MaxRetries replaces the number of retries in all retry policies of the job; nil
	// leaves them, and 0 allows none.
	MaxRetries *int
	// Trace is the trace context in which the execution is enqueued, in the form of the
	// header traceparent (W3C Trace Context). Empty means the one that the engine's
	// Options.Trace returns.
	Trace string
	By    By // who requests it; only the actor is stored
}

// LabelBy is the label that packages httpapi and dashboard set to the ID of the principal
// who starts an execution. They find a client's own executions by it. A rerun does not
// copy it from the original execution: it names the principal who asked for the rerun. It
// does not count towards the number of labels that an execution may have.
const LabelBy = "by"
