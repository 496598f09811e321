-- An execution. $1 which.
select e.id::text, e.definition_id, e.version, e.state, e.queue, e.priority, e.attempt, e.step, e.loops, e.marks,
	e.reclaims, e.resumed_from, e.current_step, e.current_attempt, e.current_started, e.current_id, e.current_type,
	e.current_iteration, e.current_total, e.current_worker, e.params, e.created_at, e.due_at, e.started_at, e.ended_at,
	e.failure, e.request, e.resumed, e.idempotency_key, e.limit_keys, e.timeout_ns, e.created_by, e.worker, e.workspace,
	e.lease_expires_at, e.disk_bytes, e.seq, e.chain_id::text, e.chain_member, e.waits, e.upstream
from courier.job_executions e
where e.id = $1::text::uuid
