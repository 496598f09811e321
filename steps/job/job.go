// Package job has the step job.fail, which fails the execution on purpose, for branches of a job
// in which continuing is pointless, such as an empty delivery.
//
// The failure policy of the step decides the consequences of the failure, as for any other step,
// except for retries: the failure is permanent. Under skip_and_continue the execution continues.
package job

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier"
)

// Register adds job.fail to r. It panics if the key is taken.
func Register(r *courier.Registry) {
	courier.Register(r, "job.fail", Fail{}, &courier.TypeOptions{
		Timeout:   new(time.Duration(0)),
		Doc:       "Fails for good, with a message and an error class.",
		RepeatDoc: "fails again, with the same message",
	})
}

// Fail is the step type job.fail.
type Fail struct{}

// FailConfig is the configuration of job.fail.
type FailConfig struct {
	Message string `json:"message" courier:"required" doc:"what the failure says"`
	Class   string `json:"class" default:"error" enum:"connection,login,timeout,stalled,not_found,exists,permission,quota,space,integrity,invalid,secret,config,panic,crashed,error" doc:"error class: the reason of the failure"`
}

// Execute returns a permanent error with the message and the class.
func (Fail) Execute(ctx context.Context, _ *courier.Context, cfg FailConfig) (struct{}, error) {
	if ctx.Err() != nil {
		return struct{}{}, context.Cause(ctx)
	}
	return struct{}{}, courier.Permanent(courier.WithClass(errors.New(cfg.Message), courier.Reason(cfg.Class)))
}
