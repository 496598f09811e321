-- Figures for metrics as JSON, as store.Stats has them. No count of deliveries reads more
-- rows than $1. Each part follows an index from its start, but that of monitors, of which
-- there are few.
with clock as materialized (
	select clock_timestamp() as now
), scheduled as materialized (
	select min(s.due_at) as due_at from (
		(select j.due_at from courier.job_schedules j where j.due_at is not null order by j.due_at, j.name limit 1)
		union all
		(select c.due_at from courier.chain_schedules c where c.due_at is not null order by c.due_at, c.name limit 1)
	) s
), monitored as materialized (
	select min(m.due_at) filter (where m.leased_until is null or m.leased_until <= clock.now) as due_at,
		count(*) filter (where m.status = 'degraded') as degraded, count(*) filter (where m.status = 'error') as failed
	from clock, courier.monitors m
), delivery as materialized (
	select min(o.due_at) as due_at from courier.subscriptions s cross join lateral (
		select p.due_at from courier.outbox p where p.subscription_id = s.id and p.state = 'pending' order by p.due_at limit 1
	) o
)
select pg_catalog.json_build_object(
	'at', to_char(timezone('UTC', clock.now), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
	'schedule_due', (select to_char(timezone('UTC', s.due_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from scheduled s where s.due_at <= clock.now),
	'monitor_due', (select to_char(timezone('UTC', m.due_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from monitored m where m.due_at <= clock.now),
	'monitors_degraded', (select m.degraded from monitored m),
	'monitors_failed', (select m.failed from monitored m),
	'deliveries_pending', (select count(*) from (
		select from courier.outbox o where o.state = 'pending' order by o.subscription_id, o.due_at limit $1::bigint
	) o),
	'deliveries_failed', (select count(*) from (
		select from courier.outbox o where o.state = 'failed' order by o.subscription_id, o.due_at limit $1::bigint
	) o),
	'delivery_due', (select to_char(timezone('UTC', d.due_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from delivery d where d.due_at <= clock.now)
)::text
from clock
