-- A page of arrivals, the latest day first. $1 at most how many; the filter has the rest.
select a.id::text, a.expectation, to_char(a.day::timestamp, 'YYYY-MM-DD'), a.state, a.body
from courier.arrivals a
where true /* filter */
order by a.day desc, a.expectation limit $1::bigint
