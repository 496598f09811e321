package courier

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Failure is the stored form of a [StepError].
type Failure struct {
	Step      int    `json:"step"` // index, or -1 when no step is to blame
	ID        string `json:"id,omitempty"`
	Type      string `json:"type,omitempty"`
	Iteration []int  `json:"iteration,omitempty"`
	// ItemLabels name the items of the loops around the step, outermost first.
	ItemLabels []string `json:"item_labels,omitempty"`
	Attempt    int      `json:"attempt,omitempty"`
	Reason     Reason   `json:"reason"`
	Message    string   `json:"message"`
	// Connection is the connection that the error names, or otherwise the one of the step; empty
	// if there is none.
	Connection string `json:"connection,omitempty"`
}

// A Reason is the class of a failure, as failure policies, records, events and
// filters name it.
type Reason string

// The reasons that the engine gives.
const (
	ReasonError        Reason = "error"             // the step returned an error of no other class
	ReasonTimeout      Reason = "timeout"           // the attempt took longer than its timeout
	ReasonStalled      Reason = "stalled"           // no progress for the stall timeout
	ReasonPanic        Reason = "panic"             // the step panicked or called runtime.Goexit
	ReasonCrashed      Reason = "crashed"           // the process of an isolated step ended, or had to be ended
	ReasonConfig       Reason = "config"            // the configuration could not be resolved or decoded
	ReasonExecution    Reason = "execution_timeout" // the whole execution took too long
	ReasonWorkerLost   Reason = "worker_lost"       // three workers in a row were lost in the same step
	ReasonFiles        Reason = "missing_files"     // files that a resume needs are gone
	ReasonDefinition   Reason = "definition"        // the job's stored definition cannot be run
	ReasonCancelled    Reason = "cancelled"         // the execution was cancelled during the attempt
	ReasonOperator     Reason = "operator"          // an operator skipped the step
	ReasonWithoutFiles Reason = "without_files"     // an operator resumed the execution without its files
	ReasonItems        Reason = "items_failed"      // items of a loop failed; everything else has run
	ReasonRescued      Reason = "items_rescued"     // items or blocks were rescued, and the job is set to fail after that
	ReasonExpired      Reason = "expired"           // the execution did not begin in time; see EnqueueOptions.Expires
	ReasonStore        Reason = "store"             // the store refused to save the result of the attempt, or took it only after a long time
)

// The reasons of [EventJobOverdue].
const (
	ReasonMaxDuration Reason = "max_duration" // Job.MaxDuration has passed
	ReasonExpectedBy  Reason = "expected_by"  // it is later than Job.ExpectedBy
)

// The reasons that steps set with [WithClass], and that [ClassOf] returns.
const (
	ReasonConnection Reason = "connection" // a server can't be reached, breaks off, or can't serve now
	ReasonLogin      Reason = "login"      // the server refused the credentials, or the client refused those of the server
	ReasonNotFound   Reason = "not_found"  // a file, directory, key or page isn't there
	ReasonExists     Reason = "exists"     // something is in the way, and may not be replaced
	ReasonPermission Reason = "permission" // access is denied
	ReasonQuota      Reason = "quota"      // a server's space or number of requests is used up
	ReasonSpace      Reason = "space"      // a disk of this machine is full
	ReasonIntegrity  Reason = "integrity"  // content is damaged, or not what it should be: a checksum, a signature, an archive
	ReasonInvalid    Reason = "invalid"    // content or a name can't be used, or passes a limit
	ReasonSecret     Reason = "secret"     // a secret is not available
)

// classes lists the error classes in the order in which messages name them.
var classes = []Reason{
	ReasonConnection, ReasonLogin, ReasonTimeout, ReasonStalled, ReasonNotFound, ReasonExists, ReasonPermission,
	ReasonQuota, ReasonSpace, ReasonIntegrity, ReasonInvalid, ReasonSecret, ReasonConfig, ReasonPanic, ReasonCrashed, ReasonError,
}

// ErrorClasses returns the reasons for which an attempt of a step can fail, which
// are those that a failure policy may name.
func ErrorClasses() []Reason { return slices.Clone(classes) }

// WithClass marks err as a failure of a class, which becomes the reason of the
// attempt that returns it. The class is one of [ErrorClasses]; any other counts as
// [ReasonError]. The text of err stays as it is. If err has several marks, the
// outermost counts. WithClass(nil, class) is nil.
func WithClass(err error, class Reason) error {
	if !slices.Contains(classes, class) {
		class = ReasonError
	}
	return failure.WithClass(err, string(class))
}

