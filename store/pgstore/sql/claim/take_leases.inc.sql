-- The end of sql/claim/queued_with_limits.sql and sql/claim/queued_without_limits.sql:
-- leases the executions of "lost" and "ready", and registers the worker.
, pick as materialized (
	-- The lost worker may have written after this statement began and before its execution
	-- was locked. The time of the takeover is later than that.
	select id, worker, state_since, urgency, due_at, true as reclaim, clock_timestamp() as at, claim_waited_us as waited, start_before from lost
	union all (
		select id, '', state_since, urgency, due_at, false, (select now from arg), null, false from ready
		order by urgency, due_at, id
		limit greatest(0, (select most from arg) - (select count(*) from lost))
	)
), claimed as (
	update courier.job_executions e set
		state = 'running',
		state_since = pick.at,
		started_at = coalesce(e.started_at, (select now from arg)),
		timeout_started_at = coalesce(e.timeout_started_at, (select now from arg)),
		worker = (select worker from arg),
		-- An execution that was neither claimed nor changed by a request has its first step.
		current_step = case when not pick.reclaim and e.first_step_type is not null then 0 else e.current_step end,
		current_attempt = case when not pick.reclaim and e.first_step_type is not null then 1 else e.current_attempt end,
		current_started_at = case when not pick.reclaim and e.first_step_type is not null then (select now from arg) else e.current_started_at end,
		current_step_type = case when not pick.reclaim and e.first_step_type is not null then e.first_step_type else e.current_step_type end,
		current_step_id = case when not pick.reclaim and e.first_step_type is not null then e.first_step_id else e.current_step_id end,
		first_step_type = null,
		first_step_id = null,
		retry_state = case when not pick.reclaim and e.first_step_type is not null then '{"attempts":1}' else e.retry_state end,
		current_lost_worker = case when pick.reclaim and e.current_step is not null then coalesce(e.current_lost_worker, e.worker) end,
		only_copies = null,
		lease_token = (select token from arg),
		lease_first_seq = e.last_audit_seq + case when pick.reclaim then 2 else 1 end,
		heartbeat_at = pick.at,
		lease_expires_at = pick.at + (select lease from arg),
		reclaims = e.reclaims + pick.reclaim::int,
		last_audit_seq = e.last_audit_seq + case when pick.reclaim or e.first_step_type is not null then 2 else 1 end,
		claim_waited_us = case when pick.reclaim then 0 else greatest(0, extract(epoch from pick.at - pick.state_since) * 1000000::numeric) end
	from pick
	-- Under limits no queued execution is locked until here. One that was paused and
	-- resumed meanwhile is left to the next claim.
	where e.id = pick.id and e.state = case when pick.reclaim then 'running' else 'queued' end and e.state_since = pick.state_since
		and ($19::bool or not exists (select from courier.subscriptions where not disabled))
	returning e.*, pick.reclaim, pick.worker as lost_worker, pick.state_since as since, pick.urgency, pick.at as claimed_at, pick.waited, pick.start_before
), history as (
	-- Only a takeover is written at once, with what the lost worker left open.
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, worker, state_from, state_to, state_elapsed_us, state_reason, state_error,
		claimed_at, claim_waited_us, started, before_worker)
	select c.id, c.last_audit_seq - 1, c.claimed_at, c.attempt, c.worker, 'running', 'queued', greatest(0, extract(epoch from c.claimed_at - c.since) * 1000000::numeric),
		'worker_lost', 'the lease of worker "' || c.lost_worker || '" expired',
		case when c.waited is not null then c.since end, c.waited,
		case when c.current_step is not null and not c.start_before then pg_catalog.json_build_object('step', c.current_step, 'id', c.current_step_id,
			'type', c.current_step_type, 'iteration', c.current_iteration::json, 'attempt', c.current_attempt, 'at', c.current_started_at)::text end,
		c.lost_worker
	from claimed c where c.reclaim
)
, found as materialized (
	select count(*) as n from claimed
), gone as (
	delete from courier.workers w where w.ctid = any(array(
		select x.ctid from courier.workers x, arg where arg.register and x.seen_at < arg.now - interval '1 day' limit 100 for update of x skip locked
	))
), present as (
	insert into courier.workers (name, workspace, queues, step_types, slots, version, started_at, seen_at, draining)
	select worker, workspace, queues, types, slots, version, started_at, now, false from arg where register
	on conflict (name) do update set
		workspace = excluded.workspace, queues = excluded.queues, step_types = excluded.step_types, slots = excluded.slots,
		version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at, draining = false
), due as materialized (
	-- Only if fewer were claimed than asked for.
	select least(
		(select min(d.due_at) from arg, level l, lateral (
			select e.due_at from courier.job_executions e
			where not arg.restricted and e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at > arg.now
				and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
			order by e.due_at, e.id limit 1
		) d),
		(select min(e.due_at) from courier.job_executions e, arg
		where (select restricted from arg) and e.id = any((select ids from arg)::uuid[]) and e.state = 'queued' and e.waits_for is null and e.due_at > arg.now and e.queue = any((select queues from arg)::text[])
			and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg)))
	) as at
	from found where found.n < (select most from arg)
), ends as materialized (
	select least(
		(select min(r.lease_expires_at) from run_now r, arg where r.lease_expires_at > arg.now),
		(select min(c.lease_expires_at) from claimed c)
	) as at
	where (select running from arg)
), waiting as materialized (
	select exists (select from courier.job_executions e where e.state = 'queued' and e.waits_for is not null) as any
), remains as materialized (
	-- Not if few running executions are looked at: this would read all rows.
	select arg.register and arg.suspects is null and (
		exists (
			select from (
				select e.id from courier.job_executions e where e.state = 'queued' and e.waits_for is null order by e.queue, -(e.priority::integer), e.due_at, e.id limit 100
			) e where e.id <> all(array(select p.id from pick p))
		) or exists (
			select from courier.job_executions e
			where e.state = 'running' and e.lease_expires_at <= (select now from arg)
				and e.id <> all(array(select p.id from pick p))
		)) as any
	from arg
)
select
\ir ../execution/columns.inc.sql
	, e.reclaim, e.lease_first_seq, e.started_at = e.claimed_at,
	case when e.timeout_ns > 0 or e.finishing is not null then (extract(epoch from e.claimed_at - e.timeout_started_at) * 1000000::numeric)::bigint else 0 end,
	e.urgency, false, false, 0::bigint, 0::bigint, false, false, 0::bigint,
	case when e.current_started_at = e.claimed_at then set_config('synchronous_commit', (select waited from arg), true) end
from claimed e
union all
select '', 0, 0, '', '', 0::smallint, 0, 0, null, null,
	0, null, null, null, null, null, null,
	null, null, null, arg.now, arg.now, null, null,
	0, null,
	null, null, false, null, null, null, 0, '', '', '',
	null, null, 0, 0, null, null, null, null,
	null, null, null, null, null, null, null, false,
	null, null, null, null, null,
	remains.any, 0, false,
	0,
	0, ready_info.limited, ready_info.more and found.n < (select most from arg), coalesce((extract(epoch from due.at - arg.now) * 1000000::numeric)::bigint, 0),
	coalesce((extract(epoch from ends.at - arg.now) * 1000000::numeric)::bigint, 0), waiting.any, ready_info.held, 0,
	case when not $19::bool and exists (select from courier.subscriptions where not disabled) then 'subscribed' end
from arg cross join found cross join ready_info cross join waiting cross join remains left join due on true left join ends on true
