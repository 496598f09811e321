package courier

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
)

// An EventType names a change in the life of an execution, or of a chain execution.
type EventType string

// The types of events. Each event of a job or step follows from an audit entry, except
// EventJobLost, EventJobOverdue, EventStepProgress and EventStep.
const (
	EventJobStarted    EventType = "JobStarted"
	EventJobCompleted  EventType = "JobCompleted"
	EventJobFailed     EventType = "JobFailed"
	EventJobPaused     EventType = "JobPaused"
	EventJobResumed    EventType = "JobResumed"
	EventJobCancelled  EventType = "JobCancelled"
	EventJobTakenOver  EventType = "JobTakenOver" // another worker has claimed it after its worker was lost
	EventJobLost       EventType = "JobLost"      // this engine has lost its lease; only observers get it
	EventJobOverdue    EventType = "JobOverdue"   // it has not ended within Job.MaxDuration, or by Job.ExpectedBy; it goes on
	EventStepStarted   EventType = "StepStarted"
	EventStepProgress  EventType = "StepProgress"
	EventStepCompleted EventType = "StepCompleted"
	EventStepFailed    EventType = "StepFailed"
	EventStepSkipped   EventType = "StepSkipped"
	EventStep          EventType = "StepEvent" // an event that a completed step has emitted; see Context.Emit

	// Of chains.
	EventChainStarted   EventType = "ChainStarted"   // the first members were released
	EventChainCompleted EventType = "ChainCompleted" // see ChainCompleted
	EventChainFailed    EventType = "ChainFailed"    // again, if it is retried and fails again

	// Of days of expectations, once each; see package expectation.
	EventFileDueSoon    EventType = "FileDueSoon"    // the window ends soon, and its files are not there
	EventFileArrived    EventType = "FileArrived"    // its files came in time
	EventFileIncomplete EventType = "FileIncomplete" // the window has ended with wrong files, too few or too many
	EventFileMissing    EventType = "FileMissing"    // the window has ended without a file
	EventFileLate       EventType = "FileLate"       // its files came, too late
	EventFileUnexpected EventType = "FileUnexpected" // a file that matches the pattern came, and belongs to no day
)

// OfExpectation reports whether the event is one of an expectation.
func (t EventType) OfExpectation() bool {
	switch t {
	case EventFileDueSoon, EventFileArrived, EventFileIncomplete, EventFileMissing, EventFileLate, EventFileUnexpected:
		return true
	}
	return false
}

// An Event reports a committed change, or the progress of a step, to an observer. Use
// events for live views and notifications; only the audit is complete.
type Event struct {
	Type      EventType
	At        time.Time // the observing process's clock
	Execution ExecutionID
	Job       string
	Version   int
	// ChainExecution is the chain execution of an event of a chain, or the one that the
	// execution of a member belongs to. Chain is the name of the chain, for events of
	// chains, which have no Execution and no Job.
	ChainExecution ChainExecutionID
	Chain          string
	// Expectation is the name of the expectation, for its events. These have no Execution and no
	// Job; Error says in a sentence what has happened. Payload is the arrival as JSON, or, for
	// an unexpected file, the file.
	Expectation string
	// The step of a step event, or the failed step of EventJobFailed; otherwise Step
	// is -1.
	Step      int
	ID        string
	StepType  string
	Iteration []int
	// ItemLabels name the items of the loops around the step, outermost first, if an item or
	// the execution has failed there; otherwise nil.
	ItemLabels []string
	Attempt    int
	Reason     Reason
	Error      string
	// FailedItems is how many items have failed and were not repaired, for
	// EventJobCompleted and EventJobFailed. Failed are the first 20 of them.
	FailedItems int
	Failed      []ItemFailure
	// FinallyError says why the finally part has failed, for EventJobCompleted,
	// EventJobFailed and EventJobCancelled; empty if it has not.
	FinallyError string
	Bytes        int64 // moved so far by the attempt
	By           string
	// Item is what a step is working on, with its bytes done and in total,
	// for EventStepProgress. ItemTotal is -1 if it is not known.
	Item      string
	ItemDone  int64
	ItemTotal int64
	// Name and Payload of the event, for EventStep.
	Name    string
	Payload json.RawMessage
}

// A StepEvent is an event that a step has emitted; see [Context.Emit].
type StepEvent struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload"` // compact JSON
}

// MaxStepEvents is the greatest number of events that one attempt of a step
// may emit.
const MaxStepEvents = 100

// Limits of an event that a step emits.
const (
	maxEventBytes = 16 << 10
	maxEventDepth = 100
)

var eventName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,49}$`)

// Emit adds an event of the execution. It is kept with the record of the attempt
// ([StepExecution].Events), in the transaction in which the step completes. Observers and
// subscriptions to [EventStep] receive it then. If the attempt fails, its events are dropped,
// as its outputs are; the next attempt may emit them again. Known secrets in the payload are
// replaced.
//
// The name has the form of a step's id. The payload is a value that JSON can represent, of at
// most 16 KiB and nested at most 100 levels deep. An attempt has at most [MaxStepEvents]
// events. An event that breaks one of these rules gives a permanent error.
func (c *Context) Emit(name string, payload any) error {
	if !eventName.MatchString(name) {
		return Permanent(fmt.Errorf(`emit %q: a name is a small letter, then small letters, digits, "_" and "-", at most 50 in all`, errtext.Shorten(name, 60)))
	}
	raw, err := jsontext.Append(nil, payload)
	if err != nil {
		return Permanent(fmt.Errorf("emit %q: %w", name, err))
	}
	if len(raw) > maxEventBytes {
		return Permanent(fmt.Errorf("emit %q: the payload has %d bytes, more than %d; put it into a file and emit its path", name, len(raw), maxEventBytes))
	}
	if jsontext.Depth(raw) > maxEventDepth {
		return Permanent(fmt.Errorf("emit %q: the payload is nested more than %d levels deep", name, maxEventDepth))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == MaxStepEvents {
		return Permanent(fmt.Errorf("emit %q: the attempt has %d events already, the most that it may have; emit one event for several items", name, MaxStepEvents))
	}
	c.events = append(c.events, StepEvent{name, raw})
	_ = c.tell(contextReport{Event: &c.events[len(c.events)-1]})
	return nil
}
