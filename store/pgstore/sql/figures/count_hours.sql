-- Counts the hours that are due, as store.HourFigures.Due has it, the latest first, and
-- removes those that are too old. What the history has of an hour is counted anew; a figure
-- never falls, because retention may have removed some of it. It does nothing if the present
-- hour was counted within $3 microseconds. $1 how many hours are kept, $2 at most how many are
-- counted, $4 how many executions a sample counts.
with clock as materialized (
	select clock_timestamp() as now
), present as materialized (
	select date_trunc('hour', clock.now, 'UTC') as hour from clock
), wanted as materialized (
	select from clock, present p where not exists (
		select from courier.hour_figures f
		where f.hour = p.hour and f.counted_at > clock.now - $3::bigint::float8 * interval '1 microsecond' and f.counted_at <= clock.now
	)
), sample as materialized (
	select (select count(*) from (select from courier.job_executions e where e.state = 'running' order by e.id limit $4::bigint) e) as running,
		(select count(*) from (
			select from courier.job_executions e where e.state = 'queued' and e.waits_for is null
			order by e.queue, -(e.priority::integer), e.due_at, e.id limit $4::bigint
		) e) as queued
	from wanted
), due as materialized (
	select p.hour - n::float8 * interval '1 hour' as hour
	from wanted, clock, present p cross join lateral generate_series(0, $1::integer - 1) n
	left join courier.hour_figures f on f.hour = p.hour - n::float8 * interval '1 hour'
	where n < 2 or f.hour is null or f.counted_at < f.hour + interval '2 hours' or f.counted_at > clock.now
	order by n limit $2::integer
), counted as materialized (
	select d.hour, c.completed, c.failed, c.files_in, c.bytes_in, c.files_out, c.bytes_out, c.failed_items, c.rescued_items
	from due d cross join lateral (
		select count(*) filter (where h.state_to = 'completed' and h.state_from <> 'completed') as completed,
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
		where h.at >= d.hour and h.at < d.hour + interval '1 hour'
	) c
), gone as (
	delete from courier.hour_figures f using present p where f.hour <= p.hour - $1::integer::float8 * interval '1 hour'
)
insert into courier.hour_figures as f (hour, counted_at, completed, failed, files_in, bytes_in, files_out, bytes_out, failed_items, rescued_items, running, queued)
select c.hour, clock.now, c.completed, c.failed, c.files_in, c.bytes_in, c.files_out, c.bytes_out, c.failed_items, c.rescued_items,
	case when c.hour = p.hour then s.running else 0 end, case when c.hour = p.hour then s.queued else 0 end
from clock, present p, sample s, counted c order by c.hour
on conflict (hour) do update set counted_at = excluded.counted_at,
	completed = greatest(f.completed, excluded.completed), failed = greatest(f.failed, excluded.failed),
	files_in = greatest(f.files_in, excluded.files_in), bytes_in = greatest(f.bytes_in, excluded.bytes_in),
	files_out = greatest(f.files_out, excluded.files_out), bytes_out = greatest(f.bytes_out, excluded.bytes_out),
	failed_items = greatest(f.failed_items, excluded.failed_items), rescued_items = greatest(f.rescued_items, excluded.rescued_items),
	running = greatest(f.running, excluded.running), queued = greatest(f.queued, excluded.queued)
