-- The audit of an execution from the number $2 on: the rows of its history, and what its own
-- row has. That is its creation, as a row of the history would have it, and the claim and the
-- step that started since the last row of the history, as a row that has only these; see
-- execution_history. $1 execution, $3 at most how many rows of the history.
select a.seq, a.at, coalesce(a.execution_attempt, 1), coalesce(a.worker, ''), coalesce(a.state_from, ''), coalesce(a.state_to, ''), coalesce(a.state_elapsed_us, 0),
	coalesce(a.state_reason, ''), coalesce(a.state_error, ''), coalesce(a.by, ''),
	a.claimed_at, coalesce(a.claim_waited_us, 0), coalesce(a.start_before, false), a.started, coalesce(a.before_worker, a.worker, ''),
	a.started_at, a.bytes, a.step, coalesce(a.attempt, 0), case when a.step is not null then coalesce(a.state, 'completed') else '' end, coalesce(a.step_type, ''), coalesce(a.step_id, ''), coalesce(a.began, false), a.elapsed_us, a.iteration,
	coalesce(a.reason, ''), coalesce(a.error, ''), a.interrupted
from (
	(select h.seq, h.at, h.execution_attempt, h.worker, h.state_from, h.state_to, h.state_elapsed_us, h.state_reason, h.state_error, h.by,
		h.claimed_at, h.claim_waited_us, h.start_before, h.started, h.before_worker, h.started_at, coalesce(h.bytes, 0) as bytes, h.step, h.attempt, h.state, h.step_type, h.step_id,
		h.began, h.elapsed_us, h.iteration, h.reason, h.error, h.interrupted
	from courier.execution_history h
	where h.execution_id = $1::text::uuid and h.seq >= $2::bigint - 2
	order by h.seq
	limit $3::bigint)
	union all
	select 1, e.created_at, 1, null, null, case when e.held then 'created' else 'queued' end, null, null, null, e.created_by,
		null, null, null, null, null, null, 0, null, null, null, null, null, null, null, null, null, null, null
	from courier.job_executions e where e.id = $1::text::uuid and $2::bigint <= 1
	union all
	select e.last_audit_seq + 1, e.state_since, e.attempt, e.worker, null, null, null, null, null, null,
		case when e.claim_waited_us is not null then e.state_since end, e.claim_waited_us, null,
		case when e.current_step is not null and e.current_lost_worker is null then pg_catalog.json_build_object('step', e.current_step, 'id', e.current_step_id, 'type', e.current_step_type,
			'iteration', e.current_iteration::json, 'attempt', e.current_attempt, 'at', e.current_started_at)::text end,
		null, null, 0, null, null, null, null, null, null, null, null, null, null, null
	from courier.job_executions e where e.id = $1::text::uuid and e.state = 'running'
) a
order by a.seq
