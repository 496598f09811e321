-- The claim of a worker that has reason to think that there is something: its last
-- claim got all that it could take, or it has heard of something new. It does
-- not look at what runs, nor at what becomes due later. Only what may be claimed
-- where no limit is in force is leased; where one may be, nothing is, and the row
-- without an id says so. See sql/claim.sql, which tells what is alike.
--
-- $1 worker, $2 workspace, $3 its step types, $4 at most, $5 lease in
-- microseconds, $6 token; for each queue: $7 which, where to begin: $8 priority
-- (negative), $9 due, $10 id.
with recursive q as materialized (
	select clock_timestamp() as now, current_setting('synchronous_commit') as waited,
		set_config('synchronous_commit', 'off', true) as unwaited, q.*
	from unnest((select $7::text[]), (select $8::int[]), (select $9::text[]::timestamptz[]), (select $10::text[]::uuid[])) as q (queue, urgency, due_at, id)
	where q.queue || '' = q.queue
), level as (
	select q.now, q.queue, f.urgency, f.due_at, f.id
	from q left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.queue = q.queue and (-(e.priority::integer), e.due_at, e.id) > (q.urgency, q.due_at, q.id)
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	union all
	select l.now, l.queue, f.urgency, f.due_at, f.id
	from level l left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.queue = l.queue and -(e.priority::integer) > l.urgency
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	where l.urgency is not null
), first as materialized (
	select c.* from level l cross join lateral (
		select l.now, e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.job_limit from courier.job_executions e
		where e.state = 'queued' and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= l.now
			and (e.due_at, e.id) >= (l.due_at, l.id)
			and e.step_types <@ (select $3::text[]) and (e.workspace = '' or e.workspace = (select $2::text))
		order by e.due_at, e.id limit (select $4::bigint)
		for update of e skip locked
	) c
	where l.urgency is not null
	order by c.urgency, c.due_at, c.id limit (select $4::bigint)
), rule as materialized (
	select exists (select from first) and (not exists (select from courier.system_settings where key = 'job.concurrency_limit')
		or exists (select from courier.system_settings where (key = 'job.concurrency_limit' or starts_with(key, 'job.concurrency_limit.')) and value::bigint <> 0)
		or exists (select from first where job_limit > 0)) as limited
), claimed as (
	update courier.job_executions e set
		state = 'running',
		state_since = first.now,
		started_at = coalesce(e.started_at, first.now),
		timeout_from = coalesce(e.timeout_from, first.now),
		worker = $1::text,
		current_step = case when e.current_type is not null then 0 end,
		current_attempt = case when e.current_type is not null then 1 end,
		current_started = case when e.current_type is not null then first.now end,
		marks = case when e.current_type is not null then '{"attempts":1}' else e.marks end,
		current_worker = null,
		token = $6::text::uuid,
		lease_first = e.seq + 1,
		lease_expires_at = first.now + $5::bigint * interval '1 microsecond',
		seq = e.seq + case when e.current_type is not null then 2 else 1 end
	from first
	where e.id = first.id and not (select limited from rule)
		/* unless subscribed */
	returning e.*, first.state_since as since, first.urgency
), audit as (
	insert into courier.job_audit_log (execution_id, seq, at, state_from, state_to, state_elapsed, worker,
		started_step, started_attempt, started_type, started_id)
	select c.id, c.lease_first, c.state_since, 'queued', 'running', greatest(0, extract(epoch from c.state_since - c.since) * 1000000), c.worker,
		c.current_step, c.current_attempt, c.current_type, c.current_id
	from claimed c
	/* returning execution_id, seq, at, ended_step, interrupted, started_step, started_id, started_type, started_iteration, started_attempt, state_from, state_to, reason, error, by */
) /* outbox */
select c.id::text, c.definition_id, c.version, c.state, c.queue, c.priority, c.attempt, c.step, c.loops, c.marks,
	c.reclaims, c.resumed_from, c.current_step, c.current_attempt, c.current_started, c.current_id, c.current_type,
	c.current_iteration, c.current_total, c.current_worker, c.params, c.created_at, c.due_at, c.started_at, c.ended_at,
	c.failure, c.request, c.resumed, c.idempotency_key, c.limit_keys, c.timeout_ns, c.created_by, c.worker, c.workspace,
	c.lease_expires_at, c.disk_bytes, c.seq, c.chain_id::text, c.chain_member, c.waits, c.upstream,
	false, c.lease_first, c.started_at = c.state_since,
	case when c.timeout_ns > 0 then (extract(epoch from c.state_since - c.timeout_from) * 1000000)::bigint else 0 end,
	c.urgency, false, false, 0::bigint, 0::bigint, false, false,
	case when c.current_step is not null then set_config('synchronous_commit', (select waited from q limit 1), true) end
from claimed c
union all
select '', 0, 0, '', '', 0::smallint, 0, 0, null, null,
	0, null, null, null, null, null, null,
	null, null, null, null, clock_timestamp(), clock_timestamp(), null, null,
	null, null, false, null, null, 0, '', '', '',
	null, 0, 0, null, null, null, null,
	false, 0, false,
	0,
	0, rule.limited, false, 0, 0, false, false, /* subscribed */ null
from rule where rule.limited /* or subscribed */
