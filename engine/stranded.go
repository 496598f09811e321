package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

const (
	// presentFor is how long ago a worker may have claimed to count as present, and
	// how long an execution has to be due, or lost, before it is said that no worker
	// takes it. So a restart of all workers is no reason for a warning.
	presentFor = 90 * time.Second
	// strandedAgain is how often it is looked for what no worker takes, and so how
	// often it is warned of.
	strandedAgain = time.Minute
	// mostStrandedLines is how many groups one look tells of, each in a line.
	mostStrandedLines = 10
	// mostAskedQueues is how many queues are remembered to have been asked for.
	mostAskedQueues = 1000
)

// A waste is what the engine knows of executions that no worker takes; guarded by
// Engine.mu.
type waste struct {
	next  time.Time        // no look before
	list  []store.Stranded // what the last look found
	asked map[string]time.Time
}

// lookForStranded looks for executions that no worker takes, after a claim that
// left something, and warns of them. It does not wait for that.
func (e *Engine) lookForStranded(w *worker, left bool) {
	roster, ok := e.store.(store.Workers)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !left {
		e.waste.list = nil
		return
	}
	if time.Now().Before(e.waste.next) {
		return
	}
	e.waste.next = time.Now().Add(strandedAgain)
	w.rest.Add(1) // the caller is one of them
	go func() {
		defer w.rest.Done()
		ctx, cancel := context.WithTimeout(w.ctx, core.StoreTimeout)
		defer cancel()
		list, err := roster.Stranded(ctx, presentFor)
		if err != nil {
			if w.ctx.Err() == nil {
				e.log.Warn("look for executions that no worker takes", "error", err)
			}
			return
		}
		e.mu.Lock()
		e.waste.list = list
		e.mu.Unlock()
		e.warnOfStranded(list)
	}()
}

func (e *Engine) warnOfStranded(list []store.Stranded) {
	for i := range list[:min(len(list), mostStrandedLines)] {
		g := &list[i]
		what, state := "executions wait that no worker takes", "queued"
		if g.Lost {
			what, state = "executions are lost, and no worker takes them over", "lost"
		}
		attrs := []slog.Attr{
			slog.String("lack", string(g.Lack)), slog.String("state", state), slog.String("queue", g.Queue),
			slog.Int("executions", g.Count), slog.Time("since", g.Since), slog.String("oldest", string(g.Oldest)),
		}
		if g.Workspace != "" {
			attrs = append(attrs, slog.String("workspace", g.Workspace))
		}
		if len(g.Missing) > 0 {
			attrs = append(attrs, slog.String("missing", strings.Join(g.Missing, " ")))
		}
		e.log.LogAttrs(context.Background(), slog.LevelWarn, what+": "+strandedAdvice(g), attrs...)
	}
	if more := len(list) - mostStrandedLines; more > 0 {
		e.log.Warn("executions wait that no worker takes: there are more groups of them, see Engine.Health", "groups", more)
	}
}

// strandedAdvice says what is lacking, and what to do.
func strandedAdvice(g *store.Stranded) string {
	switch g.Lack {
	case store.LackQueue:
		return fmt.Sprintf("none serves the queue %q; start an engine that has it in Options.Queues", g.Queue)
	case store.LackWorkspace:
		return fmt.Sprintf("their files are in the workspace %q, which none has; start an engine with that WorkspaceID on that directory, or, if it is gone for good, Resume them with Elsewhere", g.Workspace)
	}
	return fmt.Sprintf("none that serves the queue has the step types %s; register them with an engine that does", strings.Join(g.Missing, ", "))
}

// warnOfUnserved warns if no worker that was seen lately serves the queue of one of
// the executions that have just been created. It asks once a minute for each
// queue.
func (e *Engine) warnOfUnserved(ctx context.Context, created ...courier.Execution) {
	roster, ok := e.store.(store.Workers)
	if !ok || !e.log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	for i := range created {
		x := &created[i]
		if x.State != courier.Queued || !e.asksFor(x.Queue) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, core.StoreTimeout)
		list, err := roster.Workers(call, presentFor)
		cancel()
		if err != nil {
			return // the execution is in the store: nothing is lost but a warning
		}
		if !slices.ContainsFunc(list, func(w store.Worker) bool { return slices.Contains(w.Queues, x.Queue) }) {
			e.log.LogAttrs(ctx, slog.LevelWarn, "an execution was enqueued, but no worker that was seen lately serves its queue; it waits until one does",
				slog.String("queue", x.Queue), slog.String("execution", string(x.ID)), slog.String("job", x.Job), slog.Int("workers", len(list)))
		}
	}
}

// asksFor reports whether it is time to ask who serves a queue. An engine that is
// started need not ask for its own.
func (e *Engine) asksFor(queue string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.worker != nil && slices.Contains(e.opt.Queues, queue) {
		return false
	}
	now := time.Now()
	if at, ok := e.waste.asked[queue]; ok && now.Sub(at) < strandedAgain {
		return false
	}
	if e.waste.asked == nil || len(e.waste.asked) >= mostAskedQueues {
		e.waste.asked = make(map[string]time.Time)
	}
	e.waste.asked[queue] = now
	return true
}
