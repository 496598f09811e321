-- The latest step execution of each step in the current attempt of executions. $1 ids.
with recursive x as materialized (
	select id, attempt from courier.job_executions where id = any($1::text[]::uuid[])
), l as (
	select x.id, x.attempt, r.step, r.seq from x cross join lateral (
		select s.step, s.seq from courier.step_executions s
		where s.execution_id = x.id and s.execution_attempt = x.attempt
		order by s.step desc, s.seq desc limit 1
	) r
	union all
	select l.id, l.attempt, r.step, r.seq from l cross join lateral (
		select s.step, s.seq from courier.step_executions s
		where s.execution_id = l.id and s.execution_attempt = l.attempt and s.step < l.step
		order by s.step desc, s.seq desc limit 1
	) r
)
select
\ir step_columns.inc.sql
from l cross join lateral (
	select r.* from courier.step_executions r
	where r.execution_id = l.id and r.execution_attempt = l.attempt and r.step = l.step and r.seq = l.seq offset 0
) s
order by s.execution_id, s.step
