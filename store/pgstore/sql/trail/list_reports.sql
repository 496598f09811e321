-- The records that entries of the trail refer to, in the order of the entries, each with
-- the version and the repairs of its execution. $1 executions, $2 numbers of records. The
-- limit keeps the planner from reading all of a history.
select
\ir ../execution/step_columns.inc.sql
	, s.outputs, s.files, null, null, null
	, e.version, e.repairs
from unnest($1::text[]::uuid[], $2::bigint[]) with ordinality as w (execution_id, seq, ord)
cross join lateral (
	select h.* from courier.execution_history h
	where h.execution_id = w.execution_id and h.seq = w.seq and h.step is not null limit 1
) s
cross join lateral (select x.version, x.repairs from courier.job_executions x where x.id = w.execution_id limit 1) e
order by w.ord
