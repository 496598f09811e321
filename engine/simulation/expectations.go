package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// expected replaces the executions in a world of expectations. The clock of the store differs
// from the clocks of the machines, and jumps. The files of a partner arrive at all times, and the
// partner is sometimes away.
type expected struct {
	w     *world
	store *memstore.Store

	mu    sync.Mutex
	files map[string]courier.ListedFile // of the partner, by name
	since map[string]time.Time          // when each expectation was there, by name
	away  time.Time                     // until when
}

// expectedNames are the expectations of a world, each with a pattern of its own.
var expectedNames = []string{"dated", "night", "plain"}

// await makes a world a world of expectations: its jobs have no executions.
func (w *world) await() {
	r := w.dice("expectations")
	x := &expected{w: w, files: make(map[string]courier.ListedFile), since: make(map[string]time.Time)}
	x.store = memstore.NewAt(time.Now().Add(time.Duration(r.Int64N(int64(96*time.Hour))) - 48*time.Hour))
	w.expected, w.mix.executions, w.plans = x, 0, nil
	w.witness = promise.Watch(x.store)
	w.witness.OnEffect = w.effect
	type monitors = monitor.Store // the fields must not hide methods
	type awaited = expectation.Store
	type outbox = notify.Store
	w.store = struct {
		store.Store
		monitors
		awaited
		outbox
	}{w.witness.Store(), x.store, x.store, x.store}
	events := []courier.EventType{
		courier.EventFileDueSoon, courier.EventFileArrived, courier.EventFileIncomplete, courier.EventFileMissing, courier.EventFileLate, courier.EventFileUnexpected,
	}
	if _, err := engine.New(x.store, nil, nil).Subscriptions().Set(context.Background(), notify.Subscription{Name: "all", Kind: notify.KindFunc, Func: "nobody", Events: events}, courier.By{}); err != nil {
		w.wrong("subscribe: %v", err)
	}
}

// definition is an expectation as somebody sets it.
func (x *expected) definition(r *rand.Rand, name string) expectation.Expectation {
	e := expectation.Expectation{
		Name: name, From: expectation.From{Path: "/" + name, Every: []string{"", "30s", "5m"}[r.IntN(3)]}, Pattern: name + "_*", Zone: []string{"", "Europe/Berlin", "Asia/Kolkata"}[len(name)%3],
		Window: expectation.Window{From: "06:00", Until: "08:00", Grace: []string{"", "15m", "1h"}[r.IntN(3)]}, DueSoon: []string{"", "30m"}[r.IntN(2)],
		Count: expectation.Count{Least: r.IntN(3)}, Bytes: expectation.Bytes{Most: []int64{0, 2}[r.IntN(2)]},
	}
	switch name {
	case "dated":
		e.Pattern = "dated_{date:20060102}_*"
	case "night":
		e.Window = expectation.Window{From: "22:00", Until: "02:00", Grace: "1h"}
	case "plain":
		e.Early = []string{"", "1h"}[r.IntN(2)]
	}
	return e
}

// expect sets the expectations. Until calm comes, people then change them and excuse days, files
// arrive, the partner is sometimes away, and the clock of the store jumps.
func (x *expected) expect() {
	w := x.w
	for _, name := range expectedNames {
		w.spawn(func() {
			r := w.dice("expectation", name)
			for w.trouble(spread(r, w.mix.trouble/4)) {
				x.set(r, name)
			}
		})
	}
	w.spawn(func() {
		r := w.dice("files")
		for n := 0; w.trouble(spread(r, w.mix.trouble/60)); n++ {
			x.put(r, n)
		}
	})
	w.spawn(func() {
		r := w.dice("partner")
		for w.trouble(spread(r, w.mix.trouble/4)) {
			x.mu.Lock()
			x.away = x.store.Now().Add(spread(r, 4*time.Hour))
			x.mu.Unlock()
			w.note("world", "partner away")
		}
	})
	w.spawn(func() {
		r := w.dice("clock")
		for w.trouble(spread(r, w.mix.trouble/60)) {
			x.store.Advance([]time.Duration{spread(r, time.Minute), spread(r, 20*time.Minute), spread(r, 2*time.Hour), spread(r, 8*time.Hour)}[r.IntN(4)])
			w.note("world", "clock jumps")
		}
	})
	w.spawn(func() {
		r := w.dice("excuses")
		for w.trouble(spread(r, w.mix.trouble/6)) {
			name, day := expectedNames[r.IntN(len(expectedNames))], x.store.Now().AddDate(0, 0, r.IntN(3)-1).Format(time.DateOnly)
			err := w.through(w.somebody(r), func(ctx context.Context, e *engine.Engine) error {
				_, err := e.Expectations().Excuse(ctx, name, day, courier.By{Actor: "operator", Reason: "closed today"})
				return err
			})
			if err == nil {
				w.note("operator", "excuse")
			}
			x.acknowledge(w.somebody(r))
		}
	})
}

