-- Leases executions: those whose lease has expired, then those that are queued
-- and due. What stands for "ready" below is sql/claim_free.sql, where no limit
-- is in force, or sql/claim_limited.sql, under a lock.
--
-- $1 worker, $2 workspace, $3 its step types, $4 queues, $5 at most, $6 lease in
-- microseconds, $7 token, $8 whether only certain ones are claimed, $9 which,
-- $10 whether to look at what runs, for leases that have expired or will; for
-- each queue where to begin: $11 priority (negative), $12 due, $13 id; $14 where to
-- begin in what runs, $15 whether the worker is to be noted as present, and to look
-- whether something is left that was not claimed.
--
-- A commit that starts no step is not waited for until it is on disk. What the
-- worker writes next is, and with it all that was written before; if the server
-- loses the claim, it loses the lease, and the worker can write nothing. A step
-- that a server has forgotten would be executed, and be the first attempt twice.
--
-- All arguments go through "arg", which hides the values from the planner: so no
-- plan for certain values looks better than the general one, and the statement
-- is planned but once for each connection.
--
-- Where nobody has subscribed to anything, events are not kept, and nothing is
-- claimed once somebody has; see sql/outbox.sql.
--
-- Each row is a claimed execution with columns of sql/execution.sql, or, with
-- no id, what else the claim found: whether a limit was met, whether there is
-- more, the microseconds until the next becomes due and until the next lease
-- ends (0: not known), whether something waits for other jobs, and whether something
-- seems to wait for room under a limit; last, whether somebody has subscribed. In the
-- place of a reclaim stands whether something is left; see $15.
with recursive arg as materialized (
	select clock_timestamp() as now, $1::text as worker, $2::text as workspace, $3::text[] as types, $4::text[] as queues, $5::bigint as most,
		$6::bigint * interval '1 microsecond' as lease, $7::text::uuid as token, $8::bool as restricted, $9::text[]::uuid[] as ids, $10::bool as running,
		$11::int[] as urgencies, $12::text[]::timestamptz[] as dues, $13::text[]::uuid[] as froms, $14::text::uuid as floor, $15::bool as noted,
		current_setting('synchronous_commit') as waited, set_config('synchronous_commit', 'off', true) as unwaited
), q as materialized (
	-- The condition always holds. It tells the planner that there are few queues:
	-- it would expect ten, each with ten priorities, and find all of that worth
	-- compiling.
	select q.* from arg, unnest(arg.queues, arg.urgencies, arg.dues, arg.froms) as q (queue, urgency, due_at, id)
	where q.queue || '' = q.queue
), level as (
	-- The priorities that wait in each queue, with the first row of each: within one,
	-- what is due comes first, and what was claimed before that row is not walked over
	-- once more.
	select q.queue, f.urgency, f.due_at, f.id
	from q left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.queue = q.queue and (-(e.priority::integer), e.due_at, e.id) > (q.urgency, q.due_at, q.id)
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	where not (select restricted from arg)
	union all
	select l.queue, f.urgency, f.due_at, f.id
	from level l left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.queue = l.queue and -(e.priority::integer) > l.urgency
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	where l.urgency is not null
), setting as materialized (
	select substr(key, 22) as scope, value::bigint as most from courier.system_settings
	where key = 'job.concurrency_limit' or starts_with(key, 'job.concurrency_limit.')
), rule as materialized (
	select coalesce((select most from setting where scope = ''), 5) as global,
		exists (select from setting where scope <> '' and most > 0) as scoped
), run_now as materialized (
	select e.id, e.lease_expires_at from courier.job_executions e
	where (select running from arg) and e.state = 'running' and e.id >= (select floor from arg) and e.queue = any((select queues from arg)::text[])
		and e.step_types <@ (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
		and (not (select restricted from arg) or e.id = any((select ids from arg)::uuid[]))
), lost as materialized (
	select e.id, e.worker, e.state_since, -(e.priority::integer) as urgency, e.due_at
	from courier.job_executions e, arg
	where e.id = any(array(select r.id from run_now r, arg where r.lease_expires_at <= arg.now))
		-- Not an index of all that runs, which a planner takes that has seen nothing run.
		and e.state || '' = 'running' and e.lease_expires_at <= arg.now
	order by 4, 5, 1 limit (select most from arg)
	for update of e skip locked
), /* ready */, pick as materialized (
	-- A lost worker may have written something after this statement began, and before
	-- its execution was locked; the takeover comes after that.
	select id, worker, state_since, urgency, due_at, true as reclaim, clock_timestamp() as at from lost
	union all (
		select id, '', state_since, urgency, due_at, false, (select now from arg) from ready
		order by urgency, due_at, id
		limit greatest(0, (select most from arg) - (select count(*) from lost))
	)
), claimed as (
	update courier.job_executions e set
		state = 'running',
		state_since = pick.at,
		started_at = coalesce(e.started_at, (select now from arg)),
		timeout_from = coalesce(e.timeout_from, (select now from arg)),
		worker = (select worker from arg),
		-- What nobody has claimed or asked anything of yet names its first step.
		current_step = case when not pick.reclaim and e.current_type is not null then 0 else e.current_step end,
		current_attempt = case when not pick.reclaim and e.current_type is not null then 1 else e.current_attempt end,
		current_started = case when not pick.reclaim and e.current_type is not null then (select now from arg) else e.current_started end,
		marks = case when not pick.reclaim and e.current_type is not null then '{"attempts":1}' else e.marks end,
		current_worker = case when pick.reclaim and e.current_step is not null then coalesce(e.current_worker, e.worker) end,
		token = (select token from arg),
		lease_first = e.seq + case when pick.reclaim then 2 else 1 end,
		lease_expires_at = pick.at + (select lease from arg),
		reclaims = e.reclaims + pick.reclaim::int,
		seq = e.seq + case when pick.reclaim or e.current_type is not null then 2 else 1 end
	from pick
	-- Under limits nothing is locked until here: what was paused and resumed
	-- meanwhile is left to the next claim.
	where e.id = pick.id and e.state = case when pick.reclaim then 'running' else 'queued' end and e.state_since = pick.state_since
		/* unless subscribed */
	returning e.*, pick.reclaim, pick.worker as lost_worker, pick.state_since as since, pick.urgency, pick.at as claimed_at
), audit as (
	insert into courier.job_audit_log (execution_id, seq, at, state_from, state_to, state_elapsed, reason, error, worker,
		started_step, started_attempt, started_type, started_id)
	select c.id, c.seq - 1, c.claimed_at, 'running', 'queued', greatest(0, extract(epoch from c.claimed_at - c.since) * 1000000),
		'worker_lost', 'the lease of worker "' || c.lost_worker || '" expired', (select worker from arg),
		null, null, null, null
	from claimed c where c.reclaim
	union all
	select c.id, c.lease_first, c.claimed_at, 'queued', 'running',
		case when c.reclaim then 0 else greatest(0, extract(epoch from c.claimed_at - c.since) * 1000000) end, null, null, (select worker from arg),
		case when not c.reclaim then c.current_step end, case when not c.reclaim then c.current_attempt end,
		case when not c.reclaim then c.current_type end, case when not c.reclaim then c.current_id end
	from claimed c
	/* returning execution_id, seq, at, ended_step, interrupted, started_step, started_id, started_type, started_iteration, started_attempt, state_from, state_to, reason, error, by */
) /* outbox */, found as materialized (
	select count(*) as n from claimed
), gone as (
	delete from courier.workers w where w.ctid = any(array(
		select x.ctid from courier.workers x, arg where arg.noted and x.seen_at < arg.now - interval '1 day' limit 100 for update of x skip locked
	))
), present as (
	insert into courier.workers (name, workspace, queues, step_types, seen_at)
	select worker, workspace, queues, types, now from arg where noted
	on conflict (name) do update set
		workspace = excluded.workspace, queues = excluded.queues, step_types = excluded.step_types, seen_at = excluded.seen_at
), due as materialized (
	-- Only if fewer were claimed than could be.
	select least(
		(select min(d.due_at) from arg, level l, lateral (
			select e.due_at from courier.job_executions e
			where not arg.restricted and e.state = 'queued' and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at > arg.now
				and e.step_types <@ (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
			order by e.due_at, e.id limit 1
		) d),
		(select min(e.due_at) from courier.job_executions e, arg
		where (select restricted from arg) and e.id = any((select ids from arg)::uuid[]) and e.state = 'queued' and e.due_at > arg.now and e.queue = any((select queues from arg)::text[])
			and e.step_types <@ (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg)))
	) as at
	from found where found.n < (select most from arg)
), ends as materialized (
	select least(
		(select min(r.lease_expires_at) from run_now r, arg where r.lease_expires_at > arg.now),
		(select min(c.lease_expires_at) from claimed c)
	) as at
	where (select running from arg)
), waits as materialized (
	select exists (select from courier.job_executions e where e.state = 'waiting') as any
), remains as materialized (
	-- Not where looks begin later than at the start: it would walk over all before.
	select arg.noted and arg.floor = '00000000-0000-0000-0000-000000000000'::uuid and (
		exists (
			select from (
				select e.id from courier.job_executions e where e.state = 'queued' order by e.queue, -(e.priority::integer), e.due_at, e.id limit 100
			) e where e.id <> all(array(select p.id from pick p))
		) or exists (
			select from courier.job_executions e
			where e.state = 'running' and e.lease_expires_at <= (select now from arg)
				and e.id <> all(array(select p.id from pick p))
		)) as any
	from arg
)
select c.id::text, c.definition_id, c.version, c.state, c.queue, c.priority, c.attempt, c.step, c.loops, c.marks,
	c.reclaims, c.resumed_from, c.current_step, c.current_attempt, c.current_started, c.current_id, c.current_type,
	c.current_iteration, c.current_total, c.current_worker, c.params, c.created_at, c.due_at, c.started_at, c.ended_at,
	c.failure, c.request, c.resumed, c.idempotency_key, c.limit_keys, c.timeout_ns, c.created_by, c.worker, c.workspace,
	c.lease_expires_at, c.disk_bytes, c.seq, c.chain_id::text, c.chain_member, c.waits, c.upstream,
	c.reclaim, c.lease_first, c.started_at = c.claimed_at,
	case when c.timeout_ns > 0 then (extract(epoch from c.claimed_at - c.timeout_from) * 1000000)::bigint else 0 end,
	c.urgency, false, false, 0::bigint, 0::bigint, false, false,
	case when c.current_started = c.claimed_at then set_config('synchronous_commit', (select waited from arg), true) end
from claimed c
union all
select '', 0, 0, '', '', 0::smallint, 0, 0, null, null,
	0, null, null, null, null, null, null,
	null, null, null, null, arg.now, arg.now, null, null,
	null, null, false, null, null, 0, '', '', '',
	null, 0, 0, null, null, null, null,
	remains.any, 0, false,
	0,
	0, ready_info.limited, ready_info.more and found.n < (select most from arg), coalesce((extract(epoch from due.at - arg.now) * 1000000)::bigint, 0),
	coalesce((extract(epoch from ends.at - arg.now) * 1000000)::bigint, 0), waits.any, ready_info.held, /* subscribed */ null
from arg cross join found cross join ready_info cross join waits cross join remains left join due on true left join ends on true
