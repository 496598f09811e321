package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// incidents adds the entries of executions that are lost, stopping, overdue or failed. It returns
// the entries of superseded executions.
func (l *reading) incidents() ([]Entry, error) {
	got, err := l.Executions.Incidents(l.ctx, most)
	if ok, err := l.has("store.Overview", err); !ok {
		return nil, err
	}
	l.At = got.At
	of, read := make(map[store.IncidentKind][]store.Incident), make(map[store.IncidentKind]int)
	for _, i := range got.List {
		if read[i.Kind]++; l.Sees(i.Job) {
			of[i.Kind] = append(of[i.Kind], i)
		}
	}
	// A kind may have more incidents even if the reader may see none of those that were read.
	l.lost(of[store.IncidentLost], l.cut(read[store.IncidentLost], "lost executions"))
	l.stopping(of[store.IncidentPausing], "pause", l.cut(read[store.IncidentPausing], "executions with a pending pause"))
	l.stopping(of[store.IncidentCancelling], "cancel", l.cut(read[store.IncidentCancelling], "executions with a pending cancel"))
	l.overdue(of[store.IncidentOverdue], l.cut(read[store.IncidentOverdue], "overdue executions"))
	return l.failed(of[store.IncidentFailed], l.cut(read[store.IncidentFailed], "failed executions")), nil
}

// A group has the incidents with the same key, in their order.
type group[K comparable] struct {
	key  K
	list []store.Incident
}

// entry returns an entry of the group. Its incidents begin with the one that has lasted longest.
func (g *group[K]) entry(kind Kind, more bool) Entry {
	e := Entry{Kind: kind, Since: g.list[0].Since, Count: len(g.list), More: more}
	for n, i := range g.list {
		if n < samples {
			e.Executions = append(e.Executions, i.Execution)
		}
		if i.Since.After(e.Youngest) {
			e.Youngest = i.Since
		}
	}
	return e
}

func grouped[K comparable](list []store.Incident, key func(*store.Incident) K) (groups []group[K]) {
	place := make(map[K]int)
	for i := range list {
		k := key(&list[i])
		n, ok := place[k]
		if !ok {
			n = len(groups)
			place[k] = n
			groups = append(groups, group[K]{key: k})
		}
		groups[n].list = append(groups[n].list, list[i])
	}
	return groups
}

// lasting returns the incidents that have lasted for at least d.
func (l *reading) lasting(list []store.Incident, d time.Duration) []store.Incident {
	return slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return l.At.Sub(i.Since) < d })
}

func (l *reading) lost(list []store.Incident, more bool) {
	for _, g := range grouped(l.lasting(list, lostFor), func(i *store.Incident) string { return i.Worker }) {
		e := g.entry(Lost, more)
		e.Name, e.Job, e.Queue = g.key, g.list[0].Job, g.list[0].Queue
		e.Title = fmt.Sprintf("Worker %q: its lease of %s has ended, and no other worker has taken over.", g.key, count(e.Count, more, "execution"))
		e.Do = "Check that workers are running and reach the store, and that one of them has the queue, the step types and the workspace."
		e.Call = "Executions.Explain"
		l.add(e)
	}
}

func (l *reading) stopping(list []store.Incident, what string, more bool) {
	for _, g := range grouped(l.lasting(list, stoppingFor), func(i *store.Incident) string { return i.Job }) {
		e := g.entry(Stopping, more)
		e.Job, e.Queue, e.Name, e.Message = g.key, g.list[0].Queue, g.list[0].Worker, g.list[0].Text
		e.Title = fmt.Sprintf("Job %q: the %s of %s was requested, but the worker has not carried it out.", g.key, what, count(e.Count, more, "execution"))
		e.Do, e.Call = "Wait until the current step ends, or cancel the execution, which interrupts the step.", "Engine.Cancel"
		if what == "cancel" {
			e.Do, e.Call = fmt.Sprintf("The step was interrupted but does not return. Check the log of the worker %q, and restart the worker if the step is stuck.", e.Name), ""
		}
		l.add(e)
	}
}

func (l *reading) overdue(list []store.Incident, more bool) {
	type key struct {
		job    string
		reason courier.Reason
	}
	for _, g := range grouped(list, func(i *store.Incident) key { return key{i.Job, i.Reason} }) {
		e := g.entry(Overdue, more)
		e.Job, e.Reason, e.Queue = g.key.job, g.key.reason, g.list[0].Queue
		e.Title = fmt.Sprintf("Job %q: %s overdue (%s).", e.Job, are(e.Count, more), strings.ReplaceAll(string(e.Reason), "_", " "))
		e.Do, e.Call = "Find out why it takes so long. Cancel it if its result is no longer needed.", "Executions.Explain"
		if c := g.list[0].Current; c != nil {
			e.Step, e.StepID, e.StepType = &c.Step, c.ID, c.Type
			e.Message = fmt.Sprintf("%s has reported no progress since %s.", courier.StepLabel(c.Step, c.ID, c.Type), c.Still.UTC().Format("2006-01-02 15:04:05 UTC"))
			if e.Count > 1 {
				e.Message = "The first of them: " + e.Message
			}
			if l.At.Sub(c.Still) >= stuckFor {
				e.Do = "Check the log of its worker. If the step hangs, cancel the execution and start it again."
			}
		}
		l.add(e)
	}
}

