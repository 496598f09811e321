-- The beginning of sql/claim/queued_with_limits.sql and sql/claim/queued_without_limits.sql:
-- the parameters, the queues, and "lost", the executions whose lease has ended. The file
-- that includes this one goes on with "ready", the queued executions that may run, and
-- ends with sql/claim/take_leases.inc.sql.
--
-- $1 worker, $2 workspace, $3 its step types, $4 queues, $5 at most how many, $6 lease in
-- microseconds, $7 token, $8 whether only certain executions are claimed, $9 which,
-- $10 whether to scan the running executions for leases that have ended or will end; for
-- each queue where to begin: $11 priority (negative), $12 due, $13 id; $14 the running
-- executions that are looked at, null for all, $15 whether to register the worker, and to look whether executions are left,
-- $16 its slots, $17 its version, $18 when it was started, $19 whether events are kept, by
-- sql/delivery/keep_events.sql; without that, nothing is claimed if somebody has subscribed.
--
-- The commit waits for the disk only if the claim starts a step. Otherwise the next
-- write of the worker waits for the disk, and takes with it all that was written before;
-- if the server loses the claim, it loses the lease, and the worker can write nothing. If
-- the server lost the start of a step, the step would run twice as the first attempt.
--
-- All arguments go through "arg", which hides their values from the planner: no plan for
-- certain values looks better than the general one, and each connection plans the
-- statement only once.
--
-- Each row is a leased execution. The row without an id has what else the claim found:
-- whether a limit is in force, whether there is more, the microseconds until the next
-- execution is due and until the next lease ends (0: not known), whether executions wait
-- for other jobs, whether a limit seems to keep executions from being claimed, and whether
-- somebody has subscribed. In this row the column reclaim says whether executions are
-- left; see $15.
with recursive arg as materialized (
	select clock_timestamp() as now, $1::text as worker, $2::text as workspace, $3::text[] as types, $4::text[] as queues, $5::bigint as most,
		$6::bigint::float8 * interval '1 microsecond' as lease, $7::text::uuid as token, $8::bool as restricted, $9::text[]::uuid[] as ids, $10::bool as running,
		$11::int[] as urgencies, $12::text[]::timestamptz[] as dues, $13::text[]::uuid[] as froms, $14::text[]::uuid[] as suspects, $15::bool as register,
		$16::integer as slots, $17::text as version, nullif($18::text, '')::timestamptz as started_at,
		current_setting('synchronous_commit') as waited, set_config('synchronous_commit', 'off', true) as unwaited
), q as materialized (
	-- The condition always holds. With it the planner expects few queues. Without it the
	-- planner expects ten, each with ten priorities, and compiles the statement.
	select q.* from arg, unnest(arg.queues, arg.urgencies, arg.dues, arg.froms) as q (queue, urgency, due_at, id)
	where q.queue || '' = q.queue
), level as (
	-- The priorities of each queue that have queued executions, with the first row of
	-- each. The rows that were claimed before that row are read only once.
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
	select e.id, e.lease_expires_at from (
		select e.id, e.lease_expires_at, e.queue, e.step_types, e.workspace from courier.job_executions e
		where (select running and suspects is null from arg) and e.state = 'running'
		union all
		select e.id, e.lease_expires_at, e.queue, e.step_types, e.workspace from courier.job_executions e
		where (select running from arg) and e.id = any((select suspects from arg)::uuid[]) and e.state || '' = 'running'
	) e
	where e.queue = any((select queues from arg)::text[])
		and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
		and (not (select restricted from arg) or e.id = any((select ids from arg)::uuid[]))
), lost as materialized (
	select e.id, e.worker, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.claim_waited_us, e.current_lost_worker is not null as start_before
	from courier.job_executions e, arg
	where e.id = any(array(select r.id from run_now r, arg where r.lease_expires_at <= arg.now))
		-- Without the || a planner that has seen nothing run takes the index of states.
		and e.state || '' = 'running' and e.lease_expires_at <= arg.now
	order by 4, 5, 1 limit (select most from arg)
	for update of e skip locked
)
