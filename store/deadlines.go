package store

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// Deadlines finds executions that have not ended by a deadline. It is an optional
// role of a [Store]; an engine finds it by a type assertion. A deadline ends no
// execution. When it has passed and the execution has not ended, that is, it is in
// any state except completed, failed and cancelled, the store raises the event
// [courier.EventJobOverdue], once. If the execution is failed when a call finds the
// deadline, the deadline is dropped: a later resume raises no event.
//
// The deadline [NewExecution.Expires] is different: an execution that has not begun by
// then fails, by a [courier.RequestExpire] of the engine that finds it. It raises no
// event. It is dropped once the execution has begun or ended; until then it is returned
// again after a minute, so that a crash does not lose it.
//
// An execution has at most three deadlines, one for each reason.
// [NewExecution.MaxDuration] is counted from the instant at which the execution is
// first due, and [NewExecution.ExpectedBy] from its creation, or for a member of a
// chain from the creation of the chain execution. Expires is counted from its creation.
type Deadlines interface {
	// Overdue drops deadlines that have passed, the earliest first and at most limit,
	// and returns those of executions that have not ended. Of concurrent calls, only
	// one returns a deadline. The same transaction keeps the event for the
	// subscriptions that select it (see package notify). A limit of 0 means 1000, the
	// maximum.
	Overdue(ctx context.Context, limit int) (Overdue, error)
}

// Overdue is what [Deadlines.Overdue] returns.
type Overdue struct {
	List []OverdueExecution
	// Next is the time until the next deadline passes; 0 if there is none. It is a
	// microsecond if more deadlines may have passed.
	Next time.Duration
}

// An OverdueExecution is an execution that has not ended by a deadline.
type OverdueExecution struct {
	Execution courier.ExecutionID
	Job       string
	Version   int
	State     courier.State  // in which it is
	Reason    courier.Reason // [courier.ReasonMaxDuration], [courier.ReasonExpectedBy] or [courier.ReasonExpired]
	Deadline  time.Time
}

// Text returns the Error of the event: the state of the execution and the deadline.
func (o *OverdueExecution) Text() string {
	return fmt.Sprintf("the execution is %s, and was expected to end by %s", o.State, o.Deadline.UTC().Format(time.RFC3339))
}
