-- A page of arrivals of expectations, the latest day first. $1 at most how many, $2 the names; the
-- filter has the rest. Each expectation is looked up by itself: with the names in the condition, the
-- planner reads the days of all.
select d.id::text, d.expectation, to_char(d.day::timestamp, 'YYYY-MM-DD'), d.state, d.body
from (select distinct u.name from pg_catalog.unnest($2::text[]) u (name)) n
cross join lateral (
	select a.* from courier.arrivals a where a.expectation = n.name /* filter */ offset 0
) d
order by d.day desc, d.expectation limit $1::bigint
