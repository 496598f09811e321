// Package notify delivers events to functions of the program, webhooks, jobs and e-mail.
//
// A [Subscription] selects events and says how they are delivered. A [Notification] tells a
// subscriber about an event, or about several events that came within a window. A store that has
// the role [Store] keeps a delivery for each subscription, in the transaction in which the event
// happens. A [Service] checks and saves subscriptions, and attempts each delivery until it was
// accepted or has failed for good. Each event is delivered at least once.
//
// Programs get the service from their engine, which delivers while it is started:
//
//	_, err := e.Subscriptions().Set(ctx, notify.Subscription{
//		Name: "failures", Kind: notify.KindFunc, Func: "page", Events: []courier.EventType{courier.EventJobFailed},
//	}, courier.By{})
//
// Stores make notifications with [OfEntry], [OfStepEvents], [OfChain], [OfOverdue] and
// [OfExpectation].
//
// # Delivery
//
// Leasing a delivery sets a later due time and counts as an attempt, so the delivery of an engine
// that has died becomes due again by itself. Engines poll for the deliveries of other engines:
// more often if there are more of them, and every 5 minutes while there are no subscriptions. A
// claim reports the first subscription. An engine delivers its own events at once. Events within
// a window are joined when one of them is leased for the first time, because a notification must
// not change after it was sent under an id. The id is the id of the audit entry. The idempotency
// key of a started job is made of the event and the subscription.
package notify

import (
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Subscription selects events and says how they are delivered. After the subscription is saved,
// each event is kept for it in the transaction in which the event happens, and is delivered at
// least once.
//
// In JSON it is an object with the names of the field tags; other names are refused.
type Subscription struct {
	Name string `json:"name"` // 1 to 200 characters, no control characters
	Kind Kind   `json:"kind"`
	// Events are the selected event types, at least one.
	Events []courier.EventType `json:"events"`
	// Jobs and Chains select the events of the named jobs and their steps, and of the named
	// chains and their members. Both empty means all, unless there are Expectations.
	Jobs   []string `json:"jobs,omitempty"`
	Chains []string `json:"chains,omitempty"`
	// Expectations selects the events of the named expectations, which may be set later. Empty
	// means the events of all expectations. If Jobs, Chains and Expectations are all empty, the
	// events of all jobs and chains are selected too.
	Expectations []string `json:"expectations,omitempty"`
	// Func is the name of a function in engine.Options.Subscribers, for the
	// kind func.
	Func string `json:"func,omitempty"`
	// Webhook, Job and Email are the settings of these kinds; nil for others.
	Webhook *WebhookTarget `json:"webhook,omitempty"`
	Job     *JobTarget     `json:"job,omitempty"`
	Email   *EmailTarget   `json:"email,omitempty"`
	// Window limits a flood of events: within it, at most one notification is sent for each event
	// type of each job or chain. The next notification reports all events that came in between. 0
	// means one notification for each event; nil means 30 minutes for e-mail and 0 for other
	// kinds. In JSON the field is window_seconds.
	Window *time.Duration `json:"-"`
	// Disabled says that no events are kept for the subscription. Events that were kept before
	// wait until it is enabled again.
	Disabled bool `json:"disabled,omitempty"`
	// DisabledAt is when the subscription was disabled, by the store's clock. Set ignores it.
	DisabledAt time.Time `json:"disabled_at,omitzero"`
	// Reason says why an engine has disabled the subscription, for example because a receiver
	// answered 410. It is empty if a person has disabled it. Saving the subscription clears it.
	Reason string `json:"reason,omitempty"`
}

// A Kind says how the notifications of a subscription are delivered.
type Kind string

// The kinds of subscriptions.
const (
	KindFunc    Kind = "func"    // a function of the host application
	KindWebhook Kind = "webhook" // an HTTP request, signed by the rules of Standard Webhooks
	KindJob     Kind = "job"     // an execution of another job
	KindEmail   Kind = "email"   // a message through the host's Mailer
)

// kinds lists the kinds in the order in which error messages name them.
var kinds = []Kind{KindFunc, KindWebhook, KindJob, KindEmail}

// A WebhookTarget is the receiver of a subscription of kind webhook.
type WebhookTarget struct {
	// URL is the address of the receiver. It must use https unless the engine allows otherwise.
	// It can be "secret:NAME" if the URL itself is a secret.
	URL string `json:"url"`
	// Secrets sign the requests. Each is a reference "secret:NAME" to the text "whsec_" followed
	// by 24 to 64 bytes in base64. Each secret adds a signature, so a secret can be replaced
	// while receivers still know the old one.
	Secrets []string `json:"secrets"`
	// Headers are additional headers. A value can be "secret:NAME".
	Headers map[string]string `json:"headers,omitempty"`
}

// A JobTarget is the job that a subscription of kind job starts. The parameter "event" of the
// execution is the notification. The event's ID is the idempotency key of the execution, so each
// event starts it once.
type JobTarget struct {
	Name     string         `json:"name"`
	Params   map[string]any `json:"params,omitempty"` // in addition to "event"
	Priority int16          `json:"priority,omitempty"`
}

// An EmailTarget has the receivers of a subscription of kind email.
type EmailTarget struct {
	To []string `json:"to"`
	// Subject is the beginning of the subject of the messages. Empty means "Courier".
	Subject string `json:"subject,omitempty"`
}

// EffectiveWindow returns Window, or the default of the kind.
func (s *Subscription) EffectiveWindow() time.Duration {
	const ofEmail = 30 * time.Minute
	switch {
	case s.Window != nil:
		return *s.Window
	case s.Kind == KindEmail:
		return ofEmail
	}
	return 0
}

// UnmarshalJSON reads a subscription strictly, with [courier.ReadDefinition].
func (s *Subscription) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("subscription", data, s, (*Subscription).fields)
}

func (s *Subscription) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name": strictjson.Into(&s.Name), "kind": strictjson.Into(&s.Kind), "events": strictjson.Into(&s.Events), "jobs": strictjson.Into(&s.Jobs), "chains": strictjson.Into(&s.Chains), "expectations": strictjson.Into(&s.Expectations),
		"func": strictjson.Into(&s.Func), "webhook": intoOwn(&s.Webhook), "job": intoOwn(&s.Job), "email": intoOwn(&s.Email),
		"window_seconds": strictjson.IntoSeconds(&s.Window), "disabled": strictjson.Into(&s.Disabled), "disabled_at": strictjson.Into(&s.DisabledAt), "reason": strictjson.Into(&s.Reason),
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

// An Error lists everything that is wrong with a subscription. It matches
// [courier.ErrInvalid].
type Error struct {
	Subscription string // its name
	Problems     []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("set subscription", e.Subscription, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }
