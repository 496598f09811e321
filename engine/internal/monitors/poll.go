package monitors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// What governs looks at directories.
const (
	maxPolls      = 8                // at once
	pollInterval  = 30 * time.Second // the longest time between two questions for what is due
	idleInterval  = 5 * time.Minute  // that while there are no monitors; of the first, the store tells
	listTimeout   = time.Minute      // of one listing
	pollLease     = 3 * time.Minute  // how long others leave a directory to this engine
	maxFiles      = 1000             // that are handed over at one look
	maxChains     = 100              // that are started at one look; each takes several statements
	maxFileName   = 1000             // bytes
	maxFilePath   = 5000             // bytes
	goneRetention = 30 * 24 * time.Hour
	maxKnown      = 200_000 // files of all monitors that are remembered between looks
)

// loops is what goes on between the start and the stop of an engine.
type loops struct {
	core.Lifetime
	rest sync.WaitGroup
}

// A known is what a monitor had seen at a revision.
type known struct {
	revision int64
	files    map[string]store.SeenFile
}

// pollNow wakes the loop, which then asks for what is due, and for those monitors
// early.
func (v *Service) pollNow(names []string) {
	v.mu.Lock()
	for _, name := range names {
		v.early[name] = true
	}
	v.mu.Unlock()
	wakeup.Send(v.wake)
}

func (v *Service) setNone(none bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.none = none
}

// Wake makes the loop look when something about monitors may have changed in the
// store, if it does not look soon anyway.
func (v *Service) Wake() {
	v.mu.Lock()
	none := v.none
	v.mu.Unlock()
	if none {
		wakeup.Send(v.wake)
	}
}

// Run has directories polled when they are due, until the engine stops and all
// polls have ended. It does nothing where the engine has no listers, or the store
// keeps no monitors.
func (v *Service) Run(l core.Lifetime) {
	role, err := v.opt.Roles.Monitors()
	if err != nil || len(v.opt.Listers) == 0 {
		return
	}
	w := &loops{Lifetime: l}
	defer w.rest.Wait()
	defer v.stopWatching()
	listers := slices.Sorted(maps.Keys(v.opt.Listers))
	slots := make(chan struct{}, maxPolls)
	idle := pollInterval
	if v.opt.StoreWakes {
		idle = idleInterval
	}
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	for w.Ctx.Err() == nil {
		wait := pollInterval
		if free := maxPolls - len(slots); free > 0 {
			v.setNone(true) // so that a change meanwhile is not missed
			d, err := v.dueMonitors(w, role, listers, free)
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				return
			case err != nil && w.Ctx.Err() == nil:
				v.opt.Log.Error("look for due monitors", "error", err)
				wait = v.opt.Poll
			case d.Next > 0:
				wait = min(wait, d.Next)
			case free == maxPolls && len(d.List) == 0:
				wait = idle
			}
			v.setNone(wait == idleInterval)
			began := time.Now()
			for i := range d.List {
				slots <- struct{}{}
				w.rest.Add(1)
				go func() {
					defer w.rest.Done()
					defer func() { <-slots; wakeup.Send(v.wake) }()
					v.poll(w, role, &d.List[i], d.Now, began)
				}()
			}
		}
		timer.Reset(wait)
		select {
		case <-w.Stop:
		case <-timer.C:
		case <-v.wake:
		}
	}
}

// dueMonitors leases what is due.
func (v *Service) dueMonitors(w *loops, role store.Monitors, listers []string, most int) (store.DueMonitors, error) {
	v.mu.Lock()
	early := slices.Sorted(maps.Keys(v.early))
	clear(v.early)
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.Base, storecall.Timeout) // a stop waits, for what is leased is not looked at by others
	defer cancel()
	return role.DueMonitors(ctx, store.DueRequest{Listers: listers, Max: most, Lease: pollLease, Early: early})
}

// A polling is one poll at the directory of a monitor.
type polling struct {
	v       *Service
	role    store.Monitors
	m       *store.Monitor
	def     courier.Monitor
	lister  courier.Lister
	files   map[string]store.SeenFile // that were seen before
	now     time.Time                 // by the store's clock, at
	at      time.Time
	health  courier.MonitorHealth
	secrets secret.Redactor // that the lister has used
	refused int
	example string
}

// instant is what the store's clock shows now, as far as this engine can tell:
// never more than it does show.
func (g *polling) instant() time.Time { return g.now.Add(time.Since(g.at)).Truncate(time.Microsecond) }

// poll looks at the directory of a monitor, and records what follows.
func (v *Service) poll(w *loops, role store.Monitors, m *store.Monitor, now, at time.Time) {
	g := &polling{v: v, role: role, m: m, now: now, at: at, health: healthOf(m), lister: v.opt.Listers[m.Lister]}
	ctx := w.Base // what was found is recorded even if the engine is stopped
	if err := json.Unmarshal(m.Body, &g.def); err != nil {
		_ = g.record(ctx, g.failed(fmt.Errorf("the definition can't be read: %w", err)))
		return
	}
	g.def = g.def.WithDefaults()
	var err error
	if g.files, err = g.seen(w.Ctx); err != nil {
		if w.Ctx.Err() != nil {
			_ = g.record(ctx, store.MonitorRecord{State: m.MonitorState}) // others look at once
			return
		}
		v.opt.Log.Error("look at a directory", "monitor", m.Name, "error", err)
		return // the store fails; the lease ends
	}
	began := g.instant()
	list, err := g.list(w.Ctx)
	ended := g.instant()
	g.health.LastPoll, g.health.PollSeconds = began, ended.Sub(began).Seconds()
	if err != nil && w.Ctx.Err() != nil {
		_ = g.record(ctx, store.MonitorRecord{State: m.MonitorState}) // others look at once
		return
	}
	if err != nil {
		_ = g.record(ctx, g.failed(err))
		return
	}
	plan := store.PlanFiles(g.files, list, store.FileRule{
		Selects: g.def.Selects, Events: g.def.Events, Stable: g.def.Stable, DoneFile: g.def.DoneFile, Keep: goneRetention, Max: g.most(), MaxBytes: g.mostBytes(),
	}, began, ended)
	g.settle(ctx, &plan, ended)
	v.watchDirectory(w, m.Name, g.lister, g.def.Target())
}

// settle records what a listing led to. Where executions can't be started, the
// files are not handed over, and are ready at the next look too.
func (g *polling) settle(ctx context.Context, plan *store.FilePlan, ended time.Time) {
	bare := *plan
	bare.Changed = slices.Clone(plan.Changed)
	var r store.MonitorRecord
	last, err := g.startFor(ctx, &r, plan, ended)
	if err == nil {
		g.looked(&r, plan, last, nil, ended)
		err = g.record(ctx, r)
		if !errors.Is(err, courier.ErrNotFound) && !errors.Is(err, courier.ErrConflict) {
			return // it was recorded, or the store fails
		}
	}
	r = store.MonitorRecord{}
	g.looked(&r, &bare, "", err, ended)
	_ = g.record(ctx, r)
}

// most is how many files are handed over at one look.
func (g *polling) most() int {
	if g.m.Kind == store.Chain && !g.def.Batch {
		return maxChains
	}
	return maxFiles
}

// mostBytes is how much of the files that are handed over to one execution fits into
// its parameters, which tell of each file twice and may escape what is in names.
func (g *polling) mostBytes() int {
	if !g.def.Batch {
		return 0
	}
	return max(1, g.v.opt.MaxParams/16)
}

