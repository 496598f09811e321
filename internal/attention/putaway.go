package attention

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

const (
	mostDated = 20 // things that are put away for which the journal is read
	mostHeld  = 50 // held or paused executions: each is read completely, and can have a megabyte of parameters
)

// setAside records something that a person has switched off, if the reader may see it.
func (l *reading) setAside(thing, name, job, state, reason string) {
	if !l.Sees(job) {
		return
	}
	l.away = append(l.away, Entry{
		Kind: PutAway, Thing: thing, Name: name, Job: job, Count: 1, Message: reason, Title: fmt.Sprintf("The %s %q is %s.", thing, name, state),
		Do: "Enable it again, or remove it if it is no longer needed.",
	})
}

// putAway adds what people have put away: schedules, monitors and subscriptions that are switched
// off, and executions that are held or paused, by job.
func (l *reading) putAway() error {
	for i := range l.away {
		e := &l.away[i]
		if i < mostDated {
			if err := l.date(e); err != nil {
				return err
			}
		}
		l.add(*e)
	}
	filter := store.Filter{States: []courier.State{courier.Created, courier.Paused}, Limit: mostHeld}
	if !l.Sees("") {
		jobs, err := l.Jobs()
		if err != nil || len(jobs) == 0 {
			return err
		}
		filter.Jobs = jobs
	}
	list, err := l.Executions.List(l.ctx, filter)
	if err != nil {
		return err
	}
	more := len(list) == mostHeld
	if more {
		l.Cut = append(l.Cut, fmt.Sprintf("There are at least %d held and paused executions, and only these were checked.", mostHeld))
	}
	slices.SortStableFunc(list, func(x, y courier.Execution) int { return x.UpdatedAt.Compare(y.UpdatedAt) })
	var entries []Entry
	for i := range list {
		x := &list[i]
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.Job == x.Job && e.State == x.State })
		if at < 0 {
			at = len(entries)
			entries = append(entries, Entry{Kind: PutAway, Job: x.Job, State: x.State, Since: x.UpdatedAt, By: x.By, More: more})
			if x.State == courier.Paused && at < mostDated {
				if entries[at].By, err = l.lastBy(x); err != nil {
					return err
				}
			}
		}
		e := &entries[at]
		if e.Count++; len(e.Executions) < samples {
			e.Executions = append(e.Executions, x.ID)
		}
	}
	for _, e := range entries {
		e.Title, e.Do, e.Call = fmt.Sprintf("Job %q: %s held.", e.Job, are(e.Count, e.More)), "Release them, or cancel them.", "Engine.Release"
		if e.State == courier.Paused {
			e.Title, e.Do, e.Call = fmt.Sprintf("Job %q: %s paused.", e.Job, are(e.Count, e.More)), "Resume them, or cancel them.", "Engine.Resume"
		}
		l.add(e)
	}
	return nil
}

// lastBy returns who requested the last change of an execution.
func (l *reading) lastBy(x *courier.Execution) (string, error) {
	list, err := l.Executions.AuditPage(l.ctx, store.AuditFilter{Execution: x.ID, After: x.Seq - 1, Limit: 1})
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].By, nil
}

// are returns a number of executions with the verb, as the middle of a sentence.
func are(n int, more bool) string {
	if n == 1 && !more {
		return "1 execution is"
	}
	return count(n, more, "execution") + " are"
}

// date sets from the journal when something was put away, and by whom. They stay empty if the
// store has no journal, or if the journal entry is not among the last few about the thing.
func (l *reading) date(e *Entry) error {
	list, err := l.Journal(l.ctx, store.ActionFilter{Kind: e.Thing, Name: e.Name, Limit: 20})
	if ok, err := l.has("store.Journal", err); !ok {
		return err
	}
	for _, entry := range list {
		switch entry.Verb {
		case "disabled", "paused":
		case "set":
			var now struct {
				Disabled bool `json:"disabled"`
			}
			if err := json.Unmarshal(entry.Now, &now); err != nil || !now.Disabled {
				if e.Thing == "subscription" {
					return nil
				}
				continue // the definition of others does not say whether they are switched off
			}
		case "enabled":
			return nil
		default:
			continue
		}
		e.Since, e.By, e.Message = entry.At, entry.By, cmp.Or(entry.Reason, e.Message)
	}
	return nil
}
