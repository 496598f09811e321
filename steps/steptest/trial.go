package steptest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// A reference is the result of an undisturbed run.
type reference struct {
	before, after    state
	outputs, reports string
	places           []place
}

// undisturbed runs the step in two worlds. It returns nil if the results cannot
// be compared.
func (c *Case) undisturbed(t testing.TB, alone worlds) (ref *reference) {
	t.Helper()
	for i := range 2 {
		ok := false
		alone(func(t testing.TB) {
			w := c.newWorld(t)
			if w == nil {
				return
			}
			defer w.end()
			r := w.reference()
			switch {
			case r == nil:
			case i == 0:
				ref, ok = r, true
			default:
				ok = w.same("an undisturbed run", r, ref)
			}
		})
		if !ok {
			return nil
		}
	}
	return ref
}

// reference runs the step undisturbed.
func (w *World) reference() *reference {
	w.Helper()
	const where = "an undisturbed run"
	r := new(reference)
	var err error
	if r.before, err = w.look(1); err != nil {
		w.Error(err)
		return nil
	}
	a := w.newAttempt(1, 0, nil, false)
	defer a.close()
	a.probe.list = true
	a.execute(false, nil)
	if !a.wait() || a.err != nil {
		w.broken(where, ruleRuns, a.failure())
		return nil
	}
	if r.after, err = w.look(1); err == nil {
		r.outputs, err = w.outputs(a.out, 1)
	}
	if err != nil {
		w.Error(err)
		return nil
	}
	r.places = a.probe.listed()
	looks, pieces := a.probe.looked(), 0
	for _, p := range r.places {
		if p.kind == progress || p.kind == file && strings.HasPrefix(p.what, "write") {
			pieces++
		}
	}
	var wrong string
	r.reports, wrong = w.reports(a.job.Reports().Files, 1)
	switch {
	case wrong != "":
		w.broken(where, ruleTrue, wrong)
	case len(r.after.side) > 0:
		w.broken(where, ruleLeft, "\t"+strings.Join(r.after.side, "\n\t"))
	case looks == 0 && pieces > 1:
		w.broken(where, ruleLooks, fmt.Sprintf("\t%d pieces", pieces))
	default:
		return r
	}
	return nil
}

// same compares two undisturbed runs.
func (w *World) same(where string, r, ref *reference) bool {
	w.Helper()
	details := r.after.differences(ref.after, nil)
	if d := r.before.differences(ref.before, nil); d != "" {
		details = "before the step:\n" + d
	}
	if details == "" && r.outputs != ref.outputs {
		details = fmt.Sprintf("outputs\n\t%s\nand\n\t%s", r.outputs, ref.outputs)
	}
	if details == "" && r.reports != ref.reports {
		details = fmt.Sprintf("reports of files\n%s\nand\n%s", r.reports, ref.reports)
	}
	if details != "" {
		w.broken(where, ruleSame, details)
	}
	return details == ""
}

// failure describes how an attempt ended.
func (a *attempt) failure() string {
	select {
	case <-a.done:
	default:
		return "\tit did not return"
	}
	text := fmt.Sprintf("\terror: %v", a.err)
	if !a.cleaned {
		text = "\tin Cleanup\n" + text
	}
	if a.trace != "" {
		text += "\n" + a.trace
	}
	return text
}

// A trial runs a step with one kind of disturbance.
type trial struct {
	Case
	t     testing.TB
	alone worlds
	ref   *reference
}

// A visit is a place to disturb, and the way that follows.
type visit struct {
	place int
	then  way
}

// each calls f in a new world for each visit. It stops after a broken rule.
func (tr *trial) each(visits []visit, f func(w *World, v visit)) {
	tr.t.Helper()
	for _, v := range visits {
		ok := false
		tr.alone(func(t testing.TB) {
			t.Helper()
			w := tr.newWorld(t)
			if w == nil {
				return
			}
			defer func() { w.end(); ok = w.ok }()
			f(w, v)
		})
		if !ok {
			return
		}
	}
}

