package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// auditView has an entry of the audit in each row, as the views show it to people.
const auditView = `
select a.execution_id::text, e.n, e.at, e.step, e.state_from, e.state_to, e.attempt, e.type, coalesce(e.iteration, 'null'), coalesce(e.elapsed, 0), a.execution_attempt, coalesce(e.worker, ''), coalesce(e.by, ''), coalesce(e.reason, ''), coalesce(e.error, '')
from SCHEMA.job_audit_log a
left join SCHEMA.step_executions s on s.execution_id = a.execution_id and s.seq = a.seq and a.ended_step is not null
cross join lateral (
	select a.seq as n, a.at, a.ended_step as step, case when a.ended_started then 'running' else 'pending' end as state_from, s.state as state_to, s.attempt, s.step_type as type, s.iteration, null::bigint as elapsed,
		a.worker, null as by, s.reason, s.error where a.ended_step is not null
	union all
	select a.seq + (a.ended_step is not null)::int, a.at, (a.interrupted::json ->> 'step')::int, 'running', 'pending', (a.interrupted::json ->> 'attempt')::int, a.interrupted::json ->> 'type', a.interrupted::json ->> 'iteration', (a.interrupted::json ->> 'elapsed')::bigint,
		a.worker, null, a.interrupted::json ->> 'reason', null where a.interrupted is not null
	union all
	select a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int, a.at, null, coalesce(a.state_from, ''), a.state_to, 0, '', null, a.state_elapsed_us,
		a.worker, a.by, a.reason, a.error where a.state_to is not null
	union all
	select a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int + (a.state_to is not null)::int, a.at, a.started_step, 'pending', 'running', a.started_attempt, a.started_step_type, a.started_iteration, null,
		a.worker, null, null, null where a.started_step is not null
) e
order by 1, 2`

// viewsAgree checks that the views job_audit_log and step_executions say of all executions
// what the store says.
func viewsAgree(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s, err := pgstore.New(ctx, pool, &pgstore.Options{Schema: schema, PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name := pgx.Identifier{schema}.Sanitize()
	const most = 200 // rows; a case with more has made them in a loop
	rows, err := pool.Query(ctx, strings.ReplaceAll(auditView, "SCHEMA", name)+fmt.Sprintf(" limit %d", most), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[courier.ExecutionID][]string)
	var order []courier.ExecutionID
	var x string
	var seq int64
	var at time.Time
	var step *int
	var from, to, typ, iteration, worker, by, reason, text string
	var elapsed int64
	var attempt, execution int
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&x, &seq, &at, &step, &from, &to, &attempt, &typ, &iteration, &elapsed, &execution, &worker, &by, &reason, &text}, func() error {
		id := courier.ExecutionID(x)
		if shown[id] == nil {
			order = append(order, id)
		}
		n++
		e := courier.AuditEntry{
			Seq: seq, At: at, Step: step, From: from, To: to, Attempt: attempt, Type: typ, Elapsed: time.Duration(elapsed) * time.Microsecond,
			ExecutionAttempt: execution, Worker: worker, By: by, Reason: courier.Reason(reason), Error: text,
		}
		err := json.Unmarshal([]byte(iteration), &e.Iteration)
		shown[id] = append(shown[id], entryText(&e))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range order {
		list, err := s.Audit(ctx, store.AuditFilter{Execution: id, Limit: most})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, e := range list {
			want = append(want, entryText(&e))
		}
		if n == most && i == len(order)-1 { // the list was cut here
			want = want[:min(len(want), len(shown[id]))]
		}
		if got := strings.Join(shown[id], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("the view job_audit_log says of %s\n%s\nand the store\n%s", id, got, strings.Join(want, "\n"))
		}
	}
}

// entryText returns an entry as the views show it: without the id and the bytes of a step, and
// without how long an attempt that ended took, which is in its record.
func entryText(e *courier.AuditEntry) string {
	same := *e
	same.Execution, same.ID, same.Bytes, same.At = "", "", 0, e.At.UTC().Round(time.Microsecond)
	if e.Step != nil && e.To != string(courier.StepPending) {
		same.Elapsed = 0
	}
	b, _ := json.Marshal(same)
	return string(b)
}
