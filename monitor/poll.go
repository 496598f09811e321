package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Limits and intervals of polls.
const (
	maxPolls    = 8               // at once
	listTimeout = time.Minute     // of one listing
	pollLease   = 3 * time.Minute // for which this engine leases a directory
	maxFiles    = 1000            // that are handed over at one poll
	maxChains   = 100             // that are started at one poll; each takes several statements
	maxFileName = 1000            // bytes
	maxFilePath = 5000            // bytes
	maxKnown    = 200_000         // files of all monitors that are kept in memory between polls
)

// loops is the state of one call of [Service.Run].
type loops struct {
	ctx  context.Context // ends when the engine stops
	base context.Context // carries the values of ctx, and does not end
	rest sync.WaitGroup
}

// A known is the set of files that a monitor had seen at a revision.
type known struct {
	revision int64
	files    map[string]SeenFile
}

// pollNow makes the loop ask at once which monitors are due, and poll these monitors early.
func (v *Service) pollNow(names []string) {
	v.mu.Lock()
	for _, name := range names {
		v.early[name] = true
	}
	v.mu.Unlock()
	v.loop.Now()
}

// Wake makes [Service.Run] look for due monitors, for example when one may have been saved,
// unless it looks soon anyway.
func (v *Service) Wake() { v.loop.Wake() }

// Run polls the directories of due monitors until ctx ends. Then it cancels the listings of
// pending polls, waits for the polls, and returns. It returns at once if there are no listers, or
// if the store keeps no monitors. An engine calls it while it is started; several engines may do
// so for one store.
func (v *Service) Run(ctx context.Context) {
	a, err := v.opt.Store()
	if err != nil || len(v.opt.Listers) == 0 {
		return
	}
	w := &loops{ctx: ctx, base: context.WithoutCancel(ctx)}
	defer w.rest.Wait()
	defer v.stopWatching()
	listers := slices.Sorted(maps.Keys(v.opt.Listers))
	slots := make(chan struct{}, maxPolls)
	v.loop.Run(ctx, func() (next time.Duration, none bool, err error) {
		free := maxPolls - len(slots)
		if free == 0 {
			return 0, false, nil // the end of a poll wakes the loop
		}
		d, err := v.dueMonitors(w, a, listers, free)
		began := time.Now()
		for i := range d.List {
			slots <- struct{}{}
			w.rest.Add(1)
			go func() {
				defer w.rest.Done()
				defer func() { <-slots; v.loop.Now() }()
				v.poll(w, a, &d.List[i], d.Now, began)
			}()
		}
		return d.Next, free == maxPolls && len(d.List) == 0, err
	})
}

// dueMonitors leases the due monitors.
func (v *Service) dueMonitors(w *loops, a Store, listers []string, most int) (DueList, error) {
	v.mu.Lock()
	early := slices.Sorted(maps.Keys(v.early))
	clear(v.early)
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.base, storecall.Timeout) // a stop waits for it, because other engines do not poll leased monitors
	defer cancel()
	return a.DueMonitors(ctx, DueRequest{Listers: listers, Max: most, Lease: pollLease, Early: early})
}

// A polling is one poll of the directory of a monitor.
type polling struct {
	v       *Service
	store   Store
	m       *Record
	def     Monitor
	lister  courier.Lister
	days    *calendar.Days      // of its calendar; nil if it has none
	files   map[string]SeenFile // that were seen before
	now     time.Time           // by the store's clock, at
	at      time.Time
	health  Health
	secrets *courier.Redactor // that the lister has used
	refused int
	example string
}

// instant returns an estimate of the store's clock that is never ahead of it.
func (g *polling) instant() time.Time { return g.now.Add(time.Since(g.at)).Truncate(time.Microsecond) }

