-- The figures of the present hour and those before it, $1 hours in all, the oldest first: sums of
-- those of their minutes, and the most of their samples.
select date_trunc('hour', f.minute, 'UTC'), max(f.counted_at), sum(f.completed)::bigint, sum(f.failed)::bigint, sum(f.files_in)::bigint,
	least(sum(f.bytes_in), 9223372036854775807)::bigint, sum(f.files_out)::bigint, least(sum(f.bytes_out), 9223372036854775807)::bigint,
	sum(f.failed_items)::bigint, sum(f.rescued_items)::bigint, max(f.running), max(f.queued)
from courier.minute_figures f
where f.minute >= date_trunc('hour', clock_timestamp(), 'UTC') - ($1::integer - 1)::float8 * interval '1 hour' and f.minute <= clock_timestamp()
group by 1 order by 1
