package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// A Planner plans how executions that stand still go on.
type Planner struct {
	archive  store.Archive
	programs *program.Cache
	secrets  func(context.Context, courier.SecretRequest) (string, error)
}

// New returns a planner. Secrets is that of the engine's options.
func New(a store.Archive, p *program.Cache, secrets func(context.Context, courier.SecretRequest) (string, error)) *Planner {
	return &Planner{a, p, secrets}
}

// A Plan is what a resume will do.
type Plan struct {
	Change   store.Change
	Program  *program.Program       // in the version with which the execution goes on
	Position courier.Position       // where it goes on
	Values   *program.Values        // there
	Consumed []courier.ConsumedFile // why going back may not find what steps need
	Steps    []courier.ResumedStep  // that may run
	Failed   []Failure              // of the items that are executed again
	Whole    bool                   // it begins again as the next attempt, and Change does not count
}

// Config returns the configuration of the step at the position, without secrets; nil if
// there is none, or if a reference has no value yet.
func (p *Plan) Config() json.RawMessage {
	i := p.Position.Step
	if i >= p.Program.Tree.Len() || p.Program.Types[i] == nil {
		return nil
	}
	walk, err := p.Program.Tree.Walk(p.Position, p.Values)
	if err != nil {
		return nil
	}
	raw, err := p.Program.Template(i).Render(nil, walk, func(name, _ string) (string, error) { return "secret:" + name, nil })
	if err != nil {
		return nil
	}
	return raw
}

// A draft is a plan in the making.
type draft struct {
	*Planner
	opt      *courier.ResumeOptions
	dry      bool              // the plan is only shown
	x        courier.Execution // as it will be
	old, now *program.Program
	history  History
	records  []courier.StepExecution // in the present version, from which the values follow
	latest   []courier.StepExecution // those of them in scope
	failed   []Failure               // items that are left
	pending  []Failure               // targets of a pass under way that are not over
	pass     *Pass                   // of the items that are executed again; nil if none are
	returned bool                    // it goes on at an earlier position
	done     []int                   // steps with a completed record there
	vals     *program.Values
	used     map[int]*uses // what entries name, by index
	plan     Plan
	problems []string
	notes    []string
}

func (d *draft) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// Plan plans how an execution goes on. Dry says that the plan is only shown: it may go back
// before a step that took a file away, as with Force. The error of options that don't fit the
// execution matches [courier.ErrInvalid] and has all problems; one whose state does not
// allow it matches [courier.ErrConflict].
func (p *Planner) Plan(ctx context.Context, x *courier.Execution, opt *courier.ResumeOptions, dry bool) (*Plan, error) {
	if x.State != courier.Paused && x.State != courier.Failed {
		return nil, &courier.TransitionError{Execution: x.ID, From: x.State, To: courier.Queued}
	}
	d := &draft{Planner: p, opt: opt, dry: dry, x: *x}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context) error{d.version, d.from, d.set, d.skip, d.items, d.accept, d.elsewhere} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	if len(d.problems) > 0 {
		return nil, courier.Errorf(courier.ErrInvalid, "%s; nothing was changed, it stays %s", text.Lines(d.problems), x.State)
	}
	return d.finish(ctx)
}

// force reports whether it may go back before a step that took a file away, or needs one that
// was lost.
func (d *draft) force() bool { return d.opt.Force || d.dry }

// prepare reads the execution's program, records and values.
func (d *draft) prepare(ctx context.Context) (err error) {
	o := d.opt
	if o.Delay < 0 {
		d.problem("Delay: %v is negative; 0 means at once", o.Delay)
	}
	if o.Elsewhere && (o.Delay != 0 || o.Version != 0 || len(o.Set) > 0 || o.Skip || o.Outputs != nil || len(o.Items) > 0) {
		d.problem("Elsewhere can be given with From and Force, but with no other change; make that one with another resume")
	}
	if o.Skip && (o.From != "" || len(o.Items) > 0) || o.From != "" && len(o.Items) > 0 {
		d.problem("Skip, From and Items exclude each other, since each says where the execution goes on; give one of them")
	}
	if others := (courier.ResumeOptions{Version: o.Version, From: o.From, Set: o.Set, Skip: o.Skip, Outputs: o.Outputs, Items: o.Items, Elsewhere: o.Elsewhere}); len(o.Accept) > 0 && others.Changes() {
		d.problem("Accept can be given with no other change; make that one with another resume")
	}
	if d.old, err = d.programs.Load(ctx, d.x.Job, d.x.Version); err != nil {
		return err
	}
	if d.old.Tree == nil {
		return courier.Errorf(courier.ErrInvalid, "the blocks of version %d of job %q are broken: %w", d.x.Version, d.x.Job, d.old.NotRunnable)
	}
	d.now = d.old
	d.plan.Change = store.Change{Seq: d.x.Seq, Delay: o.Delay}
	if o.Delay > 0 {
		d.note("due after %v", o.Delay)
	}
	err = d.read(ctx)
	if len(d.pending) > 0 && (o.From != "" || len(o.Items) > 0 || len(o.Accept) > 0) {
		d.problem("failed items are executed again, and %d of their failures are left: From, Items and Accept can be given when that is over; resume without them", len(d.pending))
	}
	return err
}

