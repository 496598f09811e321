-- Leases due schedules, and returns what an engine needs to fire them. $1 at most how
-- many, up to 1000, $2 lease in microseconds.
--
-- The literal limits let the planner expect few rows. For a parameter it expects a tenth
-- of all due schedules, and compiles the statement if there are a million.
--
-- Schedules that another statement has locked are skipped. Each row has the time and the
-- microseconds until the next schedule is due (0: none is). If no schedule is due there
-- is one row with these alone.
with arg as materialized (
	select clock_timestamp() as now, $1::bigint as most, $2::bigint::float8 * interval '1 microsecond' as lease
), job as materialized (
	select s.name from courier.job_schedules s
	where s.due_at <= (select arg.now from arg)
	order by s.due_at, s.name limit 1000
	for update skip locked
), jobs as materialized (
	select job.name from job limit (select arg.most from arg)
), chain as materialized (
	select s.name from courier.chain_schedules s
	where s.due_at <= (select arg.now from arg)
	order by s.due_at, s.name limit 1000
	for update skip locked
), chains as materialized (
	select chain.name from chain limit (select arg.most from arg) - (select count(*) from jobs)
), taken as (
	update courier.job_schedules s set due_at = arg.now + arg.lease
	from arg where s.name = any(array(select jobs.name from jobs))
	returning 'job' as kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, '') as last_execution_id, s.open_execution_ids::text[] as open_execution_ids, s.moves_from, s.last_execution_id as ran, s.open_execution_ids as open
), taken_chains as (
	update courier.chain_schedules s set due_at = arg.now + arg.lease
	from arg where s.name = any(array(select chains.name from chains))
	returning 'chain', s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, ''), s.open_execution_ids::text[], s.moves_from, s.last_execution_id, s.open_execution_ids
), later as materialized (
	select least(
		(select s.due_at from courier.job_schedules s where s.due_at > (select arg.now from arg) order by s.due_at limit 1),
		(select s.due_at from courier.chain_schedules s where s.due_at > (select arg.now from arg) order by s.due_at limit 1)
	) as at
), next as materialized (
	select arg.now, case when (select count(*) from jobs) + (select count(*) from chains) >= arg.most then 1
		else coalesce((extract(epoch from later.at - arg.now) * 1000000::numeric)::bigint, 0) end as wait
	from arg, later
), d as (
	select t.*, array(
		select e.id::text || ' ' || e.state from courier.job_executions e where t.kind = 'job' and e.id = any(pg_catalog.array_append(t.open, t.ran))
		union all
		select c.id::text || ' ' || c.state from courier.chain_executions c where t.kind = 'chain' and c.id = any(pg_catalog.array_append(t.open, t.ran))
	) as outcomes
	from (select * from taken union all select * from taken_chains) t
)
select next.now, next.wait, d.kind, d.name, d.target, d.body, d.saved_at, d.revision, d.disabled, d.paused, d.waiting, d.consecutive_failures,
	d.reason, d.problem, d.next_fire_at, d.due_at, d.last_fire_at, d.last_execution_id, d.open_execution_ids, d.moves_from,
	coalesce(f.id, 0), coalesce(f.latest_version, 0), d.outcomes
from next
left join d on true
left join courier.job_definitions f on f.kind = d.kind and f.name = d.target and not f.removed
order by d.next_fire_at, d.name
