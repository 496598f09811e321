package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// Request carries out a request to an execution, or leaves it to the worker. It is a
// short transaction: lock, decide, write.
func (s *Store) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return courier.Execution{}, err
	}
	var got requested
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) (err error) {
			got, err = s.request(ctx, tx, r, nil)
			return err
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return courier.Execution{}, a.error
	}
	if err != nil {
		return courier.Execution{}, failed(fmt.Sprintf("%s execution %s", r.Kind, r.Execution), err)
	}
	if got.queued {
		s.notifier.Queues.Wake(got.x.Queue)
		s.notifier.QueueChanged(got.x.Queue)
	}
	if got.left {
		s.slotFreed()
	}
	s.notifyQueues(ctx, got.released)
	return got.x, nil
}

// requested is the result of a request.
type requested struct {
	x        courier.Execution
	queued   bool     // it has entered the queue
	left     bool     // it has left running
	released []string // the queues of members of its chain that were released
}

// request carries out a request within a transaction. It skips executions for which unless, if not
// nil, returns true.
func (s *Store) request(ctx context.Context, tx pgx.Tx, r store.Request, unless func(*courier.Execution) bool) (requested, error) {
	before, expired, c, err := s.lockForRequest(ctx, tx, r.Execution)
	if errors.Is(err, pgx.ErrNoRows) {
		return requested{}, contractError{unknown(r.Execution)}
	}
	if err != nil {
		return requested{}, err
	}
	x, err := s.one(ctx, tx, before)
	if err != nil {
		return requested{}, err
	}
	if unless != nil && unless(&x) {
		return requested{x: x}, nil
	}
	if r.OfKept() {
		return s.keep(ctx, tx, &x, &r)
	}
	d, err := r.Decide(&x, expired)
	if err != nil {
		return requested{}, contractError{err}
	}
	args, err := requestArgs(before, &x, d, r, "")
	if err != nil {
		return requested{}, err
	}
	var after row
	var b pgx.Batch
	b.Queue(s.sql("request/carry_out"), args...)
	keep := s.keepEvents(bind.UUIDs{bind.UUIDOf(string(x.ID))}, []int64{before.seq + 1}, false, false)
	b.Queue(keep.sql, keep.args...)
	err = sent(tx.SendBatch(ctx, &b), func(results pgx.BatchResults) error { return results.QueryRow().Scan(after.fields()...) })
	if c := r.Change; c != nil && c.Version != nil && errors.Is(err, pgx.ErrNoRows) {
		err = contractError{courier.Errorf(courier.ErrNotFound, "there is no job %q version %d", x.Job, c.Version.Version)}
	}
	if err != nil {
		return requested{}, err
	}
	got := requested{queued: d.To == courier.Queued || d.Due(x.State), left: d.To != "" && x.State == courier.Running}
	if got.x, err = s.one(ctx, tx, &after); err != nil {
		return got, err
	}
	if c != nil {
		got.released, err = s.memberMoved(ctx, tx, c, &got.x)
	}
	if after.mayRelease() {
		got.released = append(got.released, waitingQueue)
	}
	return got, err
}

// keep carries out a request about kept files within a transaction that has locked the
// execution.
func (s *Store) keep(ctx context.Context, tx pgx.Tx, x *courier.Execution, r *store.Request) (got requested, err error) {
	k, err := r.Kept(x)
	if err != nil {
		return got, contractError{err}
	}
	var after row
	err = tx.QueryRow(ctx, s.sql("request/keep"), string(x.ID), string(k.Pending), r.By, r.Reason, encodeOnlyCopies(k.OnlyCopies), k.Workspace, k.Text, k.By).Scan(after.fields()...)
	if err == nil {
		got.x, err = s.one(ctx, tx, &after)
	}
	return got, err
}

// lockForRequest locks an execution, and before it the chain execution of which it is a member, if
// any. It returns the execution, whether its lease has ended, and the chain execution.
func (s *Store) lockForRequest(ctx context.Context, tx pgx.Tx, id courier.ExecutionID) (r *row, expired bool, c *chainRow, err error) {
	var b pgx.Batch
	b.Queue(s.sql("chain/lock_by_member"), bind.ID(string(id)))
	b.Queue(s.sql("request/lock"), bind.ID(string(id)))
	results := tx.SendBatch(ctx, &b)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if c, err = s.scanChain(results.QueryRow()); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil, err
	}
	r = new(row)
	err = results.QueryRow().Scan(append(r.fields(), &expired)...)
	return r, expired, c, err
}

// one returns the execution of a row.
func (s *Store) one(ctx context.Context, db querier, r *row) (courier.Execution, error) {
	list, err := s.withJobNames(ctx, db, []row{*r})
	if err != nil {
		return courier.Execution{}, err
	}
	return list[0], nil
}

