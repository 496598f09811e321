-- Finds the executions that claims pass over because they begin behind the last claimed
-- row, and because they look only at the running executions that this statement has found
-- before. It walks over dead index entries, beside the claims: those of the queues, and of
-- the executions that were claimed since the last walk.
--
-- $1 workspace, $2 step types, $3 queues; of some queues: $4 name, where claims begin:
-- $5 priority (negative), $6 due, $7 id. $8 whether to walk through the queues. Without
-- that only what is more urgent is found in them, which takes no walk. $9 executions that
-- were running, $10 since when all others that are running were claimed. $11 at most how
-- many running executions are returned.
--
-- Each row is the first claimable execution of a queue before that place. The row without a
-- queue has the time at which the statement began; the executions whose lease has ended, those
-- that ended first; the microseconds from the beginning until the next lease ends (0: not
-- known), and those of the walk through the queues; and all running executions, whoever may
-- claim them, null if there are more than $11. A lease that ends during the walk has ended,
-- also if it was renewed meanwhile: the claim looks again.
with arg as materialized (
	select clock_timestamp() as now
), q as materialized (
	select arg.now, q.* from arg,
		unnest((select $4::text[]), (select $5::int[]), (select $6::text[]::timestamptz[]), (select $7::text[]::uuid[])) as q (queue, urgency, due_at, id)
), running as materialized (
	select e.id, e.lease_expires_at, e.queue, e.step_types, e.workspace from courier.job_executions e
	where e.state = 'running' and e.state_since >= (select $10::text::timestamptz)
	union
	-- Without the || the planner takes the index of running executions.
	select e.id, e.lease_expires_at, e.queue, e.step_types, e.workspace from courier.job_executions e
	where e.id = any((select $9::text[])::uuid[]) and e.state || '' = 'running'
), run_now as materialized (
	select e.id, e.lease_expires_at from running e
	where e.queue = any((select $3::text[])::text[])
		and e.step_types operator(pg_catalog.<@) (select $2::text[]) and (e.workspace = '' or e.workspace = (select $1::text))
), walked as materialized (
	select clock_timestamp() as now, began.at as began
	from (select clock_timestamp() as at offset 0) began cross join lateral (select count(*) as n from run_now where began.at is not null) r where r.n >= 0
)
select q.queue, f.urgency, f.due_at, array[f.id::text], 0::bigint, 0::bigint, null::text[]
from q cross join lateral (
	-- First what is more urgent, then what is due before; one comparison of rows for
	-- both would end no walk through the index.
	(select -(e.priority::integer) as urgency, e.due_at, e.id from courier.job_executions e
	where e.state = 'queued' and e.waits_for is null and e.queue = q.queue and -(e.priority::integer) < q.urgency and e.due_at <= q.now
		and e.step_types operator(pg_catalog.<@) (select $2::text[]) and (e.workspace = '' or e.workspace = (select $1::text))
	order by -(e.priority::integer), e.due_at, e.id limit 1)
	union all
	(select -(e.priority::integer), e.due_at, e.id from courier.job_executions e
	where (select $8::bool) and e.state = 'queued' and e.waits_for is null and e.queue = q.queue and -(e.priority::integer) = q.urgency and e.due_at <= least(q.now, q.due_at)
		and (e.due_at, e.id) <= (q.due_at, q.id)
		and e.step_types operator(pg_catalog.<@) (select $2::text[]) and (e.workspace = '' or e.workspace = (select $1::text))
	order by -(e.priority::integer), e.due_at, e.id limit 1)
	limit 1
) f
union all
select '', 0, arg.now, array(select r.id::text from run_now r where r.lease_expires_at <= walked.now order by r.lease_expires_at limit 1000),
	coalesce((select (extract(epoch from min(r.lease_expires_at) - arg.now) * 1000000::numeric)::bigint from run_now r where r.lease_expires_at > walked.now), 0),
	(extract(epoch from walked.began - arg.now) * 1000000::numeric)::bigint,
	case when (select count(*) from running) <= $11::bigint then array(select running.id::text from running) end
from arg, walked
