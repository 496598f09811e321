-- Creates or replaces a monitor, whose lease ends. The first revision is a time in
-- microseconds, so a monitor that is removed and created again gets no revision a second
-- time. $1 name, $2 lister, $3 kind, $4 target, $5 body, $6 status, $7 reason, $8 health,
-- $9 microseconds until it is due, negative: never.
insert into courier.monitors as m (name, lister, kind, target, body, saved_at, revision, status, reason, health, due_at)
select $1::text, $2::text, $3::text, $4::text, $5::text, clock.now, (extract(epoch from clock.now) * 1000000::numeric)::bigint,
	$6::text, $7::text, $8::text, case when $9::bigint >= 0 then clock.now + $9::bigint::float8 * interval '1 microsecond' end
from (select clock_timestamp() as now) clock
on conflict (name) do update set lister = excluded.lister, kind = excluded.kind, target = excluded.target, body = excluded.body,
	saved_at = excluded.saved_at, revision = m.revision + 1, status = excluded.status, reason = excluded.reason,
	health = excluded.health, due_at = excluded.due_at, leased_until = null
returning m.saved_at, m.revision, m.due_at
