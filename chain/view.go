package chain

import (
	"fmt"
	"strings"

	"github.com/courierhq/courier"
)

// View sets the fields of a chain execution that follow from plan and progress: State, Request,
// Members and Failure. Of returns the latest execution of a member; nil if it has none or it was
// removed. View reads the fields ID, State and Failure of that execution.
func (p *Plan) View(c Execution, s Progress, of func(member int) *courier.Execution) Execution {
	c.State, c.Members = s.State, make([]MemberExecution, len(p.members))
	if s.Request != courier.RequestRelease {
		c.Request = s.Request
	}
	ends := p.ends(s)
	for i, m := range p.members {
		v := MemberExecution{Name: m.Name, Job: m.Job, Version: m.Version, State: s.Members[i].State, DependsOn: m.DependsOn}
		x := of(i)
		switch {
		case !s.Members[i].Released():
			v.Reason = p.reason(i, &s, ends)
		case x != nil:
			v.Execution, v.State = x.ID, MemberState(x.State)
		}
		c.Members[i] = v
		failed := v.State == memberFailed || v.State == memberCancelled
		if s.State == Failed && failed && !p.forgive[i] && c.Failure == nil {
			c.Failure = &Failure{Member: m.Name, Execution: v.Execution, Message: why(x, v.State)}
		}
	}
	return c
}

// Failed returns the member whose failure is reported as the failure of the chain execution: the
// first one whose failure counts. It is "" if the chain execution has not failed.
func (p *Plan) Failed(s Progress) string {
	for i, m := range p.members {
		failed := s.Members[i].State == memberFailed || s.Members[i].State == memberCancelled
		if s.State == Failed && failed && !p.forgive[i] {
			return m.Name
		}
	}
	return ""
}

// why returns why a member ended as it did.
func why(x *courier.Execution, state MemberState) string {
	if x != nil && x.Failure != nil && state == memberFailed {
		return x.Failure.Message
	}
	return fmt.Sprintf("its execution was %s", state)
}

// reason returns why a member was skipped, or what it waits for.
func (p *Plan) reason(i int, s *Progress, ends []end) string {
	var dead, open []string
	for _, e := range p.edges[i] {
		to := ends[e.to]
		name, state := p.members[e.to].Name, s.Members[e.to].State
		switch {
		case to <= endRelease:
			open = append(open, name)
		case int(to-endCompleted) > int(e.accept):
			dead = append(dead, fmt.Sprintf("%s was %s", name, state))
			if state == memberFailed {
				dead[len(dead)-1] = name + " failed"
			}
		}
	}
	skipped := s.Members[i].State == MemberSkipped
	switch {
	case skipped && len(dead) > 0:
		return strings.Join(dead, ", ")
	case skipped:
		return "the chain was cancelled"
	case s.Request == courier.RequestRelease:
		return "the chain is held"
	case len(open) > 0:
		return "waits for " + strings.Join(open, ", ")
	case s.Request == courier.RequestPause:
		return "the chain is paused"
	}
	return ""
}