// read reads the records that are in scope where the execution stands, and its values.
func (d *draft) read(ctx context.Context) error {
	d.history = History{Archive: d.archive, Tree: d.now.Tree, Execution: &d.x}
	latest, err := d.history.Archive.Latest(ctx, store.LatestFilter{Execution: d.x.ID})
	if err != nil {
		return fmt.Errorf("read the records of execution %s: %w", d.x.ID, err)
	}
	if d.records, err = d.history.recordsAt(ctx, latest, d.x.Position); err != nil {
		return fmt.Errorf("read the records of execution %s: %w", d.x.ID, err)
	}
	if d.x.FailedItems > 0 {
		if d.failed, err = d.history.Failures(ctx); err != nil {
			return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
		}
	}
	if d.pending, err = d.history.pending(ctx); err != nil {
		return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	d.restore()
	return nil
}

// move says where the execution goes on.
func (d *draft) move(pos courier.Position, attempts, base int) {
	d.x.Position = pos
	d.plan.Change.Move = &store.Move{Position: pos, Attempts: attempts, Base: base}
}

// restore sets the values to those where the execution goes on.
func (d *draft) restore() {
	var passes []courier.RepairPass
	if d.x.Repairs != nil {
		passes = d.x.Repairs.Passes
	}
	inScope, _ := d.now.Tree.Scope(d.x.Position, d.records, passes)
	d.latest = nil
	for _, r := range inScope {
		d.latest = append(d.latest, *r)
	}
	d.vals = program.NewValues(d.now, &d.x, "")
	if d.x.Repairs != nil {
		d.vals.SetChanges(d.x.Repairs.Values)
	}
	d.vals.Restore(d.records, d.x.Position)
}

// scope has the values where the execution goes on, by the ids of steps too.
func (d *draft) scope() courier.Scope {
	walk, err := d.now.Tree.Walk(d.x.Position, d.vals)
	if err != nil {
		return d.vals
	}
	return walk
}

// repairs returns a copy of the execution's repairs, to be changed.
func (d *draft) repairs() *courier.Repairs {
	var r courier.Repairs
	if d.x.Repairs != nil {
		r = *d.x.Repairs
	}
	d.x.Repairs = &r
	return &r
}

// recorded reports whether the position, or the repair of an item, depends on a record of
// a step.
func (d *draft) recorded(step int) bool {
	return d.recordedHere(step) || slices.ContainsFunc(d.failed, func(f Failure) bool { return f.Record.Step == step })
}

// recordedHere reports whether a step has a record in the iterations of the position.
func (d *draft) recordedHere(step int) bool {
	return slices.ContainsFunc(d.latest, func(r courier.StepExecution) bool { return r.Step == step }) ||
		slices.ContainsFunc(d.failed, func(f Failure) bool { return f.Record.Step == step && within(d.x.Position, &f) })
}

func (d *draft) label(p *program.Program, i int) string {
	s := p.Tree.Spec(i)
	return courier.StepLabel(i, s.ID, s.Type)
}

// from goes back to an earlier step.
func (d *draft) from(ctx context.Context) error {
	if d.opt.From == "" {
		return nil
	}
	step, ok := d.now.Tree.Head(d.opt.From)
	if !ok {
		d.problem("From: there is no step %q", d.opt.From)
		return nil
	}
	pos, err := d.now.Tree.Before(step, d.x.Position, d.recordedHere)
	if err != nil {
		d.problem("From %q: %v", d.opt.From, err)
		return nil
	}
	left, err := d.history.left(ctx) // also in loops that accept failed items, which fail no item around them
	if err != nil {
		return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	for i := range left {
		if f := &left[i]; within(pos, f) && flow.Compare(f.Position, pos) < 0 {
			d.problem("From %q: it lies behind %s, which failed in this item; give that one, or a step before it", d.opt.From, d.label(d.now, f.Record.Step))
			return nil
		}
	}
	if err := d.checkLost(ctx, pos); err != nil {
		return err
	}
	d.returned = true
	d.consume(pos)
	d.checkConsumed()
	d.back(ctx, pos)
	d.note("from %s", d.label(d.now, step))
	return nil
}

// checkLost refuses to go back to where a step needs a file that was lost when the execution
// went on without its workspace, and that no step has left again.
func (d *draft) checkLost(ctx context.Context, pos courier.Position) error {
	lost := d.history.lostUpTo()
	if lost == 0 || d.force() {
		return nil
	}
	reports, err := d.history.allReports(ctx)
	if err != nil {
		return fmt.Errorf("read the files of execution %s: %w", d.x.ID, err)
	}
	if n, ok := d.needs(pos, reports, func(f leftFile) bool { return f.Seq <= lost }); ok {
		d.problem("From %q: %s in the workspace that is gone; give that step or an earlier one, or set Force", d.opt.From, d.why(n))
	}
	return nil
}

// consume takes note of what completed steps from a position on took away.
func (d *draft) consume(pos courier.Position) {
	for _, r := range d.latest {
		for _, f := range r.Files {
			switch {
			case r.Step < pos.Step || !f.Removed:
			case f.Connection != "":
				d.plan.Consumed = append(d.plan.Consumed, courier.ConsumedFile{Step: r.Step, Path: f.Connection + ":" + f.Path})
			case !(d.opt.Elsewhere && inWorkspace(f.Path)):
				d.plan.Consumed = append(d.plan.Consumed, courier.ConsumedFile{Step: r.Step, Path: f.Path})
			}
		}
	}
}

// back goes back to an earlier position. Steps from there on run in a new pass.
func (d *draft) back(ctx context.Context, pos courier.Position) {
	back, err := d.history.Back(ctx, d.x.Seq, pos)
	if err != nil {
		d.problem("the failed items can't be read: %v", err)
		return
	}
	attempts := 0
	for _, r := range d.latest {
		if r.Step == pos.Step {
			attempts = r.Attempt
		}
	}
	d.x.Repairs = back.Repairs
	d.plan.Change.Items = &store.ItemCount{
		Failed: back.Failed, Accepted: back.Accepted, Rescued: &store.RescueCount{Items: back.Rescued, Fails: back.RescueFails},
	}
	for _, r := range d.latest {
		if r.State == courier.StepCompleted && r.Step >= pos.Step {
			d.done = append(d.done, r.Step)
		}
	}
	d.move(back.Position, attempts, int(d.x.Seq))
	d.restore()
}

// checkConsumed refuses to go back before a step that took something away.
func (d *draft) checkConsumed() {
	if d.force() || len(d.plan.Consumed) == 0 {
		return
	}
	var names []string
	for _, c := range d.plan.Consumed {
		names = append(names, fmt.Sprintf("%s removed %s", d.label(d.now, c.Step), c.Path))
		if len(names) == 10 {
			break
		}
	}
	d.problem("From %q: steps that run again may not find what completed steps took away: %s; go back to a later step, or set Force", d.opt.From, strings.Join(names, ", "))
}

// finish completes the plan.
func (d *draft) finish(ctx context.Context) (*Plan, error) {
	c := &d.plan.Change
	c.Repairs = d.x.Repairs
	c.Note = strings.Join(d.notes, "; ")
	d.plan.Program, d.plan.Values = d.now, d.vals
	if _, err := d.now.Tree.Walk(d.x.Position, d.vals); err != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "it can't go on at %s: %w; nothing was changed", positionText(d.x.Position), err)
	}
	d.plan.Position = d.x.Position
	if d.pass == nil && d.repairsAll() {
		var err error
		if _, d.pass, err = d.history.Begin(ctx, nil, d.x.Seq, d.x.Position); err != nil {
			return nil, fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
		}
	}
	first := d.x.Position.Step
	if d.pass != nil {
		d.plan.Failed, first = d.pass.Targets, 0
	}
	for i := first; i < d.now.Tree.Len(); i++ {
		if s := d.now.Tree.Spec(i); d.now.Tree.Works(i) && (d.pass == nil || d.pass.Executes(i)) {
			d.plan.Steps = append(d.plan.Steps, courier.ResumedStep{Step: i, ID: s.ID, Type: s.Type, Repeated: slices.Contains(d.done, i)})
		}
	}
	return &d.plan, ctx.Err()
}