// ClassOf returns the class of an error: that of [WithClass], or one that follows
// from the errors of the standard library that err wraps. These are: [fs.ErrNotExist]
// not_found, [fs.ErrExist] exists, [fs.ErrPermission] permission, [syscall.ENOSPC] space,
// a [net.Error] or an ended connection connection, [context.DeadlineExceeded] timeout,
// and a [ConfigError] config. The class of all others, and of nil, is ReasonError.
func ClassOf(err error) Reason {
	if _, ok := errors.AsType[*ConfigError](err); ok {
		return ReasonConfig
	}
	if class := failure.Class(err); class != "" {
		return Reason(class)
	}
	return ReasonError
}

// Permanent marks err as one that a repetition would not cure: no failure policy
// retries it. Permanent(nil) is nil.
func Permanent(err error) error { return failure.Permanent(err) }

// IsPermanent reports whether err or an error it wraps was marked by
// [Permanent].
func IsPermanent(err error) bool { return failure.IsPermanent(err) }

// A Policy says what happens to an execution when a step fails.
type Policy string

// The failure policies.
const (
	Stop            Policy = "stop"              // the execution fails
	RetryStep       Policy = "retry_step"        // the step is repeated, then the execution fails
	RetryJob        Policy = "retry_job"         // the execution starts again at step 0, then fails
	SkipAndContinue Policy = "skip_and_continue" // the step is skipped
)

// policies lists the policies in the order in which messages name them.
var policies = []Policy{Stop, RetryStep, RetryJob, SkipAndContinue}

// A FailurePolicy is a [Policy] with its settings. Nil numbers mean the defaults. In JSON
// it is an object, or only the policy's name.
//
// RetryOn and NoRetryOn select by [Reason] the failures that are retried: those of
// RetryOn, or all if it is empty, without those of NoRetryOn. A failure that is marked by
// [Permanent] is never retried. A failure that is not retried fails the execution. Both
// fields are for retry_step and retry_job, and take the reasons of [ErrorClasses].
type FailurePolicy struct {
	Type        Policy         // empty means stop
	MaxRetries  *int           // max_retries: attempts after the first; default 3
	BackoffBase *time.Duration // backoff_base_seconds: before the first retry; default 1 s
	BackoffMax  *time.Duration // backoff_max_seconds: the longest time between two attempts; default 60 s
	// Jitter says how each delay is randomized, so that executions that failed together do
	// not retry together. Empty means [JitterHalf]. In JSON it is jitter, where false means
	// none and true means half.
	Jitter    Jitter
	RetryOn   []Reason // retry_on
	NoRetryOn []Reason // no_retry_on
}

// A Jitter says how the delay before a retry is randomized; see [FailurePolicy.Backoff].
type Jitter string

// The forms of jitter.
const (
	JitterHalf  Jitter = "half"  // between half of the backoff and the whole of it
	JitterFull  Jitter = "full"  // between 0 and the backoff
	JitterAdded Jitter = "added" // up to BackoffBase more than the backoff, and at most BackoffMax
	JitterNone  Jitter = "none"  // the backoff
)

// jitters lists them in the order in which messages name them.
var jitters = []Jitter{JitterHalf, JitterFull, JitterAdded, JitterNone}

// UnmarshalJSON reads the name of a form, or true or false. Null is the default.
func (j *Jitter) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		*j = JitterHalf
	case "false":
		*j = JitterNone
	case "null":
		*j = ""
	default:
		if err := json.Unmarshal(data, (*string)(j)); err != nil {
			return errors.New("must be true, false or the name of a form of jitter")
		}
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (j Jitter) MarshalJSON() ([]byte, error) {
	switch j {
	case JitterHalf:
		return []byte("true"), nil
	case JitterNone:
		return []byte("false"), nil
	}
	return json.Marshal(string(j))
}

// IsZero reports whether p is the zero policy: stop for a job, and the job's policy
// for a step.
func (p FailurePolicy) IsZero() bool {
	return p.Type == "" && p.MaxRetries == nil && p.BackoffBase == nil && p.BackoffMax == nil && p.Jitter == "" &&
		len(p.RetryOn) == 0 && len(p.NoRetryOn) == 0
}

// Retries returns how many attempts may follow the first.
func (p FailurePolicy) Retries() int {
	switch {
	case p.Type != RetryStep && p.Type != RetryJob:
		return 0
	case p.MaxRetries == nil:
		return 3
	}
	return max(0, *p.MaxRetries)
}

// Repeats reports whether p retries an attempt that failed with err, for the given
// reason. It does not count attempts.
func (p FailurePolicy) Repeats(reason Reason, err error) bool {
	return p.Retries() > 0 && !IsPermanent(err) && !slices.Contains(p.NoRetryOn, reason) &&
		(len(p.RetryOn) == 0 || slices.Contains(p.RetryOn, reason))
}

