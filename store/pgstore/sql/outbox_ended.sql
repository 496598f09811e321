-- The attempts that ended, for sql/outbox.sql: the rows of "ended" were inserted
-- into step_executions, each with the number of its audit entry.
union all
select r.execution_id, r.seq, r.ended_at,
	case r.state when 'completed' then 'StepCompleted' when 'failed' then 'StepFailed' when 'skipped' then 'StepSkipped' end,
	r.step, r.step_id, r.type, r.iteration, r.attempt, r.bytes, r.reason, r.error, null
from ended r
