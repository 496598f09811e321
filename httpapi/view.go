package httpapi

import (
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/internal/desk"
)

// A ClientExecution is a client's view of its own execution.
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
	// FilesRemovedAt is when retention removed the files. It is only set in the answer about one
	// execution.
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

// clientStatus is the status for clients. A lost worker is a matter of the service, because another
// worker takes over.
func clientStatus(x *courier.Execution) string {
	if status := x.Status(time.Now()); status != "lost" {
		return status
	}
	return string(courier.Running)
}

// An ExecutionView is an execution with its status, for viewers.
type ExecutionView struct {
	courier.Execution
	Status     string // as by [courier.Execution.Status]
	StatusText string // for people
	// FilesRemovedAt is when retention removed the files. It is only set in the answer about one
	// execution.
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

// view returns an execution in the form for the visitor.
func (c *call) view(x *courier.Execution) any {
	if !c.Can(c.ctx(), x.Job, access.RightSee) {
		return clientExecution(x)
	}
	now := time.Now()
	v := ExecutionView{Execution: *x, Status: x.Status(now), StatusText: advice.Status(x, now)}
	if x.State != courier.Running {
		v.Worker = "" // the worker of the last claim, which is in the audit
	}
	if !c.SeesValues(c.ctx(), x.Job) {
		desk.HideValues(&v.Execution)
		v.StatusText = v.Status
	}
	return v
}