// atPartner names the failure at a connection, for the reasons for which the partner is to blame
// and not the job. Such failures are the same trouble for all jobs.
var atPartner = map[courier.Reason]string{
	courier.ReasonConnection: "no connection to %q", courier.ReasonLogin: "login failed at %q",
	courier.ReasonQuota: "quota used up at %q", courier.ReasonSecret: "no secret for %q",
}

// BlamesPartner reports whether the partner, and not the job, is to blame for a failure at a
// connection.
func BlamesPartner(r courier.Reason) bool { return atPartner[r] != "" }

// A failureKey is common to the failures of a group: the reason, and either the connection or the
// job and the step. It is only the reason if a local disk is full.
type failureKey struct {
	reason       courier.Reason
	connection   string
	job, id, typ string
	step         int
}

func keyOf(i *store.Incident) failureKey {
	k := failureKey{reason: i.Reason, step: -1}
	f := i.Failure
	if f != nil && f.Connection != "" && atPartner[i.Reason] != "" {
		k.connection = f.Connection
		return k
	}
	if i.Reason == courier.ReasonSpace {
		return k
	}
	if k.job = i.Job; f != nil {
		if k.id, k.typ, k.step = f.ID, f.Type, f.Step; k.id != "" {
			k.step = 0 // the id identifies the step, whatever its index in a version
		}
	}
	return k
}

// failed adds the failures in groups, the largest first. It returns the entries of superseded
// failures.
func (l *reading) failed(list []store.Incident, more bool) (superseded []Entry) {
	open := slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return i.SupersededBy != "" })
	groups := grouped(open, keyOf)
	slices.SortStableFunc(groups, func(x, y group[failureKey]) int { return len(y.list) - len(x.list) })
	for i := range groups {
		l.add(failedEntry(&groups[i], more))
	}
	old := slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return i.SupersededBy == "" })
	for _, g := range grouped(old, func(i *store.Incident) string { return i.Job }) {
		e := g.entry(Superseded, more)
		e.Job, e.Executions = g.key, nil
		for _, i := range g.list {
			e.Executions = append(e.Executions, i.Execution)
		}
		e.Title = fmt.Sprintf("Job %q: %s failed, and a later one with the same parameters or the same label key has completed.", e.Job, count(e.Count, more, "execution"))
		e.Do, e.Call = "Cancel them all. They hold no file that exists nowhere else.", "Engine.Cancel"
		superseded = append(superseded, e)
	}
	return superseded
}

// failedEntry returns the entry of a group of failures, the newest first.
func failedEntry(g *group[failureKey], more bool) Entry {
	e := g.entry(Failed, more)
	e.Reason, e.Connection, e.Job, e.Queue = g.key.reason, g.key.connection, g.list[0].Job, g.list[0].Queue
	one := true // job and step
	for _, i := range g.list {
		if i.Since.Before(e.Since) {
			e.Since = i.Since
		}
		if f, first := i.Failure, g.list[0].Failure; e.shared() && f != nil && first != nil && (f.Step != first.Step || f.ID != first.ID || f.Type != first.Type) {
			one = false
		}
		if e.All = append(e.All, i.Execution); !slices.Contains(e.Jobs, i.Job) {
			e.Jobs = append(e.Jobs, i.Job)
		}
	}
	where, why := "", e.Reason.Words()
	if e.Connection != "" {
		why = fmt.Sprintf(atPartner[e.Reason], e.Connection)
	}
	if f := g.list[0].Failure; f != nil {
		if e.Message = f.Message; one && len(e.Jobs) == 1 {
			if e.StepID, e.StepType = f.ID, f.Type; f.Step >= 0 {
				e.Step, where = &f.Step, " at "+courier.StepLabel(f.Step, f.ID, f.Type)
			}
		}
	}
	if e.Reason != courier.ReasonError { // otherwise the message says no more than that
		where += ": " + why
	}
	if e.Title = fmt.Sprintf("Job %q: %s failed%s.", e.Job, count(e.Count, more, "execution"), where); len(e.Jobs) > 1 {
		e.Title, e.Job, e.Queue = fmt.Sprintf("%d jobs: %s, %s failed.", len(e.Jobs), why, count(e.Count, more, "execution")), "", ""
	} else {
		e.Jobs = nil
	}
	them := "them"
	if e.Count == 1 && !more {
		them = "it"
	}
	runs := "completed steps are not run again"
	if e.Reason == courier.ReasonItems {
		runs = "each failed item continues at the step that failed"
	}
	e.Do = fmt.Sprintf("Fix the cause, then resume %s: %s. Or cancel %s.", them, runs, them)
	e.Call = "Engine.Resume"
	if e.Version = newer(g.list); len(e.Jobs) > 0 {
		e.Version = 0
	}
	if e.Version > 0 {
		e.Do = fmt.Sprintf("The job has version %d now, and they have an older one. If the new version fixes the cause, resume them with it: a plain resume keeps the old version. Or cancel them.", e.Version)
		if e.Count == 1 {
			e.Do = fmt.Sprintf("The job has version %d now, and it has version %d. If the new version fixes the cause, resume it with that: a plain resume keeps the old version. Or cancel it.", e.Version, g.list[0].Version)
		}
	}
	return e
}

// newer returns the latest version of the job of some failures if all of them have older
// versions.
func newer(list []store.Incident) int {
	for i := range list {
		if list[i].Version >= list[i].Latest {
			return 0
		}
	}
	return list[0].Latest
}
