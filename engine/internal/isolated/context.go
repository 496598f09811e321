package isolated

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A contextConfig is what is sent of a [courier.ContextConfig]. The rest is asked for.
type contextConfig struct {
	Execution        courier.ExecutionID `json:"execution,omitempty"`
	Job              string              `json:"job,omitempty"`
	Version          int                 `json:"version,omitempty"`
	Step             int                 `json:"step,omitempty"`
	ID               string              `json:"id,omitempty"`
	StepName         string              `json:"step_name,omitempty"`
	Type             string              `json:"type,omitempty"`
	Iteration        []int               `json:"iteration,omitempty"`
	Attempt          int                 `json:"attempt,omitempty"`
	EarlierStarts    int                 `json:"earlier_starts,omitempty"`
	ExecutionAttempt int                 `json:"execution_attempt,omitempty"`
	Trace            string              `json:"trace,omitempty"`
	Workspace        string              `json:"workspace,omitempty"`
	Roots            []string            `json:"roots,omitempty"`
	Monitor          string              `json:"monitor,omitempty"`
	Cursor           json.RawMessage     `json:"cursor,omitempty"`
	Repeated         bool                `json:"repeated,omitempty"`
	Unresolved       []string            `json:"unresolved,omitempty"`
	MaxValue         int                 `json:"max_value,omitempty"`
	DryRun           bool                `json:"dry_run,omitempty"`
	Cancelled        bool                `json:"cancelled,omitempty"`
}

// sent returns what is sent of a configuration.
func sent(c *courier.ContextConfig) contextConfig {
	return contextConfig{
		Execution: c.Execution, Job: c.Job, Version: c.Version, Step: c.Step, ID: c.ID, StepName: c.StepName, Type: c.Type,
		Iteration: c.Iteration, Attempt: c.Attempt, EarlierStarts: c.EarlierStarts, ExecutionAttempt: c.ExecutionAttempt, Trace: c.Trace,
		Workspace: c.Workspace, Roots: c.Roots, Monitor: c.Monitor, Cursor: c.Cursor,
		Repeated: c.Repeated, Unresolved: c.Unresolved, MaxValue: c.MaxValue, DryRun: c.DryRun, Cancelled: c.Cancelled,
	}
}

// received is the reverse of sent.
func (c *contextConfig) received() courier.ContextConfig {
	return courier.ContextConfig{
		Execution: c.Execution, Job: c.Job, Version: c.Version, Step: c.Step, ID: c.ID, StepName: c.StepName, Type: c.Type,
		Iteration: c.Iteration, Attempt: c.Attempt, EarlierStarts: c.EarlierStarts, ExecutionAttempt: c.ExecutionAttempt, Trace: c.Trace,
		Workspace: c.Workspace, Roots: c.Roots, Monitor: c.Monitor, Cursor: c.Cursor,
		Repeated: c.Repeated, Unresolved: c.Unresolved, MaxValue: c.MaxValue, DryRun: c.DryRun, Cancelled: c.Cancelled,
	}
}

// A host is what the child knows of its parent: it asks there what the step asks of its
// Context, and passes on what the step reports. Its methods may be called by several
// goroutines.
type host struct {
	conn    *conn
	asked   atomic.Int64 // questions so far
	exact   bool
	silence *time.Timer // ends the process when nothing is received for a time

	mu      sync.Mutex
	waiting map[int64]chan *answer
	gone    bool // there are no answers any more

	progressMu sync.Mutex
	last       courier.Progress
	pending    bool // last is to be sent
	sentAt     time.Time
	flushing   *time.Timer
}

// errGone says that the parent does not answer any more.
var errGone = errors.New("the worker is gone")

