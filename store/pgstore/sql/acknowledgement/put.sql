-- Keeps an acknowledgement in the place of what was kept under its key, and removes those
-- that ended long ago. $1 key, $2 title, $3 by, $4 reason, $5 until, $6 snoozed, $7 for how many
-- microseconds ended ones are kept, $8 at most how many others hold: otherwise it returns no
-- row.
with clock as materialized (
	select clock_timestamp() as now
), gone as (
	delete from courier.acknowledgements a using clock
	where a.key <> $1::text and a.until < clock.now - $7::bigint::float8 * interval '1 microsecond'
)
insert into courier.acknowledgements as a (key, title, by, reason, at, until, snoozed)
select $1::text, $2::text, $3::text, $4::text, clock.now, $5::timestamptz, $6::boolean
from clock
where (select count(*) from courier.acknowledgements b where b.key <> $1::text and b.until > clock.now) < $8::bigint
on conflict (key) do update set title = excluded.title, by = excluded.by, reason = excluded.reason, at = excluded.at, until = excluded.until, snoozed = excluded.snoozed
returning a.at, a.until
