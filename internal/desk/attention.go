package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// An Attention is what somebody has to look at, the most urgent first.
type Attention struct {
	At      time.Time `json:"at"`
	Entries []Entry   `json:"entries"`
	// Missing are the roles that the store lacks, such as "store.Overview": what depends on
	// them is left out.
	Missing []string `json:"missing,omitempty"`
	// Cut are the parts of which there is more than was read, each as a sentence.
	Cut []string `json:"cut,omitempty"`
	// Next is the schedule that fires next, of those that were read; nil if none fires.
	Next *schedule.Schedule `json:"-"`
}

// An Entry is one thing that somebody has to look at. Fields that have no meaning for its
// kind are zero.
type Entry struct {
	Kind  Kind      `json:"kind"`
	Title string    `json:"title"` // a sentence
	Since time.Time `json:"since,omitzero"`
	// Count is how many there are, and that many or more with More.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
	// Job, Step, StepID, StepType and Reason are what the failures of a group have in common;
	// Step is nil where no step is to blame.
	Job      string         `json:"job,omitempty"`
	Step     *int           `json:"step,omitempty"`
	StepID   string         `json:"step_id,omitempty"`
	StepType string         `json:"step_type,omitempty"`
	Reason   courier.Reason `json:"reason,omitempty"`
	Queue    string         `json:"queue,omitempty"`
	Name     string         `json:"name,omitempty"`    // of a schedule, monitor, subscription or worker
	Thing    string         `json:"thing,omitempty"`   // that is put away: "schedule", "monitor" or "subscription"
	State    courier.State  `json:"state,omitempty"`   // of executions that are put away
	By       string         `json:"by,omitempty"`      // who has put it away; of several the one that is longest so
	Message  string         `json:"message,omitempty"` // the newest error or problem
	// Executions are up to 5 of them: the newest of failures, those for which it has lasted
	// longest of all else. Of superseded ones there are all that were read.
	Executions []courier.ExecutionID `json:"execution_ids,omitempty"`
	// Version is a version of Job that is newer than those of all failures of the group; 0
	// if there is none.
	Version int `json:"version,omitempty"`
	// Because says why the first of Executions does not go on, if that was asked for.
	Because []advice.Cause `json:"because,omitempty"`
	// Do is what an operator can do, and Call the engine's call for it, as in [advice.Cause].
	Do   string `json:"do"`
	Call string `json:"call,omitempty"`
}

// A Kind is a kind of [Entry].
type Kind string

// The kinds, the most urgent first.
const (
	Lost         Kind = "lost"         // executions whose lease ended over a minute ago
	Stopping     Kind = "stopping"     // executions that a pause or cancel has not stopped for 5 minutes
	Failed       Kind = "failed"       // failed executions, by job, step and reason
	Due          Kind = "due"          // a queue with executions that are due for 5 minutes
	Overdue      Kind = "overdue"      // executions that have passed max_duration or expected_by
	Schedule     Kind = "schedule"     // one that is paused, late or has a problem, or that a change of the clocks meets within 14 days
	Monitor      Kind = "monitor"      // one that is degraded or in error, or that nobody polls
	Delivery     Kind = "delivery"     // deliveries that have failed
	Subscription Kind = "subscription" // one that was switched off
	Stranded     Kind = "stranded"     // executions that no worker can claim
	Refusal      Kind = "refusal"      // progress that the store does not take from this engine
	Kept         Kind = "kept"         // files of executions that have ended for good, which may exist nowhere else
	Superseded   Kind = "superseded"   // failed executions without only copies, for which a younger one has completed
	PutAway      Kind = "put_away"     // what people have switched off, held or paused
)

// How long something lasts before it is an entry.
const (
	lostFor     = time.Minute
	stoppingFor = 5 * time.Minute
	dueFor      = 5 * time.Minute
	lateFor     = time.Minute         // a schedule
	unpolledFor = 5 * time.Minute     // a monitor
	stuckFor    = 5 * time.Minute     // a step of an overdue execution, which reports no progress
	noticed     = 14 * 24 * time.Hour // how long before it a change of the clocks is an entry
)