// Backoff returns the delay before retry number n, counting from 0, without jitter:
// min(BackoffBase * 2^n, BackoffMax), for any n.
func (p FailurePolicy) Backoff(n int) time.Duration {
	base, most := p.bounds()
	for ; n > 0 && base > 0 && base < most; n-- {
		if base > math.MaxInt64/2 {
			return most
		}
		base *= 2
	}
	return min(base, most)
}

// BackoffRange returns the shortest and the longest delay before retry number n, counting
// from 0. The delay is chosen at random between them, as Jitter says.
func (p FailurePolicy) BackoffRange(n int) (least, most time.Duration) {
	d := p.Backoff(n)
	switch p.Jitter {
	case JitterNone:
		return d, d
	case JitterFull:
		return 0, d
	case JitterAdded:
		base, most := p.bounds()
		if base >= most-d {
			return d, most
		}
		return d, d + base
	}
	return d - d/2, d
}

// bounds are BackoffBase and BackoffMax, or their defaults.
func (p FailurePolicy) bounds() (base, most time.Duration) {
	base, most = time.Second, time.Minute
	if p.BackoffBase != nil {
		base = max(0, *p.BackoffBase)
	}
	if p.BackoffMax != nil {
		most = max(0, *p.BackoffMax)
	}
	return base, most
}

// UnmarshalJSON reads a policy's name, or an object with its settings. Null means the
// default.
func (p *FailurePolicy) UnmarshalJSON(data []byte) error {
	var n FailurePolicy
	if string(data) == "null" {
		*p = n
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &n.Type); err != nil {
			return err
		}
	} else if err := strictjson.ReadObject(strictjson.NewDecoder(data), strictjson.Fields{
		"type":                 strictjson.Into(&n.Type),
		"max_retries":          strictjson.Into(&n.MaxRetries),
		"backoff_base_seconds": strictjson.IntoSeconds(&n.BackoffBase),
		"backoff_max_seconds":  strictjson.IntoSeconds(&n.BackoffMax),
		"jitter":               strictjson.Into(&n.Jitter),
		"retry_on":             strictjson.Into(&n.RetryOn),
		"no_retry_on":          strictjson.Into(&n.NoRetryOn),
	}); err != nil {
		return err
	}
	if err := n.check(); err != nil {
		return err
	}
	*p = n
	return nil
}

// MarshalJSON writes only the name if all settings have their defaults.
func (p FailurePolicy) MarshalJSON() ([]byte, error) {
	name := p.Type
	p.Type = ""
	if name == "" {
		name = Stop
	}
	if p.IsZero() {
		return json.Marshal(name)
	}
	return json.Marshal(struct {
		Type       Policy              `json:"type"`
		MaxRetries *int                `json:"max_retries,omitempty"`
		Base       *strictjson.Seconds `json:"backoff_base_seconds,omitempty"`
		Max        *strictjson.Seconds `json:"backoff_max_seconds,omitempty"`
		Jitter     Jitter              `json:"jitter,omitempty"`
		RetryOn    []Reason            `json:"retry_on,omitempty"`
		NoRetryOn  []Reason            `json:"no_retry_on,omitempty"`
	}{name, p.MaxRetries, (*strictjson.Seconds)(p.BackoffBase), (*strictjson.Seconds)(p.BackoffMax), p.Jitter, p.RetryOn, p.NoRetryOn})
}

func (p FailurePolicy) check() error {
	switch {
	case p.Type != "" && !slices.Contains(policies, p.Type):
		return policyError("type", "unknown policy %q; %s", errtext.Shorten(string(p.Type), 60), nearest.DidYouMean(string(p.Type), policies))
	case p.Jitter != "" && !slices.Contains(jitters, p.Jitter):
		return policyError("jitter", "unknown form %q; %s", errtext.Shorten(string(p.Jitter), 60), nearest.DidYouMean(string(p.Jitter), jitters))
	case p.MaxRetries != nil && *p.MaxRetries < 0:
		return policyError("max_retries", "%d is negative", *p.MaxRetries)
	case p.BackoffBase != nil && *p.BackoffBase < 0:
		return policyError("backoff_base_seconds", "%v is negative", *p.BackoffBase)
	case p.BackoffMax != nil && *p.BackoffMax < 0:
		return policyError("backoff_max_seconds", "%v is negative", *p.BackoffMax)
	}
	for field, list := range map[string][]Reason{"retry_on": p.RetryOn, "no_retry_on": p.NoRetryOn} {
		for _, class := range list {
			if !slices.Contains(classes, class) {
				return policyError(field, "unknown error class %q; %s", errtext.Shorten(string(class), 60), nearest.DidYouMean(string(class), classes))
			}
		}
	}
	return nil
}

func policyError(field, format string, args ...any) error {
	return &strictjson.FieldError{Key: field, Label: field, Err: fmt.Errorf(format, args...)}
}

