-- The figures of the present hour and those before it, $1 hours in all, the oldest first.
select f.hour, f.counted_at, f.completed, f.failed, f.files_in, f.bytes_in, f.files_out, f.bytes_out, f.failed_items, f.rescued_items, f.running, f.queued
from courier.hour_figures f
where f.hour > clock_timestamp() - $1::integer::float8 * interval '1 hour' and f.hour <= clock_timestamp()
order by f.hour
