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
	rescued  []courier.StepExecution // records with which rescues began, in the former version
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
	for _, part := range []func(context.Context) error{d.version, d.from, d.set, d.skip, d.settle, d.items, d.elsewhere} {
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
	items := len(o.Items)+len(o.Accept)+len(o.SkipItems)+len(o.Rescue) > 0
	if o.Elsewhere && (o.Delay != 0 || o.Version != 0 || len(o.Set) > 0 || o.Skip || o.Outputs != nil || items) {
		d.problem("Elsewhere can be given with From and Force, but with no other change; make that one with another resume")
	}
	if o.Skip && (o.From != "" || items) || o.From != "" && items {
		d.problem("Skip, From and the lists of items exclude each other, since each says where the execution goes on; give one of them")
	}
	d.checkNamed()
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
	if len(d.pending) > 0 && (o.From != "" || items) {
		d.problem("failed items are executed again, and %d of their failures are left: From, Items, Accept, SkipItems and Rescue can be given when that is over; resume without them", len(d.pending))
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

// recorded reports whether the position, the repair of an item, or what is known of a rescue
// depends on a record of a step, or for the rescue of a block on its flow.try.
func (d *draft) recorded(step int) bool {
	return d.recordedHere(step) || slices.ContainsFunc(d.failed, func(f Failure) bool { return f.Record.Step == step }) ||
		slices.ContainsFunc(d.rescued, func(r courier.StepExecution) bool {
			return r.Step == step || *r.Rescue == step && !slices.Contains(d.old.Tree.Loops(r.Step), step)
		})
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
	walk, err := d.now.Tree.Walk(d.x.Position, d.vals)
	if err != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "it can't continue at %s: %w; nothing was changed", positionText(d.x.Position), err)
	}
	d.plan.Position = d.x.Position
	if d.pass == nil && d.repairsAll() {
		if _, d.pass, err = d.history.Begin(ctx, courier.RepairPass{Seq: d.x.Seq, Then: d.x.Position}); err != nil {
			return nil, fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
		}
	}
	first := d.x.Position.Step
	for i, total := range walk.Total() {
		if loop := d.x.Position.Loops[i]; loop.Index+1 < total { // the steps before run for the items that are left
			first = loop.Step
			break
		}
	}
	if d.pass != nil {
		d.plan.Failed, first = d.pass.Targets, 0
	}
	for i := first; i < d.now.Tree.Len(); i++ {
		if s := d.now.Tree.Spec(i); d.now.Tree.Works(i) && (d.pass == nil || d.pass.Executes(i)) {
			d.plan.Steps = append(d.plan.Steps, courier.ResumedStep{Step: i, ID: s.ID, Type: s.Type, Repeated: (d.pass != nil || i >= d.x.Position.Step) && slices.Contains(d.done, i)})
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

// items chooses failed and rescued items that are executed again, and failed ones whose rescue
// is.
func (d *draft) items(ctx context.Context) error {
	if len(d.opt.Items) == 0 && len(d.opt.Rescue) == 0 || len(d.problems) > 0 {
		return nil
	}
	left, err := d.history.Failures(ctx)
	if err != nil {
		return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
	}
	rescued, err := d.history.RescuedItems(ctx)
	if err != nil {
		return fmt.Errorf("read the rescued items of execution %s: %w", d.x.ID, err)
	}
	pass := courier.RepairPass{Seq: d.x.Seq, Then: d.x.Position, Rescue: d.opt.Rescue}
	for i, item := range d.opt.Items {
		switch is := func(f courier.FailedItem) bool { return SameItem(f.ItemPath, item) }; {
		case has(left, item):
			pass.Items = append(pass.Items, item)
		case slices.ContainsFunc(rescued, is):
			pass.Rescued = append(pass.Rescued, item)
		default:
			d.problem("Items[%d]: %s has neither failed nor been rescued; %s", i, itemText(item), someItems(left))
		}
	}
	for i, item := range d.opt.Rescue {
		if !has(left, item) {
			d.notFailed("Rescue", i, item, left)
			continue
		}
		for _, f := range left {
			if SameItem(f.Item, item) && d.history.rescueOf(&f) < 0 {
				d.problem("Rescue[%d]: %s has no flow.rescue for %s; give a version of the job that has one with Version, or accept the item, or skip it", i, d.label(d.now, f.Item.Loop), d.names(left, []courier.ItemPath{item}))
				break
			}
		}
	}
	if len(d.problems) > 0 {
		return nil
	}
	if len(d.opt.Items) > 0 || !d.repairsAll() {
		pass.Items = append(pass.Items, d.opt.Rescue...)
	}
	repairs, begun, err := d.history.Begin(ctx, pass)
	if err != nil || begun == nil {
		return errors.Join(err, errNothing)
	}
	attempts := 0
	if f := &begun.Targets[0]; f.Position.Step == f.Record.Step {
		attempts = f.Record.Attempt
	}
	again := d.history.again(&pass)
	d.x.Repairs, d.pass = repairs, begun
	d.move(begun.Position(0), attempts, int(d.x.Seq))
	count := &store.ItemCount{Failed: d.x.FailedItems, Target: 1}
	if left = d.history.sorted(append(left, again...)); len(again) > 0 {
		// They count as failed again, until they are over.
		count.Failed, count.Accepted = d.history.Count(left, pass.Then)
		count.Rescued = d.rescuedBut(len(again))
		for i := range d.now.Tree.Len() {
			if d.now.Tree.Works(i) && slices.ContainsFunc(again, func(f Failure) bool { return d.now.Tree.Rescue(f.Loop()) < i && i < d.now.Tree.End(f.Loop()) }) {
				d.done = append(d.done, i)
			}
		}
		d.note("rescued before: %s", d.names(again, pass.Rescued))
	} else {
		_, count.Accepted = d.history.Count(left, pass.Then)
	}
	if n := len(d.opt.Items) - len(pass.Rescued); n > 0 {
		d.note("%d of %d failed items", n, d.x.FailedItems)
	}
	if len(d.opt.Rescue) > 0 {
		d.note("rescue of %s", d.names(left, d.opt.Rescue))
	}
	d.x.FailedItems, d.plan.Change.Items = count.Failed, count
	return d.read(ctx)
}

// rescuedBut are the counts of rescues when so many items count as rescued no more.
func (d *draft) rescuedBut(n int) *store.RescueCount {
	c := &store.RescueCount{Items: max(0, d.x.RescuedItems-n)}
	for _, r := range d.history.rescues() {
		c.Fails = c.Fails || d.now.Tree.RescueFails(*r.Rescue)
	}
	return c
}

// has reports whether an item has failed with one of the failures.
func has(left []Failure, item courier.ItemPath) bool {
	return slices.ContainsFunc(left, func(f Failure) bool { return SameItem(f.Item, item) })
}

func itemText(i courier.ItemPath) string {
	return fmt.Sprintf("item %v of the loop of step %d", i.Iteration, i.Loop)
}

func (d *draft) notFailed(option string, i int, item courier.ItemPath, left []Failure) {
	if len(left) == 0 {
		d.problem("%s[%d]: no item of the execution has failed", option, i)
		return
	}
	d.problem("%s[%d]: %s has not failed; %s", option, i, itemText(item), someItems(left))
}

// names are the labels of items by their failures, for a note.
func (d *draft) names(failures []Failure, items []courier.ItemPath) string {
	const most = 10
	var names []string
	for _, item := range items {
		for _, f := range failures {
			if f.Record.FailedLoop == nil || !SameItem(f.Item, item) && !SameItem(f.in(f.Loop()), item) {
				continue
			}
			if len(names) < most {
				name := program.ItemFailure(&f.Record, len(item.Iteration)-1)
				names = append(names, courier.FormatItem(name.Label, name.Index))
			}
			break
		}
	}
	if more := len(items) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// settle takes failed items as dealt with, or leaves them out.
func (d *draft) settle(ctx context.Context) error {
	for _, s := range []struct {
		option, what string
		items        []courier.ItemPath
		pass         courier.RepairPass
	}{
		{"Accept", "accepted as dealt with", d.opt.Accept, courier.RepairPass{Accepted: true}},
		{"SkipItems", "skipped", d.opt.SkipItems, courier.RepairPass{Skipped: true}},
	} {
		if len(s.items) == 0 {
			continue
		}
		left, err := d.history.Failures(ctx)
		if err != nil {
			return fmt.Errorf("read the failed items of execution %s: %w", d.x.ID, err)
		}
		for i, item := range s.items {
			if !has(left, item) {
				d.notFailed(s.option, i, item, left)
			}
		}
		if len(d.problems) > 0 {
			continue
		}
		d.note("%s: %s", s.what, d.names(left, s.items))
		s.pass.Seq, s.pass.Items, s.pass.Then = d.x.Seq, s.items, d.x.Position
		d.x.Repairs = d.history.with(s.pass)
		if left, err = d.history.left(ctx); err != nil {
			return err
		}
		failed, accepted := d.history.Count(left, d.x.Position)
		d.x.FailedItems, d.plan.Change.Items = failed, &store.ItemCount{Failed: failed, Accepted: accepted}
		if pos := d.now.Tree.Recount(d.x.Position, append(records(left), d.history.rescues()...)); !pos.Equal(d.x.Position) {
			attempts, base := d.x.StepAttempts, d.x.EarlierStarts
			if m := d.plan.Change.Move; m != nil {
				attempts, base = m.Attempts, m.Base
			}
			d.move(pos, attempts, base)
		}
		if err := d.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkNamed refuses items that are named twice, or without a reason.
func (d *draft) checkNamed() {
	named := make(map[string]string)
	for _, l := range []struct {
		option string
		items  []courier.ItemPath
	}{{"Items", d.opt.Items}, {"Accept", d.opt.Accept}, {"SkipItems", d.opt.SkipItems}, {"Rescue", d.opt.Rescue}} {
		if len(l.items) > 0 && l.option != "Items" && d.opt.By.Reason == "" {
			d.problem("%s: By.Reason is required, since the audit says why", l.option)
		}
		for i, item := range l.items {
			key := itemText(item)
			if before, twice := named[key]; twice {
				d.problem("%s[%d]: %s is in %s already; leave one of them out", l.option, i, key, before)
			}
			named[key] = l.option
		}
	}
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
