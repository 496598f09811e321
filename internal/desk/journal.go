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

// The outcomes in the journal. A request has an entry before it is carried out.
const (
	wanted    = "asked"
	done      = "done"
	unchanged = "unchanged" // done, but there was nothing to change
	refused   = "refused"
	failed    = "failed"
)

// engineNotes are the kinds whose changes the engine itself writes to the journal. For jobs and
// chains it writes only removals.
var engineNotes = []string{"job", "chain", "calendar", "schedule", "monitor", "expectation", "subscription", "limit", "attention"}

// ErrJournal is the error of an action that was not carried out because the journal could
// not be written.
var ErrJournal = errors.New("the journal can't be written, so nothing was done; try again")

// ErrUnchanged is the error that an action of [Visit.Do] returns if there was nothing to change.
var ErrUnchanged = errors.New("nothing needed to be changed")

// By returns the visitor as the author of a change.
func (v *Visit) By(reason string) courier.By {
	return courier.By{Actor: v.ID, Reason: reason, Via: v.d.opt.Via}
}

// Do carries out f between two entries of the journal, one for the request and one for the
// result. If the first can't be written, nothing is done. A store without a journal has no
// entries. If f returns [ErrUnchanged], that is an outcome and not an error.
func (v *Visit) Do(ctx context.Context, a store.Action, f func(ctx context.Context) error) error {
	_, err := v.Noted(ctx, a, f)
	return err
}

// Noted is like [Visit.Do], and returns the number of the entry that has the result; 0 if there
// is none.
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

// Entry returns an entry of the journal by its number, if the visitor has made it. Otherwise the
// error matches [courier.ErrNotFound].
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

// Refused writes to the journal that the visitor was refused something. Each principal has at
// most 60 such entries a minute. Principals beyond the first 1,000 of the minute have 60
// together. So refused requests can't fill the store, and the entries of one principal don't
// displace those of another. The log has the other refusals.
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

// noted reports whether the engine has written the entry for the change that entry first
// requested, and returns the number of that entry. The engine writes nothing if there was nothing
// to change.
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

// maxRefused is the maximum number of principals with their own count in each refusalWindow.
const maxRefused = 1000

// refusals permits maxRefusals for each principal in each refusalWindow.
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

// Repeated downloads of the same thing by the same principal have one entry for this time.
const (
	sameWindow = 10 * time.Minute
	maxSame    = 10_000 // that are remembered
)

// recent has the keys that were noted recently.
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

// forget removes a key, because its action was not noted.
func (r *recent) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.at[key]; ok {
		delete(r.at, key)
		r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
	}
}

// DoSame is like [Visit.Do], for an action that changes nothing and is often repeated, such as a
// download in parts. If the visitor has done the same with the same execution successfully within
// the last ten minutes, through this process, it writes no entries.
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
