// Package core has what several subsystems of the engine share: the parts of a store, the
// values that one subsystem hands to another, and the rules for secrets.
//
// A subsystem is a package below engine/internal with one subject beside the execution
// of jobs, such as package deadlines. It imports this package and no other subsystem, and
// declares beside its constructor what it needs of the engine. Package engine imports all
// of them.
package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/text"
)

// ParamProblems returns what an error of a start says of the parameters of a
// definition: the problems of a [*courier.ParamsError], or one problem.
func ParamProblems(err error) []courier.Problem {
	if e, ok := errors.AsType[*courier.ParamsError](err); ok {
		return slices.Clone(e.Problems)
	}
	return []courier.Problem{{Step: -1, Field: "params", Message: text.Plain(err)}}
}

// A CheckedJob is a job without problems.
type CheckedJob struct {
	Job      courier.Job
	Tree     *flow.Tree
	Warnings []courier.Problem
}

// A Lifetime is how long the loops of a subsystem run: from the start to the stop of
// the engine.
type Lifetime struct {
	Base context.Context // carries the values that Start was given, and does not end
	Ctx  context.Context // ends with the stop
	Stop <-chan struct{} // is closed when the stop begins
}

// PresentFor is how long ago a worker may have claimed to count as present, and how long
// an execution has to be due, or lost, before it is reported that no worker takes it. So a
// restart of all workers is no reason for a warning.
const PresentFor = 90 * time.Second
