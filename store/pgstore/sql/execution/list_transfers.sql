-- The newest attempts of steps, those that ended last first, each with the version and the repairs
-- of its execution and the number of files that it has moved. $1 executions, $2 attempts of them,
-- $3 indexes of steps, $4 at most how many. The limits keep the planner from reading all of a
-- history.
with newest as materialized (
	select h.execution_id, h.seq, h.at
	from unnest($1::text[]::uuid[], $2::integer[], $3::integer[]) as w (execution_id, attempt, step)
	cross join lateral (
		select x.execution_id, x.seq, x.at from courier.execution_history x
		where x.execution_id = w.execution_id and x.execution_attempt = w.attempt and x.step = w.step
		order by x.seq desc limit $4::bigint
	) h
	order by h.at desc, h.execution_id desc, h.seq desc limit $4::bigint
)
select
\ir step_columns.inc.sql
	, null::text, null::text, null::text, null::text, null::text
	, e.version, e.repairs
	, coalesce((
		select count(*) from json_array_elements(s.files::json) j
		where j.value ->> 'connection'::text <> '' and coalesce((j.value ->> 'removed'::text)::boolean, false) = false
	), 0)
from newest n
cross join lateral (
	select h.* from courier.execution_history h where h.execution_id = n.execution_id and h.seq = n.seq limit 1
) s
cross join lateral (select x.version, x.repairs from courier.job_executions x where x.id = n.execution_id limit 1) e
order by n.at desc, n.execution_id desc, n.seq desc