// requestArgs returns the parameters of sql/request/carry_out.sql. Now is empty if the statement
// must read the clock.
func requestArgs(before *row, x *courier.Execution, d store.Decision, r store.Request, now string) ([]any, error) {
	restart := r.Kind == courier.RequestRestart && d.To != ""
	resume := restart || r.Kind == courier.RequestResume && d.To != ""
	counters, stopped := "", ""
	if resume {
		m, err := before.readCounters()
		if err != nil {
			return nil, err
		}
		if restart {
			m = store.Counters{Secrets: m.Secrets}
		} else {
			m = r.Change.Counters(m, "")
		}
		counters = encodeCounters(m)
	}
	finish, err := before.finish()
	if err != nil {
		return nil, err
	}
	text := r.Text()
	if c := x.Current; c != nil && d.To != "" {
		stopped = encode(interrupted{
			Step: c.Step, ID: c.ID, Type: c.Type, Iteration: c.Iteration, Attempt: c.Attempt, Reason: courier.ReasonWorkerLost,
		})
	}
	var changed change
	switch {
	case restart:
		changed = changeOfRestart(x)
	case r.Change != nil:
		changed = changeOf(r.Change)
	}
	failure := ""
	if f := r.Failure(); f != nil {
		failure = encode(f)
	}
	changed.DueNow = d.Due(x.State)
	if finish != nil && d.To.Ended() {
		m, err := before.readCounters()
		if err != nil {
			return nil, err
		}
		changed.endFinally(finish, &r)
		counters, text = encodeCounters(finish.After(m)), r.TextOfEnd(x)
	}
	changed.DropsProgress = d.To != "" && r.DropsProgress(d.To)
	return []any{
		string(x.ID), string(d.To), string(d.Pending), r.By, resume, counters, stopped, now, restart, string(r.ClassFor(d.To)), text,
		encode(changed), encode(skipOf(r.Change)), r.Reason, failure, encodeOnlyCopies(store.LeftBehind(x)),
	}, nil
}

// A change has the changes of a request besides the state, for sql/request/carry_out.sql. A field
// that is not in the JSON keeps its value.
type change struct {
	Version          *int     `json:"version,omitempty"`
	StepTypes        []string `json:"step_types,omitempty"`
	ConcurrencyLimit *int     `json:"concurrency_limit,omitempty"`
	Step             *int     `json:"step,omitempty"`
	Loops            string   `json:"loops,omitempty"` // with Step
	FailedItems      *int     `json:"failed_items,omitempty"`
	Repairs          string   `json:"repairs,omitempty"`
	Elsewhere        bool     `json:"elsewhere,omitempty"`
	DelayMicros      int64    `json:"delay_us,omitempty"`
	DropsProgress    bool     `json:"drops_progress,omitempty"`
	DueNow           bool     `json:"due_now,omitempty"`
	EndsFinally      bool     `json:"ends_finally,omitempty"`
	FinallyError     string   `json:"finally_error,omitempty"`
}

// endFinally ends the finally part of an execution that no worker has.
func (c *change) endFinally(f *store.Finish, r *store.Request) {
	c.EndsFinally, c.FinallyError, c.Step = true, encode(store.AbortedFinally(r.By, r.Reason)), &f.Position.Step
	if len(f.Position.Loops) > 0 {
		c.Loops = encode(f.Position.Loops)
	}
}

// changeOfRestart returns the changes of a restart.
func changeOfRestart(x *courier.Execution) change {
	return change{Step: new(int), FailedItems: new(int), Repairs: encodeRepairs(store.NextRepairs(x.Repairs)), Elsewhere: true}
}

func changeOf(c *store.Change) change {
	to := change{Elsewhere: c.Elsewhere, DelayMicros: micros(c.Delay)}
	if v := c.Version; v != nil {
		to.Version, to.StepTypes, to.ConcurrencyLimit = &v.Version, v.StepTypes, &v.JobLimit
	}
	if m := c.Move; m != nil {
		to.Step = &m.Position.Step
		if len(m.Position.Loops) > 0 {
			to.Loops = encode(m.Position.Loops)
		}
	}
	if c.Items != nil {
		to.FailedItems = &c.Items.Failed
	}
	if c.Repairs != nil {
		to.Repairs = encodeRepairs(c.Repairs)
	}
	return to
}

// A skip is a skipped step, for sql/request/carry_out.sql.
type skip struct {
	Step           *int    `json:"step,omitempty"` // nil: none
	Attempt        int     `json:"attempt"`
	Type           string  `json:"step_type"`
	ID             *string `json:"step_id,omitempty"`
	Iteration      *string `json:"iteration,omitempty"`
	IterationTotal *string `json:"iteration_total,omitempty"`
	Bytes          int64   `json:"bytes,omitempty"`
	Outputs        *string `json:"outputs,omitempty"`
	Files          *string `json:"files,omitempty"`
	Reason         *string `json:"reason,omitempty"`
	Error          *string `json:"error,omitempty"`
	FailedLoop     *int    `json:"failed_loop,omitempty"`
	ItemLabels     *string `json:"item_labels,omitempty"`
}

func skipOf(c *store.Change) skip {
	if c == nil || c.Skipped == nil {
		return skip{}
	}
	s := c.Skipped
	to := skip{
		Step: &s.Step, Attempt: s.Attempt, Type: s.Type, ID: orNull(s.ID), Iteration: orNull(numbers(s.Iteration)),
		IterationTotal: orNull(numbers(s.Total)), Bytes: s.Bytes, Outputs: orNull(string(s.Outputs)), Reason: orNull(string(s.Reason)),
		Error: orNull(s.Error), FailedLoop: s.FailedLoop, ItemLabels: orNull(labelsOf(s)),
	}
	if s.Files != nil {
		to.Files = orNull(encode(s.Files))
	}
	return to
}

// orNull returns nil for an empty text.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
