-- The step executions of an execution, in the order of the audit. $1 execution, $2 the
-- number before the first, $3 at most how many, $4 with details, $5 with outputs and
-- files; the filter has the rest. The page is cut
-- from the audit first. Otherwise, without statistics, all step executions would be read.
\set details $4::bool
\set values $5::bool
select
\ir step_columns.inc.sql
from (
	select a.execution_id, a.execution_attempt, a.ended_step, a.seq from courier.job_audit_log a
	where a.execution_id = $1::text::uuid and a.seq > $2::bigint and a.ended_step is not null :filter
	order by a.seq
	limit $3::bigint
) a
join courier.step_executions s on s.execution_id = a.execution_id and s.execution_attempt = a.execution_attempt and s.step = a.ended_step and s.seq = a.seq
order by a.seq
