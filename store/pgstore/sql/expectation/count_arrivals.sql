-- Counts arrivals by state. $1 the first day, $2 the last one.
select a.state, count(*) from courier.arrivals a
where a.day >= $1::text::date and a.day <= $2::text::date
group by a.state
