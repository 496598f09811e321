-- A page of expectations by name, with the time. $1 the name before the first, $2 at most how
-- many; the filter has the rest. There is one row without an expectation.
with page as materialized (
	select e.* from courier.expectations e where e.name > $1::text /* filter */
	order by e.name limit $2::bigint
)
select clock.now, p.name, p.monitor, p.job, p.prefix, p.body, p.saved_at, p.revision, p.seen_from, to_char(p.arrivals_from::timestamp, 'YYYY-MM-DD'), p.memory, p.due_at
from (select clock_timestamp() as now) clock left join page p on true
order by p.name
