-- Joins the held events of each kind to one delivery, where no window lasts.
-- $1 channels, $2 subscriptions to skip, $3 how many events the delivery names besides
-- the first, $4 the length of their errors in characters. The statement that joins first
-- opens the window, which sql/delivery/lease_due.sql extends; so only one of two concurrent
-- statements joins.
with clock as materialized (
	select clock_timestamp() as now
), sub as materialized (
	select s.id, s.window_us from courier.subscriptions s
	where not s.disabled and s.channel = any($1::text[]) and s.name <> all($2::text[])
), of as materialized (
	select sub.id, sub.window_us, o.job, o.chain, o.event from sub cross join lateral (
		select distinct o.job, o.chain, o.event from courier.outbox o where o.subscription_id = sub.id and o.state = 'held'
	) o
), opened as (
	insert into courier.outbox_windows as w (subscription_id, job, chain, event, ends_at)
	select of.id, of.job, of.chain, of.event, clock.now + of.window_us::float8 * interval '1 microsecond' from of, clock
	order by 1, 2, 3, 4
	on conflict (subscription_id, job, chain, event) do update set ends_at = excluded.ends_at
		where w.ends_at <= (select now from clock) or excluded.ends_at = (select now from clock)
	returning w.subscription_id, w.job, w.chain, w.event
), locked as materialized (
	-- A row that is not held any more once it is locked is left out.
	select o.subscription_id, o.execution_id, o.seq, o.job, o.chain, o.event, o.at, o.error, o.event_count
	from opened p join courier.outbox o
		on o.subscription_id = p.subscription_id and o.job = p.job and o.chain = p.chain and o.event = p.event and o.state = 'held'
	for update of o
), held as materialized (
	select l.*, row_number() over (partition by l.subscription_id, l.job, l.chain, l.event order by l.at, l.execution_id, l.seq) as n
	from locked l
), others as (
	delete from courier.outbox o using held h
	where h.n > 1 and o.subscription_id = h.subscription_id and o.execution_id = h.execution_id and o.seq = h.seq
), beside as (
	select h.subscription_id, h.job, h.chain, h.event, sum(h.event_count) filter (where h.n > 1) as count,
		pg_catalog.json_agg(pg_catalog.json_build_object('id', h.execution_id::text || '-' || h.seq::text, 'at', h.at, 'execution_id', h.execution_id,
			'error', left(h.error, $4::int)) order by h.n) filter (where h.n >= 2 and h.n <= $3::int + 1) as more
	from held h group by 1, 2, 3, 4
)
update courier.outbox o set state = 'pending', event_count = o.event_count + coalesce(b.count, 0), more_events = b.more::text
from held h join beside b on b.subscription_id = h.subscription_id and b.job = h.job and b.chain = h.chain and b.event = h.event
where h.n = 1 and o.subscription_id = h.subscription_id and o.execution_id = h.execution_id and o.seq = h.seq
