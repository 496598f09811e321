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
		where e.state = 'queued' and e.waits_for is null and e.queue = q.queue and (-(e.priority::integer), e.due_at, e.id) > (q.urgency, q.due_at, q.id)
		order by -(e.priority::integer), e.due_at, e.id limit 1
	) f on true
	where not (select restricted from arg)
	union all
	select l.queue, f.urgency, f.due_at, f.id
	from level l left join lateral (
		select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) > l.urgency
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
)