const (
	most    = store.DefaultCountLimit // of each part that is read
	samples = 5
)

// Attention returns what somebody has to look at. It reads at most 12 statements of the
// store, and one for each of up to 40 things that people have put away. None depends on the
// length of the history.
func (d *Desk) Attention(ctx context.Context) (Attention, error) {
	return d.attention(ctx, func(string) bool { return true }, nil)
}

// Attention is [Desk.Attention] of the jobs that the visitor may see. What belongs to none
// is left out, unless it may see all. Values are hidden if it may not see them.
func (v *Visit) Attention(ctx context.Context) (Attention, error) {
	a, err := v.d.attention(ctx, func(job string) bool { return v.Can(ctx, job, access.RightSee) }, func() ([]string, error) {
		jobs, _, err := v.jobsOf(ctx, &filter.Filter{}, access.RightSee)
		return jobs, err
	})
	for i := range a.Entries {
		if e := &a.Entries[i]; !v.SeesValues(ctx, e.Job) {
			HideAttention(e)
		}
	}
	return a, err
}

// attention is that of some jobs; what belongs to none, or to several, is that of the job "".
// Jobs lists those that are seen; it is called if the job "" is not.
func (d *Desk) attention(ctx context.Context, sees func(job string) bool, jobs func() ([]string, error)) (Attention, error) {
	a := attention{Desk: d, ctx: ctx, sees: sees, jobs: jobs, Attention: Attention{At: time.Now().UTC(), Entries: []Entry{}}}
	var last []Entry
	parts := []func() error{func() (err error) { last, err = a.incidents(); return err }, a.schedules, a.monitors, a.kept}
	if sees("") {
		parts = append(parts, a.stranded, a.queues, a.deliveries)
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return Attention{}, fmt.Errorf("attention: %w", err)
		}
	}
	if err := a.putAway(); err != nil {
		return Attention{}, fmt.Errorf("attention: %w", err)
	}
	a.refusals()
	a.Entries = append(a.Entries, last...)
	order := []Kind{Lost, Stopping, Failed, Due, Overdue, Schedule, Monitor, Delivery, Subscription, Stranded, Refusal, Kept, Superseded, PutAway}
	slices.SortStableFunc(a.Entries, func(x, y Entry) int { return slices.Index(order, x.Kind) - slices.Index(order, y.Kind) })
	return a.Attention, nil
}

// An attention is one in the making.
type attention struct {
	*Desk
	Attention
	ctx      context.Context
	sees     func(job string) bool
	jobs     func() ([]string, error) // that are seen, if not all are
	unserved map[string]advice.Cause  // by queue: why no worker takes what is in it
	away     []Entry                  // what people have switched off
}

// has reports whether a part was read. One whose role the store lacks is left out.
func (a *attention) has(role string, err error) (bool, error) {
	if errors.Is(err, errors.ErrUnsupported) {
		if !slices.Contains(a.Missing, role) {
			a.Missing = append(a.Missing, role)
		}
		return false, nil
	}
	return err == nil, err
}

func (a *attention) add(e Entry) { a.Entries = append(a.Entries, e) }

// cut says that there is more of a part if n were read, and reports whether it does.
func (a *attention) cut(n int, what string) bool {
	if n >= most {
		a.Cut = append(a.Cut, fmt.Sprintf("There are %d %s or more, of which these were looked at.", most, what))
	}
	return n >= most
}

