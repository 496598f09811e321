package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// addFinally gives most programs a finally part: a few steps, some of them in a loop.
func (p *program) addFinally(r *rand.Rand) {
	if r.IntN(4) == 0 {
		return
	}
	marker := courier.StepSpec{Type: "flow.finally"}
	if r.IntN(3) == 0 {
		timeout := time.Duration(1+r.IntN(60)) * time.Second
		marker.Timeout = &timeout
	}
	if own := policy(r); own.Type != courier.RetryJob && r.IntN(2) == 0 {
		marker.FailurePolicy = own
	}
	serial := fmt.Sprint(p.job.Params["program"])
	main := p.steps
	g := &maker{Rand: r, p: p, serial: serial}
	p.finally = g.add(marker)
	p.steps = make(map[int]*statement)
	p.last = make([]statement, 1+r.IntN(3))
	for i := range p.last {
		s := &p.last[i]
		if r.IntN(4) > 0 {
			g.step(s, &scope{})
			continue
		}
		s.kind, s.list, s.index = loop, r.IntN(3), len(p.job.Steps)
		items := make([]any, s.list)
		for n := range items {
			items[n] = s.item(n)
		}
		g.add(courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": items}})
		s.body = []statement{{loops: []*statement{s}}}
		g.step(&s.body[0], &scope{loops: s.body[0].loops})
		s.end = g.add(courier.StepSpec{Type: "flow.end"})
	}
	p.steps, p.finals = main, p.steps
	for i := range p.finals {
		p.job.Steps[i].Config["outcome"] = "context:job.outcome"
	}
}

// isFinal reports whether a step lies in the finally part, in the program or in a version of it
// that begins with a pad.
func (p *program) isFinal(step int) bool { return p.finally >= 0 && step > p.finally }

// cancelled counts the cancels that took effect.
func (w *world) cancelled(id courier.ExecutionID, kind courier.RequestKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case courier.RequestCancel:
		w.cancels[id]++
	case courier.RequestAbort:
		w.cancels[id] += 2
	}
}

// A pass is a run of the finally part.
type pass struct {
	outcome string
	began   int64           // the audit entry
	done    map[string]bool // visits that are over
}

const finallyBegins = "the finally part begins; the outcome is "

// checkFinally checks that the finally part has run once for each end, to its end unless it has
// failed, was told the outcome and has not changed it, and that nothing else ran meanwhile.
// The records have the indexes of the program.
func (w *world) checkFinally(ctx context.Context, x *courier.Execution, p *program, records []courier.StepExecution) error {
	if p.finally < 0 {
		return nil
	}
	if f := x.FinallyError; f != nil && (f.Reason == courier.ReasonConfig || f.Reason == courier.ReasonDefinition) {
		return fmt.Errorf("the error of its finally part says that a sound job is not: %s", f.Message)
	}
	if x.Finishing != nil {
		return fmt.Errorf("it is %s, and finishing", x.State)
	}
	w.mu.Lock()
	given := w.cancels[x.ID]
	w.mu.Unlock()
	if x.Chain != "" || x.By != "client" && x.By != "operator" {
		given = 2 // a chain or a schedule may have cancelled it
	}
	var now *pass
	begun := false
	passes := 0
	for after := int64(0); ; {
		page, err := w.store.Audit(ctx, store.AuditFilter{Execution: x.ID, After: after})
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			a := &page[i]
			after = a.Seq
			if a.Step != nil {
				if now != nil {
					if err := now.record(p, a, records); err != nil {
						return err
					}
				} else if k := slices.IndexFunc(records, func(r courier.StepExecution) bool { return r.Seq == a.Seq }); k >= 0 && p.isFinal(records[k].Step) {
					return fmt.Errorf("record %d of the finally part was written when that did not run", a.Seq)
				}
				continue
			}
			begun = begun || a.To == string(courier.Running)
			outcome, begins := strings.CutPrefix(a.Error, finallyBegins)
			outcome, _, _ = strings.Cut(outcome, ":")
			ends := courier.State(a.To).Ended() && a.From != a.To
			switch {
			case begins && now != nil:
				return fmt.Errorf("entry %d begins the finally part, which runs", a.Seq)
			case begins:
				now = &pass{outcome: outcome, began: a.Seq, done: make(map[string]bool)}
				passes++
				w.count("finally of " + outcome)
			case ends && now != nil:
				if a.To != now.outcome {
					return fmt.Errorf("entry %d: the outcome was %s, and it ended as %s", a.Seq, now.outcome, a.To)
				}
				failed := a.Seq == x.Seq && x.FinallyError != nil || a.Seq < x.Seq && (a.To == string(courier.Failed) || store.TellsFinallyError(a.Error))
				if left := now.left(p); left != "" && !failed {
					return fmt.Errorf("entry %d ends the finally part, of which step %s was not executed", a.Seq, left)
				}
				if failed {
					w.count("finally failed")
				}
				now = nil
			case ends && a.From == string(courier.Running) && given < 2 && a.Reason != courier.ReasonFiles:
				return fmt.Errorf("entry %d: it ended as %s without its finally part: %s", a.Seq, a.To, a.Error)
			case ends && begun && given < 2 && (a.From == string(courier.Queued) || a.From == string(courier.Paused)) && a.Reason != courier.ReasonExpired:
				return fmt.Errorf("entry %d: it was %s, and %s without its finally part", a.Seq, a.From, a.To)
			case a.From == string(courier.Paused) || a.To == string(courier.Paused):
				if now != nil {
					return fmt.Errorf("entry %d: it was paused in its finally part", a.Seq)
				}
			}
		}
	}
}

// record takes note of an entry about a step while the finally part runs.
func (c *pass) record(p *program, a *courier.AuditEntry, records []courier.StepExecution) error {
	if a.Seq == c.began || a.To == string(courier.StepRunning) || a.To == string(courier.StepPending) {
		return nil
	}
	k := slices.IndexFunc(records, func(r courier.StepExecution) bool { return r.Seq == a.Seq })
	if k < 0 {
		return nil // of the pad
	}
	r := &records[k]
	if !p.isFinal(r.Step) {
		return fmt.Errorf("record %d of step %s was written in the finally part", r.Seq, visitName(r.Step, r.Iteration))
	}
	if r.State == courier.StepFailed {
		return nil
	}
	name := visitName(r.Step, r.Iteration)
	if c.done[name] {
		return fmt.Errorf("step %s was completed twice in one pass through the finally part", name)
	}
	c.done[name] = true
	if r.State != courier.StepCompleted {
		return nil
	}
	var out output
	if err := json.Unmarshal(r.Outputs, &out); err != nil {
		return err
	}
	if out.Outcome != c.outcome || int64(out.Pass) != c.began {
		return fmt.Errorf("step %s was told that the outcome is %q in pass %d, and it is %s in pass %d", name, out.Outcome, out.Pass, c.outcome, c.began)
	}
	return nil
}

// left returns a step of the finally part that was not executed.
func (c *pass) left(p *program) string {
	for i := range p.last {
		s := &p.last[i]
		if s.kind == work && !c.done[visitName(s.index, nil)] {
			return visitName(s.index, nil)
		}
		for n := range s.list {
			if name := visitName(s.body[0].index, []int{n}); s.kind == loop && !c.done[name] {
				return name
			}
		}
	}
	return ""
}

// count counts something that has happened.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}