// poll lists the directory of a monitor, and records the result.
func (v *Service) poll(w *loops, a Store, m *Record, now, at time.Time) {
	g := &polling{v: v, store: a, m: m, now: now, at: at, health: healthOf(m), lister: v.opt.Listers[m.Lister], secrets: new(courier.Redactor)}
	ctx := w.base // a result is recorded even if the engine is stopped
	if err := json.Unmarshal(m.Body, &g.def); err != nil {
		_ = g.record(ctx, g.failed(fmt.Errorf("the definition can't be read: %w", err)))
		return
	}
	g.def = g.def.WithDefaults()
	var err error
	if g.days, err = v.days(ctx, &g.def); err != nil {
		if !errors.Is(err, courier.ErrNotFound) {
			v.opt.Log.Error("read the calendar of a monitor", "monitor", m.Name, "error", err)
			return // the store fails; the lease ends
		}
		_ = g.record(ctx, g.failed(err))
		return
	}
	if wait := g.closed(g.instant()); wait > 0 {
		_ = g.record(ctx, PollResult{Status: m.Status, After: wait})
		return
	}
	if g.files, err = g.seen(w.ctx); err != nil {
		if w.ctx.Err() != nil {
			_ = g.record(ctx, PollResult{Status: m.Status}) // another engine polls at once
			return
		}
		v.opt.Log.Error("poll a directory", "monitor", m.Name, "error", err)
		return // the store fails; the lease ends
	}
	began := g.instant()
	list, err := g.list(w.ctx)
	ended := g.instant()
	g.health.LastPoll, g.health.PollSeconds = began, ended.Sub(began).Seconds()
	if err != nil && w.ctx.Err() != nil {
		_ = g.record(ctx, PollResult{Status: m.Status}) // another engine polls at once
		return
	}
	if err != nil {
		_ = g.record(ctx, g.failed(err))
		return
	}
	plan := planFiles(&g.def, g.files, list, g.most(), began, ended)
	g.settle(ctx, &plan, ended)
	v.watchDirectory(w, m.Name, g.lister, g.def.Directory())
}

// settle records the result of a listing. If executions can't be started, the files are not
// handed over, and are still ready at the next poll.
func (g *polling) settle(ctx context.Context, plan *filePlan, ended time.Time) {
	bare := *plan
	bare.changed = slices.Clone(plan.changed)
	var r PollResult
	last, err := g.startFor(ctx, &r, plan, ended)
	if err == nil {
		g.looked(&r, plan, last, nil, ended)
		err = g.record(ctx, r)
		if !errors.Is(err, courier.ErrNotFound) && !errors.Is(err, courier.ErrConflict) {
			return // it was recorded, or the store fails
		}
	}
	r = PollResult{}
	g.looked(&r, &bare, "", err, ended)
	_ = g.record(ctx, r)
}

// most returns the limits of one poll. The parameters of an execution name each file of a batch
// twice, and may escape characters of the names.
func (g *polling) most() handLimits {
	switch {
	case g.def.Batch:
		return handLimits{files: maxFiles, bytes: max(1, g.v.opt.MaxParams/16)}
	case g.m.Kind == store.Chain:
		return handLimits{files: maxChains}
	}
	return handLimits{files: maxFiles}
}

