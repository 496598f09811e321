// Package unserved finds executions that no worker takes: no worker that the store has
// seen lately serves their queue, has their step types, or has their workspace.
package unserved

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

const (
	// searchInterval is how often such executions are looked for, and so how often they
	// are warned of.
	searchInterval = time.Minute
	// maxLines is how many groups of executions one search logs, each in a line.
	maxLines = 10
	// maxQueues is how many queues are remembered for which workers were looked for.
	maxQueues = 1000
)

// A Service looks for executions that no worker takes. Its methods may be called by
// several goroutines.
type Service struct {
	workers func() (store.Workers, error)
	log     *slog.Logger
	search  chan struct{} // it is time for a search

	mu      sync.Mutex
	next    time.Time            // no search before
	found   []store.Stranded     // by the last search
	checked map[string]time.Time // when the workers of a queue were last looked for
}

// New returns the service of an engine, with a function that returns the part of its store
// that records workers.
func New(workers func() (store.Workers, error), log *slog.Logger) *Service {
	return &Service{workers: workers, log: log, search: make(chan struct{}, 1)}
}

// Found returns what the last search has found.
func (v *Service) Found() []store.Stranded {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.found)
}

// Started is called when the engine is started: the first search is later.
func (v *Service) Started() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = time.Now().Add(core.PresentFor)
	wakeup.Taken(v.search)
}

// Claimed is called after each claim, with whether it has left executions that this
// worker can't take. If so, Run looks for those that no worker takes, if it is time.
func (v *Service) Claimed(left bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !left {
		v.found = nil
		return
	}
	if now := time.Now(); !now.Before(v.next) {
		v.next = now.Add(searchInterval)
		wakeup.Send(v.search)
	}
}

// Run searches when it is time, and warns of what it finds, until the engine stops. It
// does nothing where the store does not record workers.
func (v *Service) Run(l core.Lifetime) {
	workers, err := v.workers()
	if err != nil {
		return
	}
	for {
		select {
		case <-l.Stop:
			return
		case <-v.search:
		}
		ctx, cancel := context.WithTimeout(l.Ctx, storecall.Timeout)
		list, err := workers.Stranded(ctx, core.PresentFor)
		cancel()
		if err != nil {
			if l.Ctx.Err() == nil {
				v.log.Warn("look for executions that no worker can claim", "error", err)
			}
			continue
		}
		v.mu.Lock()
		v.found = list
		v.mu.Unlock()
		v.warn(list)
	}
}

func (v *Service) warn(list []store.Stranded) {
	for i := range list[:min(len(list), maxLines)] {
		g := &list[i]
		c := advice.Stranded(g)
		what, state := "executions wait that no worker can take", "queued"
		if g.Lost {
			what, state = "executions are lost, and no worker takes them over", "lost"
		}
		attrs := []slog.Attr{
			slog.String("why", c.Text), slog.String("do", c.Do), slog.String("reason", string(g.Reason)), slog.String("state", state), slog.String("queue", g.Queue),
			slog.Int("executions", g.Count), slog.Time("since", g.Since), slog.String("oldest", string(g.Oldest)),
		}
		if g.Workspace != "" {
			attrs = append(attrs, slog.String("workspace", g.Workspace))
		}
		if len(g.Missing) > 0 {
			attrs = append(attrs, slog.String("missing", strings.Join(g.Missing, " ")))
		}
		v.log.LogAttrs(context.Background(), slog.LevelWarn, what, attrs...)
	}
	if more := len(list) - maxLines; more > 0 {
		v.log.Warn("further groups of executions wait that no worker can claim; see Engine.Health", "groups", more)
	}
}

// Created warns if no worker that was seen lately serves the queue of one of the
// executions that have just been created. It looks for workers once a minute for each
// queue, and not for the queues that this engine serves.
func (v *Service) Created(ctx context.Context, served []string, created ...courier.Execution) {
	workers, err := v.workers()
	log := v.log
	if err != nil || !log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	for i := range created {
		x := &created[i]
		if x.State != courier.Queued || slices.Contains(served, x.Queue) || !v.check(x.Queue) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, storecall.Timeout)
		list, err := workers.Workers(call, core.PresentFor)
		cancel()
		if err != nil {
			return // the execution is in the store: nothing is lost but a warning
		}
		if !slices.ContainsFunc(list, func(w store.Worker) bool { return slices.Contains(w.Queues, x.Queue) }) {
			log.LogAttrs(ctx, slog.LevelWarn, "an execution was enqueued, but no worker that was seen lately serves its queue; it waits until one does",
				slog.String("queue", x.Queue), slog.String("execution", string(x.ID)), slog.String("job", x.Job), slog.Int("workers", len(list)))
		}
	}
}

// check reports whether it is time to look for the workers of a queue.
func (v *Service) check(queue string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if at, ok := v.checked[queue]; ok && now.Sub(at) < searchInterval {
		return false
	}
	if v.checked == nil || len(v.checked) >= maxQueues {
		v.checked = make(map[string]time.Time)
	}
	v.checked[queue] = now
	return true
}
