package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// maxUnbegun is the maximum number of a principal's executions that have not begun, if
// [Access.MaxUnbegun] is 0.
const maxUnbegun = 1000

// MayStart returns an error if a visitor may not start an execution with some settings: a limit
// key that names a user, a setting that needs [access.RightOverride], or too many executions of
// its own that have not begun. Otherwise it adds the settings of the service: the key of the
// quota of the visitor and the job.
func (v *Visit) MayStart(ctx context.Context, job string, o *courier.EnqueueOptions) error {
	if slices.ContainsFunc(o.LimitKeys, func(key string) bool { return strings.HasPrefix(key, store.UserLimitKey) }) {
		return courier.Errorf(courier.ErrInvalid, "limit_keys: a key that begins with %q names a user, and comes from the service alone (Access.Quota): leave it out", store.UserLimitKey)
	}
	set := map[string]bool{
		"priority": o.Priority != 0, "limit_keys": len(o.LimitKeys) > 0, "version": o.Version != 0, "timeout_seconds": o.Timeout != nil, "max_attempts": o.MaxRetries != nil,
	}
	if err := v.maySet(ctx, job, set); err != nil {
		return err
	}
	return v.Charge(ctx, job, o)
}

// maySet returns an error if the visitor sets something that it may not set.
func (v *Visit) maySet(ctx context.Context, job string, set map[string]bool) error {
	if v.Can(ctx, job, access.RightOverride) {
		return nil
	}
	var may []string
	if f := v.d.opt.Access.ClientMay; f != nil {
		may = f(job)
	}
	for _, name := range access.Settings() {
		if set[name] && !slices.Contains(may, name) {
			return &access.Error{Text: "to set " + name + " needs the right override, as the role starter has it, and Access.ClientMay of this service does not name it for the job: leave it out"}
		}
	}
	return nil
}

// MaySetVersion is like [Visit.MayStart], for a chain, where only the version can be set.
func (v *Visit) MaySetVersion(ctx context.Context, version int) error {
	if err := v.maySet(ctx, "", map[string]bool{"version": version != 0}); err != nil {
		return err
	}
	return v.d.unbegun.allow(ctx, v)
}

// Charge is like [Visit.MayStart], for settings that the service itself makes.
func (v *Visit) Charge(ctx context.Context, job string, o *courier.EnqueueOptions) error {
	if err := v.d.unbegun.allow(ctx, v); err != nil {
		return err
	}
	key, err := v.quotaKey(ctx, job)
	if key != "" {
		o.LimitKeys = append(slices.Clone(o.LimitKeys), key)
	}
	return err
}

// maxQuotas is the maximum number of limits that a desk remembers to have set. If there are more,
// it forgets some, and reads them again when they are used. That costs a statement, and sets no
// limit twice.
const maxQuotas = 10_000

// quotas are the limits that were set, by key.
type quotas struct {
	mu  sync.Mutex
	set map[string]int
}

// quotaKey returns the limit key of the visitor and a job, after setting its limit; empty if
// there is no quota.
func (v *Visit) quotaKey(ctx context.Context, job string) (string, error) {
	f := v.d.opt.Access.Quota
	if f == nil {
		return "", nil
	}
	n, q := max(f(v.Principal, job), 0), &v.d.quotas
	key := store.UserLimitKey + url.PathEscape(v.ID) + "/" + job
	q.mu.Lock()
	was, ok := q.set[key]
	q.mu.Unlock()
	if ok && was == n {
		return key, nil
	}
	if err := v.limit(ctx, "key:"+key, n); err != nil {
		return "", err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.set == nil {
		q.set = make(map[string]int)
	}
	if _, known := q.set[key]; !known && len(q.set) >= cmp.Or(v.d.opt.MaxQuotas, maxQuotas) {
		for other := range q.set { // an arbitrary one
			delete(q.set, other)
			break
		}
	}
	q.set[key] = n
	return key, nil
}

// limit sets a limit unless it already has that value.
func (v *Visit) limit(ctx context.Context, scope string, n int) error {
	limits := v.d.e.Limits()
	_, last := utf8.DecodeLastRuneInString(scope)
	list, err := limits.List(ctx, engine.LimitFilter{After: scope[:len(scope)-last], Limit: 100})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(l engine.Limit) bool { return l.Scope == scope })
	if i >= 0 && list[i].Limit == n || i < 0 && n == 0 {
		return nil
	}
	return limits.Set(ctx, scope, n, v.By("the quota of the principal and the job"))
}

// A TooManyError says that a principal has too many executions that have not begun.
type TooManyError struct{ Text string }

// Error returns the text.
func (e *TooManyError) Error() string { return e.Text }

// unbegun limits the executions of each principal that have not begun: they are held, due later,
// or wait in the queue. It counts them in the store, and then counts only what the principal
// starts here, until the count is a minute old or the limit is reached. Several processes
// together may exceed the limit for a minute.
type unbegun struct {
	mu sync.Mutex
	of map[string]*room
}

// A room is the number of executions that a principal may still start, by a count of the store.
type room struct {
	left int
	at   time.Time
}

// How long a count is valid: if there was room, and if there was none.
const (
	roomLasts = time.Minute
	fullLasts = time.Second
)

// maxRooms is the maximum number of principals that are remembered.
const maxRooms = 10_000

// allow takes one place, or returns a *[TooManyError].
func (u *unbegun) allow(ctx context.Context, v *Visit) error {
	most, now := v.d.opt.Access.MaxUnbegun, time.Now()
	switch {
	case most < 0:
		return nil
	case most == 0:
		most = maxUnbegun
	}
	u.mu.Lock()
	r := u.of[v.ID]
	count := r == nil || now.Sub(r.at) >= roomLasts || r.left <= 0 && now.Sub(r.at) >= fullLasts
	u.mu.Unlock()
	if count {
		n, err := v.countUnbegun(ctx, most)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil // a store without labels
		} else if err != nil {
			return err
		}
		r = &room{left: most - n, at: now}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = make(map[string]*room)
	}
	if count {
		if _, known := u.of[v.ID]; !known && len(u.of) >= maxRooms {
			for other := range u.of { // an arbitrary one: it is counted again
				delete(u.of, other)
				break
			}
		}
		u.of[v.ID] = r
	}
	if r.left <= 0 {
		return &TooManyError{fmt.Sprintf("you have %d executions that have not begun, and no more: wait until some have, or cancel held ones; operators raise the limit by Access.MaxUnbegun. Nothing was created", most)}
	}
	r.left--
	return nil
}

// Unended returns the ids of the visitor's own executions that have not ended and are not
// failed.
func (v *Visit) Unended(ctx context.Context) (ids []courier.ExecutionID, err error) {
	f := store.Filter{
		Labels: map[string]string{courier.LabelBy: v.ID}, Limit: 1000,
		States: []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused},
	}
	for {
		page, err := v.d.e.Executions().List(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			ids = append(ids, page[i].ID)
		}
		if len(page) < f.Limit {
			return ids, nil
		}
		f.Before = page[len(page)-1].ID
	}
}

// countUnbegun counts the executions of the visitor that have not begun, up to most.
func (v *Visit) countUnbegun(ctx context.Context, most int) (n int, err error) {
	f := store.Filter{Labels: map[string]string{courier.LabelBy: v.ID}, States: []courier.State{courier.Created, courier.Queued}}
	for n < most {
		f.Limit = min(most-n, 100)
		page, err := v.d.e.Executions().List(ctx, f)
		if err != nil {
			return n, err
		}
		if n += len(page); len(page) < f.Limit {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	return n, nil
}
