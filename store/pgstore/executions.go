package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

func unknown(id courier.ExecutionID) error {
	return courier.Errorf(courier.ErrNotFound, "there is no execution %q", string(id))
}

func scanRow(rows pgx.Rows) (r row, err error) {
	err = rows.Scan(r.fields()...)
	return r, err
}

// Execution returns an execution.
func (s *Store) Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return courier.Execution{}, err
	}
	rows, err := query(ctx, s.pool, scanRow, s.sql("execution/get"), bind.ID(string(id)))
	if err != nil {
		return courier.Execution{}, failed(fmt.Sprintf("read execution %s", id), err)
	}
	if len(rows) == 0 {
		return courier.Execution{}, unknown(id)
	}
	list, err := s.withJobNames(ctx, s.pool, rows)
	if err != nil {
		return courier.Execution{}, err
	}
	return list[0], nil
}

// lastID comes after the ids of all executions.
const lastID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// Executions returns a page of executions, newest first.
func (s *Store) Executions(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	args := []any{int64(limit), []string{"files"}}
	filter := ""
	add := func(condition string, arg any) {
		args = append(args, arg)
		filter += fmt.Sprintf(" and "+condition, len(args))
	}
	if f.IDs != nil {
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = bind.ID(string(id))
		}
		add("e.id = any($%d::text[]::uuid[])", ids)
	}
	if f.Job != "" {
		add("e.definition_id = (select id from courier.job_definitions where kind = 'job' and name = $%d::text)", f.Job)
	}
	for name, value := range f.Labels {
		args = append(args, name, value)
		filter += fmt.Sprintf(" and exists (select from courier.trail t where t.key = $%d::text and t.value = $%d::text and t.execution_id = e.id and t.seq = 0)", len(args)-1, len(args))
	}
	if len(f.States) > 0 {
		// The running ones have an index of their own.
		rest := slices.DeleteFunc(asStrings(f.States), func(s string) bool { return s == string(courier.Running) })
		switch {
		case len(rest) == len(f.States):
			add("e.state = any($%d::text[])", rest)
		case len(rest) == 0:
			filter += " and e.state = 'running'"
		default:
			add("(e.state = 'running' or e.state = any($%d::text[]))", rest)
		}
	}
	if len(f.Reasons) > 0 {
		add("e.failure is not null and e.failure::jsonb ->> 'reason'::text = any($%d::text[])", asStrings(f.Reasons))
	}
	if f.Waiting {
		filter += " and e.state = 'queued' and e.waits_for is not null"
	}
	if f.FailedItems {
		filter += " and e.failed_items > 0"
	}
	if f.FinallyError {
		filter += " and e.finally_error is not null"
	}
	if f.Kept {
		args[1] = []string{}
		filter += " and e.only_copies <> '{}' and e.state in ('completed', 'cancelled')"
	}
	if f.Workspace != "" {
		add("e.workspace = $%d::text", f.Workspace)
	}
	if f.RerunOf != "" {
		add("e.rerun_of = $%d::text::uuid", bind.ID(string(f.RerunOf)))
	}
	if f.Queue != "" {
		add("e.queue = $%d::text", f.Queue)
	}
	alone := filter == ""
	if f.Before != "" {
		add("e.id < $%d::text::uuid", bind.ID(string(f.Before)))
	}
	switch {
	case len(f.Jobs) > 0 && alone:
		// The newest of each job: otherwise all of a job would be sorted, or all of others read. With
		// "=" the planner would do so too, if it has no statistics.
		args = append(args, bind.ID(cmp.Or(string(f.Before), lastID)))
		add(fmt.Sprintf(`e.id = any(array(
			select n.id from courier.job_definitions d cross join lateral (
				select x.id from courier.job_executions x
				where (x.definition_id, x.id) >= (d.id, '00000000-0000-0000-0000-000000000000'::uuid) and (x.definition_id, x.id) < (d.id, $%d::text::uuid)
				order by x.definition_id desc, x.id desc limit $1::bigint
			) n
			where d.kind = 'job' and d.name = any($%%d::text[]) order by n.id desc limit $1::bigint))`, len(args)), f.Jobs)
	case len(f.Jobs) > 0:
		add("e.definition_id = any(array(select id from courier.job_definitions where kind = 'job' and name = any($%d::text[])))", f.Jobs)
	}
	rows, err := query(ctx, s.pool, scanRow, s.sqlFiltered("execution/list", filter), args...)
	if err != nil {
		return nil, failed("list executions", err)
	}
	return s.withJobNames(ctx, s.pool, rows)
}

