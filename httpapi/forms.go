package httpapi

import (
	"reflect"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/watch"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
)

// A form says how the JSON of a type with MarshalJSON differs from the fields of the type.
type form struct {
	adds any // a struct with the fields that the JSON has in addition, or in another form
	only any // a struct with all fields, which replaces the fields of the type
}

// forms has all types with MarshalJSON that are in the document, except definitions, which package
// schemadoc describes. Durations are in seconds.
var forms = map[reflect.Type]form{
	reflect.TypeFor[courier.Execution](): {adds: struct {
		Timeout float64 `json:"timeout_seconds,omitempty"`
	}{}},
	reflect.TypeFor[ExecutionView](): {only: struct {
		courier.Execution
		Status string    `json:"status"`
		Text   string    `json:"status_text"`
		At     time.Time `json:"files_removed_at,omitzero"`
	}{}},
	reflect.TypeFor[courier.StepExecution](): {adds: struct {
		Index *int `json:"iteration_index"`
	}{}},
	reflect.TypeFor[watch.AuditEvent](): {only: struct {
		courier.AuditEntry
		Index   **int               `json:"iteration_index,omitempty"` // left out, or null
		Attempt int                 `json:"execution_attempt,omitempty"`
		Elapsed float64             `json:"elapsed_seconds"`
		Events  []courier.StepEvent `json:"events,omitempty"`
	}{}},
	reflect.TypeFor[notify.Notification](): {adds: struct {
		Index **int `json:"iteration_index,omitempty"` // left out, or null
	}{}},
	reflect.TypeFor[notify.Delivery](): {}, // the fields of the notification and its own
	reflect.TypeFor[dryrun.Report](): {adds: struct {
		OK       bool    `json:"ok"`
		Duration float64 `json:"duration_seconds,omitempty"`
	}{}},
	reflect.TypeFor[dryrun.ChainReport](): {adds: struct {
		OK       bool    `json:"ok"`
		Duration float64 `json:"duration_seconds,omitempty"`
	}{}},
	reflect.TypeFor[dryrun.StepReport](): {adds: struct {
		Duration float64 `json:"duration_seconds,omitempty"`
	}{}},
}

// shortForms has the types that are replaced by another type for clients.
var shortForms = map[reflect.Type]reflect.Type{
	reflect.TypeFor[ExecutionView]():      reflect.TypeFor[ClientExecution](),
	reflect.TypeFor[ChainExecutionView](): reflect.TypeFor[StartedChain](),
}

// enums has the types whose values are only these words. Reasons, causes and events are open: new
// features add new ones.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[courier.State]():        words(courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled),
	reflect.TypeFor[courier.StepState]():    words(courier.StepPending, courier.StepRunning, courier.StepCompleted, courier.StepFailed, courier.StepSkipped),
	reflect.TypeFor[chain.State]():          words(chain.Pending, chain.Running, chain.Completed, chain.Failed, chain.Paused, chain.Cancelled),
	reflect.TypeFor[monitor.State]():        words(monitor.Active, monitor.Degraded, monitor.Paused, monitor.Disabled, monitor.Failed),
	reflect.TypeFor[notify.DeliveryState](): words(notify.Pending, notify.Failed),
	reflect.TypeFor[expectation.State]():    words(expectation.States...),
	reflect.TypeFor[dryrun.State]():         words(dryrun.OK, dryrun.Problem, dryrun.NotChecked),
}

func words[T ~string](list ...T) []string {
	text := make([]string, len(list))
	for i, w := range list {
		text[i] = string(w)
	}
	return text
}
