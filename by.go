package courier

import "log/slog"

// By says who changes something, and why. Everything that changes something
// takes one, as its last parameter or as the field By of its options. The zero
// value names nobody.
//
// Actor is kept with what has changed: in the audit of an execution, with the
// version of a definition, in the reason of a schedule or monitor that no longer
// fires. Reason is in the audit of the executions that a request moves to
// another state at once, and in the reason of schedules and monitors. What is
// defined, enqueued or started keeps the actor alone: an engine writes the reason
// to its log then, as it does for limits and subscriptions. Each has at most 1,000
// bytes.
type By struct {
	Actor  string // a person, a service, or a part of the program
	Reason string // for people
}

// String is the phrase " by ACTOR: REASON", without what is not given; it is
// empty for the zero value.
func (b By) String() string {
	s := ""
	if b.Actor != "" {
		s = " by " + b.Actor
	}
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	return s
}

// LogValue writes the fields that are given as "actor" and "reason".
func (b By) LogValue() slog.Value {
	var list []slog.Attr
	if b.Actor != "" {
		list = append(list, slog.String("actor", b.Actor))
	}
	if b.Reason != "" {
		list = append(list, slog.String("reason", b.Reason))
	}
	return slog.GroupValue(list...)
}
