-- Saves the state of a monitor after a poll, and ends its lease. The monitor is locked.
-- $1 name, $2 status, $3 reason, $4 health, $5 microseconds until it is due, negative:
-- never.
update courier.monitors m set revision = m.revision + 1, status = $2::text, reason = $3::text, health = $4::text, leased_until = null,
	due_at = case when $5::bigint >= 0 then clock_timestamp() + $5::bigint::float8 * interval '1 microsecond' end
where m.name = $1::text
returning m.revision
