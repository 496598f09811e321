package courier

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

// An EventType names a change in the life of an execution, or of a chain execution.
type EventType string

// The types of events. Those of jobs and steps, but for EventJobLost, EventJobOverdue,
// EventStepProgress and EventStep, follow from an audit entry.
const (
	EventJobStarted    EventType = "JobStarted"
	EventJobCompleted  EventType = "JobCompleted"
	EventJobFailed     EventType = "JobFailed"
	EventJobPaused     EventType = "JobPaused"
	EventJobResumed    EventType = "JobResumed"
	EventJobCancelled  EventType = "JobCancelled"
	EventJobTakenOver  EventType = "JobTakenOver" // another worker has claimed it, after the one before was lost
	EventJobLost       EventType = "JobLost"      // this engine has lost its lease; only observers are told
	EventJobOverdue    EventType = "JobOverdue"   // it has not ended within Job.MaxDuration, or by Job.ExpectedBy; it goes on
	EventStepStarted   EventType = "StepStarted"
	EventStepProgress  EventType = "StepProgress"
	EventStepCompleted EventType = "StepCompleted"
	EventStepFailed    EventType = "StepFailed"
	EventStepSkipped   EventType = "StepSkipped"
	EventStep          EventType = "StepEvent" // one that a completed step has emitted; see Context.Emit

	// Of chains.
	EventChainStarted   EventType = "ChainStarted"   // the first members were released
	EventChainCompleted EventType = "ChainCompleted" // see chain.Completed
	EventChainFailed    EventType = "ChainFailed"    // again, if it is retried and fails again
)