// newContext returns the step's view of its execution.
func (h *host) newContext(b *begin) *courier.Context {
	cfg := b.Context.received()
	cfg.Values = remoteScope{h}
	cfg.Secrets = func(ctx context.Context, r courier.SecretRequest) (string, error) {
		a, err := h.ask(ctx, question{Secret: &r.Name})
		if err != nil {
			return "", err
		}
		return string(a.Bytes), nil
	}
	cfg.OnProgress = h.progress
	if b.Level < math.MaxInt32 {
		cfg.Log = slog.New(&logHandler{conn: h.conn, level: slog.Level(b.Level)})
	}
	if h.exact = b.Exact; h.exact {
		cfg.OnFile = func(operation, name string) error {
			_, err := h.ask(context.Background(), question{File: &[2]string{operation, name}})
			return err
		}
	}
	job := courier.NewContext(cfg)
	var clean func(string) string
	if b.Redact {
		clean = h.clean
	}
	remote(job).Forward(h.report, clean)
	return job
}

// remote returns what a Context has for a step in another process.
func remote(job *courier.Context) stepcontext.Remote {
	return stepcontext.Of(job).(stepcontext.Remote)
}

// ask sends a question and waits for its answer, or until ctx ends.
func (h *host) ask(ctx context.Context, q question) (*answer, error) {
	q.ID = h.asked.Add(1)
	c := make(chan *answer, 1)
	h.mu.Lock()
	if h.gone {
		h.mu.Unlock()
		return nil, errGone
	}
	if h.waiting == nil {
		h.waiting = make(map[int64]chan *answer)
	}
	h.waiting[q.ID] = c
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, q.ID)
	}()
	if err := h.conn.send(&frame{Ask: &q}); err != nil {
		return nil, err
	}
	select {
	case a := <-c:
		if a == nil {
			return nil, errGone
		}
		return a, a.Error.error(context.Cause(ctx))
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answered gives an answer to who waits for it.
func (h *host) answered(a *answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.waiting[a.ID]; c != nil {
		c <- a
		delete(h.waiting, a.ID)
	}
}

// report passes on a report. Only the cursor can be refused.
func (h *host) report(r stepcontext.Report) error {
	if r.Saved {
		_, err := h.ask(context.Background(), question{Report: &r})
		return err
	}
	return h.conn.send(&frame{Report: &r})
}

// clean removes the secrets that the parent knows.
func (h *host) clean(text string) string {
	if text == "" {
		return ""
	}
	a, err := h.ask(context.Background(), question{Redact: []byte(text)})
	if err != nil {
		return "" // rather nothing than a secret
	}
	return string(a.Bytes)
}

// progressEvery is the least time between two reports of progress that are sent.
const progressEvery = 50 * time.Millisecond

// progress passes on how far the step is, not more often than anybody can see.
func (h *host) progress(p courier.Progress) {
	if h.exact {
		_, _ = h.ask(context.Background(), question{Report: &stepcontext.Report{Progress: &p}})
		return
	}
	h.progressMu.Lock()
	defer h.progressMu.Unlock()
	h.last, h.pending = p, true
	now := time.Now()
	if wait := progressEvery - now.Sub(h.sentAt); wait > 0 {
		if h.flushing == nil {
			h.flushing = time.AfterFunc(wait, h.flush)
		}
		return
	}
	h.sendProgress(now)
}

// flush sends progress that was held back.
func (h *host) flush() {
	h.progressMu.Lock()
	defer h.progressMu.Unlock()
	h.flushing = nil
	h.sendProgress(time.Now())
}

func (h *host) sendProgress(now time.Time) {
	if h.pending {
		p := h.last
		h.pending, h.sentAt = false, now
		_ = h.conn.send(&frame{Report: &stepcontext.Report{Progress: &p}})
	}
}

// A remoteScope has the values that the parent has.
type remoteScope struct{ host *host }

// Value asks for a value.
func (s remoteScope) Value(head, name string) (any, bool) {
	a, err := s.host.ask(context.Background(), question{Value: &[2]string{head, name}})
	if err != nil || a.Value == nil {
		return nil, false
	}
	v, err := jsontext.Parse(a.Value)
	return v, err == nil
}

// Keys asks for the keys.
func (s remoteScope) Keys() []string {
	a, err := s.host.ask(context.Background(), question{Keys: true})
	if err != nil {
		return nil
	}
	return a.Keys
}