// Repairs are the changes that operators have made to an execution while no worker ran
// it. The engine applies them to the records that it reads; the records are never
// rewritten.
type Repairs struct {
	Versions []VersionChange `json:"versions,omitempty"` // in order
	Values   []ValueChange   `json:"values,omitempty"`   // in order; the last change of a value counts
	Passes   []RepairPass    `json:"passes,omitempty"`   // in order; of the present attempt of the execution
}

// A VersionChange says that an execution continued with another version of its job.
type VersionChange struct {
	Seq  int64 `json:"seq"` // the records up to this one are of version From
	From int   `json:"from"`
	To   int   `json:"to"`
	// Steps has, for each step of version From by index, its index in version To, or
	// -1 if it is not there. Nil means that no index has changed.
	Steps []int `json:"steps,omitempty"`
}

// A ValueChange is a value that an operator has set. It replaces the value in records up
// to Seq. If the step runs again later, its own outputs count.
type ValueChange struct {
	Seq       int64           `json:"seq"`
	Step      int             `json:"step"` // in the present version; -1 for a parameter
	Iteration []int           `json:"iteration,omitempty"`
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
}

// A RepairPass is a resume that executes failed items again, or goes back to an earlier
// step. Failures of the items that it covers no longer count if they were recorded up to
// Seq.
type RepairPass struct {
	Seq int64 `json:"seq"`
	// Items are the failed items that are executed again, and Rescued the rescued items. No
	// items and a nil From mean all failed items.
	Items   []ItemPath `json:"items,omitempty"`
	Rescued []ItemPath `json:"rescued,omitempty"`
	// Rescue are the failed items whose rescue is executed.
	Rescue []ItemPath `json:"rescue,omitempty"`
	// Accepted says that an operator has accepted the Items, and Skipped that an operator has
	// left them out. They no longer count as failed, and nothing is executed again.
	Accepted bool `json:"accepted,omitempty"`
	Skipped  bool `json:"skipped,omitempty"`
	// From is where the execution went back to: failures at or after that position
	// are covered. Nil for a repair of items.
	From *Position `json:"from,omitempty"`
	// Then is where the execution goes on after the items.
	Then Position `json:"then"`
	// FilesLost is the number of the last audit entry before the execution continued
	// without its workspace. Files in the workspace that are reported in records up to
	// that number are gone. 0 means that the workspace was kept.
	FilesLost int64 `json:"files_lost,omitempty"`
	// Restart are the loops whose failed items are executed again from their first step,
	// because one of their steps needs a file that is gone.
	Restart []LoopRestart `json:"restart,omitempty"`
}

// Settles reports whether the pass only marks failed items as settled and executes nothing.
func (p *RepairPass) Settles() bool { return p.Accepted || p.Skipped }

// A LoopRestart is a loop of a [RepairPass]. Its items that failed up to the audit entry
// number UpTo are executed again from their first step.
type LoopRestart struct {
	Loop int   `json:"loop"` // the index of its flow.foreach
	UpTo int64 `json:"up_to"`
}

// An ItemPath names an item of a loop.
type ItemPath struct {
	Loop      int   `json:"loop"`      // index of the flow.foreach
	Iteration []int `json:"iteration"` // of each loop around the item, the loop itself last
}

// Err returns nil for an execution that did not fail, ErrCancelled for a
// cancelled one, and a *[StepError] for a failed one.
func (e *Execution) Err() error {
	switch {
	case e.State == Cancelled:
		return ErrCancelled
	case e.State == Failed && e.Failure != nil:
		return e.Failure.stepError(e)
	case e.State == Failed:
		return (&Failure{Message: "no reason was recorded"}).stepError(e)
	}
	return nil
}

// OnlyCopies are the files in the workspace of an execution that may exist nowhere else:
// a step has removed their source, or what they were made of. The zero value says that
// there are none.
type OnlyCopies struct {
	// Files lists some of the files, with path and size: at most 100, with paths of at most
	// 16 KiB together.
	Files []File `json:"files,omitempty"`
	Count int    `json:"count,omitempty"` // of all
	Bytes int64  `json:"bytes,omitempty"` // of all
	// Problem says why the files, or some of them, are not known; empty if all are known.
	Problem string `json:"problem,omitempty"`
}

// Any reports whether there are files, or may be.
func (c *OnlyCopies) Any() bool { return c.Count > 0 || c.Problem != "" }

// HoldsOnlyCopies reports whether the workspace of an execution holds files that may exist
// nowhere else. It is also true if that is not known: the execution has a workspace, and a
// worker has it or was lost. A completed execution holds none unless OnlyCopies lists some.
// No other execution can deliver such files.
func (e *Execution) HoldsOnlyCopies() bool {
	if e.OnlyCopies != nil {
		return e.OnlyCopies.Any()
	}
	return e.Workspace != "" && e.State != Completed
}
