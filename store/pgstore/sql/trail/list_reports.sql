-- The records that entries of the trail refer to, in the order of the entries, each with
-- the version and the repairs of its execution. $1 executions, $2 numbers of records. An
-- entry of the audit says where its record is; the limit keeps the planner from looking for
-- the record without it.
\set details false
\set values true
select
\ir ../execution/step_columns.inc.sql
	, e.version, e.repairs
from unnest($1::text[]::uuid[], $2::bigint[]) with ordinality as w (execution_id, seq, ord)
cross join lateral (
	select l.execution_id, l.execution_attempt, l.ended_step, l.seq from courier.job_audit_log l
	where l.execution_id = w.execution_id and l.seq = w.seq limit 1
) a
join courier.step_executions s on s.execution_id = a.execution_id and s.execution_attempt = a.execution_attempt and s.step = a.ended_step and s.seq = a.seq
cross join lateral (select x.version, x.repairs from courier.job_executions x where x.id = w.execution_id limit 1) e
order by w.ord
