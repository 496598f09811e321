package depot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// Retention says how long the files of an execution are kept. The zero value is the default.
//
// Files of executions that are created, queued, running or paused are always kept.
type Retention struct {
	// Keep is how long files are kept after the end of a completed or cancelled execution; 0
	// means 48 hours, and below 0 means for ever.
	Keep time.Duration
	// Jobs overrides Keep for the executions of the named jobs.
	Jobs map[string]time.Duration
	// KeepFailed is how long files are kept after the end of a failed execution, which may be
	// resumed; 0 means 30 days, and below 0 means for ever.
	KeepFailed time.Duration
	// Most is the maximum number of bytes of the files of all executions; 0 means no limit. While
	// they have more, files of completed and cancelled executions are removed early. The files
	// are taken from the owner with the most bytes in the depot, and from that owner's execution
	// that ended first. So no owner displaces the files of an owner with fewer bytes. The owner
	// is the label "by" of an execution, which the API and the dashboard set; executions without
	// the label count as one owner. Files of a [Directory] count as in DirOptions.Most, other
	// files count as the depot stores them.
	Most int64
	// Every is the time between two runs; 0 means 60 seconds.
	Every time.Duration
	// Log receives each removal, and the errors of [Clean]. Nil means the log of the engine,
	// and in [Clean] and [CleanOnce] slog.Default.
	Log *slog.Logger
}

const (
	defaultKeep       = 48 * time.Hour
	defaultKeepFailed = 30 * 24 * time.Hour
	defaultEvery      = time.Minute

	unknownAge = 24 * time.Hour       // after which files without an execution are removed
	markAge    = 365 * 24 * time.Hour // after which a mark is removed
)

// check returns all errors in r.
func (r *Retention) check() error {
	var bad []error
	if r.Most < 0 {
		bad = append(bad, fmt.Errorf("the option Most is %d bytes; give a positive number, or 0 for no limit", r.Most))
	}
	if r.Every < 0 {
		bad = append(bad, fmt.Errorf("the option Every is %v; give a positive time, or 0 for %v", r.Every, defaultEvery))
	}
	if len(bad) > 0 {
		return courier.Errorf(courier.ErrInvalid, "depot.Retention: %w", errors.Join(bad...))
	}
	return nil
}

// keep returns how long files of an execution are kept after its end.
func (r *Retention) keep(x *courier.Execution) time.Duration {
	if x.State == courier.Failed {
		return or(r.KeepFailed, defaultKeepFailed)
	}
	if d, ok := r.Jobs[x.Job]; ok {
		return or(d, defaultKeep)
	}
	return or(r.Keep, defaultKeep)
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Until returns the time until which the files of an execution are kept, unless the depot becomes
// larger than Most. It returns the zero time if the execution has not ended, or if its files are
// kept for ever. A nil opt means the defaults.
func Until(x courier.Execution, opt *Retention) time.Time {
	if opt == nil {
		opt = &Retention{}
	}
	keep := opt.keep(&x)
	if !x.State.Ended() || x.EndedAt.IsZero() || keep < 0 {
		return time.Time{}
	}
	return x.EndedAt.Add(keep).UTC()
}

// Executions returns executions with their states. The engine.Executions of an engine implements
// it.
type Executions interface {
	// Get returns an execution. The error matches [courier.ErrNotFound] if there is none.
	Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error)
}

// An identified is an Executions of a store with an id, such as that of an engine.
type identified interface {
	StoreID(ctx context.Context) (string, error)
}

// Clean removes files whose retention has ended, at once and then every 60 seconds. It returns
// when ctx ends, with its cause. A nil opt means the defaults. Invalid options are an error that
// matches [courier.ErrInvalid].
//
// Engines with a registered depot do that themselves; see [Register]. Clean is for programs
// that start no engine.
//
// Any number of processes may clean one depot. If their options differ, the shortest times
// apply. Clean removes
//
//   - the files of executions that have ended, when [Until] has passed, or to make room;
//   - files of which no execution is known, 24 hours after the last of them was put there:
//     an upload whose process died before it could enqueue. In a [Directory] they are left
//     alone if another store may have the execution, and that is logged once;
//   - what processes that died have left in a [Directory].
//
// After it has removed the files of an execution, it leaves a mark, which [Removed] reads. The
// mark is removed when the execution no longer exists, or after a year.
//
// It writes the mark first, and then checks the execution again. If a failed execution was
// resumed before that check, it keeps its files, and the mark is removed. If it is resumed later,
// depot.fetch and depot.keep fail with a [RemovedError].
func Clean(ctx context.Context, d Depot, x Executions, opt *Retention) error {
	c, err := newCleaner(d, x, opt)
	if err != nil {
		return err
	}
	for {
		err := c.look(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.report(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(or(c.opt.Every, defaultEvery)):
		}
	}
}

// CleanOnce is one run of [Clean], for programs that have a scheduler of their own. The
// error lists everything that failed; the next run retries it.
func CleanOnce(ctx context.Context, d Depot, x Executions, opt *Retention) error {
	c, err := newCleaner(d, x, opt)
	if err != nil {
		return err
	}
	return c.look(ctx)
}

// A cleaner removes files whose retention has ended.
type cleaner struct {
	depot Depot
	x     Executions
	opt   Retention
	log   *slog.Logger
	// next is the time of the next check of an execution, so that a depot with many executions
	// does not check each of them in each run.
	next map[courier.ExecutionID]time.Time
	last string // error that was logged

	store  string                         // the id of the store; empty if it has none
	stores map[string]bool                // that have executions here, by id
	left   map[courier.ExecutionID]string // whose files are left alone, with the stores that may have them
	said   string                         // what was logged about them
}

func newCleaner(d Depot, x Executions, opt *Retention) (*cleaner, error) {
	if opt == nil {
		opt = &Retention{}
	}
	if err := opt.check(); err != nil {
		return nil, err
	}
	c := &cleaner{depot: d, x: x, opt: *opt, log: opt.Log, next: make(map[courier.ExecutionID]time.Time), left: make(map[courier.ExecutionID]string)}
	if c.log == nil {
		c.log = slog.Default()
	}
	return c, nil
}

// report logs an error once while it lasts.
func (c *cleaner) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != c.last {
		c.log.Error("depot: files could not be removed; the next retention run retries", "error", text)
	}
	c.last = text
}

