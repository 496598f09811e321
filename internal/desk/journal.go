package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/asked"
	"github.com/courierhq/courier/store"
)

// The outcomes in the journal. What is asked for has an entry before it is done.
const (
	wanted    = "asked"
	done      = "done"
	unchanged = "unchanged" // done, and there was nothing to change
	refused   = "refused"
	failed    = "failed"
)

// engineNotes are the kinds for which the engine itself writes that something was changed; of
// jobs and chains it writes only that one was removed.
var engineNotes = []string{"job", "chain", "calendar", "schedule", "monitor", "expectation", "subscription", "limit", "attention"}

// ErrJournal is the error of an action that was not carried out because the journal could
// not be written.
var ErrJournal = errors.New("the journal can't be written, so nothing was done; try again")

// ErrUnchanged is what an action of [Visit.Do] returns if all was so already.
var ErrUnchanged = errors.New("nothing needed to be changed")

// By is the visitor as the author of a change.
func (v *Visit) By(reason string) courier.By {
	return courier.By{Actor: v.ID, Reason: reason, Via: v.d.opt.Via}
}

// Do carries out f between two entries of the journal: that it was asked for, and what
// came of it. If the first can't be written, nothing is done. A store without a journal
// has none. [ErrUnchanged] of f is an outcome, and no error.
func (v *Visit) Do(ctx context.Context, a store.Action, f func(ctx context.Context) error) error {
	_, err := v.Noted(ctx, a, f)
	return err
}

// Noted is [Visit.Do], and returns the number of the entry that says the result: 0 if
// there is none.
func (v *Visit) Noted(ctx context.Context, a store.Action, f func(ctx context.Context) error) (entry int64, err error) {
	a.By, a.Via, a.Outcome = v.ID, v.d.opt.Via, wanted
	first, err := v.d.note(ctx, a)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	err = f(asked.With(ctx, first))
	v.d.watched.Touch(a.Execution)
	_, forbidden := errors.AsType[*access.Error](err)
	switch {
	case err == nil:
		a.Outcome = done
	case errors.Is(err, ErrUnchanged):
		a.Outcome, err = unchanged, nil
	case forbidden, errors.Is(err, courier.ErrInvalid), errors.Is(err, courier.ErrConflict), errors.Is(err, courier.ErrNotFound):
		a.Outcome = refused
	default:
		a.Outcome = failed
	}
	ctx, a.Of = context.WithoutCancel(ctx), first
	if err == nil && slices.Contains(engineNotes, a.Kind) {
		if entry, ok := v.d.noted(ctx, a, first); ok {
			return entry, nil
		}
	}
	entry, note := v.d.note(ctx, a)
	if note != nil {
		v.d.log.Error("the journal does not have the result of an action", "kind", a.Kind, "name", a.Name, "verb", a.Verb, "by", a.By, "outcome", a.Outcome, "error", note)
	}
	return entry, err
}

// Entry returns an entry of the journal by its number, if the visitor has made it. The
// error matches [courier.ErrNotFound] otherwise.
func (v *Visit) Entry(ctx context.Context, number int64) (store.Action, error) {
	list, err := v.d.e.Journal(ctx, store.ActionFilter{By: v.ID, Before: number + 1, Limit: 1})
	if err != nil {
		return store.Action{}, err
	}
	if len(list) == 0 || list[0].ID != number {
		return store.Action{}, errUnknown
	}
	return list[0], nil
}

// Refused writes to the journal that the visitor was not permitted something. There are at
// most 60 such entries a minute of each principal, and as many of all beyond the first 1,000
// of the minute together: requests that nobody permits must not fill the store, and those of
// one must not keep out those of another. The log has the others.
func (v *Visit) Refused(ctx context.Context, a store.Action) {
	a.By, a.Via, a.Outcome = v.ID, v.d.opt.Via, refused
	log := v.d.log.With("kind", a.Kind, "name", a.Name, "verb", a.Verb, "by", a.By)
	if !v.d.refusals.allow(v.ID, time.Now()) {
		log.Warn("an action was refused; the journal has no entry, since there are too many of this principal")
		return
	}
	if _, err := v.d.note(ctx, a); err != nil {
		log.Error("an action was refused, and the journal can't be written", "error", err)
	}
}

// note writes an entry of the journal, and returns its number.
func (d *Desk) note(ctx context.Context, a store.Action) (int64, error) {
	call, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	a, err := d.e.Note(call, a)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return a.ID, err
}

// noted reports whether the engine has written that what the entry with a number has asked for was
// done, and returns the number of that entry. It writes nothing if there
// was nothing to change.
func (d *Desk) noted(ctx context.Context, a store.Action, first int64) (entry int64, ok bool) {
	call, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	list, err := d.e.Journal(call, store.ActionFilter{Kind: a.Kind, Name: a.Name, By: a.By})
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, true
	}
	i := slices.IndexFunc(list, func(n store.Action) bool { return n.Of == first && n.Outcome == done })
	if i < 0 {
		return 0, false
	}
	return list[i].ID, true
}

const (
	noteTimeout   = 10 * time.Second
	maxRefusals   = 60
	refusalWindow = time.Minute
)

// maxRefused is how many principals are counted for themselves in each refusalWindow.
const maxRefused = 1000

// refusals permits maxRefusals of each principal in each refusalWindow.
type refusals struct {
	mu    sync.Mutex
	begin time.Time
	used  map[string]int // by principal; those that came late have the name ""
}

func (q *refusals) allow(id string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used == nil || now.Sub(q.begin) >= refusalWindow {
		q.begin, q.used = now, make(map[string]int)
	}
	if _, known := q.used[id]; !known && len(q.used) >= maxRefused {
		id = ""
	}
	q.used[id]++
	return q.used[id] <= maxRefusals
}

// Repeated downloads of the same thing by the same principal are one entry, for so long.
const (
	sameWindow = 10 * time.Minute
	maxSame    = 10_000 // that are remembered
)

// recent remembers what was noted lately.
type recent struct {
	mu   sync.Mutex
	at   map[string]time.Time
	keys []string // in the order in which they came
}

// again reports whether a key was noted within the last sameWindow, and notes it if not.
func (r *recent) again(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.keys) > 0 && (len(r.keys) >= maxSame || now.Sub(r.at[r.keys[0]]) >= sameWindow) {
		delete(r.at, r.keys[0])
		r.keys = r.keys[1:]
	}
	if _, ok := r.at[key]; ok {
		return true
	}
	if r.at == nil {
		r.at = make(map[string]time.Time)
	}
	r.at[key] = now
	r.keys = append(r.keys, key)
	return false
}

// forget takes a key away: what it stands for was not noted.
func (r *recent) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.at[key]; ok {
		delete(r.at, key)
		r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
	}
}

// DoSame is [Visit.Do] of something that changes nothing and is often repeated, such as a
// download in parts. If the visitor has done the same to the same execution within the last
// ten minutes, with success and through this process, it is carried out without entries.
func (v *Visit) DoSame(ctx context.Context, a store.Action, f func(ctx context.Context) error) error {
	key := fmt.Sprintf("%q %s %s %s %s", v.ID, a.Verb, a.Execution, a.Name, a.Now)
	if v.d.same.again(key, time.Now()) {
		return f(ctx)
	}
	err := v.Do(ctx, a, f)
	if err != nil {
		v.d.same.forget(key)
	}
	return err
}
