-- Counts the minutes that are due, the latest first, and removes those that are too old. Due
-- are the present minute and the two before, in which entries may be committed late, those that
-- were not counted since they were so old, and those that were counted by a clock that was
-- ahead. What the history has of a minute is counted anew; a figure never falls, because
-- retention may have removed some of it. It does nothing if it was done within $3 microseconds.
-- $1 how many minutes are kept, $2 at most how many are counted, $4 how many executions a sample
-- counts, $5 executions that were running, $6 since when all others that are running were
-- claimed.
with clock as materialized (
	select clock_timestamp() as now
), present as materialized (
	select date_trunc('minute', clock.now, 'UTC') as minute from clock
), wanted as materialized (
	select from clock, present p where not exists (
		select from courier.minute_figures f
		where f.minute > p.minute - interval '1 hour' and f.minute <= p.minute
			and f.counted_at > clock.now - $3::bigint::float8 * interval '1 microsecond' and f.counted_at <= clock.now
	)
), sample as materialized (
	select (select count(*) from (
			select from (
				select e.id from courier.job_executions e where e.state = 'running' and e.state_since >= (select $6::text::timestamptz)
				union
				select e.id from courier.job_executions e where e.id = any((select $5::text[])::uuid[]) and e.state || '' = 'running'
			) e limit $4::bigint
		) e) as running,
		(select count(*) from (
			select from courier.job_executions e where e.state = 'queued' and e.waits_for is null
			order by e.queue, -(e.priority::integer), e.due_at, e.id limit $4::bigint
		) e) as queued
	from wanted
), due as materialized (
	select p.minute - n::float8 * interval '1 minute' as minute
	from wanted, clock, present p cross join lateral generate_series(0, $1::integer - 1) n
	left join courier.minute_figures f on f.minute = p.minute - n::float8 * interval '1 minute'
	where n < 3 or f.minute is null or f.counted_at < f.minute + interval '3 minutes' or f.counted_at > clock.now
	order by n limit $2::integer
), part as materialized (
	-- The minutes of an hour are read together.
	select min(d.minute) as first, max(d.minute) + interval '1 minute' as last from due d group by date_trunc('hour', d.minute, 'UTC')
), counted as materialized (
	select c.* from part p cross join lateral (
		select date_trunc('minute', h.at, 'UTC') as minute,
			count(*) filter (where h.state_to = 'completed' and h.state_from <> 'completed') as completed,
			count(*) filter (where h.state_to = 'failed' and h.state_from <> 'failed') as failed,
			coalesce(sum(r.files_in), 0) as files_in, least(coalesce(sum(r.bytes_in), 0), 9223372036854775807) as bytes_in,
			coalesce(sum(r.files_out), 0) as files_out, least(coalesce(sum(r.bytes_out), 0), 9223372036854775807) as bytes_out,
			count(*) filter (where h.failed_loop is not null and h.rescued is not true) as failed_items,
			count(*) filter (where h.failed_loop is not null and h.rescued) as rescued_items
		from courier.execution_history h left join lateral (
			select count(*) filter (where x.received) as files_in, sum(x.size) filter (where x.received) as bytes_in,
				count(*) filter (where not x.received) as files_out, sum(x.size) filter (where not x.received) as bytes_out
			from (
				select coalesce((j.value ->> 'received'::text)::boolean, false) as received, coalesce((j.value ->> 'size'::text)::bigint, 0) as size
				from json_array_elements(h.files::json) j
				where j.value ->> 'connection'::text <> '' and coalesce((j.value ->> 'removed'::text)::boolean, false) = false
			) x
		) r on h.files is not null and h.state is null
		where h.at >= p.first and h.at < p.last
		group by 1
	) c
), gone as (
	delete from courier.minute_figures f using present p where f.minute <= p.minute - $1::integer::float8 * interval '1 minute'
)
insert into courier.minute_figures as f (minute, counted_at, completed, failed, files_in, bytes_in, files_out, bytes_out, failed_items, rescued_items, running, queued)
select d.minute, clock.now, coalesce(c.completed, 0), coalesce(c.failed, 0), coalesce(c.files_in, 0), coalesce(c.bytes_in, 0), coalesce(c.files_out, 0), coalesce(c.bytes_out, 0),
	coalesce(c.failed_items, 0), coalesce(c.rescued_items, 0), case when d.minute = p.minute then s.running else 0 end, case when d.minute = p.minute then s.queued else 0 end
from clock, present p, sample s, due d left join counted c on c.minute = d.minute order by d.minute
on conflict (minute) do update set counted_at = excluded.counted_at,
	completed = greatest(f.completed, excluded.completed), failed = greatest(f.failed, excluded.failed),
	files_in = greatest(f.files_in, excluded.files_in), bytes_in = greatest(f.bytes_in, excluded.bytes_in),
	files_out = greatest(f.files_out, excluded.files_out), bytes_out = greatest(f.bytes_out, excluded.bytes_out),
	failed_items = greatest(f.failed_items, excluded.failed_items), rescued_items = greatest(f.rescued_items, excluded.rescued_items),
	running = greatest(f.running, excluded.running), queued = greatest(f.queued, excluded.queued)
