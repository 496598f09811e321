-- Creates or replaces an expectation, whose lease ends. The first revision is a time in
-- microseconds, so an expectation that is removed and created again gets no revision a second
-- time. $1 name, $2 monitor, $3 job, $4 prefix, $5 body, $6 from when on sightings are needed,
-- $7 from which day on arrivals are, $8 memory, $9 microseconds until it is due, negative: never.
insert into courier.expectations as e (name, monitor, job, prefix, body, saved_at, revision, seen_from, arrivals_from, memory, due_at)
select $1::text, $2::text, $3::text, $4::text, $5::text, clock.now, (extract(epoch from clock.now) * 1000000::numeric)::bigint,
	$6::text::timestamptz, $7::text::date, $8::text, case when $9::bigint >= 0 then clock.now + $9::bigint::float8 * interval '1 microsecond' end
from (select clock_timestamp() as now) clock
on conflict (name) do update set monitor = excluded.monitor, job = excluded.job, prefix = excluded.prefix, body = excluded.body,
	saved_at = excluded.saved_at, revision = e.revision + 1, seen_from = excluded.seen_from, arrivals_from = excluded.arrivals_from,
	memory = excluded.memory, due_at = excluded.due_at, leased_until = null
returning e.saved_at, e.revision, e.due_at
