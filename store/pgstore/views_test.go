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
select a.execution_id::text, e.n, e.at, e.step, e.state_from, e.state_to, e.attempt, e.type, a.execution_attempt, coalesce(e.worker, ''), coalesce(e.by, ''), coalesce(e.reason, ''), coalesce(e.error, '')
from SCHEMA.job_audit_log a
left join SCHEMA.step_executions s on s.execution_id = a.execution_id and s.seq = a.seq and a.ended_step is not null
cross join lateral (
	select a.seq as n, a.at, a.ended_step as step, case when a.ended_started then 'running' else 'pending' end as state_from, s.state as state_to, s.attempt, s.step_type as type,
		a.worker, null as by, s.reason, s.error where a.ended_step is not null
	union all
	select a.seq + (a.ended_step is not null)::int, a.at, (a.interrupted::json ->> 'step')::int, 'running', 'pending', (a.interrupted::json ->> 'attempt')::int, a.interrupted::json ->> 'type',
		a.worker, null, a.interrupted::json ->> 'reason', null where a.interrupted is not null
	union all
	select a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int, a.at, null, coalesce(a.state_from, ''), a.state_to, 0, '',
		a.worker, a.by, a.reason, a.error where a.state_to is not null
	union all
	select a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int + (a.state_to is not null)::int, a.at, a.started_step, 'pending', 'running', a.started_attempt, a.started_step_type,
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
	var from, to, typ, worker, by, reason, text string
	var attempt, execution int
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&x, &seq, &at, &step, &from, &to, &attempt, &typ, &execution, &worker, &by, &reason, &text}, func() error {
		id := courier.ExecutionID(x)
		if shown[id] == nil {
			order = append(order, id)
		}
		n++
		shown[id] = append(shown[id], entryText(seq, at, step, from, to, attempt, typ, execution, worker, by, reason, text))
		return nil
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
			want = append(want, entryText(e.Seq, e.At, e.Step, e.From, e.To, e.Attempt, e.Type, e.ExecutionAttempt, e.Worker, e.By, string(e.Reason), e.Error))
		}
		if n == most && i == len(order)-1 { // the list was cut here
			want = want[:min(len(want), len(shown[id]))]
		}
		if got := strings.Join(shown[id], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("the view job_audit_log says of %s\n%s\nand the store\n%s", id, got, strings.Join(want, "\n"))
		}
	}
}

func entryText(seq int64, at time.Time, step *int, from, to string, attempt int, typ string, execution int, worker, by, reason, text string) string {
	b, _ := json.Marshal([]any{seq, at.UTC().Round(time.Microsecond), step, from, to, attempt, typ, execution, worker, by, reason, text})
	return string(b)
}
