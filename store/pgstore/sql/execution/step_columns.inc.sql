-- The columns of a step execution, the row s of the history, in the order in which scanStep
-- reads them, but for the last, which may be large: outputs, files, stack, log and events.
s.execution_id::text, s.seq, s.step, coalesce(s.step_id, ''), s.step_type, s.iteration, s.iteration_total, s.attempt, s.execution_attempt,
coalesce(s.state, 'completed'), s.started_at, s.at, coalesce(s.bytes, 0), coalesce(s.reason, ''), coalesce(s.error, ''), coalesce(s.step_worker, s.worker, ''), s.failed_loop, s.rescued, s.item_labels
