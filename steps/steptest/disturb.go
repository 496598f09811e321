package steptest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// A way is the continuation after a disturbed attempt.
type way int

const (
	next     way = iota // Cleanup and Execute as the next attempt
	handOver            // as the same attempt, by a worker that has nothing open
	undo                // as the next one after Rollback, by another worker
)

// ways returns the ways in all that the case does not exclude.
func (tr *trial) ways(all ...way) []way {
	return slices.DeleteFunc(all, func(w way) bool {
		return w == handOver && slices.Contains(tr.Except, "hand over") || w == undo && slices.Contains(tr.Except, "rollback")
	})
}

// panicking returns a panic as the disturbance, since it leaves the most files
// behind. It returns an interruption if panics are excluded.
func (tr *trial) panicking() (what string, act disturbance) {
	if slices.Contains(tr.Except, "panic") {
		return "interrupted at", interrupted
	}
	return "panicked at", panicking
}

// repeat executes a completed step again.
func (tr *trial) repeat() {
	tr.t.Helper()
	var visits []visit
	for _, then := range tr.ways(next, handOver) {
		visits = append(visits, visit{0, then})
	}
	tr.each(visits, func(w *World, v visit) {
		w.Helper()
		a := w.newAttempt(1, 0, nil, false)
		defer a.close()
		a.execute(false, nil)
		if where := "an undisturbed run"; !a.wait() || a.err != nil {
			w.broken(where, ruleRuns, a.failure())
			return
		} else if !tr.complete(w, where, a, ruleSame) {
			return
		}
		numbers := []int{2, 3}
		if v.then == handOver {
			numbers = []int{1, 2}
		}
		for i, number := range numbers {
			if v.then == handOver {
				w.newWorker()
			}
			where := fmt.Sprintf("after a complete attempt whose reply was lost, repeated as attempt %d", number)
			if i > 0 {
				where += ", the second repetition"
			}
			if !tr.repeated(w, where, number) {
				return
			}
		}
	})
}

// repeated executes the step again. It also checks the result between Cleanup
// and Execute.
func (tr *trial) repeated(w *World, where string, number int) bool {
	w.Helper()
	changed := ""
	between := func() {
		s, err := w.look(number)
		if err != nil {
			changed = "\t" + err.Error()
			return
		}
		changed = s.differences(tr.ref.after, func(name string) bool { return strings.HasPrefix(name, own) })
	}
	return tr.again(w, where, number, ruleOutcome, between) && func() bool {
		if changed != "" {
			w.broken(where, ruleResult, changed)
		}
		return w.ok
	}()
}

// again executes the step after an earlier attempt.
func (tr *trial) again(w *World, where string, number int, outcome rule, between func()) bool {
	w.Helper()
	a := w.newAttempt(number, 0, nil, false)
	defer a.close()
	a.execute(true, between)
	switch inTime := a.wait(); {
	case !inTime || a.err != nil && a.cleaned && outcome != ruleResume:
		w.broken(where, ruleAgain, a.failure())
	case a.err != nil && !a.cleaned:
		w.broken(where, ruleCleanup, a.failure())
	case a.err != nil:
		w.broken(where, outcome, a.failure())
	default:
		tr.complete(w, where, a, outcome)
	}
	return w.ok
}

// newWorker closes the resources that the step kept open, as when another
// worker continues.
func (w *World) newWorker() {
	w.Helper()
	if err := w.kept.Close(); err != nil {
		w.Logf("closing what the step kept open: %v", err)
	}
	w.kept = new(courier.Resources)
}

// goOn recovers from attempt number as an engine does.
func (tr *trial) goOn(w *World, where string, number int, then way) bool {
	w.Helper()
	if !tr.half(w, where, number) {
		return false
	}
	switch then {
	case handOver:
		w.newWorker()
		return tr.again(w, where+", then Cleanup and Execute as the same attempt on another worker", number, ruleOutcome, nil)
	case undo:
		if !tr.rollback(w, where+", then Rollback", number, false) {
			return false
		}
		w.newWorker()
		return tr.again(w, where+", then Rollback, then Cleanup and Execute as the next attempt", number+1, ruleResume, nil)
	}
	return tr.again(w, where+", then Cleanup and Execute as the next attempt", number+1, ruleOutcome, nil)
}

func (tr *trial) rollback(w *World, where string, number int, cancelled bool) bool {
	w.Helper()
	a := w.newAttempt(number, 0, nil, cancelled)
	defer a.close()
	a.cleaned = true
	a.rollback()
	if !a.wait() || a.err != nil {
		w.broken(where, ruleRollback, a.failure())
		return false
	}
	return tr.half(w, where, number)
}

// first runs the first attempt with a disturbance. It reports false if no
// recovery is needed, because a rule was broken or the attempt completed.
func (tr *trial) first(w *World, what string, at int, act disturbance) (a *attempt, where string, failed bool) {
	w.Helper()
	a = w.newAttempt(1, at, act, false)
	a.execute(false, nil)
	inTime := a.wait()
	where = what + " " + a.probe.hit()
	if a.probe.hit() == "" {
		where = "an undisturbed run"
	}
	if isClosed(a.stuck) {
		return a, where, true
	}
	a.close()
	if a.panicked {
		// What the end of its context sets off, such as the end of a connection,
		// happens at some time; the next attempt must not depend on when.
		time.Sleep(time.Millisecond)
	}
	if !tr.returned(w, where, a, inTime) {
		return a, where, false
	}
	if a.err == nil {
		tr.complete(w, where+", which it completed in spite of that", a, ruleOutcome)
		return a, where, false
	}
	return a, where, true
}