// asStrings returns a list in the form that pgx accepts in all of its query modes.
func asStrings[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, v := range list {
		plain[i] = string(v)
	}
	return plain
}

// Steps returns a page of the records of an execution.
func (s *Store) Steps(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	sql, args := s.stepsQuery(&f)
	list, err := query(ctx, s.pool, scanStep, sql, args...)
	if err != nil {
		return nil, failed(fmt.Sprintf("read the steps of execution %s", f.Execution), err)
	}
	return list, nil
}

// stepsQuery returns the statement that lists records by a filter, and its parameters.
func (s *Store) stepsQuery(f *store.StepFilter) (sql string, args []any) {
	filter := ""
	args = []any{bind.ID(string(f.Execution)), f.After, int64(f.Limit), f.Details, !f.Brief}
	add := func(condition string, arg any) {
		args = append(args, arg)
		filter += fmt.Sprintf(" and "+condition, len(args))
	}
	inItem := func() {
		if f.Item == nil {
			return
		}
		add("s.step + 0 > $%d::int", int32(f.Item.Loop))
		add("s.step + 0 <= $%d::int", int32(f.ItemEnd))
		path := "[" + strings.ReplaceAll(courier.FormatIteration(f.Item.Iteration), ".", ",")
		add("(s.iteration = $%d::text", path+"]")
		args = append(args, path+",")
		filter += fmt.Sprintf(" or starts_with(s.iteration, $%d::text))", len(args))
	}
	notCompleted := len(f.States) > 0 && !slices.Contains(f.States, courier.StepCompleted)
	if f.FailedItems || f.Files || f.Events || notCompleted || f.Step != nil && f.Attempt != 0 {
		// Without statistics all records of the attempt or the step would be read: "+ 0" keeps the
		// index of the steps for the queries that are meant to use it.
		hide := " + 0"
		if f.Step != nil && f.Attempt != 0 && !notCompleted && !f.FailedItems {
			hide = ""
		}
		if f.Attempt != 0 {
			add("s.execution_attempt"+hide+" = $%d::int", int32(f.Attempt))
		}
		if f.Step != nil {
			add("s.step"+hide+" = $%d::int", int32(*f.Step))
		}
		if len(f.States) > 0 {
			add("coalesce(s.state, 'completed') = any($%d::text[])", asStrings(f.States))
		}
		inItem()
		if notCompleted {
			filter += " and s.state is not null" // what the index is for
		}
		if f.FailedItems {
			filter += " and s.failed_loop is not null"
		}
		if f.Files {
			filter += " and s.files is not null"
		}
		if f.Events {
			filter += " and s.events is not null"
		}
		return s.sqlFiltered("execution/list_steps_by_index", filter), args
	}
	if f.Attempt != 0 {
		add("s.execution_attempt + 0 = $%d::int", int32(f.Attempt))
	}
	if f.Step != nil {
		add("s.step + 0 = $%d::int", int32(*f.Step))
	}
	if len(f.States) > 0 {
		add("coalesce(s.state, 'completed') = any($%d::text[])", asStrings(f.States))
	}
	inItem()
	return s.sqlFiltered("execution/list_steps", filter), args
}

