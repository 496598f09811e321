package dryruns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/text"
)

// A task is a step that is to be validated.
type task struct {
	report  *dryrun.StepReport
	x       courier.Execution // made up
	program *program.Program
	vals    *program.Values // not to be changed
	mayCome bool            // what the step does not find, one before it may make
}

// A queue has the steps that use one connection. They share it, and are validated one
// after the other.
type queue struct {
	tasks []*task
	res   *courier.Resources
}

// add puts a step on the list of those to validate, in the queue of its
// connection.
func (d *run) add(t *task) {
	key := t.connection()
	l := d.byKey[key]
	if l == nil {
		l = &queue{res: new(courier.Resources)}
		d.queues = append(d.queues, l)
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

// connection is the connection that a step uses; empty for none, or if it is
// known only at run time.
func (t *task) connection() string {
	return t.program.Tree.Template(t.report.Step).Connection(t.vals)
}

// validate validates all steps, several queues at a time.
func (d *run) validate(ctx context.Context) {
	queues := make(chan *queue)
	var all sync.WaitGroup
	for range min(d.opt.Parallel, len(d.queues)) {
		all.Go(func() {
			for l := range queues {
				for _, t := range l.tasks {
					d.step(ctx, l, t)
				}
				if err := l.res.Close(); err != nil {
					d.cfg.Log.Warn("close the resources of a dry run", "error", d.secrets.Clean(err.Error()))
				}
			}
		})
	}
	for _, l := range d.queues {
		queues <- l
	}
	close(queues)
	all.Wait()
	for _, l := range d.queues {
		for _, t := range l.tasks {
			d.clean(t.report)
		}
	}
}

// clean removes secrets from a report, also those that another step has used.
func (d *run) clean(s *dryrun.StepReport) {
	for i := range s.Notes {
		s.Notes[i] = d.secrets.Message(errors.New(s.Notes[i]))
	}
	if s.Message != "" {
		s.Message = d.secrets.Message(errors.New(s.Message))
	}
}

// step validates one step.
func (d *run) step(ctx context.Context, l *queue, t *task) {
	if ctx.Err() != nil {
		t.report.State, t.report.Message = dryrun.NotChecked, "the dry run ended before: "+context.Cause(ctx).Error()
		return
	}
	started, notes := time.Now(), &notes{}
	typ := t.program.Types[t.report.Step]
	o := d.engine.Validate(ctx, &StepValidation{
		Execution: t.x, Program: t.program, Step: t.report.Step, Values: t.vals, Timeout: d.opt.Timeout,
		Resources: l.res, Secrets: &d.secrets,
		Log: func(next slog.Handler) slog.Handler { return noteHandler{to: notes, next: next} },
	})
	l.res = o.Resources
	t.report.Unresolved, t.report.Notes = o.Unresolved, notes.taken()
	if typ.Validates() {
		t.report.Duration = time.Since(started)
	}
	d.judge(ctx, t, &o)
}

// judge writes the result of a step into its report.
func (d *run) judge(ctx context.Context, t *task, o *StepValidated) {
	switch {
	case o.Err == nil:
		if t.program.Types[t.report.Step].Validates() {
			t.report.State = dryrun.OK
		}
	case ctx.Err() != nil:
		t.report.State, t.report.Message = dryrun.NotChecked, "the dry run ended before: "+context.Cause(ctx).Error()
	case o.Abandoned:
		t.report.State = dryrun.Problem
		t.report.Message = fmt.Sprintf("%v; Validate did not return within %v after that, so it was cut off", o.Err, d.cfg.Grace)
	case o.TimedOut:
		t.report.State = dryrun.Problem
		t.report.Message = fmt.Sprintf("%v; find out why the other side does not answer, or give it more time with dryrun.Options.Timeout", o.Err)
	case t.mayCome && errors.Is(o.Err, fs.ErrNotExist):
		t.report.State = dryrun.NotChecked
		t.report.Message = fmt.Sprintf("%v; this is no mistake if an earlier step makes it", o.Err)
	default:
		message, _ := text.OfError(o.Err)
		t.report.State, t.report.Message = dryrun.Problem, message
	}
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
	over bool // what comes is not added
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