// interrupt ends the context of the step.
func (tr *trial) interrupt() {
	tr.t.Helper()
	tr.each(tr.visits(tr.Places, tr.ways(next, handOver, undo), anywhere), func(w *World, v visit) {
		w.Helper()
		_, where, failed := tr.first(w, "interrupted at", v.place, interrupted)
		if !failed || tr.Tidy && !tr.tidy(w, where) {
			return
		}
		tr.goOn(w, where, 1, v.then)
	})
}

// tidy looks for side files in all directories that the step can reach.
func (tr *trial) tidy(w *World, where string) bool {
	w.Helper()
	s, err := w.look(1)
	if err != nil {
		w.Error(err)
		return false
	}
	for _, name := range s.side {
		for _, dir := range append([]string{w.Work}, w.Roots...) {
			if strings.HasPrefix(w.Dir+"/"+name, dir+"/") {
				w.broken(where, ruleTidy, "\t"+name)
				return false
			}
		}
	}
	return true
}

// fail makes operations on files and secrets fail.
func (tr *trial) fail() {
	tr.t.Helper()
	tr.each(tr.visits(tr.Places/2, tr.ways(next, undo), canFail), func(w *World, v visit) {
		w.Helper()
		if _, where, failed := tr.first(w, "failed at", v.place, failing); failed {
			tr.goOn(w, where, 1, v.then)
		}
	})
}

// panic makes the step panic.
func (tr *trial) panic() {
	tr.t.Helper()
	tr.each(tr.visits(tr.Places/2, tr.ways(next, undo), canPanic), func(w *World, v visit) {
		w.Helper()
		if _, where, failed := tr.first(w, "panicked at", v.place, panicking); failed {
			tr.goOn(w, where, 1, v.then)
		}
	})
}

// cutOff closes all files and connections of an attempt that hangs, and lets it
// continue when the next attempt has completed.
func (tr *trial) cutOff() {
	tr.t.Helper()
	tr.each(tr.visits(tr.Places/2, []way{next}, anywhere), func(w *World, v visit) {
		w.Helper()
		a, where, failed := tr.first(w, "hung at", v.place, hanging)
		defer a.close()
		if !failed {
			return
		}
		a.stop(errCutOff)
		a.job.Close()
		w.newWorker()
		where += " and was cut off"
		ok := tr.goOn(w, where, 1, next)
		close(a.release)
		if !a.gone() && ok {
			w.broken(where+", then went on", ruleReturns, fmt.Sprintf("\tit did not return within %v", tr.Return))
		}
		if !w.ok {
			return
		}
		s, err := w.look(2)
		if err != nil {
			w.Error(err)
			return
		}
		details := s.differences(tr.ref.after, nil)
		for _, name := range s.side {
			details += "\n\t" + name + " is left over"
		}
		if details != "" {
			w.broken(where+", then went on after the next attempt had completed", ruleFenced, strings.TrimPrefix(details, "\n"))
		}
	})
}

// cancel cancels the execution and rolls the step back.
func (tr *trial) cancel() {
	tr.t.Helper()
	tr.each(tr.visits(tr.Places/2, []way{next, undo}, canPanic), func(w *World, v visit) {
		w.Helper()
		what, act := "interrupted at", disturbance(interrupted)
		if v.then == undo {
			what, act = tr.panicking()
		}
		_, where, failed := tr.first(w, what, v.place, act)
		where += ", then Rollback for a cancel"
		if !failed || !tr.rollback(w, where, 1, true) {
			return
		}
		s, err := w.look(1)
		if err != nil {
			w.Error(err)
			return
		}
		if strange := s.strange(tr.ref.before, tr.ref.after); strange != "" {
			w.broken(where, ruleCancel, strange)
		}
	})
}

// twice interrupts the attempt that follows a panic.
func (tr *trial) twice() {
	tr.t.Helper()
	first := choose(tr.ref.places, len(tr.ref.places), canPanic)
	if len(first) == 0 {
		return
	}
	var visits []visit
	for n := 1; n <= 2*len(tr.ref.places)+8 && len(visits) < max(1, tr.Places/3); n += 1 + n/3 {
		visits = append(visits, visit{n, next})
	}
	tr.each(visits, func(w *World, v visit) {
		w.Helper()
		what, act := tr.panicking()
		_, where, failed := tr.first(w, what, first[len(first)*3/4], act)
		if !failed {
			return
		}
		b := w.newAttempt(2, v.place, interrupted, false)
		b.execute(true, nil)
		inTime := b.wait()
		b.close()
		where += ", the next attempt interrupted at " + b.probe.hit()
		switch {
		case b.probe.hit() == "" || !tr.returned(w, where, b, inTime):
		case b.err == nil:
			tr.complete(w, where+", which it completed in spite of that", b, ruleOutcome)
		default:
			tr.goOn(w, where, 2, next)
		}
	})
}