// look checks every execution whose check is due, and then the total size.
func (c *cleaner) look(ctx context.Context) error {
	var bad []error
	if dir, ok := c.depot.(*Directory); ok {
		if err := dir.sweep(); err != nil {
			bad = append(bad, fmt.Errorf("depot: %w", err))
		}
	}
	if err := c.identify(ctx); err != nil {
		return errors.Join(append(bad, err)...)
	}
	ids, err := executions(ctx, c.depot)
	if err != nil {
		return errors.Join(append(bad, err)...)
	}
	next := make(map[courier.ExecutionID]time.Time, len(ids))
	for _, id := range ids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := c.next[id]
		if now := time.Now(); !at.After(now) || at.Sub(now) > longest { // the clock was put back
			if at, err = c.one(ctx, id); err != nil {
				bad = append(bad, err)
				at = time.Time{}
			}
		}
		next[id] = at
	}
	c.next = next
	c.tellLeft()
	if c.opt.Most > 0 {
		bad = append(bad, c.shrink(ctx))
	}
	const most = 20
	if len(bad) > most {
		bad = append(bad[:most:most], fmt.Errorf("and more"))
	}
	return errors.Join(bad...)
}

// The longest times between two checks of an execution. An execution with files may have been
// resumed; an execution whose files are removed may no longer exist.
const (
	again   = time.Hour
	longest = 24 * time.Hour
)

// one checks an execution, and returns the time of the next check.
func (c *cleaner) one(ctx context.Context, id courier.ExecutionID) (next time.Time, err error) {
	now := time.Now()
	delete(c.left, id)
	at, marked, err := Removed(ctx, c.depot, id)
	if err != nil {
		return next, err
	}
	x, err := c.x.Get(ctx, id)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return c.unknown(ctx, id, at, marked)
	case err != nil:
		return next, err
	case !x.State.Ended():
		return next, c.stands(ctx, id, at, marked)
	}
	until := Until(x, &c.opt)
	switch {
	case marked && now.Sub(at) >= markAge:
		return next, c.depot.Remove(ctx, string(id)+"/")
	case marked && now.Sub(at) < markGrace:
		return now.Add(markGrace), nil // another process may be at it
	case marked:
		return now.Add(longest), c.remove(ctx, id) // the process that marked it may have died
	case until.IsZero():
		return now.Add(again), nil
	case now.Before(until):
		return earlier(until, now.Add(again)), nil
	}
	return now.Add(again), c.retire(ctx, &x)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// unknown checks the files of an execution of which there is no record.
func (c *cleaner) unknown(ctx context.Context, id courier.ExecutionID, at time.Time, marked bool) (next time.Time, err error) {
	now := time.Now()
	infos, err := c.depot.List(ctx, string(id)+"/")
	if err != nil {
		return next, err
	}
	for _, info := range infos {
		if info.Time.After(at) {
			at = info.Time
		}
	}
	if len(infos) == 0 {
		// The first file of an upload may come at any moment: its directory is there before it.
		if dir, ok := c.depot.(*Directory); ok {
			err = dir.removeEmpty(id)
		}
		return now.Add(again), err
	}
	switch {
	case now.Sub(at) < unknownAge:
		return earlier(at.Add(unknownAge), now.Add(again)), nil
	case c.isAnothers(id, infos):
		return now.Add(again), nil
	case marked:
		return next, c.depot.Remove(ctx, string(id)+"/")
	}
	return now.Add(again), c.retire(ctx, &courier.Execution{ID: id})
}

// markGrace is the maximum time that a cleaner may take between its mark and the removal.
const markGrace = 10 * time.Minute