// seen returns the files that the monitor has seen. It uses the files in memory if they are of
// the monitor's revision.
func (g *polling) seen(ctx context.Context) (map[string]SeenFile, error) {
	w := g.v
	w.mu.Lock()
	k, ok := w.known[g.m.Name]
	delete(w.known, g.m.Name) // this poll now changes it
	w.mu.Unlock()
	if ok && k.revision == g.m.Revision {
		return k.files, nil
	}
	const page = 5000
	files := make(map[string]SeenFile)
	calls := storecall.Calls{Parent: ctx}
	defer calls.End()
	for after := ""; ; {
		var list []SeenFile
		err := storecall.Retry(&calls, func(ctx context.Context) (err error) {
			list, err = g.store.SeenFiles(ctx, SeenFilter{Monitor: g.m.Name, After: after, Limit: page})
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
			g.v.opt.Log.Error("list for a monitor", "monitor", g.m.Name, "error", g.message(err), "stack", g.secrets.Redact(string(debug.Stack())))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	job, secrets := g.v.opt.NewContext(g.m.Name)
	g.secrets = secrets
	defer job.Close()
	got, err := g.lister.List(ctx, job, g.def.Directory())
	if ctx.Err() != nil && err != nil {
		return nil, fmt.Errorf("the listing was aborted after %v: %w", listTimeout, err)
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
			name := g.secrets.Redact(f.Name)
			g.example = fmt.Sprintf("%q %s", name[:min(len(name), 100)], reason)
			continue
		}
		files = append(files, *f)
	}
	return files, nil
}

// unusable returns why a file can't be handed over; empty if it can.
func unusable(f *courier.ListedFile) string {
	switch {
	case !utf8.ValidString(f.Name) || !utf8.ValidString(f.Path) || strings.ContainsRune(f.Name+f.Path, 0):
		return "has a NUL character, or is not valid UTF-8"
	case f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsRune(f.Name, '/'):
		return "is not a file name"
	case len(f.Name) > maxFileName:
		return fmt.Sprintf("has %d bytes, more than %d", len(f.Name), maxFileName)
	case len(f.Path) > maxFilePath:
		return fmt.Sprintf("has a path of %d bytes, more than %d", len(f.Path), maxFilePath)
	case f.Size < 0:
		return "has a negative size"
	case !f.Modified.IsZero() && (f.Modified.Year() < 1 || f.Modified.Year() > 9999):
		return "has an invalid modification time"
	}
	return ""
}

// looked completes the result of a successful poll. Last is the last execution that it starts, if
// any; err says why executions could not be started, if so.
func (g *polling) looked(r *PollResult, plan *filePlan, last courier.ExecutionID, err error, now time.Time) {
	r.Changed, r.Removed, r.After = plan.changed, plan.removed, g.def.Every
	h := g.health
	h.Files, h.Waiting, h.Refused, h.Failures, h.Problem = plan.files, plan.waiting, g.refused, 0, ""
	r.Status.State = Active
	switch {
	case err != nil:
		r.Status.State = Degraded
		if h.Problem = fmt.Sprintf("%d files are ready and could not be handed over: %s", len(plan.ready), plainMessage(err)); len(plan.ready) == 1 {
			h.Problem = "1 file is ready and could not be handed over: " + plainMessage(err)
		}
	case g.refused > 0:
		r.Status.State = Degraded
		if h.Problem = fmt.Sprintf("%d entries are left out, since their names can't be used, such as %s; have them renamed", g.refused, g.example); g.refused == 1 {
			h.Problem = fmt.Sprintf("1 entry is left out, since its name can't be used: %s; have it renamed", g.example)
		}
	}
	if err == nil && last != "" {
		h.Triggered += int64(len(plan.ready))
		h.LastTriggered, h.LastExecution = now, last
	}
	if plan.wait > 0 {
		r.After = min(r.After, plan.wait)
	}
	if plan.more && err == nil {
		r.After = 0
	}
	r.After = max(r.After, min(g.lister.Least(), g.def.Every))
	g.state(r, h)
}

// failed returns the result of a failed poll.
func (g *polling) failed(err error) PollResult {
	r := PollResult{After: max(g.def.Every, time.Second)}
	h := g.health
	h.Failures++
	h.Problem = plainMessage(err)
	r.Status.State = Degraded
	switch {
	case errors.Is(err, courier.ErrLogin):
		r.Status.State, r.Status.Reason, r.After = Failed, "the login was refused", never
	case h.Failures >= max(g.def.MaxFailures, 1):
		r.Status.State, r.Status.Reason, r.After = Failed, fmt.Sprintf("%d polls in a row have failed", h.Failures), never
	}
	g.state(&r, h)
	return r
}

// message returns the text of an error in the form in which it is stored and shown.
func (g *polling) message(err error) string {
	message, _ := text.OfError(err)
	return text.Valid(g.secrets.Redact(message), text.MaxMessage)
}

// plainMessage returns the text of an error without the words that sentinel errors add.
func plainMessage(err error) string {
	message, _ := text.OfError(err)
	for _, sentinel := range []error{courier.ErrNotFound, courier.ErrInvalid, courier.ErrConflict} {
		message = strings.ReplaceAll(message, ": "+sentinel.Error(), "")
	}
	return message
}

// state writes the health into the result, and logs a problem that is new.
func (g *polling) state(r *PollResult, h Health) {
	was := healthOf(g.m)
	h.Problem = g.message(errors.New(h.Problem))
	if h.Problem != "" && (h.Problem != was.Problem || r.Status.State != g.m.State) {
		g.v.opt.Log.Warn("monitor has a problem", "monitor", g.m.Name, "state", string(r.Status.State), "failures", h.Failures, "problem", h.Problem)
	}
	r.Status.Health, _ = jsontext.Append(nil, h)
}

// record writes the result of a poll. It may send it again: the store writes a result only once.
func (g *polling) record(ctx context.Context, r PollResult) error {
	r.Monitor, r.Revision = g.m.Name, g.m.Revision
	if r.After > 0 {
		r.After += g.closed(g.instant().Add(r.After))
	}
	done, err := storecall.Write(ctx, func(ctx context.Context) (Recorded, error) { return g.store.RecordPoll(ctx, r) })
	switch {
	case err != nil:
		g.v.opt.Log.Error("record the poll of a directory", "monitor", g.m.Name, "error", err)
	case done.Done:
		for i, x := range done.Executions {
			r.Replace(r.Executions[i].ID, x.Execution.ID)
		}
		for i, x := range done.Chains {
			r.Replace(courier.ExecutionID(r.Chains[i].ID), courier.ExecutionID(x.Execution.ID))
		}
		g.v.opt.Recorded(done)
		g.remember(done.Revision, &r)
	}
	return err
}

// remember keeps the seen files in memory for the next poll.
func (g *polling) remember(revision int64, r *PollResult) {
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
