-- The audit of an execution, each row with the step execution that it refers to.
-- $1 execution, $2 the first number, $3 at most how many rows.
select a.seq, a.at, a.ended_step, coalesce(a.ended_started, false), a.ended_elapsed_us,
	coalesce(s.step_id, ''), coalesce(s.step_type, ''), s.iteration, coalesce(s.attempt, 0), coalesce(s.state, ''), coalesce(s.bytes, 0),
	coalesce(s.reason, ''), coalesce(s.error, ''), s.started_at,
	a.started_step, coalesce(a.started_attempt, 0), coalesce(a.started_step_id, ''), coalesce(a.started_step_type, ''), a.started_iteration,
	a.interrupted, coalesce(a.state_from, ''), coalesce(a.state_to, ''), coalesce(a.state_elapsed_us, 0),
	coalesce(a.reason, ''), coalesce(a.error, ''), coalesce(a.by, ''), coalesce(a.worker, s.worker, ''), coalesce(a.execution_attempt, 1)
from courier.job_audit_log a
left join courier.step_executions s on s.execution_id = a.execution_id and s.execution_attempt = a.execution_attempt and s.step = a.ended_step and s.seq = a.seq
where a.execution_id = $1::text::uuid and a.seq >= $2::bigint
order by a.seq
limit $3::bigint
