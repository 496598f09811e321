package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
)

// A task is a step that is to be validated.
type task struct {
	report  *StepReport
	x       courier.Execution // made up
	program *program
	vals    *values // not to be changed
	mayCome bool    // what the step does not find, one before it may make
}

// A lane is validated one after the other: the steps that use one connection,
// which they share.
type lane struct {
	tasks []*task
	res   *courier.Resources
}

// add puts a step on the list of those to validate, in the lane of its
// connection.
func (d *dryRun) add(t *task) {
	key := t.connection()
	l := d.byKey[key]
	if l == nil {
		l = &lane{res: new(courier.Resources)}
		d.lanes = append(d.lanes, l)
		if key != "" {
			d.byKey[key] = l
		}
	}
	if key != "" { // what is missing is missing on the other side
		t.mayCome = slices.ContainsFunc(l.tasks, (*task).makes)
	}
	l.tasks = append(l.tasks, t)
}

// makes reports whether a step puts something on the other side, by the verbs
// that all step types use.
func (t *task) makes() bool {
	_, verb, _ := strings.Cut(t.report.Type, ".")
	return slices.Contains([]string{"mkdir", "rename", "upload"}, verb)
}

// connectionField is the field of a configuration that names a connection, by
// the convention of all step types.
const connectionField = "connection_id"

// connection is the connection that a step uses; empty for none, or if it is
// known only at run time.
func (t *task) connection() string {
	config, _, err := t.program.tree.Template(t.report.Step).Partial(t.vals, nil)
	if err != nil {
		return ""
	}
	id, _ := object(config)[connectionField].(string)
	return id
}

// validate validates all steps, several lanes at a time.
func (d *dryRun) validate(ctx context.Context) {
	lanes := make(chan *lane)
	var all sync.WaitGroup
	for range min(d.opt.Parallel, len(d.lanes)) {
		all.Go(func() {
			for l := range lanes {
				for _, t := range l.tasks {
					d.step(ctx, l, t)
				}
				if err := l.res.Close(); err != nil {
					d.e.log.Warn("close what a dry run has opened", "error", d.secrets.Clean(err.Error()))
				}
			}
		})
	}
	for _, l := range d.lanes {
		lanes <- l
	}
	close(lanes)
	all.Wait()
	for _, l := range d.lanes {
		for _, t := range l.tasks {
			d.clean(t.report)
		}
	}
}

// clean removes secrets from a report, also those that another step has used.
func (d *dryRun) clean(s *StepReport) {
	for i := range s.Notes {
		s.Notes[i] = d.secrets.Message(errors.New(s.Notes[i]))
	}
	if s.Message != "" {
		s.Message = d.secrets.Message(errors.New(s.Message))
	}
}

// step validates one step.
func (d *dryRun) step(ctx context.Context, l *lane, t *task) {
	if ctx.Err() != nil {
		t.report.State, t.report.Message = NotChecked, "the dry run ended before: "+context.Cause(ctx).Error()
		return
	}
	begun := time.Now()
	r := &run{e: d.e, x: t.x, program: t.program, vals: t.vals, secrets: &d.secrets}
	r.begin(ctx)
	defer r.endCalls()
	defer r.lost(nil)
	r.res = l.res
	notes := &notes{}
	a := r.newAttempt(t.program.types[t.report.Step])
	a.timeout, a.scope.scope = d.opt.Timeout, t.vals
	defer a.scope.end()
	a.job = courier.NewContext(r.dryConfig(t.report.Step, a, notes)) // what the step is called in reports about it
	unresolved, o := a.dry(t.report.Step, notes)
	l.res = r.res // new ones, if the step does not return
	t.report.Unresolved, t.report.Notes = unresolved, notes.taken()
	if a.typ.Validates() {
		t.report.Duration = time.Since(begun)
	}
	t.judge(ctx, a, o)
}

// judge puts what became of a step into its report.
func (t *task) judge(ctx context.Context, a *attempt, o outcome) {
	switch {
	case o.err == nil:
		if a.typ.Validates() {
			t.report.State = CheckOK
		}
	case ctx.Err() != nil:
		t.report.State, t.report.Message = NotChecked, "the dry run ended before: "+context.Cause(ctx).Error()
	case o.abandoned:
		t.report.State = CheckProblem
		t.report.Message = fmt.Sprintf("%v; Validate did not return within %v after that, so it was cut off", o.err, a.run.e.opt.Grace)
	case o.reason == courier.ReasonTimeout:
		t.report.State = CheckProblem
		t.report.Message = fmt.Sprintf("%v; see why the other side does not answer, or give it more time with DryRunOptions.Timeout", o.err)
	case t.mayCome && errors.Is(o.err, fs.ErrNotExist):
		t.report.State = NotChecked
		t.report.Message = fmt.Sprintf("%v; that is no mistake if a step before it makes it", o.err)
	default:
		text, _ := core.ErrorText(o.err)
		t.report.State, t.report.Message = CheckProblem, text
	}
}

