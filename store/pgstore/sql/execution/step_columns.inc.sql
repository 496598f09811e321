-- The columns of a step execution, the row s of the history, in the order in which scanStep reads them. The last
-- ones may be large; they are read only if details is a true condition. So are outputs and
-- files if values is none.
s.execution_id::text, s.seq, s.step, coalesce(s.step_id, ''), s.step_type, s.iteration, s.iteration_total, s.attempt, s.execution_attempt,
coalesce(s.state, 'completed'), s.started_at, s.at, coalesce(s.bytes, 0), case when :values then s.outputs end, case when :values then s.files end, coalesce(s.reason, ''), coalesce(s.error, ''), coalesce(s.step_worker, s.worker, ''), s.failed_loop,
case when :details then s.stack end, case when :details then s.log end, case when :details then s.events end
