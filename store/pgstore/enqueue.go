package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// A querier sends statements: a pool, a connection or a transaction.
type querier interface {
	pgnotify.Querier
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Enqueue creates executions, all or none. A single execution takes one round trip. A list takes a
// transaction, with a statement for every 5,000 executions, or with COPY if it is long and has no
// idempotency keys.
func (s *Store) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	if err := s.checkOpen(ctx); err != nil || len(list) == 0 {
		return nil, err
	}
	var results []store.Enqueued
	var inline pgnotify.Inline
	err := repeat(ctx, func() (err error) {
		if alone(list) && !haveLabels(list) && !haveDeadlines(list) {
			inline = s.notifier.BeginInline(list[0].Queue)
			defer s.notifier.EndInline(&inline)
			results, err = s.enqueue(ctx, s.pool, list, &inline)
			return err
		}
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			results, err = s.enqueue(ctx, tx, list, nil)
			return err
		})
	})
	if err != nil {
		return nil, enqueueError(err)
	}
	if waiting := waitingOf(list, results); len(waiting) > 0 {
		s.releaseWaiting(ctx)
		if err := s.readWaits(ctx, s.pool, waiting, results); err != nil {
			return nil, failed("enqueue", err)
		}
	}
	if inline.Sent {
		s.notifier.Queues.Wake(list[0].Queue)
	} else {
		s.notifyEnqueued(results)
	}
	return results, nil
}

// EnqueueTx creates executions in the caller's transaction: they exist, and can be
// claimed, only once it has committed. While this store is open it notifies workers as
// soon as the transaction has committed; otherwise they find the executions when they
// poll. If EnqueueTx returns an error that matches ErrConflict or ErrNotFound, it has
// created nothing, and the transaction can continue. After any other error the
// transaction must be rolled back. The list comes from
// [github.com/courierhq/courier/engine.Engine.Prepare].
func (s *Store) EnqueueTx(ctx context.Context, tx pgx.Tx, list []store.NewExecution) ([]store.Enqueued, error) {
	if err := s.checkOpen(ctx); err != nil || len(list) == 0 {
		return nil, err
	}
	results, xid, err := s.enqueueInside(ctx, tx, list)
	if err != nil {
		return nil, enqueueError(err)
	}
	waiting := waitingOf(list, results)
	s.notifier.WatchTransaction(xid, queuesOf(results), len(waiting) > 0)
	if err := s.readWaits(ctx, tx, waiting, results); err != nil {
		return nil, failed("enqueue", err)
	}
	return results, nil
}

// enqueueInside creates executions in a transaction, and returns the id of the transaction. A
// single execution needs one statement, which creates it or not. Several need a savepoint, because
// some may have been created when an error is found.
func (s *Store) enqueueInside(ctx context.Context, tx pgx.Tx, list []store.NewExecution) (results []store.Enqueued, xid string, err error) {
	if alone(list) {
		var inline pgnotify.Inline
		results, err = s.enqueue(ctx, &callersTx{Tx: tx}, list, &inline)
		return results, inline.Transaction, err
	}
	err = pgx.BeginFunc(ctx, tx, func(point pgx.Tx) (err error) {
		if results, err = s.enqueue(ctx, &callersTx{Tx: point}, list, nil); err != nil {
			return err
		}
		return point.QueryRow(ctx, "select pg_catalog.pg_current_xact_id()::pg_catalog.text").Scan(&xid)
	})
	return results, xid, err
}

// alone reports whether a list has a single execution that nothing can refuse after its statement
// has created it.
func alone(list []store.NewExecution) bool {
	return len(list) == 1 && len(store.Refusing(list[0].DependsOn)) == 0
}

// A contractError is an error that the contract of the store defines. Callers return
// it without further words.
type contractError struct{ error }

func (a contractError) Unwrap() error { return a.error }

func enqueueError(err error) error {
	if a, ok := err.(contractError); ok { //nolint:errorlint // it is never wrapped
		return a.error
	}
	return failed("enqueue", err)
}

// maxStatement is how many executions one statement creates.
const maxStatement = 5000

