package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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

// Executions returns a page of executions, newest first.
func (s *Store) Executions(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := min(f.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
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
	if len(f.Jobs) > 0 {
		add("e.definition_id = any(array(select id from courier.job_definitions where kind = 'job' and name = any($%d::text[])))", f.Jobs)
	}
	for name, value := range f.Labels {
		args = append(args, name, value)
		filter += fmt.Sprintf(" and exists (select from courier.trail t where t.key = $%d::text and t.value = $%d::text and t.execution_id = e.id and t.seq = 0)", len(args)-1, len(args))
	}
	if len(f.States) > 0 {
		add("e.state = any($%d::text[])", asStrings(f.States))
	}
	if len(f.Reasons) > 0 {
		add("e.failure is not null and e.failure::jsonb->>'reason' = any($%d::text[])", asStrings(f.Reasons))
	}
	if f.Waiting {
		filter += " and e.state = 'queued' and e.waits_for is not null"
	}
	if f.FailedItems {
		filter += " and e.failed_items > 0"
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
	if f.Before != "" {
		add("e.id < $%d::text::uuid", bind.ID(string(f.Before)))
	}
	rows, err := query(ctx, s.pool, scanRow, s.sqlFiltered("execution/list", filter), args...)
	if err != nil {
		return nil, failed("list executions", err)
	}
	return s.withJobNames(ctx, s.pool, rows)
}

// asStrings returns a list as pgx takes it in all of its ways to execute queries.
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
	notCompleted := len(f.States) > 0 && !slices.Contains(f.States, courier.StepCompleted)
	if f.FailedItems || f.Files || f.Events || notCompleted || f.Step != nil && f.Attempt != 0 {
		if f.Attempt != 0 {
			add("s.execution_attempt = $%d::int", int32(f.Attempt))
		}
		switch {
		case f.Step != nil && notCompleted:
			add("s.step + 0 = $%d::int", int32(*f.Step)) // without statistics all records of the step would be read
		case f.Step != nil:
			add("s.step = $%d::int", int32(*f.Step))
		}
		if len(f.States) > 0 {
			add("s.state = any($%d::text[])", asStrings(f.States))
		}
		if notCompleted {
			filter += " and s.state <> 'completed'" // what the index is for
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
		add("a.execution_attempt = $%d::int", int32(f.Attempt))
	}
	if f.Step != nil {
		add("a.ended_step = $%d::int", int32(*f.Step))
	}
	if len(f.States) > 0 {
		add("exists (select from courier.step_executions r where r.execution_id = a.execution_id and r.execution_attempt = a.execution_attempt"+
			" and r.step = a.ended_step and r.seq = a.seq and r.state = any($%d::text[]))", asStrings(f.States))
	}
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

// Audit returns a page of the audit entries of an execution.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	// The entry after the given one may stand in a row that began before it.
	rows, err := query(ctx, s.pool, scanAudit, s.sql("execution/list_audit"), bind.ID(string(f.Execution)), max(0, f.After)-maxEntries+2, int64(f.Limit)+maxEntries)
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

// maxEntries is how many entries a row of the audit can have.
const maxEntries = 3

// An auditRow is a row of job_audit_log with the record that it refers to.
type auditRow struct {
	seq          int64
	at           time.Time
	endedStep    *int
	endedBegan   bool
	endedElapsed *int64 // microseconds; nil: since ended.StartedAt
	ended        courier.StepExecution
	startedStep  *int
	started      courier.StepExecution
	interrupted  *interrupted
	from, to     string
	elapsed      int64
	reason, err  string
	by, worker   string
	attempt      int // of the execution
}

// An interrupted is the step that went back to pending, as the audit keeps it: its
// names stand in rows that exist, and do not change with those of [courier.Failure].
type interrupted struct {
	Step      int            `json:"step"`
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Iteration []int          `json:"iteration"`
	Attempt   int            `json:"attempt"`
	Elapsed   int64          `json:"elapsed"` // microseconds
	Reason    courier.Reason `json:"reason,omitempty"`
}

func scanAudit(rows pgx.Rows) (a auditRow, err error) {
	var iteration, startedIteration, stopped *string
	var startedAt *time.Time
	err = rows.Scan(&a.seq, &a.at, &a.endedStep, &a.endedBegan, &a.endedElapsed,
		&a.ended.ID, &a.ended.Type, &iteration, &a.ended.Attempt, &a.ended.State, &a.ended.Bytes,
		&a.ended.Reason, &a.ended.Error, &startedAt,
		&a.startedStep, &a.started.Attempt, &a.started.ID, &a.started.Type, &startedIteration,
		&stopped, &a.from, &a.to, &a.elapsed, &a.reason, &a.err, &a.by, &a.worker, &a.attempt)
	if err != nil {
		return a, err
	}
	a.at, a.ended.StartedAt = a.at.UTC(), instant(startedAt)
	if err := decode(iteration, &a.ended.Iteration); err != nil {
		return a, err
	}
	if err := decode(startedIteration, &a.started.Iteration); err != nil {
		return a, err
	}
	if stopped != nil {
		a.interrupted = new(interrupted)
		err = json.Unmarshal([]byte(*stopped), a.interrupted)
	}
	return a, err
}

// entries returns the entries of the row, in their order.
func (a *auditRow) entries() []courier.AuditEntry {
	var list []courier.AuditEntry
	add := func(e courier.AuditEntry) {
		e.Seq, e.At, e.Worker, e.ExecutionAttempt = a.seq+int64(len(list)), a.at, a.worker, a.attempt
		list = append(list, e)
	}
	if a.endedStep != nil {
		e := courier.AuditEntry{
			Step: a.endedStep, ID: a.ended.ID, Type: a.ended.Type, Iteration: a.ended.Iteration, Attempt: a.ended.Attempt,
			From: string(courier.StepPending), To: string(a.ended.State), Bytes: a.ended.Bytes, Reason: a.ended.Reason, Error: a.ended.Error,
		}
		if a.endedBegan {
			e.From, e.Elapsed = string(courier.StepRunning), max(0, a.at.Sub(a.ended.StartedAt))
			if a.endedElapsed != nil {
				e.Elapsed = time.Duration(*a.endedElapsed) * time.Microsecond
			}
		}
		add(e)
	}
	if i := a.interrupted; i != nil {
		add(courier.AuditEntry{
			Step: &i.Step, ID: i.ID, Type: i.Type, Iteration: i.Iteration, Attempt: i.Attempt, Reason: i.Reason,
			From: string(courier.StepRunning), To: string(courier.StepPending), Elapsed: time.Duration(i.Elapsed) * time.Microsecond,
		})
	}
	if a.to != "" {
		add(courier.AuditEntry{
			From: a.from, To: a.to, Elapsed: time.Duration(a.elapsed) * time.Microsecond,
			Reason: courier.Reason(a.reason), Error: a.err, By: a.by,
		})
	}
	if a.startedStep != nil {
		add(courier.AuditEntry{
			Step: a.startedStep, ID: a.started.ID, Type: a.started.Type, Iteration: a.started.Iteration, Attempt: a.started.Attempt,
			From: string(courier.StepPending), To: string(courier.StepRunning),
		})
	}
	return list
}
