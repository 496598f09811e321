-- The executions as Health reports them. $1 up to how many queued ones are counted.
with recursive clock as materialized (
	select clock_timestamp() as now
), run as materialized (
	select e.id, e.worker, e.lease_expires_at from courier.job_executions e where e.state = 'running'
), lease as materialized (
	select run.id, run.worker, run.lease_expires_at from run order by run.lease_expires_at, run.id limit 1
), queued as materialized (
	-- In the order of the index, or a plan may read the whole table.
	select count(*) as n from (
		select from courier.job_executions e where e.state = 'queued' and e.waits_for is null
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit $1::bigint
	) e
), level as (
	-- The queues and their priorities: within one, what is due comes first.
	(
		select e.queue, -(e.priority::integer) as urgency from courier.job_executions e where e.state = 'queued' and e.waits_for is null
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1
	)
	union all
	select n.queue, n.urgency from level l cross join lateral (
		select e.queue, -(e.priority::integer) as urgency from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and (e.queue, -(e.priority::integer)) > (l.queue, l.urgency)
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1
	) n
), due as materialized (
	select d.id, d.queue, d.due_at from clock, level l cross join lateral (
		select e.id, e.queue, e.due_at from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= clock.now
		order by e.due_at, e.id limit 1
	) d
	order by d.due_at, d.id limit 1
)
select clock.now, current_setting('server_version'), coalesce((select max(m.version) from courier.schema_migrations m), 0),
	(select count(*) from run), coalesce(lease.id::text, ''), coalesce(lease.worker, ''),
	coalesce((extract(epoch from lease.lease_expires_at - clock.now) * 1000000::numeric)::bigint, 0),
	queued.n, coalesce(due.id::text, ''), coalesce(due.queue, ''),
	coalesce((extract(epoch from clock.now - due.due_at) * 1000000::numeric)::bigint, 0)
from clock cross join queued left join lease on true left join due on true
