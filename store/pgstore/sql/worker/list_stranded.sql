-- Executions that have been due, or whose lease has been over, for at least
-- $1 microseconds, in groups that the same workers can take: the first $4 of each queue
-- and priority, and as many of the running ones. So the cost does not depend on how many
-- wait. $2 executions that were running, $3 since when all others that are running were
-- claimed. The first group has the present workers as JSON, at most $5, as worker/list has them.
with recursive arg as materialized (
	select clock_timestamp() - $1::bigint::float8 * interval '1 microsecond' as before, $4::bigint as most
), level as (
	(select e.queue, -(e.priority::integer) as urgency, 1 as n from courier.job_executions e where e.state = 'queued' and e.waits_for is null
	order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1)
	union all
	select f.queue, f.urgency, l.n + 1
	from level l cross join lateral (
		select e.queue, -(e.priority::integer) as urgency from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and (e.queue, -(e.priority::integer)) > (l.queue, l.urgency)
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1
	) f
	where l.n < 1000
), due as (
	select x.* from arg, level l cross join lateral (
		select e.queue, e.workspace, e.step_types, e.id, e.due_at as since from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= (select before from arg)
		order by e.due_at, e.id limit (select most from arg)
	) x
	limit 20 * (select most from arg)
), lost as (
	select e.queue, e.workspace, e.step_types, e.id, e.lease_expires_at as since from courier.job_executions e
	where e.state = 'running' and e.state_since >= (select $3::text::timestamptz) and e.lease_expires_at <= (select before from arg)
	union
	select e.queue, e.workspace, e.step_types, e.id, e.lease_expires_at from courier.job_executions e
	where e.id = any((select $2::text[])::uuid[]) and e.state || '' = 'running' and e.lease_expires_at <= (select before from arg)
	limit (select most from arg)
), present as (
	select pg_catalog.json_agg(pg_catalog.json_build_object('workspace', p.workspace, 'queues', p.queues, 'step_types', p.step_types, 'draining', p.draining) order by p.name) as list
	from (
		select w.name, w.workspace, w.queues, w.step_types, w.draining from courier.workers w
		where
\ir present.inc.sql
		order by w.name limit $5::bigint
	) p
)
select g.queue, g.workspace, g.step_types, g.lost, g.n, g.oldest, g.since, case when row_number() over () = 1 then (select p.list from present p) end
from (
	select x.queue, x.workspace, x.step_types, x.lost, count(*) as n, (pg_catalog.array_agg(x.id::text order by x.since, x.id))[1] as oldest, min(x.since) as since
	from (select w.*, false as lost from due w union all select l.*, true from lost l) x
	group by x.queue, x.workspace, x.step_types, x.lost
) g