// incidents adds the entries of executions that are lost, stopping, overdue or failed. It
// returns those of superseded ones.
func (a *attention) incidents() ([]Entry, error) {
	got, err := a.e.Executions().Incidents(a.ctx, most)
	if ok, err := a.has("store.Overview", err); !ok {
		return nil, err
	}
	a.At = got.At
	of, read := make(map[store.IncidentKind][]store.Incident), make(map[store.IncidentKind]int)
	for _, i := range got.List {
		if read[i.Kind]++; a.sees(i.Job) {
			of[i.Kind] = append(of[i.Kind], i)
		}
	}
	// There may be more also of a kind of which none that was read may be seen.
	a.lost(of[store.IncidentLost], a.cut(read[store.IncidentLost], "lost executions"))
	a.stopping(of[store.IncidentPausing], "pause", a.cut(read[store.IncidentPausing], "executions with a pending pause"))
	a.stopping(of[store.IncidentCancelling], "cancel", a.cut(read[store.IncidentCancelling], "executions with a pending cancel"))
	a.overdue(of[store.IncidentOverdue], a.cut(read[store.IncidentOverdue], "overdue executions"))
	return a.failed(of[store.IncidentFailed], a.cut(read[store.IncidentFailed], "failed executions")), nil
}

// A group has the incidents with the same key, in their order.
type group[K comparable] struct {
	key  K
	list []store.Incident
}

// entry returns an entry of the group, whose incidents begin with the one for which it has
// lasted longest.
func (g *group[K]) entry(kind Kind, more bool) Entry {
	e := Entry{Kind: kind, Since: g.list[0].Since, Count: len(g.list), More: more}
	for _, i := range g.list[:min(len(g.list), samples)] {
		e.Executions = append(e.Executions, i.Execution)
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

// lasting returns the incidents that have lasted for so long.
func (a *attention) lasting(list []store.Incident, d time.Duration) []store.Incident {
	return slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return a.At.Sub(i.Since) < d })
}

func (a *attention) lost(list []store.Incident, more bool) {
	for _, g := range grouped(a.lasting(list, lostFor), func(i *store.Incident) string { return i.Worker }) {
		e := g.entry(Lost, more)
		e.Name, e.Job, e.Queue = g.key, g.list[0].Job, g.list[0].Queue
		e.Title = fmt.Sprintf("Worker %q: its lease of %s has ended, and no other worker has taken over.", g.key, count(e.Count, more, "execution"))
		e.Do = "Look whether workers run, whether they reach the store, and whether one has the queue, the step types and the workspace."
		e.Call = "Executions.Explain"
		a.add(e)
	}
}

func (a *attention) stopping(list []store.Incident, what string, more bool) {
	for _, g := range grouped(a.lasting(list, stoppingFor), func(i *store.Incident) string { return i.Job }) {
		e := g.entry(Stopping, more)
		e.Job, e.Queue, e.Name, e.Message = g.key, g.list[0].Queue, g.list[0].Worker, g.list[0].Text
		e.Title = fmt.Sprintf("Job %q: the %s of %s was requested, and the worker has not carried it out.", g.key, what, count(e.Count, more, "execution"))
		e.Do, e.Call = "Wait until the present step has ended, or cancel the execution, which interrupts the step.", "Engine.Cancel"
		if what == "cancel" {
			e.Do, e.Call = fmt.Sprintf("The step does not return although it was interrupted. Look at the log of the worker %q, and restart it if the step is stuck.", e.Name), ""
		}
		a.add(e)
	}
}

func (a *attention) overdue(list []store.Incident, more bool) {
	type key struct {
		job    string
		reason courier.Reason
	}
	for _, g := range grouped(list, func(i *store.Incident) key { return key{i.Job, i.Reason} }) {
		e := g.entry(Overdue, more)
		e.Job, e.Reason, e.Queue = g.key.job, g.key.reason, g.list[0].Queue
		e.Title = fmt.Sprintf("Job %q: %s has passed for %s, not ended yet.", e.Job, strings.ReplaceAll(string(e.Reason), "_", " "), count(e.Count, more, "execution"))
		e.Do, e.Call = "Look why it takes so long. Cancel it if its result is no longer needed.", "Executions.Explain"
		if c := g.list[0].Current; c != nil {
			e.Step, e.StepID, e.StepType = &c.Step, c.ID, c.Type
			e.Message = fmt.Sprintf("%s reports no progress since %s.", courier.StepLabel(c.Step, c.ID, c.Type), c.Still.UTC().Format(time.RFC3339))
			if e.Count > 1 {
				e.Message = "The first of them: " + e.Message
			}
			if a.At.Sub(c.Still) >= stuckFor {
				e.Do = "Look at the log of its worker. If the step hangs, cancel the execution, and start it again."
			}
		}
		a.add(e)
	}
}

