package attention

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/courierhq/courier"
)

// key returns a text that identifies the trouble of an entry and stays the same while the trouble
// lasts. It does not depend on which executions there are, or how many.
func (e *Entry) key() string {
	var parts []string
	switch e.Kind {
	case PutAway:
		return ""
	case Lost:
		parts = []string{e.Name}
	case Stopping:
		parts = []string{e.Job, e.Call}
	case Failed:
		parts = []string{string(e.Reason), e.Connection}
		if !e.shared() {
			at := e.StepID
			if at == "" && e.Step != nil {
				at = strconv.Itoa(*e.Step)
			}
			parts = append(parts, e.Job, at, e.StepType)
		}
	case Overdue:
		parts = []string{e.Job, string(e.Reason)}
	case Due, Stranded:
		parts = []string{e.Queue, e.About}
	case Kept, Superseded:
		parts = []string{e.Job}
	case Refusal:
	default:
		parts = []string{e.Name, e.Date, e.Call}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return string(e.Kind) + "." + hex.EncodeToString(sum[:8])
}

// Owner returns the job that has the trouble. It is empty if the trouble belongs, or may belong,
// to several jobs or to none. Then only a principal who operates all jobs can hide it for all.
func (e *Entry) Owner() string {
	if e.Kind == Lost || e.Kind == Refusal || e.shared() {
		return ""
	}
	return e.Job
}

// shared reports whether the entry is about failures that are the same trouble for all jobs.
func (e *Entry) shared() bool {
	return e.Kind == Failed && (e.Connection != "" || e.Reason == courier.ReasonSpace)
}

// acknowledged marks the entries that people have hidden, and the entries that have returned. An
// entry returns when its time has passed, or, if it was not snoozed, when something in it is
// newer than the acknowledgement. It takes one statement if there is an entry.
func (l *reading) acknowledged() error {
	needed := false
	for i := range l.Entries {
		e := &l.Entries[i]
		e.Key = e.key()
		needed = needed || e.Key != ""
	}
	if !needed {
		return nil
	}
	list, err := l.Executions.Acknowledgements(l.ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // nothing of the list depends on it
	}
	if err != nil {
		return err
	}
	l.Acknowledges = true
	for i := range l.Entries {
		e := &l.Entries[i]
		for n := range list {
			a := &list[n]
			switch {
			case a.Key != e.Key:
			case !l.At.Before(a.Until), !a.Snoozed && cmp.Or(e.Youngest, e.Since).After(a.At):
				e.Returned = a
			default:
				e.Acknowledged = a
			}
		}
	}
	return nil
}
