package pgstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// A row is a row of job_executions, as the statements select it.
type row struct {
	id                                            string
	definition                                    int32
	version                                       int32
	state, queue                                  string
	priority                                      int16
	attempt, step                                 int32
	loops, counters                               *string
	reclaims                                      int32
	resumedFrom                                   *string
	currentStep, currentAttempt                   *int32
	currentStarted                                *time.Time
	currentID, currentType                        *string
	currentIteration, currentTotal, currentWorker *string
	created, due                                  time.Time
	started, ended                                *time.Time
	failedItems                                   int32
	rerunOf                                       *string
	failure, request                              *string
	resumed                                       bool
	key, keyScope                                 *string
	limitKeys                                     []string
	timeout                                       int64
	by, worker, workspace                         string
	heartbeat, leaseExpires                       *time.Time
	disk, seq                                     int64
	chain, member                                 *string
	waitsFor                                      []string
	hasDependents                                 *bool
	requestedBy                                   *string
	requestedAt                                   *time.Time
	requestReason, options, progress              *string
	params, repairs, onlyCopies, result           *string
	updated                                       *time.Time
	finishing, finallyError                       *string
	hasFinally                                    bool
}

// fields returns pointers to the fields that a row is scanned to, in the order of the columns.
func (r *row) fields() []any {
	return []any{
		&r.id, &r.definition, &r.version, &r.state, &r.queue, &r.priority, &r.attempt, &r.step, &r.loops, &r.counters,
		&r.reclaims, &r.resumedFrom, &r.currentStep, &r.currentAttempt, &r.currentStarted, &r.currentID, &r.currentType,
		&r.currentIteration, &r.currentTotal, &r.currentWorker, &r.created, &r.due, &r.started, &r.ended,
		&r.failedItems, &r.rerunOf,
		&r.failure, &r.request, &r.resumed, &r.key, &r.keyScope, &r.limitKeys, &r.timeout, &r.by, &r.worker, &r.workspace,
		&r.heartbeat, &r.leaseExpires, &r.disk, &r.seq, &r.chain, &r.member, &r.waitsFor, &r.hasDependents,
		&r.requestedBy, &r.requestedAt, &r.requestReason, &r.options, &r.progress, &r.finishing, &r.finallyError, &r.hasFinally,
		&r.params, &r.repairs, &r.onlyCopies, &r.result, &r.updated,
	}
}

// execution returns the execution. Its job has the given name.
func (r *row) execution(job string) (courier.Execution, error) {
	x := courier.Execution{
		ID: courier.ExecutionID(r.id), Job: job, Version: int(r.version), State: courier.State(r.state), Queue: r.queue,
		Priority: r.priority, Attempt: int(r.attempt), Position: courier.Position{Step: int(r.step)},
		CreatedAt: r.created.UTC(), DueAt: r.due.UTC(), StartedAt: instant(r.started), EndedAt: instant(r.ended),
		Request: courier.RequestKind(text(r.request)), Resumed: r.resumed, IdempotencyKey: text(r.key), KeyScope: text(r.keyScope),
		Timeout: time.Duration(r.timeout), By: r.by, Worker: r.worker, Workspace: r.workspace,
		HeartbeatAt: instant(r.heartbeat), LeaseExpiresAt: instant(r.leaseExpires), DiskBytes: r.disk, Params: raw(r.params),
		Chain: courier.ChainExecutionID(text(r.chain)), Member: text(r.member),
		FailedItems: int(r.failedItems), RerunOf: courier.ExecutionID(text(r.rerunOf)), Result: raw(r.result), Seq: r.seq, HasFinally: r.hasFinally,
	}
	if len(r.limitKeys) > 0 {
		x.LimitKeys = r.limitKeys
	}
	counters, err := r.readCounters()
	if err != nil {
		return x, err
	}
	x.StepAttempts, x.EarlierStarts, x.Retries = counters.Attempts, counters.Base, counters.Retries()
	x.RescuedItems = counters.RescuedItems
	f, err := r.finish()
	if err != nil {
		return x, err
	}
	if f != nil {
		x.Finishing, x.RescuedItems = &f.Finishing, f.Counters.RescuedItems
	}
	if err := decode(r.finallyError, &x.FinallyError); err != nil {
		return x, err
	}
	x.Secrets = counters.Secrets
	if x.UpdatedAt = instant(r.updated); x.Request != "" {
		x.RequestedAt, x.RequestedBy, x.RequestReason = instant(r.requestedAt), text(r.requestedBy), text(r.requestReason)
		if x.RequestedAt.After(x.UpdatedAt) {
			x.UpdatedAt = x.RequestedAt
		}
	}
	if err := decode(r.loops, &x.Position.Loops); err != nil {
		return x, err
	}
	if err := decode(r.failure, &x.Failure); err != nil {
		return x, err
	}
	if err := decode(r.repairs, &x.Repairs); err != nil {
		return x, err
	}
	if err := decode(r.onlyCopies, &x.OnlyCopies); err != nil {
		return x, err
	}
	var o options
	if err := decode(r.options, &o); err != nil {
		return x, err
	}
	x.Labels, x.MaxRetries, x.Trace = o.Labels, o.MaxRetries, o.Trace
	x.Repairs = store.RepairsOrNil(x.Repairs)
	x.Current, err = r.current()
	return x, err
}

// finish returns the decided outcome of an execution whose finally part has begun, or nil.
func (r *row) finish() (*store.Finish, error) {
	if r.finishing == nil {
		return nil, nil
	}
	f := new(store.Finish)
	return f, decode(r.finishing, f)
}