// visits returns at most most places for which take returns true. The ways take
// turns, unless there are few places.
func (tr *trial) visits(most int, ways []way, take func(p place) bool) []visit {
	all := choose(tr.ref.places, most, take)
	var visits []visit
	for i, n := range all {
		if len(all)*len(ways) > most {
			visits = append(visits, visit{n, ways[i%len(ways)]})
			continue
		}
		for _, then := range ways {
			visits = append(visits, visit{n, then})
		}
	}
	return visits
}

// choose returns the numbers of at most most places for which take returns
// true. Lines of the step's code that are reached often are not preferred:
// choose takes from each line in turn its first place, its last, and one in the
// middle of the remaining places.
func choose(places []place, most int, take func(p place) bool) []int {
	byLine := make(map[string][]int)
	var lines []string
	for i, p := range places {
		if !take(p) {
			continue
		}
		operation, _, _ := strings.Cut(p.what, " ")
		key := operation + p.line
		if byLine[key] == nil {
			lines = append(lines, key)
		}
		byLine[key] = append(byLine[key], i+1)
	}
	var chosen []int
	for round, found := 0, true; found && len(chosen) < most; round++ {
		found = false
		for _, l := range lines {
			left := byLine[l]
			if len(left) == 0 || len(chosen) == most {
				continue
			}
			i := [3]int{0, len(left) - 1, len(left) / 2}[min(round, 2)]
			chosen, found = append(chosen, left[i]), true
			byLine[l] = slices.Delete(left, i, i+1)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// anywhere and the functions after it choose places.
func anywhere(place) bool   { return true }
func canFail(p place) bool  { return p.kind == file || p.kind == secret || p.kind == outside }
func canPanic(p place) bool { return !p.inCommit() }

// half checks the world after an attempt that did not complete.
func (tr *trial) half(w *World, where string, number int) bool {
	w.Helper()
	s, err := w.look(number)
	if err != nil {
		w.Error(err)
		return false
	}
	if half := s.half(tr.ref.before, tr.ref.after, tr.Partial); half != "" {
		w.broken(where, ruleHalf, half)
	}
	return w.ok
}

// returned checks how a disturbed attempt ended, unless it hangs or panicked.
func (tr *trial) returned(w *World, where string, a *attempt, inTime bool) bool {
	w.Helper()
	stopped := a.probe.hit() != "" && isClosed(a.stopped)
	switch {
	case !inTime:
		w.broken(where, ruleReturns, fmt.Sprintf("\tit did not return within %v", tr.Return))
	case a.trace != "":
		w.broken(where, rulePanics, a.failure())
	case a.panicked || a.err == nil:
	case stopped && !errors.Is(a.err, errInterrupted):
		w.broken(where, ruleCause, fmt.Sprintf("\terror: %v\n\tcause: %v", a.err, errInterrupted))
	case !stopped && errors.Is(a.err, errFault) && courier.IsPermanent(a.err):
		w.broken(where, rulePermanent, fmt.Sprintf("\terror: %v", a.err))
	}
	return w.ok
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// complete checks the result of an attempt that reports success.
func (tr *trial) complete(w *World, where string, a *attempt, outcome rule) bool {
	w.Helper()
	s, err := w.look(a.number)
	if err != nil {
		w.Error(err)
		return false
	}
	outputs, err := w.outputs(a.out, a.number)
	if err != nil {
		w.Error(err)
		return false
	}
	reports, wrong := w.reports(a.job.Reports().Files, a.number)
	different := s.differences(tr.ref.after, nil)
	switch {
	case different != "":
		w.broken(where, outcome, different)
	case len(s.side) > 0:
		w.broken(where, ruleLeft, "\t"+strings.Join(s.side, "\n\t"))
	case wrong != "":
		w.broken(where, ruleTrue, wrong)
	case outputs != tr.ref.outputs:
		w.broken(where, ruleOutputs, fmt.Sprintf("\t%s\nwant\n\t%s", outputs, tr.ref.outputs))
	case reports != tr.ref.reports:
		w.broken(where, ruleReports, fmt.Sprintf("reported are\n%s\nwant\n%s", reports, tr.ref.reports))
	}
	return w.ok
}