// enqueue creates the executions that do not exist, and returns a result for each element of the
// list. If inline is not nil, a single execution is created with the inline notification.
func (s *Store) enqueue(ctx context.Context, db querier, list []store.NewExecution, inline *pgnotify.Inline) ([]store.Enqueued, error) {
	results, notCreated, err := s.create(ctx, db, list, inline)
	if err != nil {
		return nil, err
	}
	if err := s.enqueueExisting(ctx, db, list, results, notCreated); err != nil {
		return nil, err
	}
	return results, s.checkDependencies(ctx, db, list, notCreated)
}

// enqueueExisting sets the results of executions that existed.
func (s *Store) enqueueExisting(ctx context.Context, db querier, list []store.NewExecution, results []store.Enqueued, notCreated []int) error {
	got, err := s.existing(ctx, db, list, notCreated)
	if err != nil {
		return err
	}
	for _, i := range notCreated {
		n, x := &list[i], got[i]
		if x == nil || n.Latest && x.Job == n.Job && !n.Same(x) {
			if err := s.newest(ctx, db, n); err != nil {
				return err
			}
		}
		if x == nil {
			return contractError{unknownVersion(n)}
		}
		if err := n.Conflict(x); err != nil {
			return contractError{err}
		}
		results[i] = store.Enqueued{Execution: *x, Existed: true}
	}
	return nil
}

func unknownVersion(n *store.NewExecution) error {
	return courier.Errorf(courier.ErrNotFound, "there is no job %q version %d", n.Job, n.Version)
}

// conflict returns why an execution could not be created, given the one that exists
// under its id or key, or nil if that does not exist. It returns nil if both are of one job:
// its key says what it is for.
func conflict(n *store.NewExecution, x *courier.Execution) error {
	switch {
	case x == nil:
		return unknownVersion(n)
	case x.Job != n.Job:
		return n.Conflict(x)
	}
	return nil
}