// options are the options of an execution that few executions have.
type options struct {
	Labels     map[string]string `json:"labels,omitempty"`
	MaxRetries *int              `json:"max_retries,omitempty"`
	Trace      string            `json:"trace,omitempty"`
}

// optionsOf returns the options of a new execution in their stored form. It is empty for none.
func optionsOf(n *store.NewExecution) string { return options{n.Labels, n.MaxRetries, n.Trace}.text() }

func (o options) text() string {
	if len(o.Labels) == 0 && o.MaxRetries == nil && o.Trace == "" {
		return ""
	}
	return encode(o)
}

// current returns the present step, or nil.
func (r *row) current() (*courier.StepExecution, error) {
	if r.currentStep == nil {
		return nil, nil
	}
	s := &courier.StepExecution{
		Execution: courier.ExecutionID(r.id), Step: int(*r.currentStep), ID: text(r.currentID), Type: text(r.currentType),
		ExecutionAttempt: int(r.attempt), State: courier.StepRunning, StartedAt: instant(r.currentStarted), Worker: r.worker,
	}
	if r.currentWorker != nil {
		s.Worker = *r.currentWorker
	}
	if r.currentAttempt != nil {
		s.Attempt = int(*r.currentAttempt)
	}
	if err := decode(r.currentIteration, &s.Iteration); err != nil {
		return nil, err
	}
	p, err := r.readProgress()
	if err != nil {
		return nil, err
	}
	s.Progress = p.Of(s)
	return s, decode(r.currentTotal, &s.Total)
}

// readProgress returns the progress of the execution, or nil.
func (r *row) readProgress() (*store.Progress, error) {
	if r.progress == nil {
		return nil, nil
	}
	var p struct {
		store.Progress
		Changed int64 `json:"changed"` // see sql/lease/renew_progress.sql
	}
	err := decode(r.progress, &p)
	if p.Report != nil {
		p.Report.ChangedAt = time.UnixMicro(p.Changed).UTC()
	}
	return &p.Progress, err
}

// encodeProgress returns progress in its stored form, without the instant of its last change. It is
// empty for none.
func encodeProgress(p *store.Progress) string {
	if p == nil {
		return ""
	}
	b, err := jsontext.AppendAny(nil, p)
	if err != nil {
		panic(fmt.Sprintf("pgstore: progress: %v", err)) // numbers, texts and JSON
	}
	return string(b)
}

func (r *row) readCounters() (store.Counters, error) {
	var m store.Counters
	err := decode(r.counters, &m)
	m.Reclaims, m.Resumed = int(r.reclaims), courier.State(text(r.resumedFrom))
	return m, err
}

// encodeCounters returns the counters in their stored form, without those that have their own
// columns.
func encodeCounters(m store.Counters) string {
	m.Reclaims, m.Resumed = 0, ""
	switch {
	case m.Interrupted || m.Retries()+m.Base+m.AcceptedItems+m.RescuedItems+m.Target+m.FinallyItems != 0 || m.RescueFails || len(m.Secrets) > 0:
		return encode(m)
	case m.Attempts == 0:
		return ""
	}
	return `{"attempts":` + strconv.Itoa(m.Attempts) + `}`
}

// encodeOnlyCopies returns only copies in their stored form. It is empty if they are unknown.
func encodeOnlyCopies(c *courier.OnlyCopies) string {
	if c == nil {
		return ""
	}
	return encode(c)
}

// encodeRepairs returns repairs in their stored form. It is "{}" for none.
func encodeRepairs(r *courier.Repairs) string {
	if r == nil {
		return "{}"
	}
	return encode(r)
}

// numbers returns a list as JSON. It is empty for none.
func numbers(list []int) string {
	if list == nil {
		return ""
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, n := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	b.WriteByte(']')
	return b.String()
}

// scanStep reads a record.
func scanStep(rows pgx.Rows) (courier.StepExecution, error) { return scanStepAnd(rows) }

// scanStepAnd is scanStep for rows with more columns.
func scanStepAnd(rows pgx.Rows, more ...any) (courier.StepExecution, error) {
	var s courier.StepExecution
	var execution string
	var rescued *bool
	var iteration, total, labels, outputs, files, stack, log, events *string
	err := rows.Scan(append([]any{&execution, &s.Seq, &s.Step, &s.ID, &s.Type, &iteration, &total, &s.Attempt, &s.ExecutionAttempt,
		&s.State, &s.StartedAt, &s.EndedAt, &s.Bytes, &s.Reason, &s.Error, &s.Worker, &s.FailedLoop, &rescued, &labels, &outputs, &files, &stack, &log, &events}, more...)...)
	if err != nil {
		return s, err
	}
	if rescued != nil && *rescued {
		s.FailedLoop, s.Rescue = nil, s.FailedLoop
	}
	s.Execution, s.Outputs, s.Stack, s.Log = courier.ExecutionID(execution), raw(outputs), text(stack), text(log)
	s.StartedAt, s.EndedAt = s.StartedAt.UTC(), s.EndedAt.UTC()
	for _, f := range []struct {
		from *string
		to   any
	}{{iteration, &s.Iteration}, {total, &s.Total}, {labels, &s.ItemLabels}, {files, &s.Files}, {events, &s.Events}} {
		if err := decode(f.from, f.to); err != nil {
			return s, err
		}
	}
	return s, nil
}

// instant returns an instant in UTC, or the zero time for none.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func raw(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}

// decode reads JSON that this package wrote. Nil leaves v as it is.
func decode(s *string, v any) error {
	if s == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(*s), v); err != nil {
		return fmt.Errorf("stored JSON: %w", err)
	}
	return nil
}

// encode returns the JSON of a value whose encoding can't fail.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("pgstore: %v", err)) // numbers, text and lists of them
	}
	return string(b)
}