// repairsAll reports whether the resume executes failed items again though none is chosen:
// those of an execution that has failed because of them, where it stands.
func (d *draft) repairsAll() bool {
	return d.x.State == courier.Failed && d.x.Failure != nil && d.x.Failure.Reason == courier.ReasonItems && !d.returned && len(d.pending) == 0
}

func positionText(p courier.Position) string {
	b, _ := json.Marshal(p)
	return string(b)
}

// items chooses failed items.
func (d *draft) items(ctx context.Context) error {
	if len(d.opt.Items) == 0 {
		return nil
	}
	left, err := d.named(ctx, "Items", d.opt.Items)
	if err != nil || len(d.problems) > 0 {
		return err
	}
	repairs, pass, err := d.history.Begin(ctx, d.opt.Items, d.x.Seq, d.x.Position)
	if err != nil || pass == nil {
		return errors.Join(err, errNothing)
	}
	_, accepted := d.history.Count(left, d.x.Position)
	attempts := 0
	if f := &pass.Targets[0]; f.Position.Step == f.Record.Step {
		attempts = f.Record.Attempt
	}
	d.x.Repairs, d.pass = repairs, pass
	d.move(pass.Position(0), attempts, int(d.x.Seq))
	d.plan.Change.Items = &store.ItemCount{Failed: d.x.FailedItems, Accepted: accepted, Target: 1}
	d.note("%d of %d failed items", len(d.opt.Items), d.x.FailedItems)
	return d.read(ctx)
}