// failed adds the failures by job, step and reason, those with the most executions first.
// It returns the entries of those that are superseded.
func (a *attention) failed(list []store.Incident, more bool) (superseded []Entry) {
	type key struct {
		job, id, typ string
		step         int
		reason       courier.Reason
	}
	open := slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return i.SupersededBy != "" })
	groups := grouped(open, func(i *store.Incident) key {
		k := key{job: i.Job, step: -1, reason: i.Reason}
		if f := i.Failure; f != nil {
			if k.id, k.typ, k.step = f.ID, f.Type, f.Step; k.id != "" {
				k.step = 0 // the id is the step's, wherever a version of the job has it
			}
		}
		return k
	})
	slices.SortStableFunc(groups, func(x, y group[key]) int { return len(y.list) - len(x.list) })
	for _, g := range groups {
		e := g.entry(Failed, more)
		e.Job, e.Reason, e.Queue = g.key.job, g.key.reason, g.list[0].Queue
		for _, i := range g.list {
			if i.Since.Before(e.Since) {
				e.Since = i.Since
			}
		}
		where := ""
		if f := g.list[0].Failure; f != nil {
			if e.StepID, e.StepType, e.Message = f.ID, f.Type, f.Message; f.Step >= 0 {
				e.Step, where = &f.Step, " at "+courier.StepLabel(f.Step, f.ID, f.Type)
			}
		}
		if e.Reason != courier.ReasonError { // the message says more than that
			where += ": " + strings.ReplaceAll(string(e.Reason), "_", " ")
		}
		them := "them"
		if e.Count == 1 && !more {
			them = "it"
		}
		runs := "completed steps are not run again"
		if e.Reason == courier.ReasonItems {
			runs = "each failed item goes on at the step that failed"
		}
		e.Title = fmt.Sprintf("Job %q: %s failed%s.", e.Job, count(e.Count, more, "execution"), where)
		e.Do = fmt.Sprintf("Remove the cause, and resume %s: %s. Or cancel %s.", them, runs, them)
		e.Call = "Engine.Resume"
		if e.Version = newer(g.list); e.Version > 0 {
			e.Do = fmt.Sprintf("The job has a version %d, and they have an older one. If that removes the cause, resume them with it: a plain resume keeps theirs. Or cancel them.", e.Version)
			if e.Count == 1 {
				e.Do = fmt.Sprintf("The job has a version %d, and it has version %d. If the newer one removes the cause, resume it with that: a plain resume keeps its own. Or cancel it.", e.Version, g.list[0].Version)
			}
		}
		a.add(e)
	}
	old := slices.DeleteFunc(slices.Clone(list), func(i store.Incident) bool { return i.SupersededBy == "" })
	for _, g := range grouped(old, func(i *store.Incident) string { return i.Job }) {
		e := g.entry(Superseded, more)
		e.Job, e.Executions = g.key, nil
		for _, i := range g.list {
			e.Executions = append(e.Executions, i.Execution)
		}
		e.Title = fmt.Sprintf("Job %q: %s failed, and a younger one with the same parameters, or the same label key, has completed.", e.Job, count(e.Count, more, "execution"))
		e.Do, e.Call = "Give them up: cancel them all. They hold no file that exists nowhere else.", "Engine.Cancel"
		superseded = append(superseded, e)
	}
	return superseded
}

// newer returns the latest version of the job of some failures, if all have older ones.
func newer(list []store.Incident) int {
	for i := range list {
		if list[i].Version >= list[i].Latest {
			return 0
		}
	}
	return list[0].Latest
}

// count says how many there are of something.
func count(n int, more bool, noun string) string {
	switch {
	case more:
		return fmt.Sprintf("%d %ss or more", n, noun)
	case n == 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