// dry calls the step's Validate with what is known of its configuration, and
// returns the fields that are known only at run time.
func (a *attempt) dry(step int, notes *notes) (unresolved []string, o outcome) {
	r := a.run
	ctx, cancel := context.WithCancelCause(r.steps)
	defer cancel(nil)
	found, cfg := new([]string), r.dryConfig(step, a, notes)
	r.do(func() {
		a.call(func() (json.RawMessage, error) { return nil, a.validate(ctx, step, found, cfg) })
	})
	o, returned := a.await(r.steps.Done(), cancel)
	if returned {
		return *found, a.judge(ctx, o)
	}
	r.e.abandon(a)
	o = a.judge(ctx, outcome{err: context.Cause(ctx)})
	o.abandoned = true
	return nil, o
}

// validate calls the step's Validate. Unresolved is set before the step is
// called.
func (a *attempt) validate(ctx context.Context, step int, unresolved *[]string, cfg courier.ContextConfig) error {
	config, missing, err := a.run.program.template(step).Partial(&a.scope, func(name string) (string, error) {
		v, err := a.job.Secret(ctx, name)
		if e, ok := errors.AsType[*secretError](err); ok {
			return "", &plainSecretError{e}
		}
		return v, err
	})
	*unresolved = missing
	if err != nil {
		return err
	}
	cfg.Unresolved = missing
	job := courier.NewContext(cfg)
	defer job.Close()
	return a.typ.Validate(ctx, job, config)
}

// A plainSecretError is a secret that could not be had, in the place of the
// secret: who asked for it names it, and a secret that is not there is no value
// that comes later.
type plainSecretError struct{ *secretError }

func (e *plainSecretError) Error() string { return e.err.Error() }
func (e *plainSecretError) Unwrap() error { return nil }

// dryConfig is what Validate sees.
func (r *run) dryConfig(step int, a *attempt, notes *notes) courier.ContextConfig {
	cfg := r.contextConfig(step, 1, a, nil)
	cfg.DryRun, cfg.OnProgress = true, nil
	to := noteHandler{to: notes, next: slog.DiscardHandler}
	if cfg.Log != nil {
		to.next = cfg.Log.Handler()
	}
	cfg.Log = slog.New(to)
	return cfg
}

// What is kept of a step's log.
const (
	maxNotes = 20
	maxNote  = 1000 // bytes
)

// notes are what a step has logged. It may be used by several goroutines.
type notes struct {
	mu   sync.Mutex
	list []string
	over bool // nobody reads what comes
}

// taken returns the notes and takes no more.
func (n *notes) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	return n.list
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(text) > maxNote {
		text = text[:maxNote] + "... (cut)"
	}
	if !n.over && len(n.list) < maxNotes {
		n.list = append(n.list, text)
	}
}

// A noteHandler writes what a step logs down, but for details, besides handing
// it on.
type noteHandler struct {
	to    *notes
	attrs string // as text
	group string // with a dot at its end
	next  slog.Handler
}

// Enabled reports whether anybody reads records of a level.
func (h noteHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// Handle takes a record.
func (h noteHandler) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Level >= slog.LevelInfo {
		var b strings.Builder
		rec.Attrs(func(a slog.Attr) bool {
			h.write(&b, a)
			return true
		})
		level := ""
		if rec.Level > slog.LevelInfo {
			level = strings.ToLower(rec.Level.String()) + ": "
		}
		h.to.add(level + rec.Message + h.attrs + b.String())
	}
	if !h.next.Enabled(ctx, rec.Level) {
		return nil
	}
	return h.next.Handle(ctx, rec)
}

// WithAttrs returns a handler that adds attributes.
func (h noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.write(&b, a)
	}
	h.attrs += b.String()
	h.next = h.next.WithAttrs(attrs)
	return h
}

// WithGroup returns a handler that puts attributes into a group.
func (h noteHandler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	h.next = h.next.WithGroup(name)
	return h
}

func (h noteHandler) write(b *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		in := h
		in.group += a.Key + "."
		for _, g := range v.Group() {
			in.write(b, g)
		}
		return
	}
	fmt.Fprintf(b, ", %s%s %v", h.group, a.Key, v)
}
