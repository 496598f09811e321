package courier

import "time"

// EnqueueOptions are the settings of a new execution of a job. The zero value is the
// default.
type EnqueueOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Priority       int16          // higher is claimed first
	Delay          time.Duration  // until it is due
	IdempotencyKey string         // unique in its scope; a used one returns the execution that used it
	// KeyScope says among what the idempotency key is unique: among all executions, of any
	// jobs, whose keys have the same scope. Empty means the job alone. All jobs of a store are
	// a scope with a name that all of them give. A key that another job has used in the scope
	// is a conflict, unless KeyAlone is true. Without a key it has no effect.
	KeyScope string
	// KeyAlone lets the idempotency key alone say that two requests are the same: a used key
	// returns the execution that used it, whatever its parameters, and its job if there is a
	// KeyScope. False means that other parameters are a conflict. Without a key it has no effect.
	KeyAlone bool
	// LimitKeys are in addition to the job's; these alone may begin with the prefix of
	// users, "user:". An execution has at most 16, of at most 1,000 bytes each and 2 KiB
	// together.
	LimitKeys []string
	Hold      bool           // creates it in the state created, until somebody releases it
	Version   int            // of the job; 0 means the latest
	Timeout   *time.Duration // of the whole execution, in place of the job's; nil means that, 0 none
	// Expires is the time, from now, in which the execution has to begin; 0 means any. If no
	// worker has claimed it by then, it fails for the reason expired, also if it is held,
	// paused or waits for other jobs. It can be resumed then.
	Expires time.Duration
	// Labels are names and values by which people find the execution: at most 16 besides
	// [LabelBy]. A name begins with a small letter, and has up to 63 small letters, digits,
	// "_" and "-"; it is not "file". A value has 1 to 200 characters.
	Labels map[string]string
	// MaxRetries replaces the number of retries of all failure policies of the job that
	// repeat; nil leaves them, and 0 allows none.
	MaxRetries *int
	// Trace is the trace context in which the execution is enqueued, in the form of the
	// header traceparent (W3C Trace Context). Empty means that of the engine's Options.Trace.
	Trace string
	By    By // who requests it; the actor alone is stored
}

// LabelBy is the label that packages httpapi and dashboard set to the ID of the principal
// who has started an execution, and by which they find what is a client's own. A rerun has
// it only from its options: it is of who has asked for it. It does not count among the
// labels that an execution may have.
const LabelBy = "by"
