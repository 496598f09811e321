package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// The outcomes in the journal. What is asked for has an entry before it is done.
const (
	asked   = "asked"
	done    = "done"
	refused = "refused"
	failed  = "failed"
)

// engineNotes are the kinds for which the engine itself writes that it is done.
var engineNotes = []string{"schedule", "monitor", "subscription", "limit"}

// ErrJournal is the error of an action that was not carried out because the journal could
// not be written.
var ErrJournal = errors.New("the journal can't be written, so nothing was done; try again")

// By is the visitor as the author of a change.
func (v *Visit) By(reason string) courier.By {
	return courier.By{Actor: v.ID, Reason: reason, Via: v.d.opt.Via}
}

// Do carries out f between two entries of the journal: that it was asked for, and what
// came of it. If the first can't be written, nothing is done. A store without a journal
// has none.
func (v *Visit) Do(ctx context.Context, a store.Action, f func(ctx context.Context) error) error {
	a.By, a.Via, a.Outcome = v.ID, v.d.opt.Via, asked
	if err := v.d.note(ctx, a); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	err := f(ctx)
	v.d.watcher.touch(a.Execution)
	switch {
	case err == nil:
		a.Outcome = done
	case errors.Is(err, courier.ErrInvalid), errors.Is(err, courier.ErrConflict), errors.Is(err, courier.ErrNotFound):
		a.Outcome = refused
	default:
		a.Outcome = failed
	}
	if err == nil && slices.Contains(engineNotes, a.Kind) {
		return nil
	}
	if note := v.d.note(context.WithoutCancel(ctx), a); note != nil {
		v.d.log.Error("the journal does not have what came of an action", "kind", a.Kind, "name", a.Name, "verb", a.Verb, "by", a.By, "outcome", a.Outcome, "error", note)
	}
	return err
}

// Refused writes to the journal that the visitor was not permitted something. There are at
// most 60 such entries a minute: requests that nobody permits must not fill the store. The
// log has the others.
func (v *Visit) Refused(ctx context.Context, a store.Action) {
	a.By, a.Via, a.Outcome = v.ID, v.d.opt.Via, refused
	log := v.d.log.With("kind", a.Kind, "name", a.Name, "verb", a.Verb, "by", a.By)
	if !v.d.refusals.allow(time.Now()) {
		log.Warn("an action was refused; the journal has no entry, since there are too many")
		return
	}
	if err := v.d.note(ctx, a); err != nil {
		log.Error("an action was refused, and the journal can't be written", "error", err)
	}
}

func (d *Desk) note(ctx context.Context, a store.Action) error {
	call, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	_, err := d.e.Note(call, a)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

const (
	noteTimeout   = 10 * time.Second
	maxRefusals   = 60
	refusalWindow = time.Minute
)

// A quota permits maxRefusals in each refusalWindow.
type quota struct {
	mu    sync.Mutex
	begin time.Time
	used  int
}

func (q *quota) allow(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.begin) >= refusalWindow {
		q.begin, q.used = now, 0
	}
	q.used++
	return q.used <= maxRefusals
}
