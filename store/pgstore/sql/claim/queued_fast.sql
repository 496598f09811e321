-- Leases queued executions where no limit is in force. A worker sends this statement
-- when there is probably something to claim: its last claim got all that it asked for,
-- or a notification came. It reads neither running executions nor those that become due
-- later. If a limit may be in force it leases nothing, and the row without an id says
-- so. Each row has the microseconds that went by until the first row of its queue was
-- found: a walk over the index entries of executions that were claimed before. The comments
-- of sql/claim/expired_leases.inc.sql hold here too.
--
-- $1 worker, $2 workspace, $3 its step types, $4 at most, $5 lease in
-- microseconds, $6 token; for each queue: $7 which, where to begin: $8 priority
-- (negative), $9 due, $10 id. $11 whether events are kept, as there.
with recursive q as materialized (
	select clock_timestamp() as now, current_setting('synchronous_commit') as waited,
		set_config('synchronous_commit', 'off', true) as unwaited, q.*
	from unnest((select $7::text[]), (select $8::int[]), (select $9::text[]::timestamptz[]), (select $10::text[]::uuid[])) as q (queue, urgency, due_at, id)
	where q.queue || '' = q.queue
), level as (
	select q.now, q.queue, f.urgency, f.due_at, f.id, (extract(epoch from clock_timestamp() - began.at) * 1000000::numeric)::bigint as walked
	from q cross join lateral (
		select clock_timestamp() as at where q.queue is not null offset 0
	) began left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = q.queue and (-(e.priority::integer), e.due_at, e.id) > (q.urgency, q.due_at, q.id)
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	union all
	select l.now, l.queue, f.urgency, f.due_at, f.id, l.walked
	from level l left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) > l.urgency
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	where l.urgency is not null
), first as materialized (
	select c.* from level l cross join lateral (
		select l.now, l.walked, e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.concurrency_limit from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= l.now
			and (e.due_at, e.id) >= (l.due_at, l.id)
			and e.step_types operator(pg_catalog.<@) (select $3::text[]) and (e.workspace = '' or e.workspace = (select $2::text))
		order by e.due_at, e.id limit (select $4::bigint)
		for update of e skip locked
	) c
	where l.urgency is not null
	order by c.urgency, c.due_at, c.id limit (select $4::bigint)
), rule as materialized (
	select exists (select from first) and (not exists (select from courier.system_settings where key = 'job.concurrency_limit')
		or exists (select from courier.system_settings where (key = 'job.concurrency_limit' or starts_with(key, 'job.concurrency_limit.')) and value::bigint <> 0)
		or exists (select from first where concurrency_limit > 0)) as limited
), claimed as (
	update courier.job_executions e set
		state = 'running',
		state_since = first.now,
		started_at = coalesce(e.started_at, first.now),
		timeout_started_at = coalesce(e.timeout_started_at, first.now),
		worker = $1::text,
		current_step = case when e.first_step_type is not null then 0 end,
		current_attempt = case when e.first_step_type is not null then 1 end,
		current_started_at = case when e.first_step_type is not null then first.now end,
		current_step_type = e.first_step_type,
		current_step_id = e.first_step_id,
		first_step_type = null,
		first_step_id = null,
		retry_state = case when e.first_step_type is not null then '{"attempts":1}' else e.retry_state end,
		current_lost_worker = null,
		only_copies = null,
		lease_token = $6::text::uuid,
		lease_first_seq = e.last_audit_seq + 1,
		heartbeat_at = first.now,
		lease_expires_at = first.now + $5::bigint::float8 * interval '1 microsecond',
		last_audit_seq = e.last_audit_seq + case when e.first_step_type is not null then 2 else 1 end,
		claim_waited_us = greatest(0, extract(epoch from first.now - first.state_since) * 1000000::numeric)
	from first
	where e.id = first.id and not (select limited from rule)
		and ($11::bool or not exists (select from courier.subscriptions where not disabled))
	returning e.*, first.urgency, first.walked, first.now as claimed_at, false as reclaim, '' as lost_worker
)
select
\ir ../execution/columns.inc.sql
	, false, e.lease_first_seq, e.started_at = e.state_since,
	case when e.timeout_ns > 0 or e.finishing is not null then (extract(epoch from e.state_since - e.timeout_started_at) * 1000000::numeric)::bigint else 0 end,
	e.urgency, false, false, 0::bigint, 0::bigint, false, false, e.walked,
	case when e.current_step is not null then set_config('synchronous_commit', (select waited from q limit 1), true) end
from claimed e
union all
select '', 0, 0, '', '', 0::smallint, 0, 0, null, null,
	0, null, null, null, null, null, null,
	null, null, null, clock_timestamp(), clock_timestamp(), null, null,
	0, null,
	null, null, false, null, null, null, 0, '', '', '',
	null, null, 0, 0, null, null, null, null,
	null, null, null, null, null, null, null, false,
	null, null, null, null, null,
	false, 0, false,
	0,
	0, rule.limited, false, 0, 0, false, false, 0,
	case when not $11::bool and exists (select from courier.subscriptions where not disabled) then 'subscribed' end
from rule where rule.limited
	or not $11::bool and exists (select from courier.subscriptions where not disabled)