// create creates the executions that do not exist. It returns their results, and the
// indexes of those that it did not create.
func (s *Store) create(ctx context.Context, db querier, list []store.NewExecution, inline *pgnotify.Inline) (results []store.Enqueued, notCreated []int, err error) {
	if tx, ok := db.(pgx.Tx); ok && copyable(list) {
		now, err := s.copyIn(ctx, tx, list)
		if err == nil {
			for i := range list {
				results = append(results, store.Enqueued{Execution: newExecution(&list[i], now)})
			}
			return results, nil, s.keepWithCreated(ctx, db, list, indexesOf(list))
		}
		if !errors.Is(err, errNotCopied) {
			return nil, nil, err
		}
	}
	// Always in the same order, or two lists with the same keys could wait for each other.
	order := indexesOf(list)
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &list[a], &list[b]
		if c := cmp.Compare(x.KeyScope, y.KeyScope); c != 0 || x.KeyScope != "" {
			return cmp.Or(c, cmp.Compare(x.IdempotencyKey, y.IdempotencyKey), cmp.Compare(x.ID, y.ID))
		}
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.IdempotencyKey, y.IdempotencyKey), cmp.Compare(x.ID, y.ID))
	})
	if inline == nil {
		inline = new(pgnotify.Inline)
	}
	created := make(map[courier.ExecutionID]bool)
	var now time.Time
	for part := range slices.Chunk(order, maxStatement) {
		var id string
		fields := []any{&id, &now}
		sql, args := s.createStatement(list, part, now, inline)
		if len(list) == 1 {
			fields = append(fields, &inline.Sent, &inline.Transaction)
		}
		err = sendAll(ctx, db, []statement{{sql, args}}, fields, func() error {
			created[courier.ExecutionID(id)] = true
			return nil
		})
		if err == nil {
			err = s.keepWithCreated(ctx, db, list, slices.DeleteFunc(part, func(i int) bool { return !created[list[i].ID] }))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	results = make([]store.Enqueued, len(list))
	for i := range list {
		if n := &list[i]; created[n.ID] {
			results[i] = store.Enqueued{Execution: newExecution(n, now.UTC())}
			delete(created, n.ID) // the same id again exists by then
		} else {
			notCreated = append(notCreated, i)
		}
	}
	return results, notCreated, nil
}

// indexesOf returns the indexes of a list.
func indexesOf(list []store.NewExecution) []int {
	indexes := make([]int, len(list))
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// createStatement returns the statement that creates a part of a list, with its
// parameters.
func (s *Store) createStatement(list []store.NewExecution, part []int, now time.Time, inline *pgnotify.Inline) (sql string, args []any) {
	if len(list) == 1 {
		return s.sql("enqueue/create_one"), enqueueOneArgs(&list[0], inline)
	}
	return s.sql("enqueue/create_many"), enqueueArgs(list, part, now)
}

// haveLabels reports whether executions of a list have labels.
func haveLabels(list []store.NewExecution) bool {
	return slices.ContainsFunc(list, func(n store.NewExecution) bool { return len(n.Labels) > 0 })
}

// keepWithCreated writes the labels and the deadlines of the executions of a list that were
// created.
func (s *Store) keepWithCreated(ctx context.Context, db querier, list []store.NewExecution, part []int) error {
	var keep []statement
	labels, deadlines := haveLabels(list), haveDeadlines(list)
	if len(part) == 0 || !labels && !deadlines {
		return nil
	}
	ids := make([]string, len(part))
	for k, i := range part {
		ids[k] = string(list[i].ID)
	}
	if labels {
		keep = append(keep, statement{s.sql("enqueue/keep_labels"), []any{ids}})
	}
	if deadlines {
		durations, expected, expires := deadlinesOf(list, part)
		keep = append(keep, statement{s.sql("enqueue/keep_deadlines"), []any{ids, durations, expected, expires}})
	}
	return sendAll(ctx, db, keep, nil, func() error { return nil })
}

// enqueueOneArgs returns the parameters of sql/enqueue/create_one.sql.
func enqueueOneArgs(e *store.NewExecution, inline *pgnotify.Inline) []any {
	var typ, id string
	if e.First != nil {
		typ, id = e.First.Type, e.First.ID
	}
	return []any{
		string(e.ID), e.Job, int32(e.Version), int32(e.JobLimit), int32(e.Priority), e.Queue, textsOf(e.StepTypes), textsOf(e.LimitKeys),
		int64(e.Timeout), string(e.Params), e.By, e.IdempotencyKey, micros(e.Delay), e.Hold, typ, id, e.Latest, waitTerms(e.DependsOn),
		inline.Channel, inline.Payload, bind.OptionalID(string(e.RerunOf)), optionsOf(e), e.KeyScope,
	}
}

// textsOf returns the list in a form that is not null in SQL.
func textsOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// enqueueArgs returns the parameters of sql/enqueue/create_many.sql for a part of a list.
func enqueueArgs(list []store.NewExecution, part []int, now time.Time) []any {
	n := len(part)
	ids, jobs, queues, types, keys := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	params, bys, idem := make([]string, n), make([]string, n), make([]string, n)
	versions, limits, priorities := make([]int32, n), make([]int32, n), make([]int32, n)
	timeouts, delays, holds := make([]int64, n), make([]int64, n), make([]bool, n)
	latest := make([]bool, n)
	firstTypes, firstIDs := make([]string, n), make([]string, n)
	waits, reruns, options, scopes := bind.TextColumn{N: n}, bind.TextColumn{N: n}, bind.TextColumn{N: n}, bind.TextColumn{N: n}
	for i, at := range part {
		e := &list[at]
		ids[i], jobs[i], queues[i], types[i], keys[i] = string(e.ID), e.Job, e.Queue, bind.Array(e.StepTypes), bind.Array(e.LimitKeys)
		params[i], bys[i], idem[i] = string(e.Params), e.By, e.IdempotencyKey
		versions[i], limits[i], priorities[i] = int32(e.Version), int32(e.JobLimit), int32(e.Priority)
		timeouts[i], delays[i], holds[i] = int64(e.Timeout), micros(e.Delay), e.Hold
		latest[i] = e.Latest
		reruns.Set(i, bind.OptionalID(string(e.RerunOf)))
		options.Set(i, optionsOf(e))
		scopes.Set(i, e.KeyScope)
		if terms := waitTerms(e.DependsOn); len(terms) > 0 {
			waits.Set(i, bind.Array(terms))
		}
		if e.First != nil {
			firstTypes[i], firstIDs[i] = e.First.Type, e.First.ID
		}
	}
	at := ""
	if !now.IsZero() {
		at = now.UTC().Format(time.RFC3339Nano) // the time of the first statement
	}
	return []any{ids, jobs, versions, limits, priorities, queues, types, keys, timeouts, params, bys, idem, delays, holds, at, firstTypes, firstIDs, latest, waits.Arg(), reruns.Arg(), options.Arg(), scopes.Arg()}
}

// newExecution returns an execution that was created at a time.
func newExecution(n *store.NewExecution, now time.Time) courier.Execution {
	x := courier.Execution{
		ID: n.ID, Job: n.Job, Version: n.Version, State: courier.Queued, Queue: n.Queue, Priority: n.Priority,
		Attempt: 1, Params: n.Params, CreatedAt: now, UpdatedAt: now, DueAt: now.Add(n.Delay.Truncate(time.Microsecond)),
		IdempotencyKey: n.IdempotencyKey, KeyScope: n.KeyScope, LimitKeys: n.LimitKeys, Timeout: n.Timeout, By: n.By,
		RerunOf: n.RerunOf, Labels: n.Labels, MaxRetries: n.MaxRetries, Trace: n.Trace, Seq: 1,
	}
	if n.Hold {
		x.State = courier.Created
	}
	return x
}

// existing returns the executions that already exist, by the indexes of the executions that were
// not created.
func (s *Store) existing(ctx context.Context, db querier, list []store.NewExecution, notCreated []int) (map[int]*courier.Execution, error) {
	got := make(map[int]*courier.Execution)
	if len(notCreated) == 0 {
		return got, nil
	}
	ids, jobs, keys, scopes := make([]string, len(notCreated)), make([]string, len(notCreated)), make([]string, len(notCreated)), make([]string, len(notCreated))
	for i, at := range notCreated {
		ids[i], jobs[i], keys[i], scopes[i] = bind.ID(string(list[at].ID)), list[at].Job, list[at].IdempotencyKey, list[at].KeyScope
	}
	rows, err := db.Query(ctx, s.sql("enqueue/find_existing"), ids, jobs, keys, scopes)
	if err != nil {
		return nil, err
	}
	found := make([]row, 0, len(notCreated))
	var at []int64
	var r row
	var ord int64
	_, err = pgx.ForEachRow(rows, append(r.fields(), &ord), func() error {
		found, at = append(found, r), append(at, ord)
		r = row{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	executions, err := s.withJobNames(ctx, db, found)
	if err != nil {
		return nil, err
	}
	for i := range executions {
		got[notCreated[at[i]-1]] = &executions[i]
	}
	return got, nil
}

// newest returns an error if a job was removed, or if n asks for the latest version and there is a
// newer one.
func (s *Store) newest(ctx context.Context, db querier, n *store.NewExecution) error {
	var removed bool
	latest, err := query(ctx, db, func(rows pgx.Rows) (d store.Definition, err error) {
		d.Kind, d.Name = store.Job, n.Job
		return d, rows.Scan(&d.Version, &removed, &d.By)
	}, s.sql("definition/get_latest_version"), n.Job)
	switch {
	case err != nil || len(latest) == 0:
		return err
	case removed:
		return contractError{latest[0].ErrRemoved()}
	case n.Latest && latest[0].Version > n.Version:
		return contractError{fmt.Errorf("job %q version %d: %w", n.Job, n.Version, store.ErrOutdated)}
	}
	return nil
}

// notifyEnqueued wakes the workers for new executions.
func (s *Store) notifyEnqueued(results []store.Enqueued) {
	s.notifyQueues(context.Background(), queuesOf(results)) // queuesOf never returns waitingQueue
}

// notifyQueues wakes the workers of queues, here and in other stores. For
// waitingQueue it releases waiting executions.
func (s *Store) notifyQueues(ctx context.Context, queues []string) {
	if slices.Contains(queues, waitingQueue) {
		s.releaseWaiting(ctx)
	}
	for _, q := range queues {
		if q == waitingQueue {
			continue
		}
		s.notifier.Queues.Wake(q)
		s.notifier.QueueChanged(q)
	}
}

// queuesOf returns the queues with new executions.
func queuesOf(results []store.Enqueued) []string {
	var queues []string
	for i := range results {
		x := &results[i].Execution
		if !results[i].Existed && x.State == courier.Queued && !slices.Contains(queues, x.Queue) {
			queues = append(queues, x.Queue)
		}
	}
	return queues
}