// trouble lets time pass. It reports false when calm has come.
func (w *world) trouble(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.calmed:
		return false
	}
}

// set sets an expectation until that is acknowledged.
func (x *expected) set(r *rand.Rand, name string) {
	e := x.definition(r, name)
	err := x.w.tries(r, func(ctx context.Context, n *engine.Engine) error {
		_, err := n.Expectations().Set(ctx, e, courier.By{Actor: "operator"})
		return err
	})
	if err == nil {
		x.w.note("operator", "expect")
		x.mu.Lock()
		if x.since[name].IsZero() {
			x.since[name] = x.store.Now()
		}
		x.mu.Unlock()
	} else if errors.Is(err, courier.ErrInvalid) {
		x.w.wrong("%v", err)
	}
}

// put makes a file arrive or change.
func (x *expected) put(r *rand.Rand, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	kind := expectedNames[r.IntN(len(expectedNames))]
	now := x.store.Now()
	name := fmt.Sprintf("%s_%d", kind, n)
	if kind == "dated" {
		name = fmt.Sprintf("dated_%s_%d", now.AddDate(0, 0, r.IntN(4)-2).Format("20060102"), n%3)
	}
	x.files[name] = courier.ListedFile{Name: name, Size: int64(r.IntN(4)), Modified: now.Add(-spread(r, time.Hour)).Truncate(time.Second)}
	x.w.note("world", "file")
}

// acknowledge has the monitors that have failed too often poll again.
func (x *expected) acknowledge(p *process) {
	for _, name := range expectedNames {
		x.w.through(p, func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Monitors().Acknowledge(ctx, monitor.LookName(name), courier.By{Actor: "operator"})
			return err
		})
	}
}

// Check, Least and List make the partner a lister.
func (x *expected) Check(courier.Directory) error { return nil }

func (x *expected) Least() time.Duration { return time.Second }

func (x *expected) List(ctx context.Context, _ *courier.Context, d courier.Directory) (l courier.Listing, err error) {
	kind := d.Path[1:]
	timer := time.NewTimer(time.Duration(len(kind)) * 7 * time.Millisecond) // no two at once
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return l, ctx.Err()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.store.Now().Before(x.away) {
		return l, errors.New("the partner is away")
	}
	for name, f := range x.files {
		if strings.HasPrefix(name, kind) {
			f.Path = d.Path + "/" + name
			l.Files = append(l.Files, f)
		}
	}
	return l, nil
}

// conclude lets what has come be looked at once calm has come, and then days pass.
func (x *expected) conclude() {
	x.mu.Lock()
	x.away = time.Time{}
	x.mu.Unlock()
	for _, name := range expectedNames {
		x.set(x.w.dice("last", name), name) // as somebody may have given up
	}
	x.acknowledge(x.w.client.process.Load())
	for range 4 {
		x.w.wait(15 * time.Minute)
		x.store.Advance(9 * time.Hour)
	}
	x.w.wait(20 * time.Minute)
}

// check reports broken promises about the days and the events of expectations, and lost files:
// each file that arrived after its expectation was set counts for a day, or has an event that it
// counts for none.
func (x *expected) check(ctx context.Context) error {
	counted := make(map[string]bool)
	key := func(name string, size int64, at time.Time) string { return fmt.Sprint(name, " ", size, " ", at.UTC()) }
	err := promise.CheckArrivals(ctx, x.store, x.store.Now(), func(_ string, f *expectation.File) {
		counted[key(f.Name, f.Size, f.ModifiedAt)] = true
	})
	errs := []error{err}
	days, failed := x.store.Arrivals(ctx, expectation.ArrivalFilter{Limit: 100_000})
	for i := range days {
		x.w.counts["day "+string(days[i].State)]++
	}
	for _, f := range x.files {
		kind, _, _ := strings.Cut(f.Name, "_")
		if !f.Modified.After(x.since[kind]) {
			continue // it was there before, and may be of no day
		}
		if x.w.counts["file counted"]++; !counted[key(f.Name, f.Size, f.Modified)] {
			errs = append(errs, fmt.Errorf("file %s of %d bytes, %v, counts for no day, and is no event", f.Name, f.Size, f.Modified))
		}
	}
	return errors.Join(append(errs, failed)...)
}

// subject is the subject of a call beside its execution, so that the luck of one call does not
// depend on which of two simultaneous calls is made first.
func subject(c *storewrap.Call) string {
	switch r := c.Request.(type) {
	case monitor.PollResult:
		return r.Monitor
	case monitor.SeenFilter:
		return cmp.Or(r.Monitor, "files")
	}
	return ""
}
