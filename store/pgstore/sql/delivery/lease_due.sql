-- Leases due deliveries, those first that have been due longest. $1 channels,
-- $2 subscriptions to skip, $3 at most how many, $4 at most how many of a subscription,
-- $5 lease in microseconds, $6 token.
--
-- The row without a subscription has the microseconds until the next delivery is due or
-- a window ends, whether held events can be coalesced now, and the types of events that
-- somebody has subscribed to.
with clock as materialized (
	select clock_timestamp() as now
), sub as materialized (
	select s.id, s.name, s.window_us, s.body from courier.subscriptions s
	where not s.disabled and s.channel = any($1::text[]) and s.name <> all($2::text[])
), due as materialized (
	select d.* from clock, sub cross join lateral (
		select o.subscription_id, o.execution_id, o.seq, o.due_at from courier.outbox o
		where o.subscription_id = sub.id and o.state = 'pending' and o.due_at <= clock.now
		order by o.due_at limit $4::bigint
		for update of o skip locked
	) d
	order by d.due_at, d.subscription_id, d.execution_id, d.seq limit $3::bigint
), taken as (
	update courier.outbox o set
		attempts = o.attempts + 1, lease_token = $6::text::uuid, due_at = clock.now + $5::bigint::float8 * interval '1 microsecond'
	from due, clock
	where o.subscription_id = due.subscription_id and o.execution_id = due.execution_id and o.seq = due.seq and o.state = 'pending'
	returning o.*, due.due_at as was_due, clock.now
), windows as (
	insert into courier.outbox_windows as w (subscription_id, job, chain, event, ends_at)
	select t.subscription_id, t.job, t.chain, t.event, max(t.now + sub.window_us::float8 * interval '1 microsecond')
	from taken t join sub on sub.id = t.subscription_id
	where t.attempts = 1 and sub.window_us > 0
	group by 1, 2, 3, 4 order by 1, 2, 3, 4
	on conflict (subscription_id, job, chain, event) do update set ends_at = greatest(w.ends_at, excluded.ends_at)
), held as materialized (
	select min(case when sub.window_us = 0 then clock.now else coalesce(w.ends_at, clock.now) end) as at
	from clock, sub
	cross join lateral (
		select distinct o.job, o.chain, o.event from courier.outbox o where o.subscription_id = sub.id and o.state = 'held'
	) o
	left join courier.outbox_windows w
		on w.subscription_id = sub.id and w.job = o.job and w.chain = o.chain and w.event = o.event
), next as materialized (
	select min(o.due_at) as at from clock, sub cross join lateral (
		select o.due_at from courier.outbox o where o.subscription_id = sub.id and o.state = 'pending' and o.due_at > clock.now
		order by o.due_at limit 1
	) o
)
select sub.name, t.execution_id::text, t.seq, t.event, t.job, t.chain, t.version, t.at, t.step, t.step_id, t.step_type, t.iteration, t.step_attempt,
	t.bytes, t.reason, t.error, t.by, t.event_count, t.more_events, t.event_name, t.payload, t.attempts, sub.body, t.was_due, 0::bigint, false, null::text[]
from taken t join sub on sub.id = t.subscription_id
union all
select '', '', 0, '', '', '', 0, clock.now, null, null, null, null, null,
	null, null, null, null, 0, null, null, null, 0, '', clock.now,
	coalesce((extract(epoch from least(next.at, held.at) - clock.now) * 1000000::numeric)::bigint, 0), coalesce(held.at <= clock.now, false),
	array(select distinct e from courier.subscriptions s, pg_catalog.unnest(s.events) e where not s.disabled order by e)
from clock, held, next
