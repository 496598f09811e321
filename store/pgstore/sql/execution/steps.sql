-- The records of an execution in the order of their numbers, which the audit
-- has. $1 execution, $2 after which number, $3 at most.
select
\ir step_columns.inc.sql
from courier.job_audit_log a
join courier.step_executions s on s.execution_id = a.execution_id and s.execution_attempt = a.ended_attempt and s.step = a.ended_step and s.seq = a.seq
where a.execution_id = $1::text::uuid and a.seq > $2::bigint and a.ended_step is not null
order by a.seq
limit $3::bigint
