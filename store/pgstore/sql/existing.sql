-- The executions that exist already under an id or, for their job, an
-- idempotency key. $1 ids, $2 jobs, $3 keys; returned with their ordinals.
select e.id::text, e.definition_id, e.version, e.state, e.queue, e.priority, e.attempt, e.step, e.loops, e.marks,
	e.reclaims, e.resumed_from, e.current_step, e.current_attempt, e.current_started, e.current_id, e.current_type,
	e.current_iteration, e.current_total, e.current_worker, e.params, e.created_at, e.due_at, e.started_at, e.ended_at,
	e.failure, e.request, e.resumed, e.idempotency_key, e.limit_keys, e.timeout_ns, e.created_by, e.worker, e.workspace,
	e.lease_expires_at, e.disk_bytes, e.seq, e.chain_id::text, e.chain_member, e.waits, e.upstream, n.ord
from unnest($1::text[]::uuid[], $2::text[], $3::text[]) with ordinality as n (id, job, key, ord)
cross join lateral (
	select u.* from (
		select 1 as rank, x.* from courier.job_executions x where x.id = n.id
		union all
		select 2 as rank, x.* from courier.job_executions x join courier.job_definitions d on d.id = x.definition_id
		where n.key <> '' and d.kind = 'job' and d.name = n.job and x.idempotency_key = n.key
	) u order by u.rank limit 1
) e