// An Event tells an observer about a change that was committed, or about the progress
// of a step. Use events for live views and notifications; only the audit is complete.
type Event struct {
	Type      EventType
	At        time.Time // the observing process's clock
	Execution ExecutionID
	Job       string
	Version   int
	// ChainExecution is, for events of chains, the chain execution, and for those of
	// members the one that the execution belongs to. Chain is the name of the chain, for
	// events of chains; these have no Execution and no Job.
	ChainExecution ChainExecutionID
	Chain          string
	// The step, for step events, and for EventJobFailed the one that has failed; Step
	// is -1 otherwise.
	Step      int
	ID        string
	StepType  string
	Iteration []int
	Attempt   int
	Reason    Reason
	Error     string
	Bytes     int64 // moved so far by the attempt
	By        string
	// Item, Done and Total bytes of the item that a step is working on, for
	// EventStepProgress; ItemTotal is -1 when it is not known.
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

// Limits of the events of an attempt.
const (
	maxEvents     = 100
	maxEventBytes = 16 << 10
	maxEventDepth = 100
)

var eventName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,49}$`)

// Emit adds an event of the execution. It is kept with the record of the attempt
// ([StepExecution].Events), in the transaction in which the step completes; observers and
// subscriptions to [EventStep] are told then. If the attempt fails, its events are dropped,
// as its outputs are, so a repetition may emit them again. Known secrets in the payload are
// replaced.
//
// The name has the form of a step's id. The payload is a value that JSON can hold, of at
// most 16 KiB and nested at most 100 times; an attempt has at most 100 events. The error
// for others is permanent.
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
		return Permanent(fmt.Errorf("emit %q: the payload is nested more than %d times", name, maxEventDepth))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == maxEvents {
		return Permanent(fmt.Errorf("emit %q: the attempt has %d events already, the most that it may have; emit one for many items", name, maxEvents))
	}
	c.events = append(c.events, StepEvent{name, raw})
	_ = c.tell(contextReport{Event: &c.events[len(c.events)-1]})
	return nil
}

// A SubscriptionKind says how a subscription's notifications are delivered.
type SubscriptionKind string

// The kinds of subscriptions.
const (
	SubscribeFunc    SubscriptionKind = "func"    // a function of the host application
	SubscribeWebhook SubscriptionKind = "webhook" // an HTTP request, signed as Standard Webhooks says
	SubscribeJob     SubscriptionKind = "job"     // an execution of another job
	SubscribeEmail   SubscriptionKind = "email"   // a message through the host's Mailer
)

// A Subscription says who is notified of which events. From the moment at which the
// subscription is saved, each event is kept for it in the transaction in which the
// event happens, and is delivered at least once.
//
// In JSON it is an object with the names of the field tags; other names are refused.
type Subscription struct {
	Name string           `json:"name"` // 1 to 200 characters, no control characters
	Kind SubscriptionKind `json:"kind"`
	// Events are the types of events that are wanted, at least one.
	Events []EventType `json:"events"`
	// Jobs and Chains say whose events are wanted: those of the named jobs and
	// their steps, and of the named chains and their members. Both empty means
	// all.
	Jobs   []string `json:"jobs,omitempty"`
	Chains []string `json:"chains,omitempty"`
	// Func is the name of a function in the engine's Options.Subscribers, for
	// the kind func.
	Func string `json:"func,omitempty"`
	// Webhook, Job and Email are the settings of these kinds; nil for others.
	Webhook *WebhookTarget `json:"webhook,omitempty"`
	Job     *JobTarget     `json:"job,omitempty"`
	Email   *EmailTarget   `json:"email,omitempty"`
	// Window limits a flood: of each type of event of each job, or chain, at most
	// one notification is sent within it, and the next one stands for all that
	// came in between. 0 means that each event is a notification of its own;
	// nil means 30 minutes for e-mail and 0 for the rest. In JSON it is
	// window_seconds.
	Window *time.Duration `json:"-"`
	// Disabled keeps events from being kept for the subscription from now on. What
	// was kept before waits until it is enabled again.
	Disabled bool `json:"disabled,omitempty"`
	// Reason says why it is disabled, if not a person did it: such as a receiver
	// that answered 410. Saving the subscription clears it.
	Reason string `json:"reason,omitempty"`
}

// A WebhookTarget is the receiver of a subscription of kind webhook.
type WebhookTarget struct {
	// URL of the receiver, https unless the engine allows otherwise. It can be
	// "secret:NAME", for a URL that is itself a secret.
	URL string `json:"url"`
	// Secrets sign the requests, each a reference "secret:NAME" to a text
	// "whsec_" and 24 to 64 bytes in base64. Several give several signatures, so
	// that a secret can be replaced while receivers still know the old one.
	Secrets []string `json:"secrets"`
	// Headers are sent in addition. A value can be "secret:NAME".
	Headers map[string]string `json:"headers,omitempty"`
}

// A JobTarget is the job that a subscription of kind job starts. The execution's
// parameter "event" is the notification, and the event's ID is its idempotency
// key, so that each event starts it once.
type JobTarget struct {
	Name     string         `json:"name"`
	Params   map[string]any `json:"params,omitempty"` // besides "event"
	Priority int16          `json:"priority,omitempty"`
}

// An EmailTarget has the receivers of a subscription of kind email.
type EmailTarget struct {
	To []string `json:"to"`
	// Subject begins the subject of the messages. Empty means "Courier".
	Subject string `json:"subject,omitempty"`
}

// EffectiveWindow is the flood window: the one given, or the kind's default.
func (s *Subscription) EffectiveWindow() time.Duration {
	const ofEmail = 30 * time.Minute
	switch {
	case s.Window != nil:
		return *s.Window
	case s.Kind == SubscribeEmail:
		return ofEmail
	}
	return 0
}

// UnmarshalJSON reads a subscription strictly, as [Job.UnmarshalJSON] a job.
func (s *Subscription) UnmarshalJSON(data []byte) error {
	return ReadDefinition("subscription", data, s, (*Subscription).fields)
}

func (s *Subscription) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&s.Name), "kind": strictjson.Into(&s.Kind), "events": strictjson.Into(&s.Events), "jobs": strictjson.Into(&s.Jobs), "chains": strictjson.Into(&s.Chains),
		"func": strictjson.Into(&s.Func), "webhook": intoOwn(&s.Webhook), "job": intoOwn(&s.Job), "email": intoOwn(&s.Email),
		"window_seconds": strictjson.IntoSeconds(&s.Window), "disabled": strictjson.Into(&s.Disabled), "reason": strictjson.Into(&s.Reason),
	}
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (s Subscription) MarshalJSON() ([]byte, error) {
	type plain Subscription // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Window *strictjson.Seconds `json:"window_seconds,omitempty"`
	}{plain(s), (*strictjson.Seconds)(s.Window)})
}

// UnmarshalJSON reads a target strictly.
func (w *WebhookTarget) UnmarshalJSON(data []byte) error {
	return strictjson.ReadObject(strictjson.NewDecoder(data), strictjson.Fields{"url": strictjson.Into(&w.URL), "secrets": strictjson.Into(&w.Secrets), "headers": strictjson.Into(&w.Headers)})
}

// UnmarshalJSON reads a target strictly; numbers in its parameters keep their
// digits.
func (j *JobTarget) UnmarshalJSON(data []byte) error {
	return strictjson.ReadObject(strictjson.NewDecoder(data), strictjson.Fields{"name": strictjson.Into(&j.Name), "params": strictjson.Into(&j.Params), "priority": strictjson.Into(&j.Priority)})
}

// UnmarshalJSON reads a target strictly.
func (m *EmailTarget) UnmarshalJSON(data []byte) error {
	return strictjson.ReadObject(strictjson.NewDecoder(data), strictjson.Fields{"to": strictjson.Into(&m.To), "subject": strictjson.Into(&m.Subject)})
}

// intoOwn reads a value that has its own strict UnmarshalJSON, or null.
func intoOwn[T any](v **T) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return strictjson.Plain(err)
		}
		if string(raw) == "null" {
			return nil
		}
		n := new(T)
		if err := json.Unmarshal(raw, n); err != nil {
			return strictjson.Plain(err)
		}
		*v = n
		return nil
	}
}

// A Notification tells a subscriber about an event. In JSON it is the body of
// webhooks and the parameter of jobs.
type Notification struct {
	// ID names the event: it is the same for all subscriptions, and in every
	// attempt to deliver it, so that receivers can tell what they have seen. It
	// has no dots.
	ID           string    `json:"id"`
	Subscription string    `json:"subscription"`
	Type         EventType `json:"type"`
	At           time.Time `json:"at"` // when it happened, by the store's clock
	// Execution and Seq are the execution and the number of the audit entry that
	// the event stands for.
	Execution ExecutionID `json:"execution_id,omitempty"`
	Seq       int64       `json:"seq,omitempty"`
	Job       string      `json:"job,omitempty"`
	Version   int         `json:"version,omitempty"`
	// ChainExecution is set for events of chains, whose Seq counts them; Chain for
	// those and for events of a chain's members.
	ChainExecution ExecutionID `json:"chain_execution_id,omitempty"`
	Chain          string      `json:"chain,omitempty"`
	// Step, StepID, StepType, Iteration and StepAttempt are set for events of
	// steps; Step is nil for others.
	Step        *int   `json:"step,omitempty"`
	StepID      string `json:"step_id,omitempty"`
	StepType    string `json:"step_type,omitempty"`
	Iteration   []int  `json:"iteration,omitempty"`
	StepAttempt int    `json:"step_attempt,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	Reason      Reason `json:"reason,omitempty"`
	Error       string `json:"error,omitempty"`
	By          string `json:"by,omitempty"`
	// Result is that of the execution, for EventJobCompleted of a job that has one. Stores
	// leave it out; the engine that delivers adds it.
	Result json.RawMessage `json:"result,omitempty"`
	// Name and Payload are those of an event that a step has emitted; see [Context.Emit].
	// Its Seq is negative: it shares the audit entry of the step's end with others.
	Name    string          `json:"name,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Count is how many events of this type and job the notification stands for:
	// 1, or more if the subscription has a window. More are others of them, the
	// first 50.
	Count     int              `json:"count"`
	Coalesced []CoalescedEvent `json:"more,omitempty"`
}

// MarshalJSON adds the field iteration_index to events of steps: the iteration of the
// innermost loop around the step, or null outside loops.
func (n Notification) MarshalJSON() ([]byte, error) { return jsontext.AppendAny(nil, n.inJSON()) }

type plainNotification Notification // without methods

type notificationInJSON struct {
	plainNotification
	Index json.RawMessage `json:"iteration_index,omitempty"`
}

func (n *Notification) inJSON() notificationInJSON {
	return notificationInJSON{plainNotification(*n), indexInJSON(n.Step, n.Iteration)}
}

// A CoalescedEvent is a further event in a notification that stands for several.
type CoalescedEvent struct {
	ID        string      `json:"id"`
	At        time.Time   `json:"at"`
	Execution ExecutionID `json:"execution_id,omitempty"` // or chain execution
	Error     string      `json:"error,omitempty"`        // its first 200 characters
}

// A DeliveryState is the state of a delivery. A delivery that succeeded is not kept.
type DeliveryState string

// The states of deliveries.
const (
	DeliveryPending DeliveryState = "pending" // waits for its turn, is under way, or waits for the next attempt
	DeliveryFailed  DeliveryState = "failed"  // all attempts failed, or the receiver refused it; see Subscriptions.Replay of package engine
)

// A Delivery is a notification that has not been delivered.
type Delivery struct {
	Notification
	State    DeliveryState `json:"state"`
	Attempts int           `json:"attempts"`             // that were begun
	DueAt    time.Time     `json:"due_at"`               // of the next attempt, or when the present one is given up; when it failed
	LastErr  string        `json:"last_error,omitempty"` // of the last attempt
}

// MarshalJSON writes the notification as [Notification.MarshalJSON] does, and the fields
// of the delivery.
func (d Delivery) MarshalJSON() ([]byte, error) {
	return jsontext.AppendAny(nil, struct {
		notificationInJSON
		State    DeliveryState `json:"state"`
		Attempts int           `json:"attempts"`
		DueAt    time.Time     `json:"due_at"`
		LastErr  string        `json:"last_error,omitempty"`
	}{d.Notification.inJSON(), d.State, d.Attempts, d.DueAt, d.LastErr})
}

// A Mailer sends e-mail for subscriptions of kind email. If it returns an error that
// is marked by [Permanent], the mail is not tried again. Package x/mail has a Mailer
// for SMTP.
type Mailer interface {
	Send(ctx context.Context, m Mail) error
}

// A Mail is a message to be sent. Subject has no line breaks; Text and HTML say
// the same.
type Mail struct {
	// ID is that of the event, the same in every attempt.
	ID      string
	To      []string
	Subject string
	Text    string
	HTML    string
}
