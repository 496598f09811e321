-- The latest step execution of each step in the current attempt of executions: the
-- latest with a lower number than $2. $1 ids.
with recursive x as materialized (
	select id, attempt from courier.job_executions where id = any($1::text[]::uuid[])
), l as (
	select x.id, x.attempt, r.step from x cross join lateral (
		select s.step from courier.execution_history s
		where s.execution_id = x.id and s.execution_attempt = x.attempt and s.step is not null
		order by s.step desc, s.seq desc limit 1
	) r
	union all
	select l.id, l.attempt, r.step from l cross join lateral (
		select s.step from courier.execution_history s
		where s.execution_id = l.id and s.execution_attempt = l.attempt and s.step < l.step
		order by s.step desc, s.seq desc limit 1
	) r
)
select
\ir step_columns.inc.sql
	, s.outputs, s.files, null, null, null
from l cross join lateral (
	select r.* from courier.execution_history r
	where r.execution_id = l.id and r.execution_attempt = l.attempt and r.step = l.step and r.seq < $2::bigint
	order by r.seq desc limit 1
) s
order by s.execution_id, s.step