// stands removes the mark of an execution that has not ended. The cleaner that made it has died,
// or is about to notice that.
func (c *cleaner) stands(ctx context.Context, id courier.ExecutionID, at time.Time, marked bool) error {
	if !marked || time.Since(at) < markGrace {
		return nil
	}
	files, err := c.files(ctx, id)
	if err != nil || len(files) == 0 {
		return err
	}
	return c.depot.Remove(ctx, RemovedKey(id))
}

// files returns the inputs and results of an execution. If one of them is damaged, it returns a
// placeholder for all of them: the damage is no reason to keep the files.
func (c *cleaner) files(ctx context.Context, id courier.ExecutionID) ([]Info, error) {
	all, err := c.depot.List(ctx, string(id)+"/")
	if courier.ClassOf(err) == courier.ReasonIntegrity {
		return []Info{{Key: ResultKey(id, "damaged")}}, nil
	}
	return slices.DeleteFunc(all, func(i Info) bool { return isMark(i.Key) }), err
}

// retire marks an execution and removes its files, unless the execution has changed.
func (c *cleaner) retire(ctx context.Context, x *courier.Execution) error {
	files, err := c.files(ctx, x.ID)
	if err != nil || len(files) == 0 {
		return err
	}
	began := time.Now()
	err = c.mark(ctx, x.ID)
	if errors.Is(err, ErrFull) && x.State.Final() {
		// Nobody can need the files any more, and the mark needs room.
		if err = c.remove(ctx, x.ID); err == nil {
			err = c.mark(ctx, x.ID)
		}
	}
	if err != nil {
		return err
	}
	now, err := c.x.Get(ctx, x.ID)
	gone := errors.Is(err, courier.ErrNotFound)
	if gone {
		err = nil
	}
	if same := gone == (x.State == "") && now.Seq == x.Seq; err != nil || !same || time.Since(began) > markGrace/2 {
		// It was resumed or enqueued, or nobody knows. Its files stay.
		return errors.Join(err, c.depot.Remove(ctx, RemovedKey(x.ID)))
	}
	if err := c.remove(ctx, x.ID); err != nil {
		return err
	}
	var size int64
	for _, f := range files {
		size += f.Size
	}
	c.log.Info("depot: removed the files of an execution", "execution", x.ID, "job", x.Job, "state", x.State, "files", len(files), "bytes", size)
	return nil
}

// mark writes the mark which says that the files are removed now.
func (c *cleaner) mark(ctx context.Context, id courier.ExecutionID) error {
	p, err := c.depot.Create(ctx, RemovedKey(id))
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Commit()
	return err
}

// remove removes inputs and results, and leaves the mark.
func (c *cleaner) remove(ctx context.Context, id courier.ExecutionID) error {
	return errors.Join(c.depot.Remove(ctx, InputKey(id, "")), c.depot.Remove(ctx, ResultKey(id, "")))
}

// A candidate is an execution whose files may be removed to make room.
type candidate struct {
	execution courier.Execution
	size      int64
}

// ownerLabel is the label that says who has started an execution.
const ownerLabel = "by"

// An owner is an owner of files in the depot.
type owner struct {
	size  int64
	ended []candidate // that which ended first before others
}

// shrink removes files early while the depot is too large.
func (c *cleaner) shrink(ctx context.Context) error {
	sizes, err := c.sizes(ctx)
	if err != nil {
		return err
	}
	var total int64
	for _, size := range sizes {
		total += size
	}
	if total <= c.opt.Most {
		return nil
	}
	owners := make(map[string]*owner)
	for id, size := range sizes {
		if size == 0 {
			continue
		}
		x, err := c.x.Get(ctx, id)
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			return err
		}
		of := owners[x.Labels[ownerLabel]]
		if of == nil {
			of = new(owner)
			owners[x.Labels[ownerLabel]] = of
		}
		of.size += size
		if err == nil && x.State.Final() {
			of.ended = append(of.ended, candidate{x, size})
		}
	}
	for _, of := range owners {
		slices.SortFunc(of.ended, func(a, b candidate) int { return a.execution.EndedAt.Compare(b.execution.EndedAt) })
	}
	for total > c.opt.Most {
		var most *owner
		for _, of := range owners {
			if len(of.ended) > 0 && (most == nil || of.size > most.size) {
				most = of
			}
		}
		if most == nil {
			break
		}
		one := most.ended[0]
		if err := c.retire(ctx, &one.execution); err != nil {
			return err
		}
		most.ended, most.size = most.ended[1:], most.size-one.size
		total -= one.size
	}
	if total > c.opt.Most {
		return fmt.Errorf("depot: the files have %d bytes, %d at most, and no further ended execution has files that may be removed; shorten the retention times, or raise Most in depot.Retention", total, c.opt.Most)
	}
	return nil
}

// sizes returns the number of bytes of the files of each execution.
func (c *cleaner) sizes(ctx context.Context) (map[courier.ExecutionID]int64, error) {
	if dir, ok := c.depot.(*Directory); ok {
		return dir.sizes(ctx)
	}
	all, err := c.depot.List(ctx, "")
	sizes := make(map[courier.ExecutionID]int64)
	for _, info := range all {
		id, _ := SplitKey(info.Key)
		sizes[id] += info.Size
	}
	return sizes, err
}
