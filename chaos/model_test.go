package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A standing is an execution as the contract of package store knows it, and as
// it was before the last claim, if nothing was written since: a server that
// loses its memory may lose a claim, as long as nothing depends on it.
type standing struct {
	knowledge
	before knowledge
}

type knowledge struct {
	exists bool
	store.LeaseState
	current bool  // it has a present step
	until   int64 // its lease doesn't end before, by the clock of the day
}

// loss is the method of an operation that undoes the claim of a token.
const loss = "loss"

// final is the method of an operation that tells how an execution stood in the
// end.
const final = "final"

// model is the contract, as porcupine takes it.
var model = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{standing{}} },
		Step: func(s, _, o any) []any {
			var list []any
			for _, next := range s.(standing).after(o.(*operation)) {
				list = append(list, next)
			}
			return list
		},
	}
	return m.ToModel()
}()

// after returns how the execution can stand after an operation; in no way if
// the operation can't have ended as it did.
func (s standing) after(o *operation) []standing {
	switch o.Method {
	case "Enqueue":
		return s.enqueue(o)
	case "Claim":
		return s.claim(o)
	case "Apply":
		return s.apply(o)
	case "Request":
		return s.ask(o)
	case "Renew":
		return s.renew(o)
	case "Execution":
		switch {
		case o.Error == notFound && !s.exists, o.Error == noError && s.shows(&o.Told):
			return []standing{s}
		}
	case loss:
		if s.before.exists && s.Lease == o.Told.Token {
			return []standing{{knowledge: s.before}}
		}
	case final:
		if s.shows(&o.Told) && s.Seq == o.Told.Seq {
			return []standing{s}
		}
	}
	return nil
}

// shows reports whether it is what somebody was told.
func (s standing) shows(a *told) bool {
	return s.exists && s.State == a.State && s.Request == a.Request
}

func (s standing) enqueue(o *operation) []standing {
	switch {
	case o.Error == noError && o.Told.Existed:
		if s.shows(&o.Told) {
			return []standing{s}
		}
	case !s.exists && (o.Error == noError || o.Error == mayHave):
		s.exists, s.State, s.Seq = true, o.Asked.To, 1
		return []standing{s}
	case o.Error == mayHave:
		return []standing{s}
	}
	return nil
}

func (s standing) claim(o *operation) []standing {
	s.before = s.knowledge
	switch {
	case !s.exists:
		return nil
	case s.State == courier.Queued:
		s.Seq++
	case s.State == courier.Running && o.Since+slack >= s.until:
		s.Seq += 2
	default:
		return nil
	}
	if s.Seq != o.Told.Seq || o.Error == noError && (o.Told.State != courier.Running || o.Told.Request != s.Request) {
		return nil
	}
	s.State, s.Lease, s.First, s.Last = courier.Running, o.Told.Token, s.Seq, s.Seq
	if o.Told.Started {
		if s.before.State != courier.Queued || s.before.Seq != 1 {
			return nil // it was claimed before, or asked something
		}
		s.Seq, s.Last, s.current = s.Seq+1, s.Seq+1, true
	}
	s.until = o.Since + int64(o.Lease)
	return []standing{s}
}

func (s standing) apply(o *operation) []standing {
	t := o.Asked.transition()
	if !s.exists {
		return s.when(o.Error == notFound || o.Error == mayHave)
	}
	write, err := t.Admit(s.LeaseState)
	if kind := kindOf(err); o.Error != mayHave && o.Error != kind {
		return nil
	} else if kind != noError || !write {
		return []standing{s}
	}
	s.before = knowledge{}
	var present *courier.StepExecution
	if s.current {
		present = &courier.StepExecution{}
	}
	s.Seq += int64(len(t.Entries(present, "")))
	s.Last, s.State, s.current = s.Seq, t.To, t.Start != nil
	if t.To != courier.Running {
		s.Request, s.By = "", ""
	}
	return []standing{s}
}

func (s standing) when(ok bool) []standing {
	if ok {
		return []standing{s}
	}
	return nil
}

func (s standing) ask(o *operation) []standing {
	if !s.exists {
		return s.when(o.Error == notFound || o.Error == mayHave)
	}
	var list []standing
	for _, expired := range []bool{false, true} {
		if expired && (s.State != courier.Running || o.Until+slack < s.until) {
			continue
		}
		d, err := store.Decide(&courier.Execution{ID: o.Asked.Execution, State: s.State, Request: s.Request}, expired, o.Asked.Request)
		next := standing{knowledge: s.knowledge}
		switch {
		case err != nil:
			if o.Error == refused || o.Error == mayHave {
				list = append(list, s)
			}
			continue
		case d.To == "":
			next.Request, next.By = d.Pending, o.Asked.By
			if d.Pending == "" {
				next.By = ""
			}
		default:
			if next.Seq++; s.current {
				next.Seq++
			}
			if s.State == courier.Running {
				next.Last = s.Seq
			}
			next.State, next.Request, next.By, next.current = d.To, "", "", false
		}
		if o.Error == mayHave || o.Error == noError && next.shows(&o.Told) {
			list = append(list, next)
		}
	}
	return slices.Compact(list)
}

func (s standing) renew(o *operation) []standing {
	held := s.exists && s.State == courier.Running && s.Lease == o.Asked.Token
	switch {
	case o.Error == leaseLost && !held:
		return []standing{s}
	case o.Error == noError && held && s.Request == o.Told.Request && s.By == o.Told.By:
		s.until, s.before = max(s.until, o.Since+int64(o.Lease)), knowledge{}
		return []standing{s}
	}
	return nil
}

// searching is how long porcupine may look for an order.
const searching = 20 * time.Second

// linear reports a history that no order of its operations explains.
func linear(id courier.ExecutionID, list []*operation) error {
	ops := make([]porcupine.Operation, len(list))
	for i, o := range list {
		ops[i] = porcupine.Operation{ClientId: i, Output: o, Call: o.Call, Return: o.Return}
	}
	if got := porcupine.CheckOperationsTimeout(model, ops, searching); got != porcupine.Ok {
		return fmt.Errorf("execution %s: no order of these calls explains their answers (%s):\n%s", id, got, tell(list))
	}
	return nil
}

// tell tells a history in the order in which the calls began.
func tell(list []*operation) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *operation) int { return int(min(1, max(-1, a.Call-b.Call))) })
	var b strings.Builder
	for _, o := range list {
		ms := func(at int64) string {
			if at == never {
				return "never"
			}
			return fmt.Sprintf("%.3f", float64(at-list[0].Call)/1e6)
		}
		fmt.Fprintf(&b, "\t%s to %s ms\t%s\t%s %+v: %q %+v\n", ms(o.Call), ms(o.Return), o.Process, o.Method, o.Asked, o.Error, o.Told)
	}
	return b.String()
}
