// Package stepcontext gives the steps of this module, and what calls them, the inside of a
// courier.Context.
package stepcontext

import (
	"context"
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/inside"
)

// Of returns the inside of job. A step type gets it with the context of each call, so Of
// makes one.
func Of(job *courier.Context) inside.Context {
	var c inside.Context
	_, _ = new(courier.StepType).Remote(func(ctx context.Context, _ *courier.Context, _ string, _ []byte) (json.RawMessage, error) {
		c = inside.From(ctx)
		return nil, nil
	}).Execute(context.Background(), job, nil)
	return c
}

// A Report is a report that a step makes to its Context.
type Report = inside.Report[courier.Progress, courier.File, courier.StepEvent]

// A Remote is the inside of a Context in which a step of another process is called, or for
// which a step of this process is called in another one. The result of [Of] implements it.
type Remote interface {
	// Config returns what the Context was made with, and the present cursor. The caller must
	// not change what it points to.
	Config() courier.ContextConfig
	// Take makes a report that a step in another process has made to a Context there. Files
	// and progress are taken as they are; for the rest the rules of the methods hold by which
	// steps report.
	Take(r Report) error
	// Forward has report called with each report of the step but progress, before the method by
	// which the step makes it returns. It must not call the Context. Its error is that of
	// [courier.Context.SaveCursor]; other methods ignore it. Clean removes secrets that the
	// Redactor does not have from the texts of [courier.Context.Redact]; nil means that there
	// are none. Forward is called before the step is.
	Forward(report func(Report) error, clean func(text string) string)
}