// Latest returns the latest record of each step of the present attempt.
func (s *Store) Latest(ctx context.Context, f store.LatestFilter) ([]courier.StepExecution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	list, err := query(ctx, s.pool, scanStep, s.sql("execution/list_latest_steps"), []string{bind.ID(string(f.Execution))}, before)
	if err != nil {
		return nil, failed(fmt.Sprintf("read the latest steps of execution %s", f.Execution), err)
	}
	return list, nil
}

// Transfers returns the newest attempts of some steps.
func (s *Store) Transfers(ctx context.Context, f store.TransferFilter) ([]store.Transfer, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	steps := f.Steps[:min(len(f.Steps), store.MaxTransferSteps)]
	ids, attempts, indexes := make([]string, len(steps)), make([]int32, len(steps)), make([]int32, len(steps))
	for i, w := range steps {
		ids[i], attempts[i], indexes[i] = bind.ID(string(w.Execution)), int32(w.Attempt), int32(w.Step)
	}
	list, err := query(ctx, s.pool, scanTransfer, s.sql("execution/list_transfers"), ids, attempts, indexes, int64(limit))
	if err != nil {
		return nil, failed("read the newest attempts of steps", err)
	}
	return list, nil
}

func scanTransfer(rows pgx.Rows) (t store.Transfer, err error) {
	t.Attempt, err = scanReportAnd(rows, &t.Files)
	return t, err
}

