package httpapi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A ClientExecution is what a client sees of its own execution.
type ClientExecution struct {
	ID        courier.ExecutionID `json:"id"`
	Job       string              `json:"job"`
	Status    string              `json:"status"`
	CreatedAt time.Time           `json:"created_at"`
	UpdatedAt time.Time           `json:"updated_at,omitzero"`
	StartedAt time.Time           `json:"started_at,omitzero"`
	EndedAt   time.Time           `json:"ended_at,omitzero"`
	Result    json.RawMessage     `json:"result,omitempty"`
	Reason    courier.Reason      `json:"reason,omitempty"` // the class of a failure
	// FilesRemovedAt is when retention has removed the files, if one execution is asked for.
	FilesRemovedAt time.Time `json:"files_removed_at,omitzero"`
}

func clientExecution(x *courier.Execution) ClientExecution {
	v := ClientExecution{
		ID: x.ID, Job: x.Job, Status: clientStatus(x), CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt,
		StartedAt: x.StartedAt, EndedAt: x.EndedAt, Result: x.Result,
	}
	if x.Failure != nil {
		v.Reason = x.Failure.Reason
	}
	return v
}

// clientStatus is the status that clients are told: that a worker is lost is a matter of the
// service, and another one goes on.
func clientStatus(x *courier.Execution) string {
	if status := x.Status(time.Now()); status != "lost" {
		return status
	}
	return string(courier.Running)
}

// An ExecutionView is an execution with its status, as viewers see it.
type ExecutionView struct {
	courier.Execution
	Status     string // as by [courier.Execution.Status]
	StatusText string // for people
	// FilesRemovedAt is when retention has removed the files, if one execution is asked for.
	FilesRemovedAt time.Time
}

// MarshalJSON writes the fields of the execution, status, status_text and files_removed_at.
func (v ExecutionView) MarshalJSON() ([]byte, error) {
	x, err := json.Marshal(v.Execution)
	if err != nil {
		return nil, err
	}
	status, err := json.Marshal(struct {
		Status string    `json:"status"`
		Text   string    `json:"status_text"`
		At     time.Time `json:"files_removed_at,omitzero"`
	}{v.Status, v.StatusText, v.FilesRemovedAt})
	if err != nil {
		return nil, err
	}
	return append(append(x[:len(x)-1], ','), status[1:]...), nil
}

// view returns an execution in the form that the visitor sees.
func (c *call) view(x *courier.Execution) any {
	if c.Role(c.ctx(), x.Job) < desk.Viewer {
		return clientExecution(x)
	}
	now := time.Now()
	v := ExecutionView{Execution: *x, Status: x.Status(now), StatusText: x.StatusText(now)}
	if x.State != courier.Running {
		v.Worker = "" // that of the last claim, which is in the audit
	}
	if !c.SeesValues(c.ctx(), x.Job) {
		hideValues(&v.Execution)
		v.StatusText = v.Status
	}
	return v
}

// hideValues takes away the values of an execution, and what may have them in it.
func hideValues(x *courier.Execution) {
	x.Params, x.Result, x.Repairs, x.Labels, x.LimitKeys, x.IdempotencyKey = nil, nil, nil, nil, nil, ""
	x.RequestReason = ""
	if x.Failure != nil {
		f := *x.Failure
		f.Message = hiddenText
		x.Failure = &f
	}
	if x.Current != nil {
		s := *x.Current
		hideStep(&s)
		x.Current = &s
	}
	x.Waits = nil
}

// hideStep takes away the values of a record, and what may have them in it.
func hideStep(s *courier.StepExecution) {
	s.Outputs, s.Files, s.Events, s.Stack, s.Log, s.Progress = nil, nil, nil, "", "", nil
	if s.Error != "" {
		s.Error = hiddenText
	}
}

// hideAudit takes away what may have values in it from entries of an audit.
func hideAudit(list []courier.AuditEntry) {
	for i := range list {
		if list[i].Error != "" {
			list[i].Error = hiddenText
		}
	}
}

// hiddenText stands in the place of a message that may have values in it.
const hiddenText = "hidden: it may contain values, which need another role"

// hideCause takes away the values of a cause: keys of limits, and what people and steps
// have said.
func hideCause(c *store.Cause) {
	if c.Reason != "" || strings.HasPrefix(c.Scope, "key:") || c.Kind == store.CauseBackoff || c.Kind == store.CauseFailed {
		c.Text, c.Scope, c.Reason = hiddenText, "", ""
	}
}