// seen returns what the monitor has seen, from memory if that is of the
// monitor's revision.
func (g *polling) seen(ctx context.Context) (map[string]store.SeenFile, error) {
	w := g.v
	w.mu.Lock()
	k, ok := w.known[g.m.Name]
	delete(w.known, g.m.Name) // it is this look's own now
	w.mu.Unlock()
	if ok && k.revision == g.m.Revision {
		return k.files, nil
	}
	const page = 5000
	files := make(map[string]store.SeenFile)
	calls := storecall.Calls{Parent: ctx}
	defer calls.End()
	for after := ""; ; {
		var list []store.SeenFile
		err := storecall.Retry(&calls, func(ctx context.Context) (err error) {
			list, err = g.role.Seen(ctx, store.SeenFilter{Monitor: g.m.Name, After: after, Limit: page})
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range list {
			files[list[i].Name] = list[i]
		}
		if len(list) < page {
			return files, nil
		}
		after = list[len(list)-1].Name
	}
}

// list returns the files of the directory whose names can be used.
func (g *polling) list(ctx context.Context) (files []courier.ListedFile, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the lister %q panicked: %v", g.m.Lister, p)
			g.v.opt.Log.Error("list for a monitor", "monitor", g.m.Name, "error", g.secrets.Message(err), "stack", g.secrets.Clean(string(debug.Stack())))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	log := slog.New(core.RedactHandler(g.v.opt.Log.Handler(), &g.secrets)).With("monitor", g.m.Name)
	job := courier.NewContext(courier.ContextConfig{
		Monitor: g.m.Name, Log: log, Roots: g.v.opt.Roots, Redactor: &g.secrets.Redactor,
		Secrets: func(ctx context.Context, q courier.SecretRequest) (string, error) {
			return secret.Resolve(ctx, q, g.v.opt.Secrets, &g.secrets)
		},
	})
	defer job.Close()
	got, err := g.lister.List(ctx, job, g.def.Target())
	if ctx.Err() != nil && err != nil {
		return nil, fmt.Errorf("the listing was given up after %v: %w", listTimeout, err)
	}
	if err != nil {
		return nil, err
	}
	g.refused, g.example = got.Refused, got.Example
	for i := range got.Files {
		f := &got.Files[i]
		reason := unusable(f)
		if reason == "" && g.secrets.Find(f.Name+"\n"+f.Path) != "" {
			reason = "contains a secret, which must not be stored"
		}
		if reason != "" {
			g.refused++
			name := g.secrets.Clean(f.Name)
			g.example = fmt.Sprintf("%q %s", name[:min(len(name), 100)], reason)
			continue
		}
		files = append(files, *f)
	}
	return files, nil
}

// unusable says why a file can't be handed over; empty if it can.
func unusable(f *courier.ListedFile) string {
	switch {
	case !utf8.ValidString(f.Name) || !utf8.ValidString(f.Path) || strings.ContainsRune(f.Name+f.Path, 0):
		return "has a NUL character, or is not valid UTF-8"
	case f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsRune(f.Name, '/'):
		return "is no name of a file"
	case len(f.Name) > maxFileName:
		return fmt.Sprintf("has %d bytes, more than %d", len(f.Name), maxFileName)
	case len(f.Path) > maxFilePath:
		return fmt.Sprintf("has a path of %d bytes, more than %d", len(f.Path), maxFilePath)
	case f.Size < 0:
		return "has a negative size"
	case !f.Modified.IsZero() && (f.Modified.Year() < 1 || f.Modified.Year() > 9999):
		return "has a time that is none"
	}
	return ""
}

// looked completes the record of a look that succeeded. Last is the last of the
// executions that it starts, if any; err is why they could not be started, if so.
func (g *polling) looked(r *store.MonitorRecord, plan *store.FilePlan, last courier.ExecutionID, err error, now time.Time) {
	r.Changed, r.Removed, r.After = plan.Changed, plan.Removed, g.def.Every
	h := g.health
	h.Files, h.Waiting, h.Refused, h.Failures, h.Problem = plan.Files, plan.Waiting, g.refused, 0, ""
	r.State.Status = courier.MonitorActive
	switch {
	case err != nil:
		r.State.Status = courier.MonitorDegraded
		if h.Problem = fmt.Sprintf("%d files are ready and could not be handed over: %s", len(plan.Ready), monitorMessage(err)); len(plan.Ready) == 1 {
			h.Problem = "1 file is ready and could not be handed over: " + monitorMessage(err)
		}
	case g.refused > 0:
		r.State.Status = courier.MonitorDegraded
		if h.Problem = fmt.Sprintf("%d entries are left out, since their names can't be used, such as %s; have them renamed", g.refused, g.example); g.refused == 1 {
			h.Problem = fmt.Sprintf("1 entry is left out, since its name can't be used: %s; have it renamed", g.example)
		}
	}
	if err == nil && last != "" {
		h.Triggered += int64(len(plan.Ready))
		h.LastTriggered, h.LastExecution = now, last
	}
	if plan.Wait > 0 {
		r.After = min(r.After, plan.Wait)
	}
	if plan.More && err == nil {
		r.After = 0
	}
	r.After = max(r.After, min(g.lister.Least(), g.def.Every))
	g.state(r, h)
}

// failed is the record of a look that failed.
func (g *polling) failed(err error) store.MonitorRecord {
	r := store.MonitorRecord{After: max(g.def.Every, time.Second)}
	h := g.health
	h.Failures++
	h.Problem = monitorMessage(err)
	r.State.Status = courier.MonitorDegraded
	switch {
	case errors.Is(err, courier.ErrLogin):
		r.State.Status, r.State.Reason, r.After = courier.MonitorFailed, "the login was refused", never
	case h.Failures >= max(g.def.MaxFailures, 1):
		r.State.Status, r.State.Reason, r.After = courier.MonitorFailed, fmt.Sprintf("%d looks in a row have failed", h.Failures), never
	}
	g.state(&r, h)
	return r
}

// state writes the health into a record, and logs it if it is bad and new.
func (g *polling) state(r *store.MonitorRecord, h courier.MonitorHealth) {
	was := healthOf(g.m)
	h.Problem = g.secrets.Message(errors.New(h.Problem))
	if h.Problem != "" && (h.Problem != was.Problem || r.State.Status != g.m.Status) {
		g.v.opt.Log.Warn("monitor in trouble", "monitor", g.m.Name, "state", string(r.State.Status), "failures", h.Failures, "problem", h.Problem)
	}
	r.State.Health, _ = jsontext.Append(nil, h)
}

// record writes the outcome of a look. It may be sent again: a record that was
// written is not twice.
func (g *polling) record(ctx context.Context, r store.MonitorRecord) error {
	r.Monitor, r.Revision = g.m.Name, g.m.Revision
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	calls := storecall.Calls{Parent: ctx}
	defer calls.End()
	var done store.Recorded
	err := storecall.Retry(&calls, func(ctx context.Context) (err error) {
		done, err = g.role.Record(ctx, r)
		return err
	})
	switch {
	case err != nil:
		g.v.opt.Log.Error("record a look at a directory", "monitor", g.m.Name, "error", err)
	case done.Done:
		for i, x := range done.Executions {
			r.Replace(r.Executions[i].ID, x.Execution.ID)
		}
		for i, x := range done.Chains {
			r.Replace(courier.ExecutionID(r.Chains[i].ID), courier.ExecutionID(x.Execution.ID))
		}
		g.v.opt.Targets.Started(done.Chains)
		g.remember(done.Revision, &r)
	}
	return err
}

// remember keeps what is known now for the next look.
func (g *polling) remember(revision int64, r *store.MonitorRecord) {
	if g.files == nil {
		return
	}
	for i := range r.Changed {
		g.files[r.Changed[i].Name] = r.Changed[i]
	}
	for _, name := range r.Removed {
		delete(g.files, name)
	}
	w := g.v
	w.mu.Lock()
	defer w.mu.Unlock()
	all := len(g.files)
	for name := range w.known {
		if name != g.m.Name {
			all += len(w.known[name].files)
		}
	}
	if all > maxKnown {
		clear(w.known)
	}
	if len(g.files) <= maxKnown {
		w.known[g.m.Name] = known{revision, g.files}
	}
}