// Audit returns a page of the audit entries of an execution.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	rows, err := query(ctx, s.pool, scanHistory, s.sql("execution/list_audit"), bind.ID(string(f.Execution)), max(0, f.After)+1, int64(f.Limit)+2)
	if err != nil {
		return nil, failed(fmt.Sprintf("read the audit of execution %s", f.Execution), err)
	}
	var list []courier.AuditEntry
	for i := range rows {
		for _, e := range rows[i].entries() {
			if e.Seq > f.After && len(list) < f.Limit {
				e.Execution = f.Execution
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// A historyRow is a row of execution_history, or the part of an execution's row that belongs to the
// audit; see sql/execution/list_audit.sql.
type historyRow struct {
	seq             int64
	at              time.Time
	attempt         int // of the execution
	worker          string
	from, to        string
	elapsed         int64 // microseconds, as all durations here
	reason, err, by string
	claimed         *time.Time
	waited          int64
	startBefore     bool
	started         *startedStep
	beforeWorker    string
	endedStep       *int
	ended           courier.StepExecution
	endedBegan      bool
	endedElapsed    *int64 // nil: since ended.StartedAt
	interrupted     *interrupted
}

// A startedStep is a step attempt that started before a row of the history was written, and
// neither ended nor was interrupted there.
type startedStep struct {
	Step      int       `json:"step"`
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Iteration []int     `json:"iteration"`
	Attempt   int       `json:"attempt"`
	At        time.Time `json:"at"`
}

// An interrupted is the step that went back to pending, in the form of the audit. Its names stand
// in existing rows, and do not change with the names in [courier.Failure].
type interrupted struct {
	Step      int            `json:"step"`
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Iteration []int          `json:"iteration"`
	Attempt   int            `json:"attempt"`
	Elapsed   int64          `json:"elapsed"` // microseconds
	Reason    courier.Reason `json:"reason,omitempty"`
}

func scanHistory(rows pgx.Rows) (h historyRow, err error) {
	var iteration, started, stopped *string
	var startedAt *time.Time
	err = rows.Scan(&h.seq, &h.at, &h.attempt, &h.worker, &h.from, &h.to, &h.elapsed, &h.reason, &h.err, &h.by,
		&h.claimed, &h.waited, &h.startBefore, &started, &h.beforeWorker,
		&startedAt, &h.ended.Bytes, &h.endedStep, &h.ended.Attempt, &h.ended.State, &h.ended.Type, &h.ended.ID, &h.endedBegan, &h.endedElapsed, &iteration,
		&h.ended.Reason, &h.ended.Error, &stopped)
	if err != nil {
		return h, err
	}
	h.at, h.ended.StartedAt = h.at.UTC(), instant(startedAt)
	for _, f := range []struct {
		from *string
		to   any
	}{{iteration, &h.ended.Iteration}, {started, &h.started}, {stopped, &h.interrupted}} {
		if err := decode(f.from, f.to); err != nil {
			return h, err
		}
	}
	return h, nil
}

// entries returns the entries of the row, in their order.
func (h *historyRow) entries() []courier.AuditEntry {
	var list []courier.AuditEntry
	if h.claimed != nil {
		list = append(list, courier.AuditEntry{
			At: h.claimed.UTC(), From: string(courier.Queued), To: string(courier.Running), Elapsed: micro(h.waited), Worker: h.beforeWorker,
		})
	}
	if e := h.start(); e != nil {
		list = append(list, *e)
	}
	first := h.seq - int64(len(list))
	add := func(e courier.AuditEntry) {
		e.At, e.Worker = h.at, h.worker
		list = append(list, e)
	}
	if h.endedStep != nil {
		e := courier.AuditEntry{
			Step: h.endedStep, ID: h.ended.ID, Type: h.ended.Type, Iteration: h.ended.Iteration, Attempt: h.ended.Attempt,
			From: string(courier.StepPending), To: string(h.ended.State), Bytes: h.ended.Bytes, Reason: h.ended.Reason, Error: h.ended.Error,
		}
		if h.endedBegan {
			e.From, e.Elapsed = string(courier.StepRunning), h.ran()
		}
		add(e)
	}
	if i := h.interrupted; i != nil {
		add(courier.AuditEntry{
			Step: &i.Step, ID: i.ID, Type: i.Type, Iteration: i.Iteration, Attempt: i.Attempt, Reason: i.Reason,
			From: string(courier.StepRunning), To: string(courier.StepPending), Elapsed: micro(i.Elapsed),
		})
	}
	if h.to != "" {
		add(courier.AuditEntry{
			From: h.from, To: h.to, Elapsed: micro(h.elapsed), Reason: courier.Reason(h.reason), Error: h.err, By: h.by,
		})
	}
	for i := range list {
		list[i].Seq, list[i].ExecutionAttempt = first+int64(i), h.attempt
	}
	return list
}

// start returns the entry of the step attempt that had started before the row was written,
// if no earlier row has it, or nil.
func (h *historyRow) start() *courier.AuditEntry {
	e := courier.AuditEntry{From: string(courier.StepPending), To: string(courier.StepRunning), Worker: h.beforeWorker}
	switch {
	case h.started != nil:
		s := h.started
		e.At, e.Step, e.ID, e.Type, e.Iteration, e.Attempt = s.At.UTC(), &s.Step, s.ID, s.Type, s.Iteration, s.Attempt
	case h.startBefore:
		return nil
	case h.endedBegan:
		e.At, e.Step, e.ID, e.Type, e.Iteration, e.Attempt = h.ended.StartedAt, h.endedStep, h.ended.ID, h.ended.Type, h.ended.Iteration, h.ended.Attempt
		if h.endedElapsed != nil {
			e.At = h.at.Add(-micro(*h.endedElapsed))
		}
	case h.interrupted != nil:
		i := h.interrupted
		e.At, e.Step, e.ID, e.Type, e.Iteration, e.Attempt = h.at.Add(-micro(i.Elapsed)), &i.Step, i.ID, i.Type, i.Iteration, i.Attempt
	default:
		return nil
	}
	return &e
}

// ran returns how long the attempt that ended had been running.
func (h *historyRow) ran() time.Duration {
	if h.endedElapsed != nil {
		return micro(*h.endedElapsed)
	}
	return max(0, h.at.Sub(h.ended.StartedAt))
}

// micro returns a number of microseconds as a duration.
func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