// named returns the failures that are left, after it has checked that each of the items of an
// option has failed.
func (d *draft) named(ctx context.Context, option string, items []courier.ItemPath) ([]Failure, error) {
	if d.x.FailedItems == 0 {
		d.problem("%s: no item of the execution has failed", option)
		return nil, nil
	}
	left, err := d.history.Failures(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	for i, item := range items {
		if !slices.ContainsFunc(left, func(f Failure) bool { return SameItem(f.Item, item) }) {
			d.problem("%s[%d]: item %v of the loop of step %d has not failed; %s", option, i, item.Iteration, item.Loop, someItems(left))
		}
	}
	return left, nil
}

// accept takes failed items as dealt with.
func (d *draft) accept(ctx context.Context) error {
	if len(d.opt.Accept) == 0 {
		return nil
	}
	if d.opt.By.Reason == "" {
		d.problem("Accept: By.Reason is required, since the audit says why items were accepted")
	}
	left, err := d.named(ctx, "Accept", d.opt.Accept)
	if err != nil || len(d.problems) > 0 {
		return err
	}
	var names []string
	for _, f := range perItem(d.now.Tree, left, d.x.Position) {
		if slices.ContainsFunc(d.opt.Accept, func(i courier.ItemPath) bool { return SameItem(i, f.Item) }) {
			item := program.ItemFailure(&f.Record, len(f.Item.Iteration)-1)
			names = append(names, courier.FormatItem(item.Label, item.Index))
		}
	}
	d.x.Repairs = d.history.with(courier.RepairPass{Seq: d.x.Seq, Items: d.opt.Accept, Then: d.x.Position, Accepted: true})
	if left, err = d.history.left(ctx); err != nil {
		return err
	}
	failed, accepted := d.history.Count(left, d.x.Position)
	d.plan.Change.Items = &store.ItemCount{Failed: failed, Accepted: accepted}
	if pos := d.now.Tree.Recount(d.x.Position, append(records(left), d.history.rescues()...)); !pos.Equal(d.x.Position) {
		d.move(pos, d.x.StepAttempts, d.x.EarlierStarts)
	}
	const most = 10
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	d.note("accepted as dealt with: %s", strings.Join(names, ", "))
	return d.read(ctx)
}

var errNothing = errors.New("there is nothing to execute again")

// someItems names the first failed items.
func someItems(left []Failure) string {
	const most = 10
	var names []string
	for i, f := range left {
		if len(names) == most {
			names = append(names, "...")
			break
		}
		if i == 0 || !SameItem(left[i-1].Item, f.Item) {
			names = append(names, fmt.Sprint(f.Item.Iteration))
		}
	}
	return "failed are " + strings.Join(names, ", ")
}
